"""Opens a connection and a session with an NNRP server, and closes both again: what the server offers.

What belongs here: that one exchange, over TCP, TLS, a Unix socket or WebSocket. What doesn't: operations, and
what is wrong with the server's answers (validators/nnrp, which is given the bytes of both sides).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import aiohttp

from teeline.config.model import ListenAddress
from teeline.proxy.nnrp.address import Address
from teeline.proxy.pieces import SIZE
from teeline.validators.model import Side
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import METADATA_LENGTHS, Message, Packet, Splitter
from teeline.validators.wire.nnrpcodes import CloseReason
from teeline.validators.wire.nnrphello import (
    ServerHello,
    SessionGrant,
    server_hello,
    session_grant,
)

_KEPT: Final = 64 * 1024
_MOST_PACKETS: Final = 64
"""What a server may say before it answers."""
_WEBSOCKET: Final = ("ws://", "wss://")
_GOODBYE: Final = 1.0
"""Seconds that a server gets to answer SESSION_CLOSE."""


class OpeningError(Exception):
    """The server can't be reached or doesn't answer as one; the text is one line that says what happened."""


class Opening(NamedTuple):
    """What a server offered, and the bytes of both sides in their order.

    ``refusal`` is the server's own text where it refused the session: a peer's words.
    """

    hello: ServerHello
    session: SessionGrant
    refusal: str
    passed: list[tuple[Side, bytes]]


class _Carrier(Protocol):
    """A way to the server: packets go out whole, bytes come in; empty bytes are the end."""

    async def send(self, packet: bytes) -> None: ...

    async def receive(self) -> bytes: ...


async def open_once(url: str, context: ssl.SSLContext | None, timeout: float) -> Opening:
    """Opens and closes a session with the server at ``url``, within so many seconds.

    Raises OpeningError, ValueError for an address that is none.
    """
    connecting = _websocket(url, context) if url.startswith(_WEBSOCKET) else _stream(url, context)
    try:
        async with asyncio.timeout(timeout), connecting as carrier:
            return await _Talk(carrier).run()
    except TimeoutError:
        raise OpeningError(f"no answer within {timeout:g} s") from None
    except (OSError, aiohttp.ClientError) as error:
        words = getattr(error, "strerror", None) or type(error).__name__
        raise OpeningError(f"no connection: {words}") from None


class _Talk:
    """The packets of one opening, each waited for."""

    def __init__(self, carrier: _Carrier) -> None:
        self._carrier = carrier
        self._splitter = Splitter(_KEPT)
        self._left = _MOST_PACKETS
        self._passed: list[tuple[Side, bytes]] = []

    async def run(self) -> Opening:
        await self._send(encode.client_hello())
        hello = server_hello((await self._answer(Message.SERVER_HELLO_ACK)).meta)
        await self._send(encode.session_open(in_flight=1))
        answer = await self._answer(Message.SESSION_OPEN_ACK)
        session = session_grant(answer.meta)
        if session.session:
            await self._send(encode.session_close(session.session, 0, CloseReason.NORMAL))
            try:
                async with asyncio.timeout(_GOODBYE):
                    await self._answer(Message.SESSION_CLOSE_ACK)
            except (OSError, OpeningError):  # TimeoutError is one
                pass  # how a server takes its leave says nothing of what it offers
        refusal = "" if session.session else answer.body.decode("utf-8", "replace")
        return Opening(hello, session, refusal, self._passed)

    async def _send(self, packet: bytes) -> None:
        self._passed.append((Side.REQUEST, packet))
        await self._carrier.send(packet)

    async def _answer(self, kind: Message) -> Packet:
        """The next packet of this type; others are passed over. Raises OpeningError."""
        while True:
            while (packet := self._splitter.next()) is not None:
                self._left -= 1
                if packet.type == kind and len(packet.meta) == METADATA_LENGTHS[kind]:
                    return packet
                if packet.type in (kind, Message.ERROR, Message.CLOSE) or self._left < 0:
                    raise OpeningError(
                        f"no {kind.name} that can be read, but message {packet.type}"
                    )
            if self._splitter.lost is not None:
                raise OpeningError("what answers does not speak NNRP")
            data = await self._carrier.receive()
            if not data:
                raise OpeningError(f"the server closed before {kind.name}")
            self._passed.append((Side.RESPONSE, data))
            self._splitter.push(data)


@dataclass(slots=True)
class _Stream:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, packet: bytes) -> None:
        self.writer.write(packet)
        await self.writer.drain()

    async def receive(self) -> bytes:
        return await self.reader.read(SIZE)


@asynccontextmanager
async def _stream(url: str, context: ssl.SSLContext | None) -> AsyncIterator[_Carrier]:
    address = Address.parse(url)
    if address.path:
        reader, writer = await asyncio.open_unix_connection(address.path)
    else:
        tls = context if address.tls else None
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    try:
        yield _Stream(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)  # in which the transport lets go of its socket


@dataclass(slots=True)
class _Socket:
    """One packet a message; the messages' bytes are those of a plain stream."""

    socket: aiohttp.ClientWebSocketResponse

    async def send(self, packet: bytes) -> None:
        await self.socket.send_bytes(packet)

    async def receive(self) -> bytes:
        message = await self.socket.receive()
        return message.data if message.type is aiohttp.WSMsgType.BINARY else b""


@asynccontextmanager
async def _websocket(url: str, context: ssl.SSLContext | None) -> AsyncIterator[_Carrier]:
    scheme, _, rest = url.partition("://")
    ListenAddress.parse(rest.partition("/")[0])
    target = f"{'https' if scheme == 'wss' else 'http'}://{rest}"
    async with aiohttp.ClientSession() as session:
        connecting = session.ws_connect(target, max_msg_size=_KEPT, ssl=context or True, compress=0)
        async with connecting as socket:
            yield _Socket(socket)
