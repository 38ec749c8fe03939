"""Event streams: bytes in, events out, by the grammar of WHATWG HTML 9.2.6, with byte offsets.

Faults and curiosities are kept as notes instead of being forgiven; what they mean for a protocol is
decided in checks/stream.py. The same notes and events come out however the bytes are cut.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from teeline.validators.limits import DEFAULT_LIMITS, Limits

_BOM = b"\xef\xbb\xbf"
_FIELDS = frozenset((b"data", b"event", b"id", b"retry"))
_PAYLOAD_STARTS = b'{}[]"'
_LONGEST_NAME = 256
"""Bytes of an ``event`` field that are kept."""
_MAX_NOTES = 64
"""Notes kept of one block; a block of a million odd lines says nothing more than the first ones."""


class NoteKind(enum.Enum):
    """What a line had about it that an ordinary stream's lines have not."""

    BOM = "bom"
    COMMENT = "comment"
    LINE_ENDING = "line-ending"
    NO_SPACE = "no-space"
    ID_OR_RETRY = "id-or-retry"
    MALFORMED_NAME = "malformed-name"
    UNKNOWN_FIELD = "unknown-field"
    UNPREFIXED = "unprefixed"


class Note(NamedTuple):
    """``byte`` is the offset of the line's first byte (of the CR, for a line ending)."""

    kind: NoteKind
    byte: int


class Event(NamedTuple):
    """One block of lines up to its blank line.

    ``value`` is the offset of the first data line's value, behind its name and space.

    ``data`` is None where the block had no ``data`` field; ``[]`` is impossible. ``byte`` is the offset
    of the first data line, else of the block. ``name`` is the ``event`` field. ``after_id``: an ``id``
    field stood in this block or anywhere before it (a client that keeps it dispatches at every blank
    line). ``fields``: the block had a field line at all, be it without data.
    """

    byte: int
    data: list[bytes] | None
    name: str
    notes: tuple[Note, ...]
    fields: bool
    after_id: bool
    value: int = -1


class Tail(NamedTuple):
    """What stood behind the last blank line when the body ended.

    ``data`` is as in Event, an unfinished last line included. ``in_line``: that line had no line end.
    """

    byte: int
    data: list[bytes] | None
    in_line: bool
    notes: tuple[Note, ...]
    name: str = ""
    value: int = -1


class SseReader:
    """Incremental reader of one event stream. Never raises for what it reads.

    ``limit`` is empty, or names the limit that was hit; from there on nothing more is read.
    ``between``: the next byte starts a block, whatever it is. ``at`` is then the offset of that byte, and a
    caller may read whole blocks itself, framed by LF alone, if it adds their size.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._tail: list[
            bytes
        ] = []  # pieces of a line that has no end yet; joined once, when it has
        self._tail_size = 0
        self.at = 0  # of the first byte of _tail
        self._skip_lf = False
        self._cr_seen = False
        self._id_seen = False
        self._fresh()
        self.between = True
        self.limit = ""

    def _fresh(self) -> None:
        self._data: list[bytes] | None = None
        self._data_size = 0
        self._byte = -1
        self._value = -1
        self._name = ""
        self._notes: list[Note] = []
        self._field_seen = False

    @property
    def offset(self) -> int:
        """Bytes read so far."""
        return self.at + self._tail_size

    def usual(self, block: bytes) -> Event | None:
        """The event of a whole block as most streams frame it: ``data``, after ``event`` or alone, LF for
        line ends. None where it is another one, which is then to be fed; only ``between`` blocks."""
        start = block.find(b"\n") + 1 if block.startswith(b"event: ") else 0
        end = len(block) - 2
        if block[start : start + 6] != b"data: " or block.find(b"\n", start) != end:
            return None
        limits, size = self._limits, end - start
        if self._id_seen or block[end:] != b"\n\n" or b"\r" in block:
            return None
        if max(start - 1, size) > limits.line or size - 5 > limits.event:
            return None
        name = block[7 : start - 1][:_LONGEST_NAME].decode("utf-8", "replace") if start else ""
        byte = self.at + start
        self.at += end + 2
        return Event(byte, [block[start + 6 : end]], name, (), True, False, byte + 6)

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        events = self._read(data)
        self.between = not (
            self._tail or self._field_seen or self._notes or self._skip_lf or self.limit
        )
        return events

    def _read(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if self.limit or not data:
            return events
        has_cr = b"\r" in data
        if self._tail:
            self._tail.append(data)
            self._tail_size += len(data)
            if not has_cr and b"\n" not in data:
                self._check_line()
                return events
            data = b"".join(self._tail)
        start = 0
        if self._skip_lf:
            self._skip_lf = False
            start = 1 if data[:1] == b"\n" else 0
        size = len(data)
        while start < size:
            end, after = self._line_end(data, start, has_cr)
            if end < 0:
                break
            if end - start > self._limits.line:
                self._stop("line-limit")
            if self.limit:
                return events
            self._line(data[start:end], self.at + start, events)
            start = after
        if self.limit:
            return events
        self.at += start
        self._tail = [data[start:]] if start < size else []
        self._tail_size = size - start
        self._check_line()
        return events

    def _check_line(self) -> None:
        if self._tail_size > self._limits.line:
            self._stop("line-limit")

    def _line_end(self, buffer: bytes, start: int, has_cr: bool) -> tuple[int, int]:
        """Where the line that starts here ends, and where the next one starts; (-1, -1) for not yet."""
        lf = buffer.find(b"\n", start)
        if not has_cr:
            return lf, lf + 1
        cr = buffer.find(b"\r", start, lf if lf >= 0 else len(buffer))
        if cr < 0:
            return lf, lf + 1
        if not self._cr_seen:
            self._cr_seen = True
            self._note(NoteKind.LINE_ENDING, self.at + cr)
        if cr + 1 == len(buffer):
            # The line is over whatever follows; an LF that follows belongs to this line end.
            self._skip_lf = True
            return cr, cr + 1
        return cr, cr + 2 if buffer[cr + 1] == 0x0A else cr + 1

    def _line(self, line: bytes, at: int, events: list[Event]) -> None:
        if at == 0 and line.startswith(_BOM):
            self._note(NoteKind.BOM, 0)
            line = line[3:]
        if not line:
            self._blank_line(at, events)
            return
        if line[0] == 0x3A:  # a colon: comment
            self._note(NoteKind.COMMENT, at)
            return
        name, colon, value = line.partition(b":")
        if name == b"data":
            self._data_line(value, at)
        elif name in _FIELDS:
            self._other_field(name, value, at)
        else:
            self._odd_line(line, name, value if colon else b"", at)

    def _data_line(self, value: bytes, at: int) -> None:
        self._field_seen = True
        start = at + 5
        if value[:1] == b" ":
            value = value[1:]
            start += 1
        elif value:
            self._note(NoteKind.NO_SPACE, at)
        if self._data is None:
            self._data = [value]
            self._byte = at
            self._value = start
        else:
            self._data.append(value)
        self._data_size += len(value) + 1
        if self._data_size > self._limits.event:
            self._stop("event-limit")

    def _other_field(self, name: bytes, value: bytes, at: int) -> None:
        self._field_seen = True
        value = value[1:] if value[:1] == b" " else value
        if name == b"event":
            self._name = value[:_LONGEST_NAME].decode("utf-8", "replace")
            return
        self._note(NoteKind.ID_OR_RETRY, at)
        if name == b"id" and b"\0" not in value:
            self._id_seen = True

    def _odd_line(self, line: bytes, name: bytes, value: bytes, at: int) -> None:
        """A line that event-stream parsers ignore: say what was probably meant."""
        bare = line.lstrip(b" \t")[:1]
        if name.strip(b" \t").lower() in _FIELDS:
            kind = NoteKind.MALFORMED_NAME
        elif (bare and bare in _PAYLOAD_STARTS) or value.lstrip(b" ")[:1] == b"{":
            kind = NoteKind.UNPREFIXED
        else:
            kind = NoteKind.UNKNOWN_FIELD
        self._note(kind, at)

    def _note(self, kind: NoteKind, at: int) -> None:
        if len(self._notes) < _MAX_NOTES:
            self._notes.append(Note(kind, at))

    def _blank_line(self, at: int, events: list[Event]) -> None:
        if self._data is not None or self._notes or self._field_seen or self._id_seen:
            byte = self._byte if self._byte >= 0 else at
            notes = tuple(self._notes)
            events.append(
                Event(
                    byte,
                    self._data,
                    self._name,
                    notes,
                    self._field_seen,
                    self._id_seen,
                    self._value,
                )
            )
            self._fresh()

    def _stop(self, limit: str) -> None:
        self.limit = limit
        self._tail = []
        self._tail_size = 0
        self._fresh()

    def close(self) -> Tail | None:
        """The body is over: what was left unfinished, None where nothing was."""
        if self.limit:
            return None
        in_line = bool(self._tail)
        at = self.at
        if in_line:
            line = b"".join(self._tail)
            self._tail = []
            self._line(line, at, [])
        if not in_line and self._data is None and not self._notes:
            return None
        byte = self._byte if self._byte >= 0 else at
        return Tail(byte, self._data, in_line, tuple(self._notes), self._name, self._value)
