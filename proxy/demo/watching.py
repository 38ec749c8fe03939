"""The demo's admin port: the live page, metrics and status of a proxy that stays.

What belongs here: what the page needs beside the proxy, and where it listens. What doesn't: the page
(proxy/monitor), the port (proxy/admin.py), the proxy itself (stage.py).
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from teeline.config.model import AdminConfig, Config, ListenAddress
from teeline.proxy.admin import AdminError, AdminServer
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.monitor.configured import feed_of, monitor_of, page_url
from teeline.proxy.monitor.pages import Monitor
from teeline.proxy.reports.model import tool_version
from teeline.proxy.server import Listener
from teeline.proxy.serving import Service
from teeline.proxy.sinks import Sink
from teeline.proxy.status import Running

TOKEN_FILE: Final = "admin-token"
NOTE: Final = "This is the demo: its relay breaks the protocol on purpose, one fault a model."
_OPENING: Final = 2.0
_CLOSING: Final = 2.0
"""Seconds that the index gets for what is there, and for the step under way at the end."""


def admin_config(address: ListenAddress | None, folder: Path) -> AdminConfig:
    """Where other machines can connect, a token made for this run is demanded. OSError."""
    if address is None or address.is_loopback:
        return AdminConfig(address)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / TOKEN_FILE
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(f"{secrets.token_hex(32)}\n")
    return AdminConfig(address, token_file=file)


class Watching:
    """The page of one demo; nothing where there is no admin port. ``sinks`` go to the proxy."""

    def __init__(self, config: Config) -> None:
        self.url = ""
        """Where the page is, once it is up."""
        self._config = config
        self._index = IndexKeeper(config.audit.dir)
        self._server: AdminServer | None = None
        self._monitor: Monitor | None = monitor_of(config, NOTE)
        feed = None if self._monitor is None else feed_of(config, self._monitor.hub.take)
        self.sinks: Sequence[Sink] = [] if feed is None else [feed]

    async def start(
        self, service: Service, listeners: Sequence[Listener], *, elsewhere: bool
    ) -> None:
        """Listens; ``elsewhere``: on any free port where the one that was meant is taken. AdminError."""
        if self._monitor is None:
            return
        self._index.start()
        with contextlib.suppress(TimeoutError):
            await self._index.flush(_OPENING)  # whoever comes first finds an index
        running = Running(self._config, service, version=tool_version(), index=self._index)
        running.listeners = listeners
        try:
            address = await self._listen(running, self._monitor, self._config.admin)
        except AdminError:
            meant = self._config.admin.listen
            if not elsewhere or meant is None:
                raise
            free = replace(self._config.admin, listen=ListenAddress(meant.host, 0))
            address = await self._listen(running, self._monitor, free)
        if address is not None:
            self.url = page_url(address, self._monitor.sessions)

    async def stop(self) -> None:
        """Idempotent, and right after a start that failed."""
        if self._monitor is None:
            return
        await self._index.stop(_CLOSING)
        await self._monitor.close()
        if self._server is not None:
            await self._server.close()

    async def _listen(
        self, running: Running, monitor: Monitor, config: AdminConfig
    ) -> ListenAddress | None:
        meter = running.service.meter
        server = AdminServer(
            config, meter, running.unready, running.status, monitor.routes(), monitor.admits
        )
        address = await server.start()
        self._server = server
        return address
