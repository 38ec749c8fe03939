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
from typing import Any, NamedTuple

import click

from teeline.config.load import ConfigError, Setting, load
from teeline.config.model import Config, ListenAddress, UpstreamConfig
from teeline.proxy.accept import raise_descriptor_limit
from teeline.proxy.admin import AdminError, AdminServer
from teeline.proxy.audit.configured import AuditError, Auditing, auditing, kept_bodies
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.console import ConsoleSink
from teeline.proxy.inspectpool import InspectPool
from teeline.proxy.monitor.configured import feed_of, monitor_of, page_url
from teeline.proxy.monitor.pages import Monitor
from teeline.proxy.reports.model import tool_version
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.server import Listener, ProxyServer, ServeError
from teeline.proxy.sinks import Sink, SinkError
from teeline.proxy.status import Running
from teeline.proxy.telemetry.metrics import MetricsSink
from teeline.proxy.telemetry.sink import Choices, TelemetrySink
from teeline.proxy.text import printable
from teeline.proxy.upstream import Unowned, Upstream, UpstreamError
from teeline.proxy.workers import WorkerError

log = logging.getLogger("teeline")

Say = Callable[[str], None]

_SWITCH_SECONDS = 0.0005
_INDEX_SECONDS = 2.0
"""What the index gets to end the step under way; what is missing is caught up with later."""
QUIET_SECONDS = 60.0
"""Without a request in this time after the start, a line says how to send one."""


@click.command("serve")
@click.option("--upstream", metavar="URL", help="The relay's base URL, https://relay.example/v1.")
@click.option("--listen", metavar="HOST:PORT", help="Where clients connect [127.0.0.1:8787].")
@click.option(
    "--admin",
    metavar="HOST:PORT|off",
    help="Where health, metrics and status are asked for [127.0.0.1:8788].",
)
@click.option("--config", "file", metavar="FILE", envvar="TEELINE_CONFIG", help="A YAML file.")
@click.option("--audit-dir", metavar="DIR", help="Folder of the audit log [teeline-data].")
@click.option("--no-audit", is_flag=True, help="Write no audit log.")
@click.pass_context
def command(
    ctx: click.Context,
    upstream: str | None,
    listen: str | None,
    admin: str | None,
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
        config = load(file, os.environ, _settings(upstream, listen, admin, audit_dir, no_audit))
        parts = _parts(config, os.environ)
        _log_to_stderr()
        # Sinks write from threads of their own; at the default 5 ms they would hold up the loop.
        sys.setswitchinterval(_SWITCH_SECONDS)
        raise_descriptor_limit()
        asyncio.run(_serve(config, parts, _say))
    except ConfigError as error:
        for problem in error.problems:
            _say(f"teeline serve: {problem}")
        ctx.exit(USAGE)
    except SinkError as error:
        _say(f"teeline serve: {error}")
        ctx.exit(USAGE)
    except (ServeError, AdminError, AuditError) as error:
        _say(f"teeline serve: {error}")
        ctx.exit(CANT_RUN)


def _settings(
    upstream: str | None,
    listen: str | None,
    admin: str | None,
    audit_dir: str | None,
    no_audit: bool,
) -> Iterator[Setting]:
    if upstream is not None:
        yield Setting(("upstreams",), [{"url": upstream}], "--upstream")
    if listen is not None:
        yield Setting(("listen",), listen, "--listen")
    if admin is not None:
        yield Setting(("admin", "listen"), admin, "--admin")
    if audit_dir is not None:
        yield Setting(("audit", "dir"), audit_dir, "--audit-dir")
        yield Setting(("audit", "enabled"), True, "--audit-dir")
    if no_audit:
        yield Setting(("audit", "enabled"), False, "--no-audit")


class Parts(NamedTuple):
    """The sinks of a proxy, by what they are; ``all`` in the order in which they learn of things."""

    console: ConsoleSink
    metrics: MetricsSink
    audit: Auditing | None
    telemetry: TelemetrySink | None
    """Behind the audit log: the last head of its chain goes out, too."""

    @property
    def all(self) -> list[Sink]:
        audit = None if self.audit is None else self.audit.sink
        sinks = (self.console, self.metrics, audit, self.telemetry)
        return [sink for sink in sinks if sink is not None]


def _parts(config: Config, environ: Mapping[str, str]) -> Parts:
    """Raises SinkError where an OTEL_* variable can't work, and AuditError."""
    servers = {
        upstream.name: (upstream.url.host, upstream.url.port) for upstream in config.upstreams
    }
    metrics = MetricsSink(servers)
    told = config.telemetry
    telemetry = TelemetrySink.from_environment(
        environ,
        version=tool_version(),
        servers=servers,
        choices=Choices(told.span_events, told.info_records, config.audit.otlp),
        meter=metrics.meter,
    )
    tell = None if telemetry is None else telemetry.witnessed
    audit = auditing(config, tell)
    return Parts(ConsoleSink(sys.stdout), metrics, audit, telemetry)


async def _serve(config: Config, parts: Parts, say: Say) -> None:
    """Serves until a signal comes. Raises ServeError and AdminError."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_stray)
    checker = SchemaPool(timeout=config.schema.timeout)
    large = InspectPool(config.limits)
    audit = parts.audit
    index = IndexKeeper(config.audit.dir) if audit and config.audit.index else None
    monitor = monitor_of(config)
    feed = None if monitor is None else feed_of(config, monitor.hub.take)
    server = ProxyServer(
        config,
        parts.all if feed is None else [*parts.all, feed],
        checker,
        aside=large,
        capture=audit and audit.capture,
        fingerprint=audit and audit.fingerprint,
    )
    running = Running(
        config,
        server,
        parts.metrics,
        parts.telemetry,
        audit and audit.sink,
        version=tool_version(),
        index=index,
    )
    admin = _admin(config, running, monitor)
    signals: asyncio.Queue[None] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signals.put_nowait, None)
    aside: list[asyncio.Task[None]] = []
    try:
        address = await admin.start()
        running.listeners = await server.start()
        for line in banner(running.listeners, parts.all, config, address, monitor):
            say(line)
        if index is not None:
            index.start()
        aside = [loop.create_task(work) for work in _aside(server, checker, config, say)]
        await signals.get()
        running.draining = True
        say("teeline: stopping; open answers are finished first, a second signal ends them")
        await _stop(server, config.shutdown.deadline, signals)
    finally:
        for task in aside:
            task.cancel()
        await asyncio.gather(*aside, return_exceptions=True)
        await asyncio.gather(checker.close(), large.close())
        if index is not None and not await index.stop(_INDEX_SECONDS):
            log.warning("audit: the index was still being written at the end")
        if monitor is not None:
            await monitor.close()
        await admin.close()


def _admin(config: Config, running: Running, monitor: Monitor | None) -> AdminServer:
    meter, unready, status = running.metrics.meter, running.unready, running.status
    if monitor is None:
        return AdminServer(config.admin, meter, unready, status)
    return AdminServer(config.admin, meter, unready, status, monitor.routes(), monitor.admits)


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


def banner(
    listeners: Iterable[Listener],
    sinks: Iterable[Sink],
    config: Config,
    admin: ListenAddress | None = None,
    monitor: Monitor | None = None,
) -> Iterator[str]:
    """What is said at the start: where to point clients, and where findings go."""
    for listener in listeners:
        for route in listener.routes:
            yield f"OPENAI_BASE_URL={route.base_url} -> {route.target}"
    audit = printable(str(config.audit.dir), 1000) if config.audit.enabled else "off"
    yield f"audit log: {audit}"
    if config.audit.enabled and config.capture.enabled:
        yield f"capture: bodies of exchanges are kept in {audit}/bodies ({kept_bodies(config.capture)})"
    exports = any(isinstance(sink, TelemetrySink) for sink in sinks)
    yield f"OTLP: {'on' if exports else 'off (OTEL_EXPORTER_OTLP_ENDPOINT is not set)'}"
    yield f"admin: {'off' if admin is None else f'http://{admin}'}"
    if admin is not None and monitor is not None:
        once = "" if monitor.sessions is None else " (signs in once, within 15 minutes)"
        yield f"live page: {page_url(admin, monitor.sessions)}{once}"


async def warm_up(checker: SchemaPool) -> None:
    """Starts the schema processes, so that the first check doesn't wait for them."""
    try:
        await checker.start()
    except WorkerError as error:
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
