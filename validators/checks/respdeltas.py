"""The text that a delta event of a Responses stream has carried on, for the quick ways through the next ones.

What belongs here: what may differ in the next event of the same text, and what it changes. What doesn't: the
full check (respstream.py, respitems.py), bytes (fast.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from teeline.validators.alike import comparable
from teeline.validators.checks.joined import Joined
from teeline.validators.checks.reporter import Reporter
from teeline.validators.checks.respitems import StreamedItem
from teeline.validators.fast import Hole, HoleKind

_PADDING = "obfuscation"
_FREE = ("delta", "sequence_number", _PADDING)
_INDEXES = ("output_index", "content_index", "summary_index")


class Numbers(Protocol):
    """``last`` is the number of the last event."""

    last: int


class Numbered(Protocol):
    """A stream whose known events are counted and numbered."""

    events: int

    @property
    def numbers(self) -> Numbers: ...


def holes_of(value: Mapping[str, Any]) -> list[Hole]:
    """What may differ in the next event if it carries on the same text."""
    holes = [Hole(("delta",), HoleKind.TEXT), Hole(("sequence_number",), HoleKind.NEXT)]
    if isinstance(value.get(_PADDING), str):
        holes.append(Hole((_PADDING,), HoleKind.STRING))
    return holes


def usual(value: Mapping[str, Any], name: str, to: PartText) -> Usual | None:
    """What the next event is compared with; None where it can't be by one comparison."""
    like = comparable(value, _FREE, _INDEXES)
    return None if like is None else Usual(like, name, to)


class PartText:
    """An open part, or a call's arguments, as the quick ways see it."""

    __slots__ = ("_item", "_joined", "_stream", "holes")

    def __init__(
        self, stream: Numbered, item: StreamedItem, joined: Joined, holes: Sequence[Hole]
    ) -> None:
        self._stream = stream
        self._item = item
        self._joined = joined
        self.holes = holes

    @property
    def deaf(self) -> bool:
        """Every text is compared with what is said of it later."""
        return False

    def is_next(self, number: int) -> bool:
        return number == self._stream.numbers.last + 1

    def expected(self) -> bytes:
        return b"%d" % (self._stream.numbers.last + 1)

    def skip(self, index: int, byte: int) -> None:
        """It has no place."""

    def add_all(self, texts: list[bytes]) -> None:
        self._stream.events += len(texts)
        self._stream.numbers.last += len(texts)
        self._item.said = True
        self._joined.add_all(texts)

    def add(self, text: bytes | str, index: int, byte: int) -> None:
        self._stream.events += 1
        self._stream.numbers.last += 1
        if text:
            self._item.said = True
        if isinstance(text, bytes):
            self._joined.add_utf8(text)
        else:
            self._joined.add(text)


class Usual:
    """A delta event of which nothing was found."""

    __slots__ = ("_like", "_name", "_padded", "_places", "_to")

    def __init__(self, like: dict[str, Any], name: str, to: PartText) -> None:
        self._like = like
        self._name = name
        self._padded = _PADDING in like
        self._places = tuple(place for place in _INDEXES if place in like)
        self._to = to

    def goes_on(self, value: Any, name: str, report: Reporter) -> bool:
        """Whether an event carries on the same text and has the next number; it is then taken in."""
        if type(value) is not dict or name != self._name:
            return False
        like = self._like
        like["delta"] = delta = value.get("delta")
        like["sequence_number"] = number = value.get("sequence_number")
        if self._padded:
            like[_PADDING] = padding = value.get(_PADDING)
            if type(padding) is not str:
                return False
        if value != like or type(delta) is not str or type(number) is not int:
            return False
        for place in self._places:
            if type(value[place]) is not int:
                return False
        if not self._to.is_next(number):
            return False
        self._to.add(delta, report.index, report.byte)
        return True
