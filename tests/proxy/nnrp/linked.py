"""A server's connection without a socket: what it is fed, what it writes, and a service behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from teeline.proxy.nnrp.serverconnection import ServerConnection
from teeline.proxy.nnrp.serverlimits import Room, ServerLimits
from teeline.proxy.nnrp.serverreply import Reply
from teeline.proxy.nnrp.submit import Submit
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    Message,
    Packet,
    Splitter,
)
from teeline.validators.wire.nnrpcodes import (
    ErrorCode,
    ErrorScope,
)
from teeline.validators.wire.nnrplayout import (
    error_meta,
    payload_start,
    prelude_of,
)

DOCUMENT = b'{"type":"response.completed","body":{}}'
Answer = Callable[[Submit, Reply], Awaitable[None]]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


class FakeLink:
    """Keeps what was written; ``full`` holds those back who wait for room."""

    def __init__(self) -> None:
        self._splitter = Splitter(1 << 24)
        self.packets: list[Packet] = []
        self.closed = self.aborted = False
        self.room = asyncio.Event()
        self.room.set()
        self.news = asyncio.Event()

    def write(self, packet: bytes) -> None:
        self.packets += self._splitter.feed(packet)
        self.news.set()

    @property
    def writable(self) -> bool:
        return self.room.is_set()

    async def drain(self) -> None:
        await self.room.wait()

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    async def until(self, kind: Message) -> Packet:
        """The first packet of a kind that was not asked for before; it is taken out."""
        while True:
            for packet in self.packets:
                if packet.type == kind:
                    self.packets.remove(packet)
                    return packet
            self.news.clear()
            await self.news.wait()


class Serves:
    """A service that answers as a test says; by default with one event and its end."""

    def __init__(self, answer: Answer | None = None) -> None:
        self._answer = answer
        self.submits: list[Submit] = []
        self.cancelled = 0

    async def serve(self, submit: Submit, reply: Reply) -> None:
        self.submits.append(submit)
        try:
            if self._answer is not None:
                await self._answer(submit, reply)
                return
            await reply.event(b'{"type":"response.usage","usage":{}}')
            reply.end(DOCUMENT, 200)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def forever(submit: Submit, reply: Reply) -> None:
    await asyncio.Event().wait()


class Server:
    """A connection with an open session, unless ``greet`` is false."""

    def __init__(
        self, service: Serves | None = None, limits: ServerLimits | None = None, greet: bool = True
    ) -> None:
        self.link, self.service = FakeLink(), service or Serves()
        limits = limits or ServerLimits()
        self.room = Room(limits.operations)
        self.connection = ServerConnection(self.link, self.service, limits, self.room)
        if greet:
            self.says(encode.client_hello(), encode.session_open(4))
            self.link.packets.clear()

    def says(self, *packets: bytes) -> None:
        for packet in packets:
            self.connection.feed(packet)

    def submit(self, frame: int = 1, operation: int = 1001, session: int = 1) -> None:
        self.says(encode.frame_submit(session, frame, operation, b"{}"))


def document(packet: Packet) -> dict[str, Any]:
    prelude = prelude_of(packet.body)
    assert prelude is not None
    value: dict[str, Any] = json.loads(packet.body[payload_start(prelude) :])
    return value


def error_of(packet: Packet) -> tuple[ErrorCode, ErrorScope]:
    meta = error_meta(packet.meta)
    return ErrorCode(meta.code), ErrorScope(meta.scope)
