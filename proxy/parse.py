"""Heads out of received bytes: llhttp decides whether they are valid, the bytes are what travels.

What belongs here: finding the end of a head, having llhttp (as aiohttp carries it) judge it, and
refusing it where parser and bytes don't say the same. What doesn't: what a head means (head.py).

Only heads go through llhttp. It never sees a body: aiohttp's parser would put each piece into a
StreamReader of its own, and gives no offsets, so the end of a message could not be found in the
bytes that travel. Bodies are framed by framing.py, which is stricter.
"""

from __future__ import annotations

import re
from typing import Any, Final

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


class HeadError(Exception):
    """What came is no head. ``too_large``: it may be one, but is longer than what is taken."""

    def __init__(self, *, too_large: bool = False) -> None:
        super().__init__("head too large" if too_large else "malformed head")
        self.too_large = too_large


class HeadReader:
    """Reads one head from the pieces in which it comes. The fault of a head shows at once, also
    where its end has not come.
    """

    __slots__ = ("_limit", "_parser", "_received")

    def __init__(self, limit: int = MAX_HEAD) -> None:
        self._limit = limit
        self._received = b""
        self._parser: HttpRequestParser | HttpResponseParser | None = None

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
        found = self._read(data, HttpRequestParser)
        if found is None:
            return None
        lines, message, rest = found
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
        return head, rest

    def answer(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """The head and what stands behind it, once its end has come. Raises HeadError."""
        found = self._read(data, HttpResponseParser)
        if found is None:
            return None
        lines, message, rest = found
        start = lines.pop(0)
        match = _STATUS_LINE.fullmatch(start)
        if match is None or message.code != int(match[1]):
            raise HeadError
        try:
            head = AnswerHead(start, message.code, lines, message.raw_headers)
        except FieldsError:
            raise HeadError from None
        return head, rest

    def _read(
        self, data: bytes, kind: type[HttpRequestParser] | type[HttpResponseParser]
    ) -> tuple[list[bytes], Any, bytes] | None:
        """Lines, llhttp's message, and what stands behind, once the end has come."""
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
        return _lines(received, end), message, received[end + 4 :]


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
