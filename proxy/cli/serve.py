"""``teeline serve``: the proxy as a process.

What belongs here: options, what is said on the terminal, signals, and which sinks there are. What
doesn't: the proxy itself (proxy/server.py) and what settings mean (config).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import click

from teeline.config.load import ConfigError, Setting, load
from teeline.config.model import Config, UpstreamConfig
from teeline.proxy.accept import raise_descriptor_limit
from teeline.proxy.audit.record import Origin, ruleset_id
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.console import ConsoleSink
from teeline.proxy.reports.model import tool_version
from teeline.proxy.schemapool import SchemaPool, SchemaPoolError
from teeline.proxy.server import Listener, ProxyServer, ServeError
from teeline.proxy.sinks import Sink, SinkError
from teeline.proxy.telemetry.sink import TelemetrySink
from teeline.proxy.text import printable
from teeline.proxy.upstream import Unowned, Upstream, UpstreamError
from teeline.validators.rules import register

log = logging.getLogger("teeline")

Say = Callable[[str], None]

_SWITCH_SECONDS = 0.0005
QUIET_SECONDS = 60.0
"""Without a request in this time after the start, a line says how to send one."""


@click.command("serve")
@click.option("--upstream", metavar="URL", help="The relay's base URL, https://relay.example/v1.")
@click.option("--listen", metavar="HOST:PORT", help="Where clients connect [127.0.0.1:8787].")
@click.option("--config", "file", metavar="FILE", envvar="TEELINE_CONFIG", help="A YAML file.")
@click.option("--audit-dir", metavar="DIR", help="Folder of the audit log [teeline-data].")
@click.option("--no-audit", is_flag=True, help="Write no audit log.")
@click.pass_context
def command(
    ctx: click.Context,
    upstream: str | None,
    listen: str | None,
    file: str | None,
    audit_dir: str | None,
    no_audit: bool,
) -> None:
    """Run the proxy in front of a relay; point clients at it with OPENAI_BASE_URL.

    Everything goes through unchanged. Violations are written to stdout as they are found,
    everything else to stderr. SIGINT or SIGTERM ends it when open answers are through, a second one
    at once.

    Exit status: 0 after a signal, 2 wrong usage or configuration, 3 could not run.
    """
    if audit_dir is not None and no_audit:
        raise click.UsageError("--audit-dir and --no-audit exclude each other")
    try:
        config = load(file, os.environ, _settings(upstream, listen, audit_dir, no_audit))
        sinks = _sinks(config, os.environ)
        _log_to_stderr()
        # Sinks write from threads of their own; at the default 5 ms they would hold up the loop.
        sys.setswitchinterval(_SWITCH_SECONDS)
        raise_descriptor_limit()
        asyncio.run(_serve(config, sinks, _say))
    except ConfigError as error:
        for problem in error.problems:
            _say(f"teeline serve: {problem}")
        ctx.exit(USAGE)
    except SinkError as error:
        _say(f"teeline serve: {error}")
        ctx.exit(USAGE)
    except ServeError as error:
        _say(f"teeline serve: {error}")
        ctx.exit(CANT_RUN)


def _settings(
    upstream: str | None, listen: str | None, audit_dir: str | None, no_audit: bool
) -> Iterator[Setting]:
    if upstream is not None:
        yield Setting(("upstreams",), [{"url": upstream}], "--upstream")
    if listen is not None:
        yield Setting(("listen",), listen, "--listen")
    if audit_dir is not None:
        yield Setting(("audit", "dir"), audit_dir, "--audit-dir")
        yield Setting(("audit", "enabled"), True, "--audit-dir")
    if no_audit:
        yield Setting(("audit", "enabled"), False, "--no-audit")


def _sinks(config: Config, environ: Mapping[str, str]) -> list[Sink]:
    """Raises SinkError where an OTEL_* variable can't work."""
    sinks: list[Sink] = [ConsoleSink(sys.stdout)]
    servers = {
        upstream.name: (upstream.url.host, upstream.url.port) for upstream in config.upstreams
    }
    telemetry = TelemetrySink.from_environment(environ, version=tool_version(), servers=servers)
    if telemetry is not None:
        sinks.append(telemetry)
    if config.audit.enabled:
        chosen = tuple(f"{upstream.name}={upstream.profile}" for upstream in config.upstreams)
        origin = Origin(tool_version(), ruleset_id(register()), chosen)
        sinks.append(AuditSink(config.audit.dir, origin=origin))
    return sinks


async def _serve(config: Config, sinks: list[Sink], say: Say) -> None:
    """Serves until a signal comes. Raises ServeError."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_stray)
    checker = SchemaPool(timeout=config.schema.timeout)
    server = ProxyServer(config, sinks, checker)
    signals: asyncio.Queue[None] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signals.put_nowait, None)
    aside: list[asyncio.Task[None]] = []
    try:
        for line in banner(await server.start(), sinks, config):
            say(line)
        aside = [loop.create_task(work) for work in _aside(server, checker, config, say)]
        await signals.get()
        say("teeline: stopping; open answers are finished first, a second signal ends them")
        await _stop(server, config.shutdown.deadline, signals)
    finally:
        for task in aside:
            task.cancel()
        await asyncio.gather(*aside, return_exceptions=True)
        await checker.close()


def _aside(server: ProxyServer, checker: SchemaPool, config: Config, say: Say) -> Iterator[Any]:
    """What runs beside the traffic and must not hold up the start."""
    yield warm_up(checker)
    yield say_if_quiet(server, say, QUIET_SECONDS)
    for upstream in config.upstreams:
        yield say_if_unreachable(upstream, say)


async def _stop(server: ProxyServer, deadline: float, signals: asyncio.Queue[None]) -> None:
    stopping = asyncio.create_task(server.stop(deadline))
    again = asyncio.create_task(signals.get())
    await asyncio.wait((stopping, again), return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        await server.stop(0)
    again.cancel()
    await stopping


def banner(listeners: Iterable[Listener], sinks: Iterable[Sink], config: Config) -> Iterator[str]:
    """What is said at the start: where to point clients, and where findings go."""
    for listener in listeners:
        for route in listener.routes:
            yield f"OPENAI_BASE_URL={route.base_url} -> {route.target}"
    audit = printable(str(config.audit.dir), 1000) if config.audit.enabled else "off"
    yield f"audit log: {audit}"
    exports = any(isinstance(sink, TelemetrySink) for sink in sinks)
    yield f"OTLP: {'on' if exports else 'off (OTEL_EXPORTER_OTLP_ENDPOINT is not set)'}"


async def warm_up(checker: SchemaPool) -> None:
    """Starts the schema processes, so that the first check doesn't wait for them."""
    try:
        await checker.start()
    except SchemaPoolError as error:
        log.warning("schemas of requests are not checked: %s", error)


async def say_if_quiet(server: ProxyServer, say: Say, seconds: float) -> None:
    """A line if no request has come within so many seconds."""
    await asyncio.sleep(seconds)
    if server.requests == 0:
        say(
            f"teeline: no request in {seconds:.0f} seconds; "
            "is the client's base URL the OPENAI_BASE_URL above?"
        )


async def say_if_unreachable(config: UpstreamConfig, say: Say) -> None:
    """A line if an upstream takes no connection now; it may later, so this is no error."""
    try:
        connection = await Upstream(config).connect(Unowned())
    except UpstreamError as error:
        say(
            f"teeline: warning: {config.url}: {error.answer.message} Requests get a {error.answer.status}."
        )
    else:
        connection.abort()


def _say(line: str) -> None:
    click.echo(line, err=True)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("teeline: %(levelname)s: %(message)s"))
    log.addHandler(handler)
    log.propagate = False


def _log_stray(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would print with a traceback, which may hold what a peer sent."""
    error = context.get("exception")
    log.error("%s: %s", context.get("message", "event loop"), type(error).__name__)
