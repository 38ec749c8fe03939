"""Peers for tests of the tap: a client and a server that say what a conversation has them say."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

from teeline.proxy.clock import SystemClock
from teeline.proxy.memory import Inspectors
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.tap import NnrpTap
from teeline.proxy.nnrp.watch import Watch
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout
from teeline.proxy.sockets import reset_on_close
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.policy import Policy
from teeline.validators.rules import register

CAPTURES = Path(__file__).parents[2] / "cases" / "nnrp"


class Kept:
    """A sink that keeps what it was told."""

    name = "kept"

    def __init__(self) -> None:
        self.opened_: list[Exchange] = []
        self.closed_: list[Exchange] = []
        self.rules: list[str] = []

    async def start(self) -> None: ...

    def opened(self, event: Opened) -> None:
        self.opened_.append(event.exchange)

    def found(self, event: Found) -> None:
        self.rules.append(event.violation.rule.id)

    def closed(self, event: Closed) -> None:
        self.closed_.append(event.exchange)

    async def drain(self, deadline: float) -> None: ...

    async def close(self) -> None: ...


def capture(carrier: str) -> tuple[bytes, bytes]:
    """The bytes of client and server."""
    files = (CAPTURES / f"capture_{carrier}_{side}.bin" for side in ("c2s", "s2c"))
    client, server = (file.read_bytes() for file in files)
    return client, server


class Server:
    """Sends its bytes as soon as a client is there; keeps what came. ``reset``: it breaks the connection."""

    def __init__(self, says: bytes, reset: bool = False) -> None:
        self.says, self.reset = says, reset
        self.heard = b""
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heard = await reader.read(1)
            writer.write(self.says)
            await writer.drain()
            if self.reset:
                await asyncio.sleep(0.05)
                reset_on_close(writer.transport)
                writer.transport.abort()
                return
            self.heard += await reader.read(-1)
            writer.close()
        except OSError:
            pass
        finally:
            self.gone.set()


def tapping(
    upstream: Address, listen: Address, sinks: Sequence[Kept], **contexts: ssl.SSLContext | None
) -> tuple[NnrpTap, Observers]:
    """A tap between the two, and what it shares with its observers; ``contexts`` are its TLS."""
    fanout, clock = Fanout(sinks), SystemClock()
    observers = Observers(Inspectors(), Policy(register()), fanout, clock)

    def watch(client: str) -> Watch:
        return Watch(observers, clock, DEFAULT_LIMITS, None, upstream="nnrp", client=client)

    return NnrpTap(listen, upstream, watch, **contexts), observers
