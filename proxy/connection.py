"""A client's connection, with the upstream connection behind it.

What belongs here: the pairing of the two (one upstream connection a client connection, opened on
its first request, closed with it), answers to what can't be parsed, and how a connection is broken
off. What doesn't: what travels over the pair (forward.py). Parsing, pipelining and flow control are
those of aiohttp's ``RequestHandler``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from teeline.proxy import answers
from teeline.proxy.upstream import BUFFER, MAX_FIELDS, MAX_LINE, Upstream, UpstreamConnection

log = logging.getLogger("teeline.connection")

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_NO_ACCESS_LOG = logging.getLogger("teeline.access")
_NO_ACCESS_LOG.disabled = True
# Idle connections end when either side ends them, never by a clock of ours: a year, in seconds.
_NO_KEEPALIVE_TIMEOUT = 365 * 86400
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientServer(web.Server):
    """Makes a ``ClientConnection`` for each connection that is accepted, and knows those that
    are open.
    """

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, handler_cancellation=True)
        self.open: set[ClientConnection] = set()

    def __call__(self) -> RequestHandler:
        return ClientConnection(self)


class ClientConnection(RequestHandler):
    """One connection of a client. A client that leaves cancels the handler of its request."""

    def __init__(self, server: ClientServer) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=_NO_KEEPALIVE_TIMEOUT,
            access_log=_NO_ACCESS_LOG,
            auto_decompress=False,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_FIELDS,
            read_bufsize=BUFFER,
        )
        self._server = server
        self._wire: asyncio.Transport | None = None
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._upstream: Upstream | None = None
        self._behind: UpstreamConnection | None = None

    @property
    def host(self) -> str:
        """The client's address, without its port; empty where there is none."""
        peer = self.peername
        return str(peer[0]) if isinstance(peer, tuple) else ""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered or has been read."""
        return self._waiter is not None and not self._waiter.done()

    async def upstream(self, upstream: Upstream) -> UpstreamConnection:
        """The connection behind this one. A request for another upstream gets a new one.

        Raises UpstreamError.
        """
        behind = self._behind
        if behind is None or self._upstream is not upstream:
            self.drop_upstream()
            self._upstream = upstream
            self._behind = behind = await upstream.connect(self._upstream_lost)
        return behind

    def drop_upstream(self) -> None:
        """Ends the connection behind this one, and with it what the upstream is still doing."""
        behind, self._behind = self._behind, None
        if behind is not None:
            behind.abort()

    def break_off(self, *, reset: bool = False) -> None:
        """Ends both connections so that no peer takes a message for complete.

        What was written before still goes out; then the connection closes short of its framing.
        ``reset`` is for a body that has no other end than the connection's: a clean close would end
        it.
        """
        self.drop_upstream()
        if reset and self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.transport.abort()
        self.force_close()

    def abort(self) -> None:
        """Ends the connection at once, whatever is still to be written."""
        if self._wire is not None:
            self._wire.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wire = self.transport
        self._server.open.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.open.discard(self)
        # First the handler is cancelled, so that it takes this for the client's doing.
        super().connection_lost(exc)
        self.drop_upstream()
        self.gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        request = self._current_request
        if request is None or request.content.is_eof() or not self._messages:
            return
        if not isinstance(self._messages[-1][0], RawRequestMessage):
            # aiohttp queues the error of a body behind the request that waits for that body.
            request.content.set_exception(RequestPayloadError("malformed body"))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no request; the framework's own would quote it back."""
        if not isinstance(exc, HttpProcessingError):
            # Not the peer's fault but ours: no answer could be right, and none is made up.
            self.log_exception("request handler failed", exc_info=exc)
            self.break_off()
            return answers.Written()
        answer = answers.HEAD_TOO_LARGE if isinstance(exc, LineTooLong) else answers.BAD_REQUEST
        log.info("a request from %s was answered %d %s", self.host, answer.status, answer.code)
        return answers.Written(answer.encode())

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Logs the kind of a failure; its text and traceback may hold what a peer sent."""
        error = kw.get("exc_info")
        by_peer = isinstance(error, RequestPayloadError | HttpProcessingError | ConnectionError)
        level = logging.INFO if by_peer else logging.ERROR
        log.log(level, "connection of %s failed: %s", self.host, type(error).__name__)

    def _upstream_lost(self, lost: UpstreamConnection) -> None:
        """Mirrors the end of the connection behind this one; within an exchange forward.py does."""
        if lost is self._behind and not lost.in_exchange:
            self._behind = None
            self.force_close()
