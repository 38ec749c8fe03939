"""The client of every target: sends requests on kept connections and reads the answers whole.

``python -m bench.load`` takes one order a line (``Order`` as JSON) and writes what came of it
(``Done`` as JSON). An answer that is not what the mock sent fails the measurement.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from bench.process import raise_descriptor_limit
from bench.traffic import (
    STAMP_SIZE,
    STREAM_HEAD,
    Shape,
    answer,
    pieces,
    request,
    unnumbered,
    whole_answer,
)

_ENDS = (b"\r\n0\r\n\r\n", b"data: [DONE]\n\n")
"""Of a stream in chunks, and of one that a proxy has collected and sends with its length."""
_STAMP = re.compile(rb'"content":"(\d{%d})"' % STAMP_SIZE)
_EVENT = b"data: {"


@dataclass(frozen=True, slots=True)
class Order:
    """``total`` requests to a port, ``concurrency`` of them at once.

    ``shape``: the fields of the stream that is asked for, none for one document. ``exact``: the answer must
    have the mock's own bytes, head and framing too, as it has through what changes none; streams that
    are held have to be. ``size``:
    characters of the request's text, ``answer_size`` of the answer's. ``path``: before the operation's own.
    An order of no requests lets go of the streams that are held.
    """

    port: int
    total: int
    concurrency: int
    shape: tuple[Any, ...] = ()
    exact: bool = False
    size: int = 850
    answer_size: int = 500
    path: str = "/v1"


@dataclass(frozen=True, slots=True)
class Done:
    """Requests that were answered whole, and in how many seconds.

    Of stamped streams ``latencies``: microseconds from the mock's write to the client's read, a median
    and the 99th percentile. ``gap``: the longest time between two reads of a stream, in seconds.
    """

    answered: int
    seconds: float
    latencies: tuple[float, float] = (0.0, 0.0)
    gap: float = 0.0


class Wrong(Exception):
    """An answer was not the mock's."""


@dataclass(slots=True)
class Job:
    """What the lanes of one order share."""

    order: Order
    request: bytes
    shape: Shape | None
    document: bytes
    expected: bytes
    left: int
    latencies: list[float] = field(default_factory=list)
    gap: float = 0.0

    @classmethod
    def of(cls, order: Order) -> Job:
        shape = Shape(*order.shape) if order.shape else None
        if shape and shape.held and not order.exact:
            raise ValueError("what is held has no end to be recognised by: it must be exact")
        stream = STREAM_HEAD + b"".join(pieces(shape)) if shape and not shape.stamped else b""
        expected = stream if shape else whole_answer(order.answer_size)
        asked = request(shape, size=order.size, path=order.path, exact=order.exact)
        return cls(order, asked, shape, answer(order.answer_size), expected, order.total)


class Lane(asyncio.Protocol):
    """One connection with one request at a time on it, as long as there are any left to send."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._exact = job.order.exact and bool(job.expected)
        self._stamped = job.shape is not None and job.shape.stamped
        self._received: list[bytes] = []
        self._offset = 0
        self._last = 0
        self.answered = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the connection ended within an answer")

    def let_go(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._stamped:
            self._time(data)
        if self._exact:
            self._compare(data)
            return
        self._received.append(data)
        if self._job.shape is not None:
            whole = data.endswith(_ENDS) or b"".join(self._received[-3:]).endswith(_ENDS)
        else:
            whole = data.endswith(self._job.document[-16:])
        if whole:
            self._check(b"".join(self._received))
            self._received.clear()
            self._answered()

    def _time(self, data: bytes) -> None:
        now, job = time.monotonic_ns(), self._job
        if self._last:
            job.gap = max(job.gap, (now - self._last) / 1e9)
        self._last = now
        job.latencies += [(now - int(sent)) / 1e3 for sent in _STAMP.findall(data)]

    def _compare(self, data: bytes) -> None:
        expected = self._job.expected
        if not expected.startswith(data, self._offset):
            self._fail(
                f"byte {self._offset} or one of the {len(data)} from there is not the mock's"
            )
            return
        self._offset += len(data)
        if self._offset == len(expected):
            self._offset = 0
            self._answered()

    def _check(self, got: bytes) -> None:
        shape = self._job.shape
        if not (
            got.count(_EVENT) == shape.chunks
            if shape
            else unnumbered(got).endswith(self._job.document)
        ):
            self._fail(f"{len(got)} bytes that are not the mock's answer")

    def _answered(self) -> None:
        self.answered += 1
        self._last = 0
        self._send()

    def _fail(self, words: str) -> None:
        if not self.over.done():
            self.over.set_exception(Wrong(words))

    def _send(self) -> None:
        job = self._job
        # A stream that is held keeps its connection: a second request would wait behind it for ever.
        held = self.answered > 0 and job.shape is not None and job.shape.held
        if job.left > 0 and not held:
            job.left -= 1
            self._transport.write(job.request)
        elif not self.over.done():
            self.over.set_result(None)
            if job.shape is None or not job.shape.held:
                self._transport.close()


class Client:
    """Runs orders. Streams that are held stay open from one order to the next."""

    def __init__(self) -> None:
        self._held: list[Lane] = []

    async def run(self, order: Order) -> Done:
        """Raises Wrong, or OSError where nobody listens."""
        while self._held:
            self._held.pop().let_go()
        job, loop = Job.of(order), asyncio.get_running_loop()
        start = time.perf_counter()
        lanes: list[Lane] = []
        for _ in range(min(order.concurrency, order.total)):
            _, lane = await loop.create_connection(lambda: Lane(job), "127.0.0.1", order.port)
            lanes.append(lane)
            if job.shape is not None and job.shape.held:
                # One after the other: what stays is asked for, not what all at once need for a moment.
                await lane.over
        try:
            await asyncio.gather(*(lane.over for lane in lanes))
        except Wrong:
            for lane in lanes:
                lane.let_go()
            raise
        seconds = time.perf_counter() - start
        if job.shape is not None and job.shape.held:
            self._held = lanes
        found = sorted(job.latencies) or [0.0]
        shown = found[len(found) // 2], found[len(found) * 99 // 100]
        return Done(sum(lane.answered for lane in lanes), seconds, shown, job.gap)


def main() -> None:
    raise_descriptor_limit()
    client = Client()
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            done = runner.run(client.run(Order(**json.loads(line))))
            sys.stdout.write(json.dumps(asdict(done)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
