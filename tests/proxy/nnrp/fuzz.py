"""``python -m tests.proxy.nnrp.fuzz [COUNT] [SEED]``: broken NNRP connections through a tap, on real sockets.

Every byte of both sides arrives, whatever the bytes are; no observer fails; each exchange that is opened is
closed. What the checks say of the same connections: ``python -m tests.validators.nnrp.fuzz``.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from dataclasses import dataclass, field

from teeline.proxy.nnrp.address import Address
from teeline.proxy.tee import UNINSPECTED
from teeline.validators.model import Side
from teeline.validators.nnrp.examples import Conversation
from tests.proxy.nnrp.peers import Kept, tapping
from tests.validators.nnrp.fuzz import Mutator

AT_ONCE = 8


@dataclass
class Figures:
    """What came of it. ``wrong`` are connections whose bytes arrived changed, or not at all."""

    connections: int = 0
    bytes: int = 0
    wrong: list[int] = field(default_factory=list)
    exchanges: int = 0
    findings: int = 0
    unclosed: int = 0
    failed: int = 0

    @property
    def right(self) -> bool:
        return not (self.wrong or self.unclosed or self.failed)


class _Peers:
    """A server that says what belongs to the connection that is next, and clients for it."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._due: deque[tuple[bytes, asyncio.Future[bytes]]] = deque()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        says, heard = self._due.popleft()
        _, all_of_it = await asyncio.gather(self._say(writer, says), reader.read(-1))
        heard.set_result(all_of_it)
        writer.close()

    async def _say(self, writer: asyncio.StreamWriter, says: bytes) -> None:
        """In pieces of any size, then the end."""
        at = 0
        while at < len(says):
            size = self._chance.choice([1, 7, 100, 1000, 65_536])
            writer.write(says[at : at + size])
            at += size
            await asyncio.sleep(0)
        writer.write_eof()

    async def talk(self, port: int, ours: bytes, theirs: bytes) -> bool:
        """One connection; whether both sides heard what the other one said."""
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._due.append((theirs, heard))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        _, answer = await asyncio.gather(self._say(writer, ours), reader.read(-1))
        writer.close()
        return (answer, await heard) == (theirs, ours)


async def forwarded(variants: list[Conversation], seed: int) -> Figures:
    """Sends connections through a tap, one after the other in each of a few lanes."""
    figures, kept = Figures(), Kept()
    queue = deque(enumerate(variants))
    taps = []

    async def lane(number: int) -> None:
        # A server and a tap a lane: whose turn it is must not depend on who connects first.
        peers = _Peers(seed + number)
        server = await asyncio.start_server(peers.serve, "127.0.0.1", 0)
        upstream = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        tap, observers = tapping(upstream, Address("127.0.0.1", 0), [kept])
        taps.append((tap, observers, server))
        port = (await tap.start()).port
        while queue:
            n, variant = queue.popleft()
            ours, theirs = (
                b"".join(s.data for s in variant.sent if s.side is side) for side in Side
            )
            figures.connections += 1
            figures.bytes += len(ours) + len(theirs)
            if not await peers.talk(port, ours, theirs):
                figures.wrong.append(n)

    await asyncio.gather(*map(lane, range(AT_ONCE)))
    for tap, observers, server in taps:
        await tap.stop()
        await observers.settle(5.0)
        server.close()
        figures.failed += len(observers._logged)
    figures.exchanges, figures.findings = len(kept.opened_), len(kept.rules)
    figures.unclosed = len(kept.opened_) - len(kept.closed_)
    figures.failed += sum(exchange.inspection == UNINSPECTED for exchange in kept.closed_)
    return figures


def main(count: int, seed: int) -> int:
    figures = asyncio.run(forwarded(list(Mutator(seed).variants(count)), seed))
    sys.stderr.write(
        f"{figures.connections} connections, {figures.bytes} bytes, seed {seed}: "
        f"{len(figures.wrong)} changed, {figures.exchanges} exchanges, {figures.unclosed} not closed, "
        f"{figures.findings} findings, {figures.failed} observers failed\n"
    )
    for n in figures.wrong:
        sys.stdout.write(f"variant {n} of seed {seed}\n")
    return 0 if figures.right else 1


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*(numbers + [5_000, 1][len(numbers) :])))
