"""What a head means for this hop, told once for all heads that differ in plain values alone.

What belongs here: what each field is to this hop, what follows from a start line and the fields behind
it, and how a further head of the same form is recognised by its bytes. What doesn't: whether a head is
valid (parse.py asks llhttp), its values and the bytes that go out for it (head.py).

A form holds no value but those that say where a message goes, how it is framed and how its connection
ends. A form may therefore be remembered where the values of a head may not, since keys stand there.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Final

from teeline.validators.heads import names_among

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields as received: names in their case, values without the blanks around them."""

# What a field is to this hop; most are nothing to it. Numbers, not an enum: they are looked at for
# each field of each message.
_PLAIN: Final = 0
_HOP: Final = 1
HOST: Final = 2
CONNECTION: Final = 3
UPGRADE: Final = 4
_LENGTH: Final = 5
_CODING: Final = 6
_TRACE: Final = 7

# RFC 9110 7.6.1, and the fields of 11.7 that speak to the next proxy alone. Not all that begins
# with "Proxy-": Proxy-Status (RFC 9209) travels end to end. Transfer-Encoding travels with the
# body that it frames, since that goes on as it came.
_KINDS: Final = {
    b"connection": CONNECTION,
    b"content-length": _LENGTH,
    b"host": HOST,
    b"keep-alive": _HOP,
    b"proxy-authenticate": _HOP,
    b"proxy-authentication-info": _HOP,
    b"proxy-authorization": _HOP,
    b"proxy-connection": _HOP,
    b"te": _HOP,
    b"traceparent": _TRACE,
    b"transfer-encoding": _CODING,
    b"upgrade": UPGRADE,
}
DROPPED: Final = frozenset({_HOP, CONNECTION, UPGRADE})
HOP_BY_HOP: Final = frozenset(name for name, kind in _KINDS.items() if kind in DROPPED)
# A sender that lists these in Connection would have us drop the frame around a body (request
# smuggling).
_NEVER_LISTED: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
# Listed in Connection these need no looking for: they are no fields, or dropped as it is.
_OPTIONS: Final = _NEVER_LISTED | {b"close", b"keep-alive", b"upgrade", b"te", b""}
_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NO_OPTIONS: Final[frozenset[bytes]] = frozenset()
_LENGTH_DIGITS: Final = 18
"""More could overflow the counter of another implementation."""
_MAX_NAMES: Final = 1024
_names: dict[bytes, tuple[int, str]] = {}
"""Kinds and texts of names as they were written, so that a usual name is read once. Bounded."""

LONGEST: Final = 4096
"""Bytes of a head that is recognised by its form, at most."""
_LONGEST_START: Final = 160
_MOST_FIELDS: Final = 64
_LONGEST_NAMES: Final = 1024
"""Bytes of all names that a pattern is made of: this many take 3 ms and 20 KB."""
_MAX_PATTERNS: Final = 256
_patterns: dict[tuple[str, ...], re.Pattern[str]] = {}
"""Patterns of heads by the names in them. Never emptied: to make one costs as much as several
exchanges, and peers choose the names. Where it is full, heads of other names are read by the parser."""

# A value that no parser could take for another: RFC 9110 5.5 without the blanks around it and without
# obs-text. No part of it is looked at twice.
_VISIBLE: Final = "([!-~][ -~]*+)(?<! )"
_DIGITS: Final = f"([0-9]{{1,{_LENGTH_DIGITS}}}+)"


_BODYLESS: Final = frozenset({204, 304})


class Framing(enum.Enum):
    """How the end of a body is told (RFC 9112 6)."""

    NONE = "none"
    LENGTH = "content-length"
    CHUNKED = "chunked"
    CLOSE = "close"


class FieldsError(Exception):
    """The fields of a head contradict each other, or they name a framing that isn't understood."""


class Form:
    """What a start line (without its end) and fields mean for this hop. Raises FieldsError.

    ``names`` are the fields' names, in order, ``fields`` what they mean to inspectors. ``length_at`` is the
    position of Content-Length, -1 for none;
    ``trace_at`` those of traceparent. ``special`` are the positions and kinds of fields that don't travel
    as they came, ``listed`` the names that Connection takes off this message. ``cut`` is the line of a
    Connection, as it is usually written, that is all that has to go; empty where that isn't so.
    ``persistent``: the connection goes on behind it, as far as its sender goes. ``switches``: it is one
    half of a WebSocket handshake.
    """

    __slots__ = (
        "_fixed",
        "_pattern",
        "chunked",
        "cut",
        "fields",
        "has_host",
        "http10",
        "length_at",
        "listed",
        "names",
        "persistent",
        "special",
        "start",
        "switches",
        "trace_at",
    )

    def __init__(self, start: bytes, fields: Fields, *, http10: bool) -> None:
        self.start = start
        self.http10 = http10
        self.length_at = -1
        self.chunked = False
        self.has_host = False
        self.trace_at: tuple[int, ...] = ()
        self.special: list[tuple[int, int]] = []
        self._fixed: list[tuple[int, str]] = []
        names: list[str] = []
        options, upgrade, cut = _NO_OPTIONS, False, b""
        for at, (name, value) in enumerate(fields):
            kind, text = _names.get(name) or _learn(name)
            names.append(text)
            if not kind:
                continue
            self._note(at, kind, value)
            if kind == CONNECTION:
                options |= {option.strip(b" \t") for option in value.lower().split(b",")}
                cut = b"\r\n%b: %b\r\n" % (name, value)
            elif kind == UPGRADE:
                upgrade = value.lower() == b"websocket"
        self.names = tuple(names)
        self.fields = names_among(self.names)
        self.listed = options - _OPTIONS
        self.cut = cut if len(self.special) == 1 and not self.listed else b""
        self.persistent = b"close" not in options and (not http10 or b"keep-alive" in options)
        self.switches = upgrade and b"upgrade" in options and not http10
        self._pattern = _patterns.get(self.names)

    def _note(self, at: int, kind: int, value: bytes) -> None:
        if kind == _LENGTH:
            if self.length_at >= 0 or self.chunked or not value.isdigit():
                raise FieldsError("Content-Length")
            if len(value) > _LENGTH_DIGITS:
                raise FieldsError("Content-Length")
            self.length_at = at
        elif kind == _TRACE:
            self.trace_at = (*self.trace_at, at)
        else:
            if kind == _CODING:
                self._frame_by_chunks(value)
            else:
                self.special.append((at, kind))
                self.has_host = self.has_host or kind == HOST
            if kind != _HOP:  # whose values are dropped, whatever they say
                self._fixed.append((at, str(value, "latin-1")))

    def _frame_by_chunks(self, value: bytes) -> None:
        # Any coding but this one, and this one twice, is where two parsers part (RFC 9112 6.1).
        sized = self.chunked or self.length_at >= 0
        if sized or self.http10 or value.lower() != b"chunked":
            raise FieldsError("Transfer-Encoding")
        self.chunked = True

    def learn(self) -> None:
        """Makes heads of this form known by their bytes, where that is to be had within bounds."""
        if self._pattern is None and len(self.names) <= _MOST_FIELDS:
            self._pattern = _patterns.get(self.names) or _made(self.names, self.length_at)

    def match(self, data: bytes) -> tuple[int, tuple[str, ...]] | None:
        """The size of a head of this form at the beginning of ``data``, and its values.

        None for all others, which may be heads as well: a head is recognised where its start line, its
        names and all values that frame or end a message are those of this form, and its other values are
        visible ASCII, digits for Content-Length. It is valid then, since this one is.
        """
        pattern, start = self._pattern, self.start
        if pattern is None or not data.startswith(start):
            return None
        match = pattern.match(str(data[:LONGEST], "latin-1"), len(start))
        if match is None:
            return None
        values = match.groups()
        for at, value in self._fixed:
            if values[at] != value:
                return None
        return match.end(), values


class RequestForm(Form):
    """The form of a request. ``method``, ``target`` and ``version`` as they stand in its line, which
    has these three parts. Raises FieldsError.
    """

    __slots__ = ("method", "target", "version")

    def __init__(self, start: bytes, fields: Fields) -> None:
        self.method, self.target, self.version = start.split(b" ")
        super().__init__(start, fields, http10=self.version == b"HTTP/1.0")


class AnswerForm(Form):
    """The form of an answer, 1xx included. ``framing`` is that of the final answer to any method but
    HEAD (RFC 9112 6.3). Raises FieldsError.
    """

    __slots__ = ("framing", "status")

    def __init__(self, start: bytes, status: int, fields: Fields) -> None:
        super().__init__(start, fields, http10=start.startswith(b"HTTP/1.0"))
        self.status = status
        if status in _BODYLESS:
            self.framing = Framing.NONE
        elif self.chunked:
            self.framing = Framing.CHUNKED
        else:
            self.framing = Framing.CLOSE if self.length_at < 0 else Framing.LENGTH


class Usual:
    """The form that heads on connections to the same place have, as far as the last one shows: to one
    listening address, or to one upstream.
    """

    __slots__ = ("form",)

    def __init__(self) -> None:
        self.form: RequestForm | AnswerForm | None = None

    def note(self, form: RequestForm | AnswerForm) -> None:
        """A head of this form has come. In a query may stand a key."""
        if b"?" not in form.start and len(form.start) <= _LONGEST_START:
            self.form = form


def _made(names: tuple[str, ...], length_at: int) -> re.Pattern[str] | None:
    """The pattern of all that stands behind a start line, with a group for each value."""
    if len(_patterns) >= _MAX_PATTERNS or sum(map(len, names)) > _LONGEST_NAMES:
        return None
    holes = (_DIGITS if at == length_at else _VISIBLE for at in range(len(names)))
    lines = (f"{re.escape(name)}: {hole}" for name, hole in zip(names, holes, strict=True))
    pattern = re.compile("\r\n".join(("", *lines, "\r\n")))
    _patterns[names] = pattern
    return pattern


def _learn(name: bytes) -> tuple[int, str]:
    # llhttp is lenient about answers: a blank before the colon is part of a name to it.
    if _TOKEN.fullmatch(name) is None:
        raise FieldsError("name")
    known = _KINDS.get(name.lower(), _PLAIN), str(name, "latin-1")
    if len(_names) < _MAX_NAMES and len(name) <= 64:
        _names[name] = known
    return known
