"""The way to an upstream: the connection behind one client connection, and what can go wrong on it.

What belongs here: connecting, the upstream side's protocol, and every failure to connect as an
``UpstreamError``. What doesn't: what is forwarded (transfer.py, head.py).
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from typing import Protocol, cast

from aiohappyeyeballs import start_connection

from teeline.config.model import UpstreamConfig
from teeline.proxy import answers, outbound, pieces, sockets, tls
from teeline.proxy.form import Usual
from teeline.proxy.parse import HeadReader

_HAPPY_EYEBALLS = 0.25


class UpstreamError(Exception):
    """There is no connection; ``answer`` goes to the client."""

    def __init__(self, answer: answers.Answer) -> None:
        super().__init__(answer.code)
        self.answer = answer


class Receiver(Protocol):
    """What an exchange does with what its upstream does."""

    @property
    def uploading(self) -> bool:
        """Whether the request is still being sent."""

    def answer_bytes(self, data: bytes) -> None: ...

    def answer_eof(self) -> None:
        """The upstream sends no more."""

    def upstream_lost(self, exc: BaseException | None) -> None:
        """The connection is over; ``exc`` is None where it was closed in good order."""

    def failed(self, error: Exception) -> None:
        """Our own code failed."""


class Owner(Protocol):
    """Whose connection to an upstream it is."""

    def upstream_lost(self, lost: UpstreamConnection) -> None:
        """The connection is over, from whichever side; told once."""

    def upstream_full(self, full: bool) -> None:
        """The upstream takes bytes more slowly than they come, or again as fast."""


class Unowned:
    """The owner of a connection that is only tried."""

    def upstream_lost(self, lost: UpstreamConnection) -> None:
        """Nobody minds."""

    def upstream_full(self, full: bool) -> None:
        """Nothing is sent."""


class Upstream:
    """One relay of the configuration: where it is and how to get there.

    Raises TLSFilesError where a file of its certificates can't be used.
    """

    def __init__(self, config: UpstreamConfig) -> None:
        self.name = config.name
        self.url = config.url
        self.timeouts = config.timeouts
        self.timed = config.timeouts.armed
        self.usual = Usual()
        self.authority = config.url.authority.encode("ascii")
        self.base = config.url.path.encode("ascii")
        self.prefix = config.prefix.encode("ascii")
        self._tls = tls.towards_upstream(config.tls) if config.url.scheme == "https" else None
        self._server_name = config.tls.server_name if config.tls is not None else None
        self._is_address = _is_address(config.url.host)
        self._proxy = outbound.proxy_of(config, os.environ)

    async def connect(self, owner: Owner) -> UpstreamConnection:
        """Opens a connection. Raises UpstreamError."""
        try:
            async with asyncio.timeout(self.timeouts.connect):
                return await self._connect(owner)
        except TimeoutError:
            raise UpstreamError(answers.CONNECT_TIMEOUT) from None
        except ssl.SSLError:
            raise UpstreamError(answers.TLS_FAILED) from None
        except (OSError, UnicodeError):
            raise UpstreamError(answers.UNREACHABLE) from None

    async def _connect(self, owner: Owner) -> UpstreamConnection:
        connection = UpstreamConnection(owner)
        loop, url = asyncio.get_running_loop(), self.url
        name = (self._server_name or url.host) if self._tls is not None else None
        if self._proxy is not None:
            try:
                await outbound.connect(self._proxy, url, connection, self._tls, name)
            except outbound.ProxyError:
                raise UpstreamError(answers.PROXY_FAILED) from None
            return connection
        if self._is_address:
            await loop.create_connection(
                lambda: connection, url.host, url.port, ssl=self._tls, server_hostname=name
            )
            return connection
        sock = await self._race(loop)
        try:
            await loop.create_connection(
                lambda: connection, sock=sock, ssl=self._tls, server_hostname=name
            )
        except BaseException:
            sock.close()
            raise
        return connection

    async def _race(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        """A socket that is connected to whichever of a name's addresses answers first (RFC 8305).

        Not asyncio's own race: other event loops have none.
        """
        url = self.url
        infos = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        return await start_connection(infos, happy_eyeballs_delay=_HAPPY_EYEBALLS, interleave=1)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class UpstreamConnection(asyncio.BufferedProtocol):
    """One connection to an upstream; exchanges follow each other on it, never overlapping."""

    __slots__ = ("_owner", "exchange", "lost", "reader", "transport")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.reader: HeadReader | None = None
        self.exchange: Receiver | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        sockets.keep_alive(self.transport)

    def read_heads(self, limit: int, usual: Usual) -> HeadReader:
        """The ``reader`` of its answers' heads from here on, of at most so many bytes each; ``usual`` is
        what connections to the same upstream have in common.
        """
        reader = self.reader = HeadReader(limit, usual)
        return reader

    def abort(self) -> None:
        """Ends the connection at once, and with it what the upstream is still doing."""
        self.exchange = None
        self.transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return pieces.BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        exchange = self.exchange
        if exchange is None:
            # Nobody asked: it would be taken for the answer to the next request.
            self.transport.abort()
            return
        try:
            exchange.answer_bytes(pieces.BUFFER[:nbytes].tobytes())
        except Exception as error:  # noqa: BLE001  said by its kind, and only this exchange ends
            exchange.failed(error)

    def eof_received(self) -> bool:
        exchange = self.exchange
        if exchange is not None:
            try:
                exchange.answer_eof()
            except Exception as error:  # noqa: BLE001  as above
                exchange.failed(error)
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = True
        exchange = self.exchange
        if exchange is not None and exc is not None and exchange.uploading:
            self._rescue(exchange)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.upstream_lost(exc)
        self._owner.upstream_lost(self)

    def _rescue(self, exchange: Receiver) -> None:
        """Reads the answer of an upstream that took no more of the request.

        It may have answered (413, 401) and closed; the write that fails for that ends the
        transport before it reads what has come.
        """
        try:
            for data in sockets.left_unread(self.transport):
                if self.exchange is not exchange:
                    return
                exchange.answer_bytes(data)
        except Exception as error:  # noqa: BLE001  as above
            exchange.failed(error)

    def pause_writing(self) -> None:
        self._owner.upstream_full(True)

    def resume_writing(self) -> None:
        self._owner.upstream_full(False)
