"""Client and server of the NNRP measurement in one process: ``python -m bench.nnrp_peers``.

It writes the server's port, then takes one order a line (``Order`` as JSON) and writes what came of it
(``Done`` as JSON). The server sends what it has to say in the shape that the order names.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import cast

from bench.nnrp_traffic import traffic

PACE = 0.005
"""Seconds between two packets of a paced stream."""


@dataclass(frozen=True, slots=True)
class Order:
    """``streams`` at once through a port, each of so many deltas. ``shape``: paced, burst, block."""

    port: int
    shape: str
    streams: int
    deltas: int


@dataclass(frozen=True, slots=True)
class Done:
    """``reads`` is how many pieces the client read the packets in."""

    packets: int
    reads: int
    seconds: float


class Server(asyncio.Protocol):
    """Answers with a packet a pace, a packet a write, or all packets in one write."""

    order: Order

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next = 0
        self._heard = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        said = traffic(self.order.deltas)
        self._heard += len(data)
        if self._heard < len(said.client):
            return
        self._transport.write(said.opening)
        if self.order.shape == "block":
            self._transport.write(b"".join(said.packets))
        else:
            self._send()

    def _send(self) -> None:
        packets = traffic(self.order.deltas).packets
        if self._transport.is_closing() or self._next == len(packets):
            return
        self._transport.write(packets[self._next])
        self._next += 1
        if self.order.shape == "paced":
            self._loop.call_later(PACE, self._send)
        else:
            self._loop.call_soon(self._send)


class Client(asyncio.Protocol):
    """Submits, and reads until all of the answer is there; another answer fails the measurement."""

    def __init__(self, order: Order) -> None:
        said = traffic(order.deltas)
        self._client = said.client
        self._expected = said.opening + b"".join(said.packets)
        self._received: list[bytes] = []
        self._left = len(self._expected)
        self.over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._client)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._left -= len(data)
        if self._left <= 0 and not self.over.done():
            if b"".join(self._received) == self._expected:
                self.over.set_result(len(self._received))
            else:
                self.over.set_exception(RuntimeError("other bytes than were sent"))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(RuntimeError("the connection ended within an answer"))


async def run(order: Order) -> Done:
    """Raises RuntimeError where the answer is another, OSError where nobody listens."""
    loop = asyncio.get_running_loop()
    Server.order = order
    start = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Client(order), "127.0.0.1", order.port)
        for _ in range(order.streams)
    ]
    reads = sum(await asyncio.gather(*(client.over for _, client in made)))
    packets = order.streams * len(traffic(order.deltas).packets)
    return Done(packets, reads, time.perf_counter() - start)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        done = await run(Order(**json.loads(line)))
        sys.stdout.write(json.dumps(asdict(done)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
