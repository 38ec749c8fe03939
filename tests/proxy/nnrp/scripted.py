"""A server of NNRP in a few lines, whose every packet a test decides; and the bytes that both sides sent.

What belongs here: the handshake, and waiting for packets. What doesn't: what is promised (the tests), and
servers that behave (tests/clients/nnrp_sdk.py).
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    Message,
    Packet,
    Splitter,
)
from teeline.validators.wire.nnrplayout import (
    payload_start,
    prelude_of,
    submit_meta,
)
from tests.ports import free_port

Script = Callable[["Peer"], Awaitable[None]]
ENDED = (ConnectionError, asyncio.IncompleteReadError)


class Submit:
    """A FRAME_SUBMIT as its server reads it."""

    def __init__(self, packet: Packet) -> None:
        prelude = prelude_of(packet.body)
        assert prelude is not None
        self.session, self.frame = packet.session, packet.frame
        self.id = submit_meta(packet.meta).operation
        self.raw = packet.body[payload_start(prelude) :]
        self.envelope: dict[str, Any] = json.loads(self.raw)


class Peer:
    """One client at the server: what it sent, and ways to answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._splitter = Splitter(1 << 26)
        self._packets: list[Packet] = []
        self.heard, self.said = bytearray(), bytearray()

    async def packet(self) -> Packet:
        """The next packet; ConnectionError where the client has closed."""
        while not self._packets:
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionResetError
            self.heard += data
            self._packets += self._splitter.feed(data)
        return self._packets.pop(0)

    async def expect(self, kind: Message) -> Packet:
        packet = await self.packet()
        assert packet.type == kind, Message(packet.type).name
        return packet

    async def opened(self, in_flight: int = 4, session: int = 1) -> None:
        """Answers the handshake."""
        await self.expect(Message.CLIENT_HELLO)
        await self.send(encode.server_hello_ack(in_flight))
        await self.expect(Message.SESSION_OPEN)
        await self.send(encode.session_open_ack(session, in_flight))

    async def submit(self) -> Submit:
        return Submit(await self.expect(Message.FRAME_SUBMIT))

    async def send(self, data: bytes) -> None:
        self.said += data
        self._writer.write(data)
        await self._writer.drain()

    async def event(self, to: Submit, sequence: int, event: Any) -> None:
        data = json.dumps(event).encode() if not isinstance(event, bytes) else event
        await self.send(encode.partial_result(to.session, to.frame, to.id, sequence, data))

    async def result(self, to: Submit, document: Any, status: int = 200) -> None:
        data = json.dumps(document).encode() if isinstance(document, dict) else document
        await self.send(encode.result_push(to.session, to.frame, status, data))

    async def until_closed(self) -> list[Packet]:
        """Whatever still comes, acknowledging the close of the session."""
        packets = []
        try:
            while True:
                packet = await self.packet()
                packets.append(packet)
                if packet.type == Message.SESSION_CLOSE:
                    await self.send(encode.session_close_ack(packet.session, 0))
        except ENDED:
            return packets

    def reset(self) -> None:
        self._writer.transport.abort()


async def _bound(port: int) -> socket.socket:
    """A socket at a port that may have just been given back.

    A process that is being started has a copy of the one before it until it runs its own program.
    """
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            await asyncio.sleep(0.005)


class Server:
    """Runs a script for each connection; a script's failed assertion fails the test."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.port = 0
        self.listening: asyncio.Server | None = None
        self.peers: list[Peer] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def endpoint(self) -> str:
        return f"nnrp://127.0.0.1:{self.port}"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        peer = Peer(reader, writer)
        self.peers.append(peer)
        try:
            await self._script(peer)
        except (*ENDED, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async def restart(self) -> None:
        """Breaks every connection, is gone for a moment, and listens again on the same port."""
        self.refuse()
        for peer in self.peers:
            peer.reset()
        await asyncio.sleep(0.05)
        self.listening = await asyncio.start_server(self.accept, sock=await _bound(self.port))

    def refuse(self) -> None:
        """Takes no more connections."""
        assert self.listening is not None
        self.listening.close()

    async def settle(self) -> None:
        """Waits for all scripts; raises what one of them raised."""
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def nnrp_server(script: Script, port: int = 0) -> AsyncIterator[Server]:
    """A server at ``port``; without one, at a port that it may give back and take again."""
    server = Server(script)
    server.port = port or free_port()
    server.listening = await asyncio.start_server(server.accept, sock=await _bound(server.port))
    try:
        yield server
    finally:
        server.refuse()
    await server.settle()
