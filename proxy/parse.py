"""Heads out of received bytes: llhttp decides whether they are valid, the bytes are what travels.

What belongs here: finding the end of a head, having llhttp (as aiohttp carries it) judge it, and
refusing it where parser and bytes don't say the same. What doesn't: what a head means (head.py).

Only heads go through llhttp. It never sees a body: aiohttp's parser would put each piece into a
StreamReader of its own, and gives no offsets, so the end of a message could not be found in the
bytes that travel. Bodies are framed by framing.py, which is stricter.

Senders say the same again and again. A request's head with the bytes of the one before on its connection
is the one before. A head of the last one's form, or of the form that the last connection to the same place
began with, differs in values that can't be misread (``Form.match``) and needs no parser either. The tests
hold what is taken so against what llhttp takes.
"""

from __future__ import annotations

import re
from typing import Any, Final

from aiohttp.http import HttpRequestParser, HttpResponseParser
from aiohttp.http_exceptions import LineTooLong

from teeline.proxy.form import LONGEST, AnswerForm, Fields, FieldsError, RequestForm, Usual
from teeline.proxy.head import AnswerHead, RequestHead

MAX_HEAD: Final = 64 * 1024
"""Bytes of a head where nothing else is said."""
MAX_FIELDS: Final = 256
"""Fields of a head."""

_END: Final = b"\r\n\r\n"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: .*)?", re.DOTALL)
_VERSIONS: Final = frozenset({b"HTTP/1.0", b"HTTP/1.1"})
# Of our own limits none may be met by the parser first: it would call a long head a bad one.
_UNLIMITED: Final = 1 << 30
_WRITTEN: Final = b": ".join


class HeadError(Exception):
    """What came is no head. ``too_large``: it may be one, but is longer than what is taken."""

    def __init__(self, *, too_large: bool = False) -> None:
        super().__init__("head too large" if too_large else "malformed head")
        self.too_large = too_large


class HeadReader:
    """Reads the heads of one side of a connection, one after the other, from the pieces in which
    they come. The fault of a head shows at once, also where its end has not come.

    ``limit`` is in bytes. What was remembered of a connection's heads is gone with its reader, but for
    the ``usual`` form, which connections to the same place have in common.
    """

    __slots__ = ("_form", "_last", "_limit", "_parser", "_received", "_usual")

    def __init__(self, limit: int = MAX_HEAD, usual: Usual | None = None) -> None:
        self._limit = limit
        self._usual = usual or Usual()
        self._received = b""
        self._parser: HttpRequestParser | HttpResponseParser | None = None
        self._form: RequestForm | AnswerForm | None = None
        self._last: RequestHead | None = None

    @property
    def begun(self) -> bool:
        """Whether something of a head has come."""
        return bool(self._received)

    def request(self, data: bytes) -> tuple[RequestHead, bytes] | None:
        """The head and what stands behind it, once its end has come. Raises HeadError."""
        if self._parser is None:
            # Empty lines before a request are skipped, not forwarded (RFC 9112 2.2).
            while data.startswith(b"\r\n"):
                data = data[2:]
            if not data:
                return None
            last = self._last
            if last is not None and data.startswith(last.raw):
                return last, data[len(last.raw) :]
            known = self._form or self._usual.form
            if isinstance(known, RequestForm) and (alike := known.match(data)) is not None:
                size, values = alike
                if size <= self._limit:
                    self._form = known
                    self._last = head = RequestHead(data[:size], known, values)
                    return head, data[size:]
        found = self._read(data, HttpRequestParser)
        if found is None:
            return None
        raw, message, rest = found
        start, *lines = _lines(raw)
        parts = start.split(b" ")
        if len(parts) != 3 or parts[2] not in _VERSIONS:
            raise HeadError
        if message.method.encode() != parts[0] or _encode(message.path) != parts[1]:
            raise HeadError
        fields = _agreed(lines, message.raw_headers)
        try:
            form = RequestForm(start, fields)
        except FieldsError:
            raise HeadError from None
        head = RequestHead(raw, form, _values(fields))
        if len(raw) <= LONGEST:
            self._last = head
            self._remember(form)
        return head, rest

    def answer(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """The head and what stands behind it, once its end has come. Raises HeadError."""
        if self._parser is None:
            known = self._form or self._usual.form
            if isinstance(known, AnswerForm) and (alike := known.match(data)) is not None:
                size, values = alike
                if size <= self._limit:
                    self._form = known
                    return AnswerHead(data[:size], known, values), data[size:]
        found = self._read(data, HttpResponseParser)
        if found is None:
            return None
        raw, message, rest = found
        start, *lines = _lines(raw)
        match = _STATUS_LINE.fullmatch(start)
        if match is None or message.code != int(match[1]):
            raise HeadError
        fields = _agreed(lines, message.raw_headers)
        try:
            form = AnswerForm(start, message.code, fields)
        except FieldsError:
            raise HeadError from None
        if form.status >= 200 and len(raw) <= LONGEST:
            self._remember(form)
        return AnswerHead(raw, form, _values(fields)), rest

    def _remember(self, form: RequestForm | AnswerForm) -> None:
        before = self._form or self._usual.form
        if before is not None and before.names == form.names:
            form.learn()  # a sender that keeps to its names will send them again
        self._form = form
        self._usual.note(form)

    def _read(
        self, data: bytes, kind: type[HttpRequestParser] | type[HttpResponseParser]
    ) -> tuple[bytes, Any, bytes] | None:
        """A head's bytes, llhttp's message and what stands behind, once the end has come."""
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
        return received[:end], message, received[end:]


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


def _lines(head: bytes) -> list[bytes]:
    """The lines of a head. HeadError where a line end or a NUL is not where it belongs."""
    lines = head.split(b"\r\n")
    breaks = len(lines) - 1
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise HeadError
    del lines[-2:]  # the empty line, and nothing behind it
    if len(lines) > MAX_FIELDS + 1:
        raise HeadError(too_large=True)
    return lines


def _agreed(lines: list[bytes], fields: Fields) -> Fields:
    """The fields, where a parser took no line for something else than its bytes say; else HeadError."""
    if list(map(_WRITTEN, fields)) == lines:  # the usual way to write them
        return fields
    if len(lines) != len(fields):
        raise HeadError
    for line, (name, value) in zip(lines, fields, strict=True):
        written, _, behind = line.partition(b":")
        if written != name or behind.strip(b" \t") != value:
            raise HeadError
    return fields


def _values(fields: Fields) -> list[str]:
    return [value.decode("latin-1") for _, value in fields]


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# aiohttp's parsers hand these to the StreamReaders of bodies, of which there are none here.
_LOOP: Final[Any] = None
_PROTOCOL: Final[Any] = None
