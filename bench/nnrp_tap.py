"""A tap as a target: ``python -m bench.nnrp_tap MODE PORT``, where PORT is the server's.

``bare`` is the yardstick: the shortest tap that asyncio allows, a protocol on each side that writes what it
receives to the other. ``tap`` is teeline's with an inspector that reads nothing, ``inspect`` with the one in
use; both tell nobody.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, cast

from bench.process import serve_until_input_ends
from teeline.proxy.clock import SystemClock
from teeline.proxy.memory import Inspectors
from teeline.proxy.nnrp import watch as watching
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.tap import NnrpTap
from teeline.proxy.nnrp.watch import Watch
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout
from teeline.validators.events import Output
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.policy import Policy
from teeline.validators.rules import register


class Bare(asyncio.Protocol):
    """One side of a connection pair; the client's side makes the other one."""

    other: asyncio.Transport | None = None

    def __init__(self, port: int = 0, other: asyncio.Transport | None = None) -> None:
        self._port = port
        self.other = other

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.other is None:
            self.transport.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        to, _ = await loop.create_connection(
            lambda: Bare(other=self.transport), "127.0.0.1", self._port
        )
        self.other = to
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


class NoInspector:
    """Takes bytes and looks at none."""

    pending = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def feed(self, *_: Any) -> Sequence[Output]:
        return ()

    finish = tick = close = feed


async def main(mode: str, port: int) -> None:
    if mode == "bare":
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Bare(port), "127.0.0.1", 0)
        await serve_until_input_ends(server.sockets[0].getsockname()[1])
        return
    if mode == "tap":
        # A watch takes no other inspector as an argument; this is the name of the one in use.
        vars(watching)["NnrpInspector"] = NoInspector
    clock = SystemClock()
    observers = Observers(Inspectors(), Policy(register()), Fanout(()), clock)

    def watch(client: str) -> Watch:
        return Watch(observers, clock, DEFAULT_LIMITS, None, upstream="nnrp", client=client)

    tap = NnrpTap(Address("127.0.0.1", 0), Address("127.0.0.1", port), watch)
    await serve_until_input_ends((await tap.start()).port)
    await tap.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
