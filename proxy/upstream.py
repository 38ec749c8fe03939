"""The way to an upstream: the connection behind one client connection, and what can go wrong on it.

What belongs here: connecting, sending a request's bytes, reading answers as head and pieces, and
every failure as an ``UpstreamError``. What doesn't: what is forwarded (forward.py, head.py).
aiohttp's parser and its buffered protocol are used without its ClientSession, which sends fields of
its own, retries idempotent requests, keeps a pool and swallows 1xx answers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple

from aiohttp.client_exceptions import ClientError, ClientOSError, ClientPayloadError
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import EofStream, StreamReader

from teeline.config.model import UpstreamConfig
from teeline.proxy import answers
from teeline.proxy.head import Fields
from teeline.validators.model import Ended

BUFFER = 64 * 1024
"""Bytes of a body that wait for the other side at most twice over, on each side of a connection."""
MAX_LINE = 64 * 1024
"""Bytes of a request line, status line or header field that the parser takes."""
MAX_FIELDS = 256
"""Header fields of a head that the parser takes."""


class UpstreamError(Exception):
    """There is no answer, or no more of it. Before its head ``answer`` goes to the client."""

    def __init__(self, answer: answers.Answer, ended: Ended | None = None) -> None:
        super().__init__(answer.code)
        self.answer = answer
        self.ended = ended or answer.ended
        """How an exchange has ended whose answer this breaks off."""


class AnswerHead(NamedTuple):
    """The head of an answer, 1xx included. ``persistent``: the connection goes on behind it."""

    status: int
    reason: bytes
    fields: Fields
    chunked: bool
    persistent: bool


class Upstream:
    """One relay of the configuration: where it is and how to get there."""

    def __init__(self, config: UpstreamConfig) -> None:
        self.name = config.name
        self.url = config.url
        self.timeouts = config.timeouts
        self.authority = config.url.authority.encode("ascii")
        self.base = config.url.path.encode("ascii")
        self.prefix = config.prefix.encode("ascii")
        self._tls = _tls_context() if config.url.scheme == "https" else None

    async def connect(self, on_lost: Callable[[UpstreamConnection], None]) -> UpstreamConnection:
        """Opens a connection; ``on_lost`` is called with it when it ends, from whichever side.

        Raises UpstreamError.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.timeouts.connect):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(loop, on_lost),
                    self.url.host,
                    self.url.port,
                    ssl=self._tls,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise UpstreamError(answers.CONNECT_TIMEOUT) from None
        except ssl.SSLError:
            raise UpstreamError(answers.TLS_FAILED) from None
        except (OSError, UnicodeError):
            raise UpstreamError(answers.UNREACHABLE) from None
        return connection


class UpstreamConnection(ResponseHandler):
    """One connection to an upstream; exchanges follow each other on it, never overlapping.

    For each: ``begin``, write to ``writer``, ``read_head`` until a final one, ``read_piece`` until
    it gives nothing, ``finish``.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_lost: Callable[[UpstreamConnection], None]
    ) -> None:
        super().__init__(loop)
        self._on_lost = on_lost
        self._body: StreamReader | None = None
        self.in_exchange = False
        self.lost: asyncio.Future[None] = loop.create_future()
        self.writer = StreamWriter(self, loop)

    def begin(self, method: str) -> None:
        """Makes ready for one exchange."""
        self.in_exchange = True
        self._body = None
        self.writer = StreamWriter(self, self._loop)
        self.set_response_params(
            skip_payload=method == "HEAD",
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=BUFFER,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_FIELDS,
        )

    def finish(self) -> bool:
        """Ends an exchange whose answer was read whole; true where the connection can be used
        again.
        """
        self.in_exchange = False
        self._body = None
        reusable = self.is_connected() and not self.should_close
        if not reusable:
            self.abort()
        return reusable

    async def read_head(self) -> AnswerHead:
        """The next head, 1xx or final. Raises UpstreamError."""
        try:
            message, body = await self.read()
        except HttpProcessingError:
            raise UpstreamError(answers.UNPARSABLE) from None
        except (ClientError, OSError, EofStream):
            raise UpstreamError(answers.CLOSED) from None
        if message.code == 101:
            # Upgrade was not passed on, so there is nothing to switch to (RFC 9110 15.2.2).
            raise UpstreamError(answers.UNPARSABLE)
        self._body = body
        return _head_of(message)

    async def read_piece(self) -> bytes:
        """What has arrived of the body, at least a byte; nothing at its end.

        Raises UpstreamError.
        """
        body = self._body
        assert body is not None
        try:
            piece = await body.readany()
        except (ClientError, HttpProcessingError, OSError, RuntimeError):
            # Bytes that came before the break are the client's; aiohttp's readany withholds them.
            if rest := body._read_nowait(-1):
                return rest
            raise UpstreamError(answers.CLOSED, Ended.UPSTREAM_ABORTED) from None
        if not piece and isinstance(self.exception(), ClientOSError):
            # A body that ends with the connection looks whole to the parser even after a reset.
            raise UpstreamError(answers.CLOSED, Ended.UPSTREAM_ABORTED)
        return piece

    def data_received(self, data: bytes) -> None:
        if data and not self.in_exchange:
            # Nobody asked: it would be taken for the answer to the next request.
            self.abort()
            return
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        body = self._body
        if body is not None and not body.is_eof() and body.exception() is None:
            # aiohttp forgets the body where its parser failed within it; its reader would wait
            # forever.
            body.set_exception(ClientPayloadError("connection lost"))
        self.lost.set_result(None)
        self._on_lost(self)


def _head_of(message: RawResponseMessage) -> AnswerHead:
    return AnswerHead(
        status=message.code,
        reason=message.reason.encode("utf-8", "surrogateescape"),
        fields=message.raw_headers,
        chunked=bool(message.chunked),
        persistent=not message.should_close,
    )


def _tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
