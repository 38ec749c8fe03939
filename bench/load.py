"""The client of every target: sends requests on kept connections and reads the answers whole.

``python -m bench.load`` takes one order a line (``Order`` as JSON) and writes what came of it
(``Done`` as JSON). An answer that is not what the mock sent fails the measurement.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import cast

from bench.traffic import CHUNKS, answer, request

_END = b"\r\n0\r\n\r\n"
_DOCUMENT = answer()


@dataclass(frozen=True, slots=True)
class Order:
    """``total`` requests to a port, ``concurrency`` of them at once. ``kind``: json, paced, burst."""

    port: int
    kind: str
    total: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Done:
    """Requests that were answered whole, and how long all of them took, in seconds."""

    answered: int
    seconds: float


class Wrong(Exception):
    """An answer was not the mock's."""


class Lane(asyncio.Protocol):
    """One connection with one request at a time on it, as long as there are any left to send."""

    def __init__(self, order: Order, left: list[int]) -> None:
        self._stream = order.kind != "json"
        self._request = request(stream=self._stream, paced=order.kind == "paced")
        self._left = left
        self._received: list[bytes] = []
        self.answered = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(Wrong("the connection ended within an answer"))

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        if self._stream:
            whole = data.endswith(_END) or b"".join(self._received[-3:]).endswith(_END)
        else:
            whole = data.endswith(_DOCUMENT[-16:])
        if whole:
            self._check(b"".join(self._received))
            self._received.clear()
            self.answered += 1
            self._send()

    def _check(self, got: bytes) -> None:
        right = got.count(b"data: {") == CHUNKS if self._stream else got.endswith(_DOCUMENT)
        if not right and not self.over.done():
            self.over.set_exception(Wrong(f"{len(got)} bytes that are not the mock's answer"))

    def _send(self) -> None:
        if self._left[0] > 0:
            self._left[0] -= 1
            self._transport.write(self._request)
        elif not self.over.done():
            self.over.set_result(None)
            self._transport.close()


async def run(order: Order) -> Done:
    """Raises Wrong, or OSError where nobody listens."""
    left = [order.total]
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Lane(order, left), "127.0.0.1", order.port)
        for _ in range(min(order.concurrency, order.total))
    ]
    lanes = [lane for _, lane in made]
    await asyncio.gather(*(lane.over for lane in lanes))
    return Done(sum(lane.answered for lane in lanes), time.perf_counter() - start)


def main() -> None:
    for line in sys.stdin:
        done = asyncio.run(run(Order(**json.loads(line))))
        sys.stdout.write(json.dumps(asdict(done)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
