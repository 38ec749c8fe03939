"""What stands around teeline in these tests: an event loop for it, and the programs of other people.

What belongs here: starting, waiting for and ending peers, and what happens where one is missing. What
doesn't: what is promised (the tests) and bare sockets (tests/proxy/raw.py).
"""

from __future__ import annotations

import asyncio
import http.client
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Ended, Exchange, Severity

Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds after which a test that hangs fails."""


def missing(what: str) -> NoReturn:
    """Skips on a machine that lacks a peer; fails where CI is set, so that no peer is lost unseen."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is not installed; CI runs every test", pytrace=False)
    pytest.skip(f"{what} is not installed", allow_module_level=True)


def program(name: str) -> str:
    """The path of a program beside this Python or on PATH; skips or fails where there is none."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name) or missing(name)


class Loop:
    """An event loop in a thread of its own, so that clients that block can be tried against it."""

    def __init__(self) -> None:
        self.event_loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.event_loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self.event_loop).result(PATIENCE)

    @contextmanager
    def within(self, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
        """Holds an asynchronous context open on this loop."""
        entered = self.run(_enter(manager))
        try:
            yield entered
        finally:
            self.run(_leave(manager))

    def close(self) -> None:
        self.event_loop.call_soon_threadsafe(self.event_loop.stop)
        self._thread.join()
        self.event_loop.close()


async def _enter(manager: AbstractAsyncContextManager[Result]) -> Result:
    return await manager.__aenter__()


async def _leave(manager: AbstractAsyncContextManager[Any]) -> None:
    await manager.__aexit__(None, None, None)


class Witness:
    """A sink that hands closed exchanges to another thread."""

    name = "witness"

    def __init__(self) -> None:
        self._closed: queue.SimpleQueue[Exchange] = queue.SimpleQueue()

    def exchanges(self, count: int) -> list[Exchange]:
        """The next exchanges in the order of their ends; queue.Empty where they don't come."""
        return [self._closed.get(timeout=PATIENCE) for _ in range(count)]

    @property
    def has_more(self) -> bool:
        return not self._closed.empty()

    async def start(self) -> None: ...

    def opened(self, event: Opened) -> None: ...

    def found(self, event: Found) -> None: ...

    def closed(self, event: Closed) -> None:
        self._closed.put(event.exchange)

    async def drain(self, deadline: float) -> None: ...

    async def close(self) -> None: ...


class Teeline:
    """A running proxy as its client sees it, and what it reports."""

    def __init__(self, port: int, witness: Witness) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._witness = witness

    def exchanges(self, count: int) -> list[Exchange]:
        """So many exchanges that are over, and no more of them."""
        found = self._witness.exchanges(count)
        assert not self._witness.has_more
        return found

    def exchange(self) -> Exchange:
        return self.exchanges(1)[0]


def breaches(exchange: Exchange, at_least: Severity = Severity.WARN) -> set[str]:
    """The rules that were broken, on either side."""
    return {v.rule.id for v in exchange.violations if v.severity >= at_least}


def read_to_its_end(exchange: Exchange) -> bool:
    """Whether the client waited for the end of the answer.

    The SDK's blocking client hangs up when it has read ``[DONE]``, the other one soon after. Whether
    the end of the body has come through by then is a matter of chance; rules about the end are off
    where it has not.
    """
    assert exchange.ended in (Ended.COMPLETE, Ended.CLIENT_CLOSED, Ended.UPSTREAM_ABORTED)
    return exchange.ended is not Ended.CLIENT_CLOSED


@contextmanager
def serving(command: Sequence[str], port: int, log: Path) -> Iterator[str]:
    """A server of other people as a process; gives its base URL once it lists its models."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _await_ready(process, port, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _ready(port):
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline:
                continue
        pytest.fail(f"{process.args!r} did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/v1/models")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
