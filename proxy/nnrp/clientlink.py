"""The way to an NNRP server: TCP, TLS, a Unix socket or WebSocket, as one thing that takes and brings bytes.

What belongs here: endpoints, connecting, writing without waiting, pausing what is read. What doesn't: what
the bytes mean (clientsession.py), how many connections there are (client.py).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol, Self

import aiohttp

from teeline.proxy.nnrp.address import Address
from teeline.proxy.sockets import keep_alive

log = logging.getLogger("teeline.nnrp")

WEBSOCKET_TARGET: Final = "/nnrp"
"""Where the native SDK serves WebSocket, unless an endpoint says otherwise."""
_UNSENT: Final = 16 * 1024 * 1024
"""Bytes that may wait to be sent before a link is congested: some whole requests."""
_CLOSE_SECONDS: Final = 2.0


class LinkError(Exception):
    """No connection came about; the text is one line that quotes no peer."""


class Receiver(Protocol):
    """Who gets what comes over a link. ``lost`` is called once, and nothing after it."""

    def received(self, data: bytes) -> None: ...

    def lost(self) -> None: ...


class Link(Protocol):
    """An open connection. Nothing here raises when the peer is gone: ``lost`` tells that."""

    @property
    def congested(self) -> bool:
        """Whether so much is left to send that no more should be written."""

    def write(self, data: bytes) -> None:
        """Sends a whole packet, or keeps it until it can be sent."""

    def pause(self) -> None:
        """Reads no more, so that the server feels a slow client. May be called twice."""

    def resume(self) -> None:
        """Reads on."""

    def close(self) -> None:
        """Ends the connection behind what was written."""

    def abort(self) -> None:
        """Ends the connection at once."""

    async def released(self) -> None:
        """Waits until nothing of an ended connection is left."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server is. ``target`` is a WebSocket's path and query, None for a plain stream."""

    address: Address
    target: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """``nnrp://``, ``nnrps://``, ``ws://`` and ``wss://HOST:PORT``, or ``unix:PATH``; ValueError.

        ``tcp://`` and ``tls://`` stand for the first two, ``HOST:PORT`` alone for the first.
        """
        scheme, mark, rest = text.partition("://")
        if not mark or scheme == "unix":
            return cls(Address.parse(text))
        if scheme in ("ws", "wss"):
            place, slash, path = rest.partition("/")
            target = f"/{path}" if slash and path else WEBSOCKET_TARGET
            return cls(Address.parse(f"{scheme}://{place}"), target)
        plain = {"nnrp": "tcp", "nnrps": "tls"}.get(scheme, scheme)
        if plain not in ("tcp", "tls"):
            raise ValueError(
                "an endpoint is nnrp://, nnrps://, ws:// or wss://HOST:PORT, or unix:PATH"
            )
        return cls(Address.parse(f"{plain}://{rest}"))

    def __str__(self) -> str:
        if self.address.path:
            return str(self.address)
        secure = self.address.tls
        place = str(self.address).removeprefix("tls://")
        if self.target is not None:
            return f"{'wss' if secure else 'ws'}://{place}{self.target}"
        return f"{'nnrps' if secure else 'nnrp'}://{place}"

    async def connect(
        self, receiver: Receiver, context: ssl.SSLContext | None, max_packet: int
    ) -> Link:
        """Connects, and brings what comes to ``receiver``. Raises LinkError.

        ``context`` is needed where the endpoint is encrypted; ``max_packet`` bounds a WebSocket's messages,
        in bytes.
        """
        try:
            if self.target is not None:
                return await _WebSocketLink.connect(self, receiver, context, max_packet)
            link = _StreamLink(receiver)
            await self.address.connect(lambda: link, context)
        except (OSError, aiohttp.ClientError) as error:
            raise LinkError(_words(error)) from None
        return link


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError | aiohttp.ClientSSLError):
        return "TLS failed, or the certificate is not trusted"
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return f"the WebSocket handshake was answered with status {error.status}"
    reason = error.strerror if isinstance(error, OSError) else None
    return reason or type(error).__name__


class _StreamLink(asyncio.Protocol):
    """A link over TCP, TLS or a Unix socket."""

    _transport: asyncio.Transport

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.congested = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_UNSENT)
        keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        self._receiver.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._receiver.lost()

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        # Reading must go on, or a paused connection would never learn that its peer has closed, too.
        self.resume()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    async def released(self) -> None:
        return  # ``lost`` is the last that comes of a transport


class _WebSocketLink:
    """A link over WebSocket: each packet is a binary message of its own."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        socket: aiohttp.ClientWebSocketResponse,
        receiver: Receiver,
    ) -> None:
        self._session, self._socket, self._receiver = session, socket, receiver
        self._unsent: deque[bytes] = deque()
        self._size = 0
        self._wanted, self._reading = asyncio.Event(), asyncio.Event()
        self._reading.set()
        self._closing = self._gone = self._aborted = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    @classmethod
    async def connect(
        cls, endpoint: Endpoint, receiver: Receiver, context: ssl.SSLContext | None, max_packet: int
    ) -> Self:
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        try:
            socket = await session.ws_connect(
                str(endpoint),
                ssl=context if context is not None else True,
                max_msg_size=max_packet,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
            )
        except BaseException:
            await session.close()
            raise
        return cls(session, socket, receiver)

    async def _run(self) -> None:
        """Lives as long as the connection; ``lost`` is told once nothing is left of it."""
        try:
            await self._carried()
            await self._socket.close()
        except asyncio.CancelledError:
            self._closing = True  # aborted: no closing handshake is waited for
        finally:
            await self._session.close()
            await self._socket.close()
            self._receiver.lost()

    async def _carried(self) -> None:
        """Reads and writes until one of the two ends."""
        loop = asyncio.get_running_loop()
        halves = {loop.create_task(self._read()), loop.create_task(self._write())}
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gone = True
            for half in halves:
                half.cancel()
            for result in await asyncio.gather(*halves, return_exceptions=True):
                if isinstance(result, Exception):
                    log.error("a WebSocket link failed: %s", type(result).__name__)

    async def _read(self) -> None:
        async for message in self._socket:
            await self._reading.wait()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return
            self._receiver.received(message.data)

    async def _write(self) -> None:
        while not (self._closing and not self._unsent):
            await self._wanted.wait()
            while self._unsent:
                data = self._unsent.popleft()
                try:
                    await self._socket.send_bytes(data)
                except (ConnectionError, aiohttp.ClientError):
                    return
                self._size -= len(data)
            if not self._closing:
                self._wanted.clear()

    @property
    def congested(self) -> bool:
        return self._size > _UNSENT

    def write(self, data: bytes) -> None:
        if self._gone or self._closing:
            return
        self._unsent.append(data)
        self._size += len(data)
        self._wanted.set()

    def pause(self) -> None:
        self._reading.clear()

    def resume(self) -> None:
        self._reading.set()

    def close(self) -> None:
        self._closing = True
        self._reading.set()
        self._wanted.set()

    def abort(self) -> None:
        if not self._aborted:
            self._aborted = True
            self._task.cancel()

    async def released(self) -> None:
        await asyncio.wait({self._task})
