"""The quick way through a stream: text deltas that look like one that the full check has accepted.

What it may do: one transition, a further piece of text for an open choice (chat) or an open part (Responses),
and only for an event whose bytes equal a template's but in its holes. A template is learnt from the bytes of
an event that the full check took without a finding; each hole is a member whose value has a type and no other
rule: the text, its padding, the next number. Accepting means: nothing to report of the
event's form, and the state that the full check would have left, which the check's own ``OpenText`` sees to.

What it may not do: know the protocol (templates come from accepted bytes, holes and state from the checks),
report, or guess. A template is armed by the full check of an event that fits it, and disarmed by every event
that is no such text, so that nothing but texts lies between. Everything else, and every doubt, is the full
check's. tests/validators/test_fast.py holds the two together.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import orjson

MAX_HOLE: Final = 4096
"""Bytes of one hole. A longer one is worth a full check."""
MAX_BLOCK: Final = 16 * 1024
"""Bytes of an event that a template is learnt from."""
MAX_TEMPLATES: Final = 8
CREDIT: Final = 6
EARNED: Final = 64
"""Templates that a stream may learn at first, and accepted events that pay for one more."""

_plain: Final = re.compile(rb"[ !#-\[\]-~]*+").match
"""What stands for itself in a JSON string, apart from characters above ASCII; nothing is a match, too."""
_MOST_AT_ONCE: Final = 2
"""Holes of events that are taken many at once: the text and its padding."""
_QUOTED: Final = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\.)*+"')


class HoleKind(enum.Enum):
    """What may stand in a hole."""

    TEXT = 0
    """The string that the event brings: handed to the open text."""
    STRING = 1
    """Any string."""
    NEXT = 2
    """The number that the open text expects."""


_TEXT: Final = HoleKind.TEXT.value
_STRING: Final = HoleKind.STRING.value
_NEXT: Final = HoleKind.NEXT.value

_NUMBERED: Final = (
    [_NEXT, _TEXT],
    [_TEXT, _NEXT],
    [_NEXT, _TEXT, _STRING],
    [_TEXT, _STRING, _NEXT],
)

Path = tuple[str | int, ...]


class Hole(NamedTuple):
    """A member whose value may differ; ``path`` leads to it."""

    path: Path
    kind: HoleKind


class OpenText(Protocol):
    """An open choice or part, as the check of its protocol hands it out after a text delta for it."""

    @property
    def holes(self) -> Sequence[Hole]: ...

    @property
    def deaf(self) -> bool:
        """Whether plain texts change nothing but the place, whatever they say and however many come."""
        ...

    def expected(self) -> bytes:
        """The digits of the next event's number, where there is a NEXT hole."""
        ...

    def skip(self, index: int, byte: int) -> None:
        """Takes texts that it is deaf to; the last one is at this place."""
        ...

    def add_all(self, texts: list[bytes]) -> None:
        """Takes the texts, plain and not empty, of events that had the expected numbers."""
        ...

    def add(self, text: bytes | str, index: int, byte: int) -> None:
        """Does what the full check does with one more piece; bytes are ASCII without escapes."""
        ...


class Cursor(Protocol):
    """Where the event that is being looked at lies, for whoever reports of it."""

    index: int
    byte: int


class Template:
    """The bytes of one event, framing and all, with holes.

    ``numbered``: one of the holes is a number, before or behind the text and its padding, in this order.
    ``like`` is the value of an event that fits, ``line`` where the data line starts in the bytes.
    """

    __slots__ = (
        "_first",
        "_inner",
        "_joint",
        "_last",
        "_size",
        "_steps",
        "like",
        "line",
        "numbered",
        "text",
        "to",
    )

    def __init__(
        self, spans: Sequence[bytes], holes: Sequence[Hole], line: int, to: OpenText
    ) -> None:
        self._first = spans[0]
        self._size = len(spans[0])
        self._steps = tuple(
            (hole.kind.value, span, len(span)) for hole, span in zip(holes, spans[1:], strict=True)
        )
        # Of events that may be taken many at once: nothing in them is a number, nor are there many holes.
        several = len(holes) <= _MOST_AT_ONCE and _NEXT not in [kind for kind, _, _ in self._steps]
        kinds = [kind for kind, _, _ in self._steps]
        self.numbered = kinds in _NUMBERED
        self._last = spans[-1] if several else b""
        self._joint = b""  # made by the first read that holds several events
        self._inner = spans[1] if len(spans) > _MOST_AT_ONCE else b""
        self.line = line
        self.to = to
        self.like: Any = None
        self.text: bytes | str = b""

    def refilled(self, spans: Sequence[bytes]) -> Template:
        """A new one with the same holes, between other bytes."""
        made = Template.__new__(Template)
        made._first, *behind = spans
        made._size = len(made._first)
        made._steps = tuple(
            [(step[0], span, len(span)) for step, span in zip(self._steps, behind, strict=True)]
        )
        made.numbered, made.line, made.to = self.numbered, self.line, self.to
        made._last = behind[-1] if self._last else b""
        made._inner = behind[0] if self._inner else b""
        made._joint = made.text = b""
        made.like = None
        return made

    @property
    def ends(self) -> tuple[bytes, bytes, bytes]:
        """What stands before the text, between it and its padding (nothing where there is none), and behind,
        of events that may be taken many at once."""
        return self._first, self._inner, self._last

    @property
    def numbered_ends(self) -> tuple[tuple[bytes, ...], bytes, tuple[bytes, ...]]:
        """The same of ``numbered`` events; one of the two ends is what stands around the number."""
        spans = (self._first, *(span for _, span, _ in self._steps))
        if self._steps[0][0] == _NEXT:
            return spans[:2], spans[2] if len(spans) > _MOST_AT_ONCE + 1 else b"", spans[-1:]
        return spans[:1], spans[1] if len(spans) > _MOST_AT_ONCE + 1 else b"", spans[-2:]

    def stretch(self, data: bytes, start: int) -> tuple[int, int, int]:
        """Events from ``start`` on that fit and hold plain texts: how many, where the last one of them
        starts, and where it ends."""
        size, joint, last, inner = self._size, self._joint, self._last, self._inner
        at, count, begun = start + size, 0, start
        if not last or data[start:at] != self._first:
            return 0, start, start
        if not joint and len(data) > at + size:
            self._joint = joint = last + self._first
        length, rest, between = len(joint), len(last), len(inner)
        while True:
            end = _plain(data, at, at + MAX_HOLE).end()  # type: ignore[union-attr]
            if between:
                if data[end : end + between] != inner:
                    break
                end = _plain(data, end + between, end + between + MAX_HOLE).end()  # type: ignore[union-attr]
            if not joint or data[end : end + length] != joint:
                if data[end : end + rest] == last:
                    return count + 1, at - size, end + rest
                break
            count, begun = count + 1, at - size
            at = end + length
        return count, begun, at - size

    def match(self, data: bytes, start: int, number: bytes | None = None) -> int:
        """Where the event that starts here ends, -1 if it is another one; its text is then in ``text``.

        ``number`` is what a NEXT hole must hold, where it is not the one that the open text expects.
        """
        at = start + self._size
        if data[start:at] != self._first:
            return -1
        for kind, span, size in self._steps:
            if kind <= _STRING:
                end = _plain(data, at, at + MAX_HOLE).end()  # type: ignore[union-attr]
                if data[end : end + size] == span:
                    if kind == _TEXT:
                        self.text = data[at:end]
                else:
                    end, text = _string(data, at)
                    if end < 0 or not data.startswith(span, end):
                        return -1
                    if kind == _TEXT:
                        self.text = text
            else:
                digits = self.to.expected() if number is None else number
                end = at + len(digits)
                if data[at:end] != digits or not data.startswith(span, end):
                    return -1
            at = end + size
        return at


def _string(data: bytes, start: int) -> tuple[int, str]:
    """A string with escapes or above ASCII: where its closing quote is (-1: nowhere), and its value."""
    match = _QUOTED.match(data, start, start + MAX_HOLE)
    if match is None:
        return -1, ""
    try:
        return match.end() - 1, orjson.loads(data[start - 1 : match.end()])
    except orjson.JSONDecodeError:
        return -1, ""


class FastPath:
    """The templates of one stream; ``armed`` are those that events can be accepted by now.

    ``longest`` is the limit on an event's bytes, which no template may lead past. ``like`` is the value of
    an event that differs from the last one taken in nothing but its holes. ``ready`` is the one template that
    is armed, where its text is deaf or its events are numbered: a read that is one such event is told without
    ``run`` (run.py).
    """

    __slots__ = (
        "_learnt",
        "_longest",
        "_plainly",
        "_templates",
        "accepted",
        "armed",
        "like",
        "ready",
    )

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._templates: list[Template] = []
        self.armed: list[Template] = []
        self._learnt = 0
        self.accepted = 0
        self.like: Any = None
        self.ready: Template | None = None
        self._plainly = True  # the last text stood for itself

    def disarm(self) -> None:
        """Something else than a text delta has come."""
        if self.armed:
            self.armed = []
            self.ready = None

    @property
    def useful(self) -> bool:
        """Whether templates have been of use, or may still be."""
        return self.accepted > 0 or self._learnt < CREDIT

    def run(
        self, data: bytes, start: int, offset: int, events: int, cursor: Cursor
    ) -> tuple[int, int]:
        """Takes the events from ``start`` on as long as they fit; where that ends, and the last one's number.

        ``offset`` is the number of bytes before ``data``, ``events`` that of the events before them.
        """
        armed = self.armed
        template = armed[0]
        if self._plainly and len(armed) == 1 and template.to.deaf:
            count, last, end = template.stretch(data, start)
            if count:
                self.accepted += count
                self.like = template.like
                self.ready = template
                cursor.index = index = events + count
                cursor.byte = byte = offset + last + template.line
                template.to.skip(index, byte)
                return end, index
        return self._one_by_one(data, start, offset, events, cursor)

    def _one_by_one(
        self, data: bytes, start: int, offset: int, events: int, cursor: Cursor
    ) -> tuple[int, int]:
        at, index, size, armed = start, events, len(data), self.armed
        while at < size:
            for template in armed:
                end = template.match(data, at)
                if end >= 0:
                    break
            else:
                break
            index += 1
            byte = offset + at + template.line
            cursor.index, cursor.byte = index, byte
            template.to.add(template.text, index, byte)
            self.like = template.like
            at = end
            self._plainly = isinstance(template.text, bytes)
            if self._plainly and len(armed) == 1 and template.to.deaf:
                break  # what follows may be plain, too
        self.accepted += index - events
        if not self._plainly:
            self.ready = None
        elif len(armed) == 1 and armed[0].numbered:
            self.ready = armed[0]
        return at, index

    def arm(self, block: bytes, data: bytes, value: Any, to: OpenText) -> None:
        """Takes a text delta that the full check accepted; ``block`` frames ``data``, its JSON."""
        self.ready = None
        number = _number(value, to.holes)
        for template in self._templates:
            if template.match(block, 0, number) == len(block):
                template.to, template.like = to, value
                if template not in self.armed:
                    self.armed = [*self.armed, template]
                return
        reach = len(block) + MAX_HOLE * len(to.holes)
        if self._learnt < CREDIT + self.accepted // EARNED:
            self._learnt += 1
            if len(block) > MAX_BLOCK or reach > self._longest:
                return
            made = learnt(block, data, value, to)
            if made is not None:
                made.like = value
                self._templates = [*self._templates[1 - MAX_TEMPLATES :], made]
                self.armed = [*(t for t in self.armed if t in self._templates), made]


def _number(value: Any, holes: Sequence[Hole]) -> bytes:
    paths = [hole.path for hole in holes if hole.kind is HoleKind.NEXT]
    return b"%d" % _at(value, paths[0]) if paths else b""


# -- learning -------------------------------------------------------------------------------------------

_SCANNER: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_MARK: Final = b"hole-"
_NUMBER: Final = 7007007


def learnt(block: bytes, data: bytes, value: Any, to: OpenText) -> Template | None:
    """The template of an accepted event; None where its holes can't be told apart from the rest."""
    framing = len(block) - len(data) - 2
    if framing < 0 or block[framing:] != data + b"\n\n":
        return None
    found = spans_of(data, value, to.holes)
    if found is None:
        return None
    spans, holes = found
    spans[0] = block[:framing] + spans[0]
    spans[-1] += b"\n\n"
    line = block.rfind(b"\n", 0, framing) + 1
    return Template(spans, holes, line, to)


def spans_of(
    data: bytes, value: Any, holes: Sequence[Hole]
) -> tuple[list[bytes], list[Hole]] | None:
    """The bytes before, between and behind the holes of a document, and the holes in that order.

    None where the holes can't be told apart from the rest. That a hole is the value of its member, whole
    and alone, is shown by putting marks in: the document then has the marks in these members, and with their
    values put back it is the same.
    """
    if _MARK in data or b"%d" % _NUMBER in data:
        return None
    places = _places(data, value, holes)
    if places is None:
        return None
    marked, spans, at = b"", [], 0
    for n, (start, end, hole) in enumerate(places):
        mark = b"%d" % (_NUMBER + n) if hole.kind is HoleKind.NEXT else _MARK + b"%d" % n
        spans.append(data[at:start])
        marked += spans[-1] + mark
        at = end
    spans.append(data[at:])
    other = orjson.loads(marked + spans[-1])
    for n, (_, _, hole) in enumerate(places):
        holder, name = _at(other, hole.path[:-1]), hole.path[-1]
        if holder[name] != (_NUMBER + n if hole.kind is HoleKind.NEXT else f"hole-{n}"):
            return None
        holder[name] = _at(value, hole.path)
    if other != value:
        return None
    return spans, [hole for _, _, hole in places]


def _places(data: bytes, value: Any, holes: Sequence[Hole]) -> list[tuple[int, int, Hole]] | None:
    """Start and end of each hole, in the order of the bytes; strings without their quotes."""
    text = data.decode("latin-1")  # one character a byte, so that positions are offsets
    places = []
    for hole in holes:
        found = _place(data, text, hole, _at(value, hole.path))
        if found is None:
            return None
        quote = hole.kind is not HoleKind.NEXT
        places.append((found[0] + quote, found[1] - quote, hole))
    places.sort(key=lambda place: place[0])
    apart = all(before[1] < after[0] for before, after in pairwise(places))
    return places if apart else None


def _place(data: bytes, text: str, hole: Hole, value: Any) -> tuple[int, int] | None:
    """Where a member of the hole's name has this value."""
    for match in re.finditer(rb'"%b"[ \t]*:[ \t]*' % str(hole.path[-1]).encode(), data):
        try:
            _, end = _SCANNER.raw_decode(text, match.end())
            if orjson.loads(data[match.end() : end]) == value:
                return match.end(), end
        except ValueError:
            continue  # the name stood inside a string
    return None


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
