"""An NNRP server on its carriers: TCP, TLS, a Unix socket, and WebSocket on each of them.

What belongs here: listening, telling carriers apart, bytes from and to sockets, stopping. What doesn't: what
the bytes mean (serverconnection.py), what operations do (a ``Service``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web

from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.httplog import quiet
from teeline.proxy.nnrp.serverconnection import ServerConnection
from teeline.proxy.nnrp.serverlimits import Room, ServerLimits
from teeline.proxy.nnrp.serverreply import Service
from teeline.proxy.sockets import keep_alive

log = logging.getLogger("teeline.nnrp")

MAX_WAITING: Final = 64 * 1024
"""Bytes that wait for a WebSocket client before its operations do."""
_UPGRADE: Final = b"G"
"""What a WebSocket handshake begins with (GET), and no packet does (NNRP)."""


class ServerError(Exception):
    """The server can't start; the text is one line that says what to change."""


class NnrpServer:
    """Serves operations at an address. An object serves once: start, then stop."""

    def __init__(
        self,
        listen: Address,
        service: Service,
        *,
        tls: ssl.SSLContext | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self._listen, self._tls = listen, tls
        self._limits = limits or ServerLimits()
        self._room = Room(self._limits.operations)
        self._service = service
        self._server: asyncio.Server | None = None
        self._web: web.Server | None = None
        self._streams: set[ServerConnection] = set()
        self._sockets: set[ServerConnection] = set()
        self._doors: set[_Door] = set()
        self._upgrading: dict[asyncio.Transport | None, asyncio.TimerHandle] = {}

    @property
    def open_operations(self) -> int:
        """Operations that have not ended."""
        return self._room.open

    async def start(self) -> Address:
        """Begins to accept; where. Raises ServerError."""
        self._web = web.Server(self._websocket, access_log=None, logger=quiet("server"))
        try:
            self._server = await self._listen.listen(self._accepted, self._tls)
        except OSError as error:
            raise ServerError(f"can't listen on {self._listen}: {error.strerror}") from None
        if self._listen.path:
            return self._listen
        port: int = self._server.sockets[0].getsockname()[1]
        return Address(self._listen.host, port, tls=self._tls is not None)

    async def stop(self, deadline: float = 0.0) -> None:
        """Accepts no more, lets operations end for so many seconds, and closes every connection."""
        if self._server is not None:
            self._server.close()
        for door in list(self._doors):
            door.shut()
        for timer in self._upgrading.values():
            timer.cancel()
        open_ = self._streams | self._sockets
        await asyncio.gather(*(connection.shut_down(deadline) for connection in open_))
        if self._web is not None:
            await self._web.shutdown(1.0)
        if self._listen.path:
            Path(self._listen.path).unlink(missing_ok=True)

    # -- connections -----------------------------------------------------------------------------------

    def _accepted(self) -> asyncio.BaseProtocol:
        return _Door(self._limits.handshake, self._admitted, self._opened, self._doors.discard)

    def _admitted(self, door: _Door) -> bool:
        """Whether there is room for one more connection, whatever it will carry."""
        assert self._web is not None  # started
        open_ = len(self._doors) + len(self._streams) + len(self._web.connections)
        if open_ >= self._limits.connections:
            log.warning("refused a connection: %d are open", open_)
            return False
        self._doors.add(door)
        return True

    def _opened(self, transport: asyncio.Transport, first: bytes) -> None:
        """The first bytes are there: whoever reads this carrier gets them, and what follows."""
        assert self._web is not None  # started
        upgrade = first[:1] == _UPGRADE
        protocol = self._web() if upgrade else _Stream(self._stream, self._streams.discard)
        if upgrade:
            loop, patience = asyncio.get_running_loop(), self._limits.handshake
            self._upgrading[transport] = loop.call_later(patience, self._too_slow, transport)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(first)

    def _too_slow(self, transport: asyncio.Transport) -> None:
        """Whoever began an HTTP request has not made a WebSocket of it in time."""
        del self._upgrading[transport]
        transport.abort()

    def _stream(self, link: _Stream) -> ServerConnection:
        connection = ServerConnection(link, self._service, self._limits, self._room)
        self._streams.add(connection)
        return connection

    async def _websocket(self, request: web.BaseRequest) -> web.StreamResponse:
        """One WebSocket: each binary message is a packet."""
        if "Origin" in request.headers:
            # A page in a browser may open a WebSocket to any server that its user can reach.
            return web.Response(status=403, text="Not for pages in browsers.\n")
        socket = web.WebSocketResponse(max_msg_size=self._limits.body + 1, compress=False)
        if not socket.can_prepare(request):
            return web.Response(status=426, headers={"Upgrade": "websocket"})
        await socket.prepare(request)
        timer = self._upgrading.pop(request.transport, None)
        if timer is not None:
            timer.cancel()
        link = _WebSocket(socket, request.transport)
        connection = ServerConnection(link, self._service, self._limits, self._room)
        self._sockets.add(connection)
        try:
            async for message in socket:
                if message.type is not WSMsgType.BINARY:
                    break
                connection.feed(message.data)
                if not connection.between:
                    break  # a message is a packet, and this one was not
        finally:
            connection.lost()
            self._sockets.discard(connection)
            await link.finish()
        return socket


class _Door(asyncio.Protocol):
    """A connection that has said nothing yet."""

    def __init__(
        self,
        patience: float,
        admitted: Callable[[_Door], bool],
        opened: Callable[[asyncio.Transport, bytes], None],
        gone: Callable[[_Door], None],
    ) -> None:
        self._patience = patience
        self._admitted = admitted
        self._opened, self._gone = opened, gone
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._admitted(self):
            transport.abort()
            return
        keep_alive(transport)
        self._timer = asyncio.get_running_loop().call_later(self._patience, self.shut)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None  # made
        self._leave()
        self._opened(self._transport, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._leave()

    def _leave(self) -> None:
        self._gone(self)
        if self._timer is not None:
            self._timer.cancel()

    def shut(self) -> None:
        """Nobody waits for it any longer."""
        if self._transport is not None:
            self._transport.abort()


class _Stream(asyncio.Protocol):
    """A plain stream of packets: TCP, TLS, a Unix socket."""

    def __init__(
        self,
        connected: Callable[[_Stream], ServerConnection],
        gone: Callable[[ServerConnection], None],
    ) -> None:
        self._connect, self._gone = connected, gone
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connection = self._connect(self)

    def data_received(self, data: bytes) -> None:
        self._connection.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._writable.set()
        self._gone(self._connection)
        self._connection.lost()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def write(self, packet: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(packet)

    @property
    def writable(self) -> bool:
        return self._writable.is_set()

    async def drain(self) -> None:
        await self._writable.wait()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class _WebSocket:
    """A WebSocket; its writing is asynchronous, so that packets wait in line for a task."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self._socket, self._transport = socket, transport
        self._line: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._pump = asyncio.get_running_loop().create_task(self._send())

    def write(self, packet: bytes) -> None:
        if self._pump.done():
            return
        self._waiting += len(packet)
        if self._waiting > MAX_WAITING:
            self._writable.clear()
        self._line.put_nowait(packet)

    @property
    def writable(self) -> bool:
        return self._writable.is_set()

    async def drain(self) -> None:
        await self._writable.wait()

    def close(self) -> None:
        self._line.put_nowait(None)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _send(self) -> None:
        try:
            while (packet := await self._line.get()) is not None:
                await self._socket.send_bytes(packet)
                self._waiting -= len(packet)
                if self._waiting <= MAX_WAITING:
                    self._writable.set()
            await self._socket.close()
        except ConnectionError:
            return  # the client has gone; reading tells, too
        finally:
            self._writable.set()

    async def finish(self) -> None:
        """The client says nothing more: nothing is sent any longer."""
        self._pump.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pump
        await self._socket.close()
