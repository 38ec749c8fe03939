"""``teeline demo``: a proxy in front of a relay with known faults, some traffic, and what was
found.

What belongs here: options, exit codes and the words around the table. What doesn't: the demo
itself (proxy/demo).
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from teeline.config.model import ListenAddress
from teeline.proxy.admin import AdminError
from teeline.proxy.audit.configured import AuditError
from teeline.proxy.cli import CANT_RUN
from teeline.proxy.demo import apart
from teeline.proxy.demo.findings import all_problems
from teeline.proxy.demo.scenarios import SCENARIOS
from teeline.proxy.demo.stage import Stage, stage
from teeline.proxy.demo.table import show, totals
from teeline.proxy.demo.traffic import DemoError, Outcome, run
from teeline.proxy.server import ServeError
from teeline.proxy.text import printable

_PORT = 8787
_ADMIN_PORT = 8788


@click.command("demo")
@click.option("--stay", is_flag=True, help="Keep relay and proxy up for a client of your own.")
@click.option(
    "--listen", metavar="HOST:PORT", help="Where the proxy listens [with --stay: 127.0.0.1:8787]."
)
@click.option("--host", help="As --listen, with port 8787; 0.0.0.0 inside a container.")
@click.option(
    "--admin",
    metavar="HOST:PORT|off",
    help="Where the live page is [with --stay: the proxy's host, port 8788 or a free one].",
)
@click.option(
    "--audit-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the audit log [a new temporary folder].",
)
@click.option(
    "--relay",
    "relay_alone",
    metavar="HOST:PORT",
    help="The relay with faults alone, for a teeline elsewhere.",
)
@click.option("--traffic", metavar="URL", help="The requests alone, over and over, to a base URL.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.001),
    default=1.0,
    show_default=True,
    help="With --traffic: seconds from one request to the next.",
)
@click.pass_context
def command(
    ctx: click.Context,
    stay: bool,
    listen: str | None,
    host: str | None,
    admin: str | None,
    audit_dir: Path | None,
    relay_alone: str | None,
    traffic: str | None,
    every: float,
) -> None:
    """Show what teeline finds: no key, no network.

    Starts a relay that breaks the protocol in known ways and a real proxy in front of it, sends
    requests through both, and shows what was found. Exits with 0 when every fault was found and
    nothing else was reported, with 3 otherwise.
    """
    if relay_alone is not None and traffic is not None:
        raise click.UsageError("--relay and --traffic are two programs; start both")
    address = _address(stay, listen, host)
    page = _page(stay, address, admin)
    try:
        if relay_alone is not None or traffic is not None:
            where = None if relay_alone is None else _parsed("--relay", relay_alone)
            asyncio.run(_apart(where, traffic, every))
            return
        folder = audit_dir or Path(tempfile.mkdtemp(prefix="teeline-demo-"))
        ctx.exit(asyncio.run(_demo(address, folder, page, stay=stay, elsewhere=admin is None)))
    except BrokenPipeError:
        # Whoever read the output has enough; the group knows what to do.
        raise
    except (AdminError, AuditError, DemoError, ServeError, OSError) as error:
        click.echo(f"teeline demo: {error}", err=True)
        ctx.exit(CANT_RUN)


def _address(stay: bool, listen: str | None, host: str | None) -> ListenAddress:
    if listen is not None and host is not None:
        raise click.UsageError("--listen names a host already; leave out --host")
    if listen is not None:
        return _parsed("--listen", listen)
    if host is not None:
        return ListenAddress(host.strip("[]"), _PORT)
    return ListenAddress("127.0.0.1", _PORT if stay else 0)


def _page(stay: bool, proxy: ListenAddress, admin: str | None) -> ListenAddress | None:
    """Where the live page is to be; None for none."""
    if admin is not None and not stay:
        raise click.UsageError("--admin is for a demo that stays; add --stay")
    if not stay or admin == "off":
        return None
    return ListenAddress(proxy.host, _ADMIN_PORT) if admin is None else _parsed("--admin", admin)


def _parsed(option: str, text: str) -> ListenAddress:
    try:
        return ListenAddress.parse(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


async def _demo(
    address: ListenAddress,
    folder: Path,
    page: ListenAddress | None,
    *,
    stay: bool,
    elsewhere: bool,
) -> int:
    asyncio.get_running_loop().set_exception_handler(_say_stray)
    async with stage(address, folder, sys.stdout, SCENARIOS, page, elsewhere=elsewhere) as up:
        base_url = up.base_url
        click.echo(
            f"{len(SCENARIOS)} requests through the proxy at {base_url} to a relay with faults\n"
        )
        outcomes = await run(base_url, SCENARIOS, up.relay, up.collector)
        wrong = _report(outcomes, folder)
        if wrong:
            return CANT_RUN
        if stay:
            await _stay(up, base_url)
        else:
            click.echo(_next_command())
    return 0


async def _apart(where: ListenAddress | None, base_url: str | None, every: float) -> None:
    """One end of the demo, until SIGINT or SIGTERM."""
    with _stopping() as stopped:
        if where is not None:
            await apart.relay(where, stopped, click.echo)
        elif base_url is not None:
            await apart.traffic(base_url.rstrip("/"), every, stopped, click.echo)


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """Set by SIGINT and SIGTERM, which are the ordinary end here and no failure."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _say_stray(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """In place of asyncio's traceback, which may hold what a peer sent."""
    name = type(context.get("exception")).__name__
    click.echo(f"teeline demo: {name} in the event loop; traffic goes on", err=True)


def _report(outcomes: Sequence[Outcome], folder: Path) -> list[str]:
    show(outcomes, Console(file=sys.stdout))
    wrong = all_problems(outcomes)
    faults = sum(bool(outcome.scenario.expected) for outcome in outcomes)
    click.echo(f"\n{totals(outcomes)}")
    where = printable(str(folder), 1000)
    click.echo(f"Audit log: {where} (teeline audit verify {where})")
    if not wrong:
        clean = len(outcomes) - faults
        click.echo(
            f"As expected: {faults} faults found by their rules, {clean} clean answers passed."
        )
    for words in wrong:
        click.echo(f"teeline demo: not as expected: {words}", err=True)
    return wrong


def _next_command() -> str:
    return (
        "\nIn front of your own relay:\n"
        "  teeline serve --upstream https://your-relay/v1\n"
        f"  export OPENAI_BASE_URL=http://127.0.0.1:{_PORT}/v1    # where your client runs\n"
        "With `teeline demo --stay` your client can meet these faults first."
    )


async def _stay(up: Stage, base_url: str) -> None:
    """Until SIGINT or SIGTERM."""
    with _stopping() as stopped:
        up.live.raise_()
        click.echo(_invitation(base_url, up.page))
        await stopped.wait()


def _invitation(base_url: str, page: str) -> str:
    names = ", ".join(scenario.name for scenario in SCENARIOS)
    models = textwrap.fill(
        names, 98, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    return (
        "\nRelay and proxy stay up; what is found shows below. Ctrl-C ends them.\n"
        + (f"  live page: {page}\n" if page else "")
        + f"  export OPENAI_BASE_URL={base_url} OPENAI_API_KEY=none\n"
        "  python -c 'import openai; print([m.id for m in openai.OpenAI().models.list()])'\n"
        f"  curl -N {base_url}/chat/completions -H 'Authorization: Bearer none' \\\n"
        "    -H 'Content-Type: application/json' \\\n"
        '    -d \'{"model":"no-done","stream":true,"messages":[{"role":"user","content":"Hi"}]}\'\n'
        "Every model answers with the fault of its name, most of them in streams only "
        "(stream: true);\nany other name is answered cleanly:\n"
        f"{models}\n"
        "In front of your own relay: teeline serve --upstream https://your-relay/v1"
    )
