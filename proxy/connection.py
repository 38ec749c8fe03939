"""A client's connection, with the upstream connection behind it.

What belongs here: the client side's protocol, the pairing of the two (one upstream connection a
client connection, opened on its first request, closed with it), requests that wait for their turn,
and how a connection ends. What doesn't: one exchange (transfer.py), and the framing of messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, cast

from teeline.proxy import answers, pieces
from teeline.proxy.accept import Accepted
from teeline.proxy.form import Usual
from teeline.proxy.head import RequestHead
from teeline.proxy.parse import HeadError, HeadReader
from teeline.proxy.sockets import is_reset, keep_alive, reset_on_close
from teeline.proxy.upstream import Upstream, UpstreamConnection, UpstreamError

log = logging.getLogger("teeline.connection")

_LINGER = 2.0
"""Seconds in which a client may read an answer that ended its request early."""

_GRACE = 0.5
"""Seconds in which something has to come for a client that sends no more."""
_WATCH = 0.5
"""Seconds between two looks at a client that is not read from."""

# Why nothing is read from a client just now.
_WAITING = 1
"""It sent ahead more than may wait: its earlier request is still being answered."""
_FULL = 2
"""The upstream takes no more."""


class Exchange(Protocol):
    """What a connection asks of the exchange under way on it."""

    @property
    def uploading(self) -> bool: ...

    @property
    def received(self) -> int:
        """Grows with what the client is sent."""

    def request_bytes(self, data: bytes) -> bytes:
        """Takes bytes of the request; gives those behind it."""

    def connected(self, upstream: UpstreamConnection) -> None: ...

    def not_connected(self, answer: answers.Answer) -> None: ...

    def client_eof(self) -> bool:
        """The client sends no more; whether it may still read."""

    def client_lost(self) -> None: ...

    def failed(self, error: Exception) -> None: ...

    def cut_off(self) -> None:
        """The proxy stops: ends the exchange for a reason that is neither peer's."""


class Clients:
    """The connections of one listening address, and what they have in common.

    ``begin`` starts the exchange of a request that has come to the end of its head; it gives the
    bytes behind that request. ``on_closed`` is called for each connection that has ended.
    ``head_limit`` is in bytes, ``head_timeout`` in seconds: what the
    rest of a head gets once its first byte has come.
    """

    def __init__(
        self,
        begin: Callable[[ClientConnection, RequestHead, bytes], bytes],
        *,
        on_closed: Callable[[], None],
        head_limit: int,
        head_timeout: float | None,
    ) -> None:
        self.begin = begin
        self.on_closed = on_closed
        self.head_limit = head_limit
        self.head_timeout = head_timeout
        self.stopping = False
        self.usual = Usual()
        self.open: set[ClientConnection] = set()

    def __call__(self) -> ClientConnection:
        return ClientConnection(self)


class ClientConnection(Accepted, asyncio.BufferedProtocol):
    """One connection of a client."""

    __slots__ = (
        "_behind",
        "_clients",
        "_closing",
        "_connecting",
        "_full",
        "_held",
        "_late",
        "_reader",
        "_unread",
        "exchange",
        "half_closed",
        "host",
        "transport",
        "upstream",
    )

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self.accepted = False
        self.exchange: Exchange | None = None
        self.host = ""
        self.half_closed = False
        """Whether the client sends no more."""
        self.upstream: Upstream | None = None
        self._behind: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._reader = HeadReader(clients.head_limit, clients.usual)
        self._held = b""
        self._unread = 0
        self._full = False
        self._late: asyncio.TimerHandle | None = None
        self._closing = False

    # -- what the transport tells ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.accepted = True
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else ""
        keep_alive(self.transport)
        self._clients.open.add(self)
        if self._clients.stopping:
            self.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return pieces.BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.received(pieces.BUFFER[:nbytes].tobytes())

    def received(self, data: bytes) -> None:
        """Bytes of the client: of a request under way, of its next one, or of no use any more."""
        exchange = self.exchange
        try:
            if exchange is None:
                if not self._closing:
                    self._read_head(data)
            elif exchange.uploading:
                if rest := exchange.request_bytes(data):
                    self._hold(rest)
            else:
                self._hold(data)
        except Exception as error:  # noqa: BLE001  said by its kind, and only this connection ends
            self._failed(error)

    def eof_received(self) -> bool:
        self.half_closed = True
        exchange = self.exchange
        if exchange is None:
            return False
        try:
            stays = exchange.client_eof()
            if stays and self.exchange is exchange:
                self._doubt(exchange)
        except Exception as error:  # noqa: BLE001  as above
            self._failed(error)
            return False
        return stays

    def _doubt(self, exchange: Exchange) -> None:
        """Gives a client that sends no more a moment to show whether it still reads."""
        self._cancel_late()
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(_GRACE, self._decide, exchange, exchange.received)

    def _decide(self, exchange: Exchange, before: int) -> None:
        self._late = None
        # Whoever is gone answers bytes with a reset; where none were sent, nobody knows, and nearly
        # everybody who sends no more is gone.
        if self.exchange is exchange and (exchange.received == before or is_reset(self.transport)):
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._clients.open.discard(self)
        self._closing = True
        self._cancel_late()
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_lost()
        self.drop_upstream()
        self._clients.on_closed()

    def pause_writing(self) -> None:
        self._full = True
        if self._behind is not None:
            self._behind.transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        if self._behind is not None:
            self._behind.transport.resume_reading()

    # -- requests ----------------------------------------------------------------------------------

    def _read_head(self, data: bytes) -> None:
        try:
            found = self._reader.request(data)
        except HeadError as error:
            self._refuse(answers.HEAD_TOO_LARGE if error.too_large else answers.BAD_REQUEST)
            return
        if found is None:
            self._limit_head()
            return
        if self._late is not None:
            self._cancel_late()
        if rest := self._clients.begin(self, *found):
            self._hold(rest)

    def _limit_head(self) -> None:
        """Gives the rest of a head its time; a connection between requests has all of it."""
        limit = self._clients.head_timeout
        if limit is not None and self._late is None and self._reader.begun:
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(limit, self._refuse, answers.HEAD_TIMEOUT)

    def _cancel_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, answer: answers.Answer) -> None:
        """Answers what is no request."""
        log.info("a request from %s was answered %d %s", self.host, answer.status, answer.code)
        self.transport.write(answer.encode())
        self.close(linger=True)

    def _hold(self, data: bytes) -> None:
        """Keeps bytes that were sent ahead until it is their turn."""
        if self._closing:
            return
        if self.exchange is None and not self._held:
            self._read_head(data)
            return
        self._held += data
        if len(self._held) > pieces.SIZE:
            self._pause(_WAITING)

    def take_held(self) -> bytes:
        """What was sent ahead, which is no longer kept here."""
        held, self._held = self._held, b""
        self._resume(_WAITING)
        return held

    def next(self) -> None:
        """The exchange is over, and the connection goes on: to what was sent ahead, if anything."""
        self.exchange = None
        if self._held:
            self.received(self.take_held())
        elif self._clients.stopping or self.half_closed:
            self.close()

    # -- the connection behind ---------------------------------------------------------------------

    def behind(self, upstream: Upstream) -> UpstreamConnection | None:
        """The connection to this upstream; without one it is opened, and the exchange told.

        A request for another upstream than the last gets a new one.
        """
        behind = self._behind
        if behind is not None and self.upstream is upstream and not behind.lost:
            return behind
        self.drop_upstream()
        self.upstream = upstream
        self._connecting = asyncio.get_running_loop().create_task(self._connect(upstream))
        return None

    async def _connect(self, upstream: Upstream) -> None:
        try:
            behind = await upstream.connect(self)
        except UpstreamError as error:
            self._connecting = None
            if self.exchange is not None:
                self.exchange.not_connected(error.answer)
            return
        except Exception as error:  # noqa: BLE001  said by its kind, and only this connection ends
            self._connecting = None
            self._failed(error)
            return
        self._connecting = None
        self._behind = behind
        if self.exchange is None or behind.lost:
            self.drop_upstream()
            return
        if self._full:
            behind.transport.pause_reading()
        try:
            self.exchange.connected(behind)
        except Exception as error:  # noqa: BLE001  as above
            self._failed(error)

    def drop_upstream(self) -> None:
        """Ends the connection behind this one, and with it what the upstream is still doing."""
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        behind, self._behind = self._behind, None
        if behind is not None:
            behind.abort()

    def upstream_lost(self, lost: UpstreamConnection) -> None:
        """Mirrors the end of the connection behind this one; within an exchange that does it."""
        if lost is self._behind:
            self._behind = None
            if self.exchange is None:
                self.close()

    # -- back-pressure -----------------------------------------------------------------------------

    def upstream_full(self, full: bool) -> None:
        """Stops reading while the upstream takes no more, and goes on when it does."""
        if full:
            self._pause(_FULL)
        else:
            self._resume(_FULL)

    def _pause(self, reason: int) -> None:
        if not self._unread and not self.half_closed and not self.transport.is_closing():
            self.transport.pause_reading()
            self._watch()
        self._unread |= reason

    def _watch(self) -> None:
        """Looks now and then whether a client that is not read from is still there."""
        if self._late is None:
            self._late = asyncio.get_running_loop().call_later(_WATCH, self._look)

    def _look(self) -> None:
        self._late = None
        if self._unread and not self.transport.is_closing():
            if is_reset(self.transport):
                self.transport.abort()
            else:
                self._watch()

    def _resume(self, reason: int) -> None:
        if self._unread & reason:
            self._unread &= ~reason
            if not self._unread:
                self._cancel_late()
            # Behind the client's end there is nothing to read but that end, once more.
            if not self._unread and not self.half_closed and not self.transport.is_closing():
                self.transport.resume_reading()

    # -- ends --------------------------------------------------------------------------------------

    def close(self, *, linger: bool = False) -> None:
        """Ends both connections in good order, once all is out that was written.

        ``linger``: the client may still be sending. Its bytes are read and dropped for a moment,
        for closing on unread bytes is a reset, which may take the answer from under the client.
        """
        linger = linger or bool(self._held)
        self.exchange = None
        self._held = b""
        self.drop_upstream()
        if self.transport.is_closing():
            return
        linger = linger and not self.half_closed and self.transport.can_write_eof()
        if not linger or self._closing:
            self._closing = True
            self._cancel_late()
            self.transport.close()
            return
        self._closing = True
        self._cancel_late()
        self.transport.write_eof()
        self._resume(_WAITING | _FULL)
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(_LINGER, self.transport.close)

    def break_off(self, *, reset: bool = False) -> None:
        """Ends both connections so that no peer takes a message for complete.

        What was written before still goes out; then the connection closes short of its framing.
        ``reset`` is for a body that has no other end than the connection's: a clean close would end
        it.
        """
        if reset and not self.transport.is_closing():
            reset_on_close(self.transport)
            self.abort()
        else:
            self.close()

    def abort(self) -> None:
        """Ends both connections at once, whatever is still to be written."""
        self._closing = True
        self.drop_upstream()
        self.transport.abort()

    def stop(self) -> None:
        """The proxy stops: a connection without an exchange closes, another behind its answer."""
        if self.exchange is None:
            self.close()

    def _failed(self, error: Exception) -> None:
        """Our own code failed. No answer could be right, and none is made up."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.failed(error)
        else:
            say_failed(self.host, error)
        self.break_off()


def say_failed(host: str, error: Exception) -> None:
    """Logs the kind of a failure of our own; its text may hold what a peer sent."""
    log.error("connection of %s failed: %s", host, type(error).__name__)
