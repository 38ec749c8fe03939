"""``teeline serve``: the proxy as a process.

What belongs here: options, what is said on the terminal, and signals. What doesn't: what serves
(proxy/serving.py, proxy/supervisor.py) and what settings mean (config).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import click

from teeline.config.load import ConfigError, Setting, load
from teeline.config.model import Config, ListenAddress, UpstreamConfig
from teeline.proxy.admin import AdminError, AdminServer
from teeline.proxy.audit.configured import AuditError, kept_bodies
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.console import Console, ConsoleSink
from teeline.proxy.monitor.configured import feed_of, monitor_of, page_url
from teeline.proxy.monitor.pages import Monitor
from teeline.proxy.process import (
    EventLoopError,
    event_loop,
    log_stray,
    prepare,
    run,
    set_aside,
    worker_count,
)
from teeline.proxy.reports.model import tool_version
from teeline.proxy.server import Listener, ServeError
from teeline.proxy.serving import Service, ServingProcess
from teeline.proxy.sinks import SinkError
from teeline.proxy.status import Running
from teeline.proxy.supervisor import Supervisor
from teeline.proxy.text import printable
from teeline.proxy.upstream import Unowned, Upstream, UpstreamError

Say = Callable[[str], None]


class Counting(Protocol):
    """Who knows how many requests have come."""

    @property
    def requests(self) -> int: ...


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
    help="Where the live page, health and metrics are [127.0.0.1:8788].",
)
@click.option("--config", "file", metavar="FILE", envvar="TEELINE_CONFIG", help="A YAML file.")
@click.option("--audit-dir", metavar="DIR", help="Folder of the audit log [teeline-data].")
@click.option("--no-audit", is_flag=True, help="Write no audit log.")
@click.option("--workers", metavar="N|auto", help="Processes that serve [1].")
@click.pass_context
def command(
    ctx: click.Context,
    upstream: str | None,
    listen: str | None,
    admin: str | None,
    file: str | None,
    audit_dir: str | None,
    no_audit: bool,
    workers: str | None,
) -> None:
    """Run the proxy in front of a relay; point clients at it with OPENAI_BASE_URL.

    Everything goes through unchanged. Violations are written to stdout as they are found,
    everything else to stderr. SIGINT, SIGTERM or SIGHUP ends it when open answers are through, a
    second one at once.

    Exit status: 0 after a signal, 2 wrong usage or configuration, 3 could not run.
    """
    if audit_dir is not None and no_audit:
        raise click.UsageError("--audit-dir and --no-audit exclude each other")
    try:
        config = load(
            file, os.environ, _settings(upstream, listen, admin, audit_dir, no_audit, workers)
        )
        new_loop = event_loop(os.environ)
        prepare()
        run(_serve(config, os.environ, _say), new_loop)
    except ConfigError as error:
        for problem in error.problems:
            _say(f"teeline serve: {problem}")
        ctx.exit(USAGE)
    except (SinkError, EventLoopError) as error:
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
    workers: str | None,
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
    if workers is not None:
        is_number = workers.isascii() and workers.isdecimal() and len(workers) < 10
        yield Setting(("workers",), int(workers) if is_number else workers, "--workers")


def _service(config: Config, environ: Mapping[str, str], monitor: Monitor | None) -> Service:
    """What serves: this process, or several. Raises SinkError and AuditError."""
    hub = None if monitor is None else monitor.hub
    if worker_count(config) > 1:
        return Supervisor(
            config,
            environ,
            Console(sys.stdout),
            on_live=None if hub is None else hub.take,
            on_gone=None if hub is None else hub.gone,
        )
    feed = None if hub is None else feed_of(config, hub.take)
    others = [] if feed is None else [feed]
    return ServingProcess(config, environ, ConsoleSink(sys.stdout), others=others)


async def _serve(config: Config, environ: Mapping[str, str], say: Say) -> None:
    """Serves until a signal comes. Raises ServeError, AdminError, SinkError and AuditError."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_stray)
    monitor = monitor_of(config)
    service = _service(config, environ, monitor)
    audit = config.audit
    index = IndexKeeper(audit.dir) if audit.enabled and audit.index else None
    running = Running(config, service, version=tool_version(), index=index)
    admin = _admin(config, running, monitor)
    signals = _signals(loop)
    aside: list[asyncio.Task[None]] = []
    try:
        address = await admin.start()
        set_aside()
        running.listeners = await service.start()
        for line in banner(running.listeners, service, config, address, monitor):
            say(line)
        if index is not None:
            index.start()
        aside = [loop.create_task(work) for work in _aside(service, config, say)]
        await signals.get()
        running.draining = True
        say("teeline: stopping; open answers are finished first, a second signal ends them")
        await _stop(service, config.shutdown.deadline, signals)
    finally:
        for task in aside:
            task.cancel()
        await asyncio.gather(*aside, return_exceptions=True)
        await service.close()
        if index is not None and not await index.stop(_INDEX_SECONDS):
            say("teeline: warning: the index of the audit log was still being written at the end")
        if monitor is not None:
            await monitor.close()
        await admin.close()


def _admin(config: Config, running: Running, monitor: Monitor | None) -> AdminServer:
    meter, unready, status = running.service.meter, running.unready, running.status
    if monitor is None:
        return AdminServer(config.admin, meter, unready, status)
    return AdminServer(config.admin, meter, unready, status, monitor.routes(), monitor.admits)


def _signals(loop: asyncio.AbstractEventLoop) -> asyncio.Queue[None]:
    """Gets an item for each signal that means the end."""
    signals: asyncio.Queue[None] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever starts us with nohup means to keep us.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, signals.put_nowait, None)
    return signals


def _aside(service: Service, config: Config, say: Say) -> Iterator[Any]:
    """What runs beside the traffic and must not hold up the start."""
    yield say_if_quiet(service, say, QUIET_SECONDS)
    for upstream in config.upstreams:
        yield say_if_unreachable(upstream, say)


async def _stop(service: Service, deadline: float, signals: asyncio.Queue[None]) -> None:
    stopping = asyncio.create_task(service.stop(deadline))
    again = asyncio.create_task(signals.get())
    await asyncio.wait((stopping, again), return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        await service.stop(0)
    again.cancel()
    await stopping


def banner(
    listeners: Iterable[Listener],
    service: Service,
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
    yield f"OTLP: {'on' if service.otlp else 'off (OTEL_EXPORTER_OTLP_ENDPOINT is not set)'}"
    yield f"admin: {'off' if admin is None else f'http://{admin}'}"
    if admin is not None and monitor is not None:
        once = "" if monitor.sessions is None else " (signs in once, within 15 minutes)"
        yield f"live page: {page_url(admin, monitor.sessions)}{once}"
    if (workers := service.workers()) is not None:
        yield f"workers: {len(workers)}"


async def say_if_quiet(service: Counting, say: Say, seconds: float) -> None:
    """A line if no request has come within so many seconds."""
    await asyncio.sleep(seconds)
    if service.requests == 0:
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
