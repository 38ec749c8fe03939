"""The quick way through a whole document: one that is like another one which the full check has accepted.

What it may do: tell by its bytes that a document equals an accepted one but in its holes, each of which is a
member whose value has a form. Accepting means: nothing to report of any member, and what the holes hold goes
to the check that named them, which compares it with everything else or sends the document to the full check.

What it may not do: know the protocol, report, or guess. tests/validators/test_likeness.py holds it together
with the full check. Streams have a quick way of their own (fast.py), which keeps no text and no pattern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import orjson

MAX_SKELETON: Final = 4096
"""Bytes of an accepted document outside its holes. A longer one is worth a full check."""
MAX_LIKENESSES: Final = 4
CREDIT: Final = 8
EARNED: Final = 64
"""Likenesses that one operation of an upstream may teach at first, and accepted documents that pay for one
more: a pattern costs as much as many full checks."""

TEXT: Final = rb'[^"]*+(?:(?<=\\)"[^"]*+)*+'
"""What stands between the quotes of a text of any length, to be decoded with ``decoded``: only that tells
whether it is a string at all."""
PLAIN: Final = rb"[ !#-\[\]-~]*+"
"""Printable ASCII that stands for itself."""

Path = tuple[str | int, ...]


class Hole(NamedTuple):
    """A member whose value may differ: ``path`` leads to it, ``pattern`` matches the bytes that may stand
    there, those of a string without its quotes. A pattern has no group and matches nothing but JSON of one
    type, save ``TEXT``."""

    path: Path
    pattern: bytes


class Known(Protocol):
    """An accepted document as the check of its protocol remembers it."""

    @property
    def holes(self) -> Sequence[Hole]: ...


KnownT = TypeVar("KnownT", bound=Known)


class Likeness(Generic[KnownT]):
    """Documents that are like an accepted one. ``known`` is what the check remembers of that one."""

    __slots__ = ("_groups", "_match", "known")

    def __init__(self, pattern: bytes, groups: Sequence[int], known: KnownT) -> None:
        self._match = re.compile(pattern).fullmatch
        self._groups = tuple(groups)
        self.known = known

    def holes(self, data: bytes) -> tuple[bytes, ...] | None:
        """What stands in the holes, in the order in which they were named; None for another document."""
        match = self._match(data)
        return None if match is None else match.group(*self._groups)


class Likenesses(Generic[KnownT]):
    """Those of one operation at one upstream: a few, since a server writes its answers in one way."""

    __slots__ = ("_found", "_learnt", "_likenesses")

    def __init__(self) -> None:
        self._likenesses: list[Likeness[KnownT]] = []
        self._learnt = 0
        self._found = 0

    def find(self, data: bytes) -> tuple[KnownT, tuple[bytes, ...]] | None:
        """The accepted document that this one is like, and what stands in the holes; None for neither."""
        for n, likeness in enumerate(self._likenesses):
            holes = likeness.holes(data)
            if holes is not None:
                self._found += 1
                if n:
                    self._likenesses.insert(0, self._likenesses.pop(n))
                return likeness.known, holes
        return None

    @property
    def useful(self) -> bool:
        """Whether one more may be learnt."""
        return self._learnt < CREDIT + self._found // EARNED

    def learn(self, data: bytes, known: KnownT) -> None:
        """Takes a document in that the full check accepted and ``find`` did not know."""
        self._learnt += 1
        made = likeness_of(data, known)
        if made is not None:
            self._likenesses = [made, *self._likenesses[: MAX_LIKENESSES - 1]]


def decoded(text: bytes) -> str | None:
    """The string that stands in a ``TEXT`` hole; None where it is none."""
    try:
        value = orjson.loads(b'"%b"' % text)
    except orjson.JSONDecodeError:
        return None
    return value if type(value) is str else None


# -- learning -------------------------------------------------------------------------------------------

_SCANNER: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_BLANK: Final = re.compile(r"[ \t\r\n]*+")


def places_of(data: bytes, paths: Sequence[Path]) -> list[tuple[int, int, int]] | None:
    """Where the values of these members start and end in an accepted document, and which ones they are, in
    the order of the bytes; None unless each is there once."""
    text = data.decode("latin-1")  # one character a byte, so that positions are offsets
    wanted: dict[Path, int] = {path: n for n, path in enumerate(paths)}
    found: list[tuple[int, int, int]] = []
    _find(text, _behind_blank(text, 0), (), wanted, found)
    return found if len(found) == len(wanted) else None


def likeness_of(data: bytes, known: KnownT) -> Likeness[KnownT] | None:
    """The likeness of an accepted document; None where it would be too large, or its holes are not apart."""
    found = places_of(data, [hole.path for hole in known.holes])
    if found is None:
        return None
    pattern, at = [], 0
    for start, end, number in found:
        quoted = data[start] == ord('"')
        pattern += [re.escape(data[at : start + quoted]), b"(", known.holes[number].pattern, b")"]
        at = end - quoted
    pattern.append(re.escape(data[at:]))
    groups = [0] * len(found)
    for group, (_, _, number) in enumerate(found, 1):
        groups[number] = group
    whole = b"".join(pattern)
    return Likeness(whole, groups, known) if len(whole) <= 2 * MAX_SKELETON else None


def _find(
    text: str,
    at: int,
    path: Path,
    wanted: Mapping[Path, int],
    found: list[tuple[int, int, int]],
) -> int:
    """Where the value that starts here ends; members that are wanted are added to ``found``, in order.

    The text is one JSON document without faults, no deeper than the full check allows.
    """
    number = wanted.get(path)
    opening = text[at]
    if number is not None or opening not in "{[" or not any(p[: len(path)] == path for p in wanted):
        end = _SCANNER.raw_decode(text, at)[1]
        if number is not None:
            found.append((at, end, number))
        return end
    at, index = _behind_blank(text, at + 1), 0
    while text[at] not in "}]":
        step: str | int = index
        if opening == "{":
            name, at = _SCANNER.raw_decode(text, at)
            step, at = str(name), _behind_blank(text, _behind_blank(text, at) + 1)
        at = _behind_blank(text, _find(text, at, (*path, step), wanted, found))
        if text[at] == ",":
            at = _behind_blank(text, at + 1)
        index += 1
    return at + 1


def _behind_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
