"""HTTP heads on their way through: which lines travel, how a body is framed, what the target
becomes.

What belongs here: what the bytes of a head mean for this hop, and the bytes that go out for them.
What doesn't: whether a head is valid (parse.py asks llhttp), connections, and the heads that
teeline writes in its own name (answers.py). Lines travel as they came: case, order, repeats and
blanks are never touched. A head never changes once it is made, so one that comes again is the same.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from itertools import compress
from operator import ne
from typing import Final, Self

from teeline.proxy.framing import Body, ChunkedBody, LengthBody
from teeline.validators import events
from teeline.validators.model import Headers

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields as received: names in their case, values without the blanks around them."""


# What a field is to this hop; most are nothing to it. Numbers, not an enum: they are looked at for
# each field of each message.
_PLAIN: Final = 0
_HOP: Final = 1
_HOST: Final = 2
_CONNECTION: Final = 3
_UPGRADE: Final = 4
_LENGTH: Final = 5
_CODING: Final = 6
_TRACE: Final = 7

# RFC 9110 7.6.1, and the fields of 11.7 that speak to the next proxy alone. Not all that begins
# with "Proxy-": Proxy-Status (RFC 9209) travels end to end. Transfer-Encoding travels with the
# body that it frames, since that goes on as it came.
_KINDS: Final = {
    b"connection": _CONNECTION,
    b"content-length": _LENGTH,
    b"host": _HOST,
    b"keep-alive": _HOP,
    b"proxy-authenticate": _HOP,
    b"proxy-authentication-info": _HOP,
    b"proxy-authorization": _HOP,
    b"proxy-connection": _HOP,
    b"te": _HOP,
    b"traceparent": _TRACE,
    b"transfer-encoding": _CODING,
    b"upgrade": _UPGRADE,
}
_DROPPED: Final = frozenset({_HOP, _CONNECTION, _UPGRADE})
HOP_BY_HOP: Final = frozenset(name for name, kind in _KINDS.items() if kind in _DROPPED)
# A sender that lists these in Connection would have us drop the frame around a body (request
# smuggling).
_NEVER_LISTED: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
# Listed in Connection these need no looking for: they are no fields, or dropped as it is.
_OPTIONS: Final = _NEVER_LISTED | {b"close", b"keep-alive", b"upgrade", b"te", b""}
_BODYLESS: Final = frozenset({204, 304})
_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VISIBLE: Final = re.compile(rb"[!-~](?:[ -~]*[!-~])?")
"""A value that no parser could take for another: RFC 9110 5.5 without its blanks and obs-text."""
_NO_OPTIONS: Final[frozenset[bytes]] = frozenset()
_WRITTEN: Final = b": ".join
_LENGTH_DIGITS: Final = 18
"""More could overflow the counter of another implementation."""
_MAX_NAMES: Final = 1024
_names: dict[bytes, tuple[int, str]] = {}
"""Kinds and texts of names as they were written, so that a usual name is read once. Bounded."""


class Framing(enum.Enum):
    """How the end of a body is told (RFC 9112 6)."""

    NONE = "none"
    LENGTH = "content-length"
    CHUNKED = "chunked"
    CLOSE = "close"


class FieldsError(Exception):
    """Parser and bytes differ in the fields of a head, or the fields contradict each other, or
    they name a framing that isn't understood.
    """


class Head:
    """A head with what it means for this hop.

    ``lines`` are the field lines as they came, ``fields`` what a parser took them for, in the same
    order; ``headers`` are these as an inspector takes them: bytes above ASCII as latin-1.
    ``length`` is that of Content-Length. ``options`` are those of Connection, in lower case;
    ``persistent``: the connection goes on behind this message, as far as its sender goes.
    ``upgrade``: it asks for, or tells of, a WebSocket. Raises FieldsError.
    """

    __slots__ = (
        "_special",
        "chunked",
        "fields",
        "has_host",
        "headers",
        "http10",
        "length",
        "lines",
        "options",
        "persistent",
        "trace",
        "upgrade",
    )

    def __init__(self, lines: list[bytes], fields: Fields, *, http10: bool) -> None:
        if len(lines) != len(fields):
            raise FieldsError("lines")
        self.lines = lines
        self.fields = fields
        self.http10 = http10
        self.length: int | None = None
        self.chunked = False
        self.options: frozenset[bytes] = _NO_OPTIONS
        self.persistent = not http10
        self.has_host = False
        self.upgrade = False
        self.trace: Fields = ()
        self._special: list[tuple[int, int]] = []
        if list(map(_WRITTEN, fields)) != lines:  # the usual way to write them, looked at first
            for line, (name, value) in zip(lines, fields, strict=True):
                _compare(line, name, value)
        headers: list[tuple[str, str]] = []
        for name, value in fields:
            kind, text = _names.get(name) or _learn(name)
            if kind:
                self._note(len(headers), kind, value)
            headers.append((text, value.decode("latin-1")))
        self.headers: Headers = tuple(headers)

    def varied(self, lines: list[bytes]) -> Self | None:
        """The head of lines that differ from this one's in values alone; None for all others.

        Such values are visible ASCII, in fields that mean nothing to this hop, and the digits of
        Content-Length. That a head is valid follows then from this one's being so: the names and
        all that frames or ends a message are the same.
        """
        before = self.lines
        if len(lines) != len(before):
            return None
        fields, headers, length = list(self.fields), list(self.headers), self.length
        for index in compress(range(len(lines)), map(ne, lines, before)):
            name, text = fields[index][0], headers[index][0]
            written, _, value = lines[index].partition(b": ")
            if written != name or _VISIBLE.fullmatch(value) is None:
                return None
            kind = (_names.get(name) or _learn(name))[0]
            if kind == _LENGTH and value.isdigit() and len(value) <= _LENGTH_DIGITS:
                length = int(value)
            elif kind != _PLAIN:
                return None
            fields[index] = name, value
            headers[index] = text, value.decode("ascii")
        other = self._copy()
        other.lines, other.fields = lines, fields
        other.headers, other.length = tuple(headers), length
        return other

    def _copy(self) -> Self:
        other = object.__new__(type(self))
        other.http10 = self.http10
        other.chunked = self.chunked
        other.options = self.options
        other.persistent = self.persistent
        other.has_host = self.has_host
        other.upgrade = self.upgrade
        other.trace = self.trace
        other._special = self._special
        return other

    def _note(self, index: int, kind: int, value: bytes) -> None:
        if kind == _LENGTH:
            self._frame_by_length(value)
        elif kind == _CODING:
            self._frame_by_chunks(value)
        elif kind == _TRACE:
            self.trace = (*self.trace, self.fields[index])
        else:
            self._special.append((index, kind))
            if kind == _HOST:
                self.has_host = True
            elif kind == _CONNECTION:
                self._note_options(value)
            elif kind == _UPGRADE:
                self.upgrade = value.lower() == b"websocket"

    def _frame_by_length(self, value: bytes) -> None:
        if self.length is not None or self.chunked or not value.isdigit():
            raise FieldsError("Content-Length")
        if len(value) > _LENGTH_DIGITS:
            raise FieldsError("Content-Length")
        self.length = int(value)

    def _frame_by_chunks(self, value: bytes) -> None:
        # Any coding but this one, and this one twice, is where two parsers part (RFC 9112 6.1).
        if self.chunked or self.length is not None or self.http10 or value.lower() != b"chunked":
            raise FieldsError("Transfer-Encoding")
        self.chunked = True

    def _note_options(self, value: bytes) -> None:
        self.options |= {option.strip(b" \t") for option in value.lower().split(b",")}
        keeps = not self.http10 or b"keep-alive" in self.options
        self.persistent = keeps and b"close" not in self.options

    @property
    def switches(self) -> bool:
        """Whether it is one half of a WebSocket handshake."""
        return self.upgrade and b"upgrade" in self.options and not self.http10

    def kept(self, authority: bytes | None, *, upgrade: bool) -> list[bytes]:
        """The lines that travel. ``authority`` takes the place of Host's value, where it is
        given; ``upgrade`` lets a WebSocket handshake through.
        """
        lines = self.lines.copy()
        for index, kind in reversed(self._special):
            if kind == _HOST and authority is not None:
                lines[index] = self.fields[index][0] + b": " + authority
            elif kind == _CONNECTION and upgrade:
                lines[index] = b"Connection: Upgrade"
            elif kind in _DROPPED and not (kind == _UPGRADE and upgrade):
                del lines[index]
        listed = self.options - _OPTIONS
        if listed:
            lines = [line for line in lines if line.partition(b":")[0].lower() not in listed]
        return lines


class RequestHead(Head):
    """The head of a request. ``method`` and ``target`` as they stand in its line."""

    __slots__ = ("_event", "_forwarded", "method", "target", "version")

    def __init__(
        self,
        method: bytes,
        target: bytes,
        version: bytes,
        lines: list[bytes],
        fields: Fields,
    ) -> None:
        super().__init__(lines, fields, http10=version == b"HTTP/1.0")
        self.method = method
        self.target = target
        self.version = version
        self._event: tuple[bytes, events.RequestHead] | None = None
        self._forwarded: tuple[bytes, bytes, bool, bytes] | None = None

    def _copy(self) -> Self:
        other = super()._copy()
        other.method = self.method
        other.target = self.target
        other.version = self.version
        other._event = other._forwarded = None
        return other

    def body(self) -> Body | None:
        """The scanner of its body; None where there is none: without a field there is no body."""
        if self.chunked:
            return ChunkedBody()
        return LengthBody(self.length) if self.length else None

    def event(self, target: bytes) -> events.RequestHead:
        """The head as an inspector takes it, with the target that the upstream gets."""
        before = self._event
        if before is not None and before[0] == target:
            return before[1]
        method = str(self.method, "latin-1")
        event = events.RequestHead(method, str(target, "latin-1"), self.headers)
        self._event = target, event
        return event

    def forwarded(self, target: bytes, authority: bytes, *, upgrade: bool = False) -> bytes:
        """The head for the upstream: the same lines, with Host naming the upstream, in the same
        place.

        A client that ends its connection behind this exchange has the upstream end its own.
        """
        before = self._forwarded
        if before is not None and before[:3] == (target, authority, upgrade):
            return before[3]
        data = self._rewritten(target, authority, upgrade=upgrade)
        self._forwarded = target, authority, upgrade, data
        return data

    def _rewritten(self, target: bytes, authority: bytes, *, upgrade: bool) -> bytes:
        lines = self.kept(authority, upgrade=upgrade)
        if not self.has_host:
            lines.insert(0, b"Host: " + authority)
        if not self.http10 and not self.persistent:
            lines.append(b"Connection: close")
        elif self.http10 and self.persistent:
            lines.append(b"Connection: keep-alive")
        start = b" ".join((self.method, target, self.version))
        return b"\r\n".join((start, *lines, b"", b""))


class AnswerHead(Head):
    """The head of an answer, 1xx included. ``start`` is its status line."""

    __slots__ = ("_event", "_forwarded", "start", "status")

    def __init__(self, start: bytes, status: int, lines: list[bytes], fields: Fields) -> None:
        super().__init__(lines, fields, http10=start.startswith(b"HTTP/1.0"))
        self.start = start
        self.status = status
        self._event: events.ResponseHead | None = None
        self._forwarded: tuple[bytes | None, bool, bool, bytes] | None = None

    def _copy(self) -> Self:
        other = super()._copy()
        other.start = self.start
        other.status = self.status
        other._event = other._forwarded = None
        return other

    def event(self) -> events.ResponseHead:
        """The head as an inspector takes it."""
        event = self._event
        if event is None:
            event = self._event = events.ResponseHead(self.status, self.headers)
        return event

    def framing(self, method: bytes) -> Framing:
        """The framing of a final answer (RFC 9112 6.3)."""
        if method == b"HEAD" or self.status in _BODYLESS:
            return Framing.NONE
        if self.chunked:
            return Framing.CHUNKED
        return Framing.CLOSE if self.length is None else Framing.LENGTH

    def body(self, framing: Framing) -> Body | None:
        """The scanner of its body; None where it has none, or one of no bytes."""
        if framing is Framing.CHUNKED:
            return ChunkedBody(answer=True)
        if framing is Framing.CLOSE:
            return Body()
        return LengthBody(self.length) if framing is Framing.LENGTH and self.length else None

    def forwarded(
        self, connection: bytes | None = None, *, chunked: bool = True, upgrade: bool = False
    ) -> bytes:
        """The head for the client: the same status line and lines.

        ``connection`` is what teeline says of the client's connection, where anything needs to be
        said. ``chunked`` false takes Transfer-Encoding away, for a client of HTTP/1.0 (RFC 9112
        7.1 forbids it there).
        """
        before = self._forwarded
        if before is not None and before[:3] == (connection, chunked, upgrade):
            return before[3]
        data = self._rewritten(connection, chunked=chunked, upgrade=upgrade)
        self._forwarded = connection, chunked, upgrade, data
        return data

    def _rewritten(self, connection: bytes | None, *, chunked: bool, upgrade: bool) -> bytes:
        lines = self.kept(None, upgrade=upgrade)
        if not chunked:
            lines = [line for line in lines if not line.lower().startswith(b"transfer-encoding:")]
        if connection is not None:
            lines.append(b"Connection: " + connection)
        return b"\r\n".join((self.start, *lines, b"", b""))


def _learn(name: bytes) -> tuple[int, str]:
    # llhttp is lenient about answers: a blank before the colon is part of a name to it.
    if _TOKEN.fullmatch(name) is None:
        raise FieldsError("name")
    known = _KINDS.get(name.lower(), _PLAIN), str(name, "latin-1")
    if len(_names) < _MAX_NAMES and len(name) <= 64:
        _names[name] = known
    return known


def _compare(line: bytes, name: bytes, value: bytes) -> None:
    """FieldsError where a parser took a line for something else than its bytes say."""
    written, _, behind = line.partition(b":")
    if written != name or behind.strip(b" \t") != value:
        raise FieldsError("line")


def upstream_target(target: bytes, prefix: bytes, base: bytes) -> bytes:
    """The target for the upstream: a route's prefix off, the base URL's path on, the rest
    untouched.

    ``prefix`` and ``base`` have no slash at their end; both may be empty. Where the base ends in
    ``/v1`` and the client's path begins with it, it is used once. ``*`` (OPTIONS) stays as it is.
    """
    if target == b"*":
        return target
    path = origin_form(target)[len(prefix) :]
    if base.endswith(b"/v1") and begins_with(path, b"/v1"):
        path = path[3:]
    mapped = base + path
    return mapped if mapped.startswith(b"/") else b"/" + mapped


def begins_with(target: bytes, prefix: bytes) -> bool:
    """Whether the path of a target begins with a prefix, and ends or goes on at a ``/`` or
    ``?`` there.
    """
    return target.startswith(prefix) and target[len(prefix) : len(prefix) + 1] in b"/?"


def origin_form(target: bytes) -> bytes:
    """A target without the scheme and authority of the absolute form (RFC 9112 3.2.2)."""
    if target.startswith(b"/") or b"://" not in target:
        return target
    rest = target.partition(b"://")[2]
    cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    return rest[cut:] if rest[cut : cut + 1] == b"/" else b"/" + rest[cut:]
