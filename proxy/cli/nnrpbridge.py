"""``teeline nnrp bridge``: OpenAI over HTTP in front, an NNRP server behind, as a process.

What belongs here: options, what is said on the terminal, signals. What doesn't: the bridge itself
(proxy/nnrp/bridge).
"""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from teeline.config.model import ListenAddress, ListenTLS, UpstreamTLS
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.cli.check import policy_of
from teeline.proxy.cli.nnrpfiles import declared_in
from teeline.proxy.cli.nnrpsinks import sinks_of, telling
from teeline.proxy.clock import SystemClock
from teeline.proxy.inspectpool import InspectPool
from teeline.proxy.memory import Inspectors
from teeline.proxy.nnrp.bridge.asked import BASELINE, hint_fields
from teeline.proxy.nnrp.bridge.compare import Comparer
from teeline.proxy.nnrp.bridge.handler import Times
from teeline.proxy.nnrp.bridge.server import BridgeError, BridgeOptions, BridgeServer
from teeline.proxy.nnrp.client import ClientLimits, NnrpClient
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout, Sink, SinkError
from teeline.proxy.text import printable
from teeline.proxy.tls import TLSFilesError, towards_clients, towards_upstream
from teeline.proxy.workers import WorkerError
from teeline.validators.policy import Policy
from teeline.validators.profiles import NONE

_MIB = 1024 * 1024
_SECONDS = click.FloatRange(min=0, min_open=True)
_SETTLE_SECONDS = 10.0
"""For comparisons that are not done when the bridge has stopped."""
_DRAIN_SECONDS = 5.0


@click.command(name="bridge")
@click.option("--listen", required=True, metavar="HOST:PORT", help="Where OpenAI clients connect.")
@click.option(
    "--upstream",
    required=True,
    metavar="ADDR",
    help="The server: nnrp://, nnrps://, ws:// or wss://HOST:PORT, or unix:PATH.",
)
@click.option(
    "--capabilities",
    metavar="FILE",
    help="The server's capability document; without one chat alone is offered.",
)
@click.option(
    "--hint",
    "hints",
    multiple=True,
    metavar="FIELD=NAME",
    help="Pass a header field on as this member of nnrp, X-Timeout-Ms=timeout_ms.",
)
@click.option("--sessions", type=click.IntRange(1, 65535), default=64, show_default=True,
              help="Connections to the server at most.")  # fmt: skip
@click.option("--in-flight", type=click.IntRange(1, 65535), default=4, show_default=True,
              help="Operations on one session at most.")  # fmt: skip
@click.option("--connect-timeout", type=_SECONDS, default=10.0, show_default=True,
              metavar="SECONDS", help="For a session, attempts included.")  # fmt: skip
@click.option("--timeout", type=_SECONDS, metavar="SECONDS", help="For a whole operation [none].")
@click.option("--idle-timeout", type=_SECONDS, metavar="SECONDS", help="Between two events [none].")
@click.option("--head-wait", type=_SECONDS, default=15.0, show_default=True, metavar="SECONDS",
              help="Until a stream's head goes out without an event.")  # fmt: skip
@click.option("--max-body", type=click.IntRange(1, 32), default=8, show_default=True,
              metavar="MIB", help="Size of a request at most.")  # fmt: skip
@click.option("--max-answer", type=click.IntRange(1, 64), default=16, show_default=True,
              metavar="MIB", help="Size of one packet of the server at most.")  # fmt: skip
@click.option("--grace", type=_SECONDS, default=25.0, show_default=True, metavar="SECONDS",
              help="For open answers at the end.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Compare each request's HTTP side with its NNRP side, and tell what differs.")  # fmt: skip
@telling
@click.option("--tls-cert", metavar="FILE", help="Certificate for https in front.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key.")
@click.option("--upstream-ca", metavar="FILE", help="Whom to trust for nnrps:// and wss://.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Serve OpenAI clients from an NNRP server.

    Chat completions, Responses, models and embeddings, as far as the capability document declares
    them. Nobody is asked for a key, and none is passed on: listen where only those can connect who
    may. SIGINT or SIGTERM ends it when open answers are through.

    With --check the two sides of each request are compared behind its answer, in a process beside this
    one; what differs is written to stdout, to the audit log and to OpenTelemetry. --select, --ignore,
    --audit-dir and --no-audit are about that.

    Exit status: 0 after a signal, 2 wrong usage, 3 could not run.
    """
    try:
        listen = ListenAddress.parse(options["listen"])
        endpoint = Endpoint.parse(options["upstream"])
        made = _options(options)
        cert, key = _path(options["tls_cert"]), _path(options["tls_key"])
        front = towards_clients(ListenTLS(cert, key)) if cert is not None else None
        behind = _towards_server(endpoint, _path(options["upstream_ca"]))
        check = _check(options) if options["check"] else None
        asyncio.run(_bridge(listen, endpoint, made, _limits(options), front, behind, check))
    except (ValueError, TLSFilesError, SinkError) as error:
        click.echo(f"teeline nnrp bridge: {printable(str(error), 1000)}", err=True)
        ctx.exit(USAGE)
    except BridgeError as error:
        click.echo(f"teeline nnrp bridge: {printable(str(error), 1000)}", err=True)
        ctx.exit(CANT_RUN)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _towards_server(endpoint: Endpoint, ca: Path | None) -> ssl.SSLContext | None:
    if not endpoint.address.tls:
        if ca is not None:
            raise ValueError("--upstream-ca is for nnrps:// and wss://")
        return None
    return towards_upstream(UpstreamTLS(ca=ca))


def _options(options: dict[str, Any]) -> BridgeOptions:
    """What the options say. Raises ValueError."""
    return BridgeOptions(
        capabilities=declared_in(options["capabilities"]) or BASELINE,
        hints=hint_fields(options["hints"]),
        times=Times(
            whole=options["timeout"], idle=options["idle_timeout"], head=options["head_wait"]
        ),
        open_requests=options["sessions"] * options["in_flight"],
        body=options["max_body"] * _MIB,
        grace=options["grace"],
    )


def _limits(options: dict[str, Any]) -> ClientLimits:
    return ClientLimits(
        sessions=options["sessions"],
        in_flight=options["in_flight"],
        connect=options["connect_timeout"],
        packet=options["max_answer"] * _MIB,
    )


class _Check(NamedTuple):
    """What is told of comparisons, and whom."""

    policy: Policy
    sinks: Sequence[Sink]


def _check(options: dict[str, Any]) -> _Check:
    """Raises SinkError, and UsageError for rules that there are not."""
    return _Check(policy_of(options["select"], options["ignore"], NONE), sinks_of(options))


async def _bridge(
    listen: ListenAddress,
    endpoint: Endpoint,
    options: BridgeOptions,
    limits: ClientLimits,
    front: ssl.SSLContext | None,
    behind: ssl.SSLContext | None,
    check: _Check | None,
) -> None:
    """Serves until a signal comes; a second one ends it at once. Raises BridgeError, SinkError."""
    stop, stop_now = asyncio.Event(), asyncio.Event()
    _on_signals(lambda: stop_now.set() if stop.is_set() else stop.set())
    client = NnrpClient(endpoint, tls=behind, limits=limits)
    async with _comparing(check) as comparer:
        server = BridgeServer(client, options, comparer)
        bound = await server.start(listen, front)
        scheme = "https" if front is not None else "http"
        click.echo(f"OPENAI_BASE_URL={scheme}://{bound}/v1 -> {endpoint}", err=True)
        names = ", ".join(printable(name) for name in options.capabilities.operations)
        click.echo(f"teeline nnrp bridge: {names}", err=True)
        await stop.wait()
        stopping = asyncio.create_task(server.stop())
        waiting = asyncio.create_task(stop_now.wait())
        await asyncio.wait({stopping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not stopping.done():
            server.hurry()
        await stopping
        await client.close()


@asynccontextmanager
async def _comparing(check: _Check | None) -> AsyncIterator[Comparer | None]:
    """What compares, and at the end the time for what is still to be told. Raises SinkError, BridgeError."""
    if check is None:
        yield None
        return
    fanout, clock = Fanout(check.sinks), SystemClock()
    await fanout.start()
    try:
        async with InspectPool() as pool:
            observers = Observers(Inspectors(), check.policy, fanout, clock)
            comparer = Comparer(observers, clock, pool)
            yield comparer
            await comparer.settle(_SETTLE_SECONDS)
        await fanout.drain(_DRAIN_SECONDS)
    except WorkerError as error:
        raise BridgeError(f"nothing can compare: {error}") from None
    finally:
        await fanout.close()


def _on_signals(act: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, act)
