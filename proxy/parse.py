"""Heads out of received bytes: llhttp decides whether they are valid, the bytes are what travels.

What belongs here: finding the end of a head, having llhttp (as aiohttp carries it) judge it, and
refusing it where parser and bytes don't say the same. What doesn't: what a head means (head.py).

Only heads go through llhttp. It never sees a body: aiohttp's parser would put each piece into a
StreamReader of its own, and gives no offsets, so the end of a message could not be found in the
bytes that travel. Bodies are framed by framing.py, which is stricter.

Who keeps a connection says the same on it again and again. A head with the bytes of the one before is
the one before; one that differs from it in values that can't be misread (``Head.varied``) needs no
parser either. The tests hold what is taken so against what llhttp takes.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from aiohttp.http import HttpRequestParser, HttpResponseParser
from aiohttp.http_exceptions import LineTooLong

from teeline.proxy.head import AnswerHead, FieldsError, RequestHead

MAX_HEAD: Final = 64 * 1024
"""Bytes of a head where nothing else is said."""
MAX_FIELDS: Final = 256
"""Fields of a head."""

_END: Final = b"\r\n\r\n"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: .*)?", re.DOTALL)
_VERSIONS: Final = frozenset({b"HTTP/1.0", b"HTTP/1.1"})
# Of our own limits none may be met by the parser first: it would call a long head a bad one.
_UNLIMITED: Final = 1 << 30
_REMEMBERED: Final = 4096
"""Bytes of a head that is remembered, at most: one on each connection."""


_Head = TypeVar("_Head", RequestHead, AnswerHead)


class HeadError(Exception):
    """What came is no head. ``too_large``: it may be one, but is longer than what is taken."""

    def __init__(self, *, too_large: bool = False) -> None:
        super().__init__("head too large" if too_large else "malformed head")
        self.too_large = too_large


class HeadReader:
    """Reads the heads of one side of a connection, one after the other, from the pieces in which
    they come. The fault of a head shows at once, also where its end has not come.

    ``limit`` is in bytes. What was remembered of a connection's heads is gone with its reader.
    """

    __slots__ = ("_last", "_last_bytes", "_limit", "_parser", "_received")

    def __init__(self, limit: int = MAX_HEAD) -> None:
        self._limit = limit
        self._received = b""
        self._parser: HttpRequestParser | HttpResponseParser | None = None
        self._last: RequestHead | AnswerHead | None = None
        self._last_bytes = b""

    @property
    def begun(self) -> bool:
        """Whether something of a head has come."""
        return bool(self._received)

    def request(self, data: bytes) -> tuple[RequestHead, bytes] | None:
        """The head and what stands behind it, once its end has come. Raises HeadError."""
        if not self._received:
            # Empty lines before a request are skipped, not forwarded (RFC 9112 2.2).
            while data.startswith(b"\r\n"):
                data = data[2:]
            if not data:
                return None
            if isinstance(self._last, RequestHead) and self._parser is None:
                again = self._again(data, self._last)
                if again is not None:
                    return again
        found = self._read(data, HttpRequestParser)
        if found is None:
            return None
        lines, message, received, rest = found
        parts = lines.pop(0).split(b" ")
        if len(parts) != 3 or parts[2] not in _VERSIONS:
            raise HeadError
        method, target, version = parts
        if message.method.encode() != method or _encode(message.path) != target:
            raise HeadError
        try:
            head = RequestHead(method, target, version, lines, message.raw_headers)
        except FieldsError:
            raise HeadError from None
        self._remember(received, head)
        return head, rest

    def answer(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """The head and what stands behind it, once its end has come. Raises HeadError."""
        if isinstance(self._last, AnswerHead) and self._parser is None:
            again = self._again(data, self._last)
            if again is not None:
                return again
        found = self._read(data, HttpResponseParser)
        if found is None:
            return None
        lines, message, received, rest = found
        start = lines.pop(0)
        match = _STATUS_LINE.fullmatch(start)
        if match is None or message.code != int(match[1]):
            raise HeadError
        try:
            head = AnswerHead(start, message.code, lines, message.raw_headers)
        except FieldsError:
            raise HeadError from None
        if head.status >= 200:
            self._remember(received, head)
        return head, rest

    def _remember(self, received: bytes, head: RequestHead | AnswerHead) -> None:
        if len(received) <= _REMEMBERED:
            self._last, self._last_bytes = head, received

    def _again(self, data: bytes, last: _Head) -> tuple[_Head, bytes] | None:
        """The head where it is the last one, or as good as that, and what stands behind it."""
        before = self._last_bytes
        if data.startswith(before):
            return last, data[len(before) :]
        end = data.find(_END) + 4
        if not 4 <= end <= min(_REMEMBERED, self._limit):
            return None
        start, *lines = data[: end - 4].split(b"\r\n")
        if not before.startswith(start + b"\r\n"):
            return None
        head = last.varied(lines)
        if head is None:
            return None
        self._last, self._last_bytes = head, data[:end]
        return head, data[end:]

    def _read(
        self, data: bytes, kind: type[HttpRequestParser] | type[HttpResponseParser]
    ) -> tuple[list[bytes], Any, bytes, bytes] | None:
        """Lines, llhttp's message, the head's bytes and what stands behind, once the end has come."""
        before = len(self._received)
        received = self._received + data if before else data
        end = received.find(_END, max(0, before - 3))
        if (end + 4 if end >= 0 else len(received)) > self._limit:
            raise HeadError(too_large=True)
        if self._parser is None:
            self._parser = kind(
                _PROTOCOL,
                _LOOP,
                1,
                max_line_size=_UNLIMITED,
                max_field_size=_UNLIMITED,
                max_headers=_UNLIMITED,
                response_with_body=False,
                auto_decompress=False,
            )
        message = _judged(self._parser, data if end < 0 else data[: end + 4 - before])
        if end < 0:
            if message is not None:
                raise HeadError  # llhttp sees the end where the bytes have none
            self._received = received
            return None
        if message is None:
            raise HeadError
        self._received = b""
        self._parser = None
        end += 4
        return _lines(received, end - 4), message, received[:end], received[end:]


def _judged(parser: Any, data: bytes) -> Any:
    """llhttp's message where it sees the end of a head. HeadError where it sees no head."""
    try:
        messages = parser.feed_data(data)[0]
    except LineTooLong:
        raise HeadError(too_large=True) from None
    except Exception:  # noqa: BLE001  whatever a parser raises about a peer's bytes refuses them
        raise HeadError from None
    if not messages:
        return None
    if len(messages) > 1:
        raise HeadError
    return messages[0][0]


def _lines(received: bytes, end: int) -> list[bytes]:
    """The lines of a head. HeadError where a line end or a NUL is not where it belongs."""
    head = received[:end]
    lines = head.split(b"\r\n")
    breaks = len(lines) - 1
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise HeadError
    if breaks > MAX_FIELDS:
        raise HeadError(too_large=True)
    return lines


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# aiohttp's parsers hand these to the StreamReaders of bodies, of which there are none here.
_LOOP: Final[Any] = None
_PROTOCOL: Final[Any] = None
