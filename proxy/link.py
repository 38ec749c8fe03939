"""The way between the supervisor and a worker: frames over a socketpair.

What belongs here: frames, and the worker's end, which never holds its event loop up. What doesn't: what
is told (serveworker.py) and what is made of it (child.py, supervisor.py).

A frame is a length (4 bytes, big-endian), a byte that says what it is, and so many bytes. A worker sends
from a thread: what must arrive waits its turn, live events are dropped and counted where too many wait.
A supervisor that is gone shows as the end of what it sends.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from teeline.config.model import Config
from teeline.proxy.background import Background

log = logging.getLogger("teeline.link")

# What the supervisor sends.
JOB: Final = b"J"
"""Once, and first: what to serve."""
STOP: Final = b"S"
"""The seconds that open exchanges get, as decimal text."""
# What a worker sends.
READY: Final = b"R"
FAILED: Final = b"F"
"""Why it can't serve, one line; it ends then."""
LEAVING: Final = b"E"
"""It accepts no more."""
STATE: Final = b"T"
"""Facts and the numbers that changed (serveworker.py), as JSON."""
NEWS: Final = b"N"
"""What the console should know (sightings.py)."""
LIVE: Final = b"L"
"""An event for the live page, as whoever published it made it."""

MAX_FRAME: Final = 32 * 1024 * 1024
"""Bytes of a frame; all series of all metrics, each as long as it may be, take less."""
MAX_LIVE: Final = 64 * 1024
"""Bytes of one live event."""
LIVE_ITEMS: Final = 2000
LIVE_BYTES: Final = 1024 * 1024
"""Live events, and bytes of them, that wait for the thread or the supervisor; more are dropped."""
_KEPT = 16
"""Frames beyond them that must arrive; who has more keeps them until there is room."""
_BATCH = 64
_INTERVAL = 0.2
STATE_SECONDS: Final = 1.0
_HEADER = 5
_RECEIVED = 256 * 1024


class LinkError(Exception):
    """The other end sent what is no frame."""


@dataclass(frozen=True)
class Job:
    """What a worker is to do.

    ``number`` counts the workers from 1, ``share`` is how many there are. ``sockets`` holds descriptors
    by address, in the order of ``config.by_address()``.
    """

    config: Config
    number: int
    share: int
    sockets: tuple[tuple[int, ...], ...]


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """A frame as it travels."""
    return len(payload).to_bytes(4, "big") + kind + payload


class Deframer:
    """Takes frames out of bytes as they come."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames that are whole now: kind and payload. Raises LinkError."""
        kept = self._kept
        kept += data
        while len(kept) >= _HEADER:
            length = int.from_bytes(kept[:4], "big")
            if length > MAX_FRAME:
                raise LinkError("a frame beyond its bounds")
            if len(kept) < _HEADER + length:
                return
            kind, payload = bytes(kept[4:5]), bytes(kept[_HEADER : _HEADER + length])
            del kept[: _HEADER + length]
            yield kind, payload


def job_frame(job: Job) -> bytes:
    """Pickled: it goes from this program to itself, and a configuration is many small types."""
    return frame(JOB, pickle.dumps(job))


def receive_job(sock: socket.socket) -> tuple[Job, Deframer]:
    """Waits for the job; what came behind it is in the deframer. Raises EOFError, LinkError."""
    deframer = Deframer()
    while True:
        data = sock.recv(_RECEIVED)
        if not data:
            raise EOFError
        for kind, payload in deframer.feed(data):
            job = pickle.loads(payload) if kind == JOB else None
            if not isinstance(job, Job):
                raise LinkError("no job")
            return job, deframer


class Uplink:
    """A worker's way to its supervisor, from ``start`` to ``close``.

    ``state`` gives what a STATE frame holds, None where nothing has changed; the sending thread asks for
    it every ``STATE_SECONDS`` and at each flush.
    """

    def __init__(self, sock: socket.socket, state: Callable[[], bytes | None]) -> None:
        self._sock = sock
        self._state = state
        self._due = 0.0
        self._broken = False
        # Each of the two is written by one thread alone.
        self._live_taken = 0
        self._live_sent = 0
        self.dropped = 0
        """Live events that were not sent."""
        self._sender: Background[bytes] = Background(
            "teeline-link",
            self._send,
            capacity=LIVE_ITEMS + _KEPT,
            batch=_BATCH,
            interval=_INTERVAL,
            tick=self._tick,
        )

    def start(self) -> None:
        self._sender.start()

    def publish(self, data: bytes) -> None:
        """Sends a live event, or drops and counts it. Never blocks; called on the event loop."""
        size = len(data)
        if (
            size > MAX_LIVE
            or self._sender.waiting >= LIVE_ITEMS
            or self._live_taken - self._live_sent + size > LIVE_BYTES
            or not self._sender.offer(frame(LIVE, data))
        ):
            self.dropped += 1
            return
        self._live_taken += size

    def tell(self, kind: bytes, payload: bytes = b"") -> bool:
        """Sends what must arrive; False where too much waits already. Called on the event loop."""
        return self._sender.offer(frame(kind, payload))

    async def flush(self, deadline: float) -> None:
        """Sends all that waits, and the state; TimeoutError after ``deadline`` seconds."""
        await self._sender.flush(deadline)

    async def close(self, deadline: float) -> None:
        """Sends all that waits and the state, as far as ``deadline`` seconds allow."""
        with contextlib.suppress(TimeoutError):
            await self._sender.flush(deadline)
        await self._sender.stop(deadline)

    def _send(self, batch: list[bytes]) -> bool:
        self._write(b"".join(batch))
        for each in batch:
            if each[4:5] == LIVE:
                self._live_sent += len(each) - _HEADER
        return True

    def _tick(self, flush: bool) -> None:
        now = time.monotonic()
        if (flush or now >= self._due) and (state := self._state()) is not None:
            self._write(frame(STATE, state))
        if now >= self._due:
            self._due = now + STATE_SECONDS

    def _write(self, data: bytes) -> None:
        if self._broken or not data:
            return
        try:
            # Blocks while the supervisor reads nothing; what comes meanwhile waits, and is bounded.
            self._sock.sendall(data)
        except OSError:
            self._broken = True  # it is gone, which its end of the link tells the event loop


class Downlink:
    """What the supervisor sends a worker, read off the same socket without blocking."""

    def __init__(self, sock: socket.socket, deframer: Deframer) -> None:
        self._sock = sock
        self._deframer = deframer

    def read(self) -> tuple[list[float], bool]:
        """Deadlines of stops that were asked for, and whether the supervisor is gone.

        What came with the job counts, too.
        """
        data, gone = b"", False
        try:
            data = self._sock.recv(_RECEIVED, socket.MSG_DONTWAIT)
            gone = not data
        except BlockingIOError:
            pass
        except OSError:
            gone = True
        return [float(payload) for kind, payload in self._deframer.feed(data) if kind == STOP], gone
