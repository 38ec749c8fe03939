"""Relay and proxy, up together in one process, and down again in the right order.

What belongs here: the wiring of the demo's parts with the real server and the real sinks. What
doesn't: options and exit codes (proxy/cli/demo.py), traffic, judgement and layout.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from teeline.config.model import (
    AdminConfig,
    AuditConfig,
    Config,
    ListenAddress,
    SchemaConfig,
    UpstreamConfig,
    UpstreamURL,
)
from teeline.proxy.console import ConsoleSink
from teeline.proxy.demo.relay import Relay
from teeline.proxy.demo.scenarios import SCENARIOS, Scenario
from teeline.proxy.demo.traffic import Collector
from teeline.proxy.demo.watching import Watching, admin_config
from teeline.proxy.serving import ServingProcess
from teeline.proxy.sinks import Sink
from teeline.validators.events import Closed, Found, Opened

STOP_DEADLINE = 2.0
"""Seconds that open streams get when the demo is stopped."""
SCHEMA_TIMEOUT = 4.0
"""Seconds that a verdict waits for a schema check; the first one waits for its process to start."""
PACE = 0.01
"""Seconds between two pieces of a stream: enough to be seen arriving one by one."""


class Curtain:
    """A sink that passes on what happens from ``raise_`` on, and nothing before.

    The demo's own traffic is shown as a table; printed live as well, it would be told twice, and
    the damping would then hold back the first findings of the user's own requests.
    """

    name = "live"

    def __init__(self, behind: Sink) -> None:
        self._behind = behind
        self._up = False

    def raise_(self) -> None:
        self._up = True

    async def start(self) -> None:
        await self._behind.start()

    def opened(self, event: Opened) -> None:
        if self._up:
            self._behind.opened(event)

    def found(self, event: Found) -> None:
        if self._up:
            self._behind.found(event)

    def closed(self, event: Closed) -> None:
        if self._up:
            self._behind.closed(event)

    async def drain(self, deadline: float) -> None:
        await self._behind.drain(deadline)

    async def close(self) -> None:
        await self._behind.close()


@dataclass(frozen=True, slots=True)
class Stage:
    """What is up: the proxy's base URL for clients, and what the demo drives.

    ``page`` is the live page's address, empty where there is none.
    """

    base_url: str
    relay: Relay
    collector: Collector
    live: Curtain
    page: str = ""


@asynccontextmanager
async def stage(
    listen: ListenAddress,
    audit_dir: Path,
    live: TextIO,
    scenarios: Sequence[Scenario] = SCENARIOS,
    admin: ListenAddress | None = None,
    *,
    elsewhere: bool = False,
) -> AsyncIterator[Stage]:
    """Relay and proxy, up until the block ends.

    ``live`` is the stream on which violations are told as they happen, once the curtain is up.
    ``admin`` is where the live page listens, or on a free port where that is taken and ``elsewhere``
    set. Raises ServeError, AuditError, AdminError or OSError where something can't start.
    """
    relay, collector = Relay(scenarios, PACE), Collector()
    curtain = Curtain(ConsoleSink(live))
    try:
        config = _config(await relay.start(), listen, admin_config(admin, audit_dir), audit_dir)
        watching = Watching(config)
        # No variable of the environment: the demo tells nobody but who started it.
        proxy = ServingProcess(config, {}, curtain, others=(collector, *watching.sinks))
        try:
            listeners = await proxy.start()
            await watching.start(proxy, listeners, elsewhere=elsewhere)
            yield Stage(listeners[0].base_url, relay, collector, curtain, watching.url)
        finally:
            await proxy.stop(STOP_DEADLINE)
            await proxy.close()
            await watching.stop()
    finally:
        await relay.stop()


def _config(relay_url: str, listen: ListenAddress, admin: AdminConfig, audit_dir: Path) -> Config:
    upstream = UpstreamConfig(UpstreamURL.parse(relay_url), name="demo-relay")
    return Config(
        (upstream,),
        listen=listen,
        schema=SchemaConfig(timeout=SCHEMA_TIMEOUT),
        admin=admin,
        audit=AuditConfig(dir=audit_dir),
    )
