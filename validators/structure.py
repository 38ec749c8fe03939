"""The structure of JSON documents and event streams, and where two of them differ in it.

What belongs here: members, types, words of the protocol, the order of events; no values. What doesn't:
whether a structure is right (rules/), files of recorded answers (baseline.py).

Arrays are the union of their elements and a stream's events of one kind are the union of theirs, so that
longer and shorter answers have the same structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_DEPTH: Final = 32
_PATHS: Final = 4096
_EVENTS: Final = 100_000
_WORD: Final = re.compile(r"[A-Za-z0-9_.\-]{0,64}\Z")
_FIXED: Final = frozenset({"object", "type", "status", "finish_reason", "role", "phase"})
"""Members that hold a word of the protocol rather than a value."""


@dataclass(slots=True)
class Structure:
    """What stands where: types and protocol words by path (``/choices[]/message/content``)."""

    types: dict[str, set[str]] = field(default_factory=dict)
    words: dict[str, set[str]] = field(default_factory=dict)

    def add(self, value: Any, path: str = "", depth: int = 0) -> None:
        """Takes a document in, below a path."""
        if len(self.types) >= _PATHS and path not in self.types:
            return
        self.types.setdefault(path, set()).add(type_of(value))
        if depth >= _DEPTH:
            return
        if isinstance(value, dict):
            for name, member in value.items():
                below = f"{path}/{str(name)[:64]}"
                if isinstance(member, str) and name in _FIXED and _WORD.match(member):
                    self.words.setdefault(below, set()).add(member)
                self.add(member, below, depth + 1)
        elif isinstance(value, list):
            for element in value[:256]:
                self.add(element, f"{path}[]", depth + 1)


def type_of(value: Any) -> str:
    """The JSON type of a value; integers are numbers."""
    if value is None:
        return "null"
    for kinds, word in _TYPES:
        if isinstance(value, kinds):
            return word
    return "other"


_TYPES: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "boolean"),
    ((int, float), "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


class Difference(NamedTuple):
    """One place where two structures differ. ``first`` and ``second`` say what stands there."""

    kind: str
    path: str
    first: str
    second: str


ABSENT: Final = "absent"


def differences(first: Structure, second: Structure) -> Iterator[Difference]:
    """Where two structures differ, each at its topmost place."""
    told: set[str] = set()
    for path in sorted(first.types.keys() | second.types.keys()):
        if _below(path, told) or _below_nothing(path, first, second):
            continue
        ours, theirs = first.types.get(path), second.types.get(path)
        if ours == theirs:
            continue
        told.add(path)
        kind = "type" if ours and theirs else "field"
        yield Difference(kind, path, _listed(ours), _listed(theirs))
    for path in sorted(first.words.keys() & second.words.keys()):
        if first.words[path] != second.words[path] and not _below(path, told):
            yield Difference("word", path, _listed(first.words[path]), _listed(second.words[path]))


def _listed(found: set[str] | None) -> str:
    return ABSENT if not found else " or ".join(sorted(found))


def _below(path: str, told: Iterable[str]) -> bool:
    """Whether a place above was told already."""
    return any(path.startswith((f"{above}/", f"{above}[]")) for above in told)


def _below_nothing(path: str, first: Structure, second: Structure) -> bool:
    """Whether a place lies in an array that has no elements on one side: nothing can be said of it."""
    end = path.find("[]")
    while end >= 0:
        element, array = path[: end + 2], path[:end]
        for one in (first, second):
            if element not in one.types and "array" in one.types.get(array, ()):
                return True
        end = path.find("[]", end + 2)
    return False


# -- streams --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class StreamStructure:
    """The kinds of events in their order, repeats folded, and the structure of each kind."""

    order: list[str] = field(default_factory=list)
    kinds: dict[str, Structure] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Sequence[Any]) -> StreamStructure:
        """The structure of a stream's documents; a string stands for data that is no JSON."""
        made = cls()
        for event in events[:_EVENTS]:
            kind = kind_of(event)
            if not made.order or made.order[-1] != kind:
                made.order.append(kind)
            if not isinstance(event, str):
                made.kinds.setdefault(kind, Structure()).add(event)
        return made


def kind_of(event: Any) -> str:
    """What an event of either protocol is: its type, or what a chunk carries."""
    if isinstance(event, str):
        return "[DONE]" if event.strip() == "[DONE]" else "(no JSON)"
    if not isinstance(event, dict):
        return "(no object)"
    kind = event.get("type")
    if isinstance(kind, str):
        return kind if _WORD.match(kind) else "(type)"
    return _chunk_kind(event)


def _chunk_kind(event: Mapping[str, Any]) -> str:
    choices = event.get("choices")
    if "error" in event and not choices:
        return "error"
    if not isinstance(choices, list):
        return "(no choices)"
    if not choices:
        return "usage" if event.get("usage") else "(empty)"
    choice = choices[0] if isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    if choice.get("finish_reason") is not None:
        return "finish"
    if not isinstance(delta, dict):
        return "(no delta)"
    if event.get("usage") and not delta:
        return "usage beside a choice"
    if delta.get("role"):
        return "role"
    return "tool call" if delta.get("tool_calls") else "text"


def stream_differences(first: StreamStructure, second: StreamStructure) -> Iterator[Difference]:
    """Where two streams differ: the order of kinds, then the structure of those that both have."""
    if first.order != second.order:
        yield Difference("events", "", _told(first.order), _told(second.order))
    for kind in _common(first, second):
        for found in differences(first.kinds[kind], second.kinds[kind]):
            yield Difference(found.kind, f"{kind}: {found.path or '/'}", found.first, found.second)


def _common(first: StreamStructure, second: StreamStructure) -> list[str]:
    return [kind for kind in first.kinds if kind in second.kinds]


def _told(order: Sequence[str]) -> str:
    return ", ".join(order[:40]) + (f", ... {len(order)} in all" if len(order) > 40 else "")
