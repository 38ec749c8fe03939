"""One worker process as its supervisor sees it: started, heard, told to stop, gone.

What belongs here: the process and the supervisor's end of the link to it. What doesn't: what the worker
does (serveworker.py), frames (link.py), how many there are and what is made of what they tell
(supervisor.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

from teeline.proxy.link import (
    FAILED,
    LEAVING,
    LIVE,
    NEWS,
    READY,
    STATE,
    STOP,
    Deframer,
    Job,
    LinkError,
    frame,
    job_frame,
)
from teeline.proxy.server import Bound
from teeline.proxy.serving import Facts
from teeline.proxy.sightings import News, decode

log = logging.getLogger("teeline.supervisor")

_BOOT_SECONDS: Final = 60.0
_REST_SECONDS: Final = 5.0
"""What the rest of the link gets to arrive once the process is gone."""


class Told(Protocol):
    """Who takes what workers tell."""

    def numbers(self, child: Child, changed: Mapping[str, Any]) -> None:
        """Series that changed; ValueError where they are none."""

    def news(self, news: News) -> None: ...

    def leaving(self, child: Child) -> None:
        """It accepts no more."""

    def live(self, data: bytes) -> None: ...


class StartError(Exception):
    """The process doesn't serve; the text is one line that says why."""


class Child(asyncio.Protocol):
    """One worker process. ``number`` is its place among the workers, from 1."""

    def __init__(
        self, number: int, told: Told, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.number = number
        self.pid = 0
        self.facts = Facts()
        self.live_dropped = 0
        self.accepting = False
        self._told = told
        self._clock = clock
        self._started = clock()
        self._deframer = Deframer()
        self._transport: asyncio.Transport | None = None
        self._process: asyncio.subprocess.Process | None = None
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[str] = loop.create_future()
        """Done when it accepts, or with a line that says why it won't."""
        self._unlinked: asyncio.Future[None] = loop.create_future()
        self.broken = ""
        """Why it was ended, where it told what is no sense."""

    @property
    def uptime(self) -> float:
        """Seconds since it was started."""
        return self._clock() - self._started

    async def start(self, job: Job, bound: Bound, environ: Mapping[str, str]) -> None:
        """Returns when it accepts connections. Raises StartError; the process is then gone."""
        try:
            ours, theirs = socket.socketpair()
            try:
                self._process = await self._spawned(theirs, bound, environ)
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
        except OSError as error:
            raise StartError(f"a worker can't be started: {error.strerror}") from None
        self.pid = self._process.pid
        ours.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        self._write(job_frame(job))
        if failure := await self._until_ready():
            self.kill()
            await self.ended()
            raise StartError(failure)

    async def _spawned(
        self, theirs: socket.socket, bound: Bound, environ: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        descriptors = [sock.fileno() for sockets in bound.values() for sock in sockets]
        # -P: a module of the current folder must not stand in for one of ours. A session of its own:
        # ^C is the supervisor's, which then tells its workers.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "teeline.proxy.serveworker", str(theirs.fileno())),
            pass_fds=(theirs.fileno(), *descriptors),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )

    async def _until_ready(self) -> str:
        """Waits until it accepts; gives why it doesn't otherwise."""
        ended = asyncio.create_task(self.ended())
        try:
            await asyncio.wait(
                (self._ready, ended), timeout=_BOOT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if self._ready.done():
                return self._ready.result()
            late = f"does not answer within {_BOOT_SECONDS:.0f} s"
            how = ended.result() if ended.done() else late
            return f"worker {self.number} does not start: it {how}"
        finally:
            ended.cancel()

    def stop(self, deadline: float) -> None:
        """Tells it to end; open exchanges get so many seconds, none with 0."""
        self.accepting = False
        self._write(frame(STOP, b"%.3f" % deadline))

    def kill(self) -> None:
        """Ends it at once, with everything that is open."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def ended(self) -> str:
        """Waits until it is gone and all that it told is taken in; gives in words how it ended."""
        assert self._process is not None
        code = await self._process.wait()
        self.accepting = False
        # A process of its own that it left behind may hold the link open.
        await asyncio.wait((self._unlinked,), timeout=_REST_SECONDS)
        if self._transport is not None:
            self._transport.abort()
        if self.broken:
            return self.broken
        return f"ended with status {code}" if code >= 0 else f"was ended by {_signal(-code)}"

    @property
    def left(self) -> bool:
        """Whether it ended in good order: what was open on it came to its end."""
        return not self.broken and self._process is not None and self._process.returncode == 0

    # -- the link ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, payload in self._deframer.feed(data):
                self._take(kind, payload)
        except (LinkError, ValueError, TypeError, KeyError, AttributeError) as error:
            # A worker reads what strangers send: what it says now is not to be trusted.
            self.broken = f"told what can't be understood ({type(error).__name__}) and was ended"
            self.kill()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._unlinked.done():
            self._unlinked.set_result(None)

    def _take(self, kind: bytes, payload: bytes) -> None:
        if kind == LIVE:
            self._told.live(payload)
        elif kind == NEWS:
            self._told.news(decode(payload))
        elif kind == STATE:
            self._state(json.loads(payload))
        elif kind == READY:
            self.accepting = True
            if not self._ready.done():
                self._ready.set_result("")
        elif kind == LEAVING:
            self.accepting = False
            self._told.leaving(self)
        elif kind == FAILED and not self._ready.done():
            self._ready.set_result(payload.decode("utf-8", "replace") or "no reason was given")

    def _state(self, told: dict[str, Any]) -> None:
        self.facts = Facts.read(told["facts"])
        self.live_dropped = int(told["live_dropped"])
        self._told.numbers(self, told["numbers"])

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
