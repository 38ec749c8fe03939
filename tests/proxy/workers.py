"""Worker processes under test: a supervisor whose workers are real, and waiting for what they tell.

What belongs here: starting, waiting and upstreams whose streams are held. What doesn't: what is promised
(test_supervisor.py, test_faults_process.py).
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from teeline.config.load import Setting, load
from teeline.config.model import Config
from teeline.proxy.child import Child
from teeline.proxy.console import Console
from teeline.proxy.sightings import News
from teeline.proxy.supervisor import Supervisor
from tests.proxy.raw import RawUpstream, Wire, raw_upstream

# A process that is started elsewhere must find the package all the same.
PATH = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

_PATIENCE = 120.0
"""Seconds after which a test that hangs fails; starting processes takes some on a busy machine."""


def run(test: Coroutine[Any, Any, None]) -> None:
    """Runs a test on an event loop of its own; one that hangs fails."""
    asyncio.run(asyncio.wait_for(test, _PATIENCE))


def environment() -> dict[str, str]:
    """This process's, without anything that sets teeline up."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TEELINE"))}
    return {**own, "PYTHONPATH": PATH}


def configured(url: str, folder: Path | None, workers: int = 2, **settings: Any) -> Config:
    """A configuration of ``workers`` on a free port; ``folder`` gets the audit log, None for none."""
    given = {"listen": "127.0.0.1:0", "upstreams": [{"name": "relay", "url": url}]}
    audit = {"enabled": False} if folder is None else {"dir": str(folder)}
    flags = {**given, "workers": workers, "audit": audit, **settings}
    return load(flags=[Setting((key,), value, "test") for key, value in flags.items()])


class Watched(Supervisor):
    """A supervisor that can be waited for: looked at anew whenever a worker has told something."""

    def __init__(self, config: Config, **options: Any) -> None:
        self.shown = io.StringIO()
        self.told = asyncio.Event()
        self.lives: list[bytes] = []
        self.gone: list[str] = []
        self.count = config.workers
        environ = {**environment(), **options.pop("environ", {})}
        console = Console(self.shown, color=False)
        options = {"on_live": self.lives.append, "on_gone": self.gone.append, **options}
        super().__init__(config, environ, console, **options)

    def numbers(self, child: Child, changed: Mapping[str, Any]) -> None:
        super().numbers(child, changed)
        self.told.set()

    def news(self, news: News) -> None:
        super().news(news)
        self.told.set()

    def leaving(self, child: Child) -> None:
        super().leaving(child)
        self.told.set()

    async def until(self, what: Callable[[], bool]) -> None:
        """Returns when ``what`` holds; a test that waits for ever fails by its own limit."""
        while not what():
            self.told.clear()
            await self.told.wait()

    async def until_requests(self, count: int) -> None:
        """Returns when so many requests have come."""
        await self.until(lambda: self.requests >= count)

    async def until_open(self, count: int) -> None:
        """Returns when exactly so many exchanges are open."""
        await self.until(lambda: self.facts().open == count)

    async def until_replaced(self, pid: int) -> None:
        """Returns when the worker of this process has a successor."""
        await self.until(
            lambda: (
                len(self.workers()) == self.count
                and all(worker.pid != pid and worker.accepting for worker in self.workers())
            )
        )


@asynccontextmanager
async def supervised(config: Config, **options: Any) -> AsyncIterator[tuple[Watched, int]]:
    """Workers that accept, and their port."""
    supervisor = Watched(config, **options)
    try:
        (listener,) = await supervisor.start()
        yield supervisor, listener.port
        await supervisor.stop(0)
    finally:
        await supervisor.close()


@asynccontextmanager
async def logged(words: str) -> AsyncIterator[asyncio.Event]:
    """An event that is set when teeline logs a line with these words."""
    said = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                said.set()

    listener = Listener()
    log = logging.getLogger("teeline")
    log.addHandler(listener)
    try:
        yield said
    finally:
        log.removeHandler(listener)


class Held:
    """An upstream whose streams begin at once and end when they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def script(self, wire: Wire) -> None:
        while True:
            await wire.read_message()
            await wire.send(STREAM_HEAD + b"9\r\n: begun\n\n\r\n")
            await self.go.wait()
            await wire.send(b"9\r\n: ended\n\n\r\n0\r\n\r\n")


@asynccontextmanager
async def held() -> AsyncIterator[tuple[Held, RawUpstream]]:
    streams = Held()
    async with raw_upstream(streams.script) as upstream:
        yield streams, upstream


async def begun(port: int) -> Wire:
    """A client whose stream has begun."""
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
    await wire.send(GET)
    await wire.read_head()
    await wire.read(len(b"9\r\n: begun\n\n\r\n"))
    return wire


async def whole(wire: Wire) -> bool:
    """Whether a stream that has begun comes to its end."""
    try:
        return await wire.read_chunks() == b"9\r\n: ended\n\n\r\n0\r\n\r\n"
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    finally:
        wire.close()
