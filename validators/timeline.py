"""The course of an exchange in at most 64 entries: its head, its first reads, what surrounds each
violation, its last reads.

What belongs here: which reads are worth remembering. A read costs one tuple and one append; the rest
is done when something is found, and at the end: only then do the last reads become entries.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from teeline.validators.model import TimelineEntry

MAX_ENTRIES = 64
_FIRST = 8
_BEFORE = 2
_AFTER = 2
LAST: Final = 4
"""Reads that are kept, whatever they are, before the end."""

Moment = tuple[float, str, int, int]
"""What an entry is made of, once it is kept."""

entry: Final[Callable[[Moment], TimelineEntry]] = partial(tuple.__new__, TimelineEntry)
"""The entry that is made of a moment."""


class Timeline:
    """Collects the entries of one exchange.

    Reads that are kept become entries with the next moment that is none: until then each is three numbers
    (time, event, bytes), so that an open stream doesn't hold an object for each of them.
    """

    __slots__ = ("_due", "_entries", "_reads", "_recent")

    def __init__(self) -> None:
        self._entries: list[TimelineEntry] = []
        self._reads: array[float] | None = None
        self._recent: list[Moment] = []
        self._due = _FIRST  # reads that are kept as they come

    @property
    def entries(self) -> list[TimelineEntry]:
        """In the order of time: those so far."""
        if self._reads is not None:
            reads, self._reads = self._reads, None
            moments = zip(*[iter(reads)] * 3, strict=True)
            made = [entry((at, "read", int(index), int(size))) for at, index, size in moments]
            self._entries += made[: MAX_ENTRIES - len(self._entries)]
        return self._entries

    def mark(self, at: float, kind: str, index: int = 0, size: int = 0) -> None:
        """A moment that is kept, while there is room."""
        entries = self.entries
        if len(entries) < MAX_ENTRIES:
            entries.append(entry((at, kind, index, size)))

    def read(self, at: float, index: int, size: int) -> None:
        """A read of the answer's body; ``index`` is the number of its last event."""
        if self._due:
            self._due -= 1
            if self._reads is None:
                self._reads = array("d")
            self._reads.extend((at, index, size))
        else:
            recent = self._recent
            if len(recent) == LAST:
                del recent[0]
            recent.append((at, "read", index, size))

    @property
    def settled(self) -> bool:
        """Whether all reads but the last ones are forgotten, until something is found."""
        return not self._due

    def passed(self, moments: Sequence[Moment]) -> None:
        """The last ones of several reads, in a time when it is ``settled``."""
        self._recent = [*self._recent, *moments][-LAST:]

    def reads(self, index: int, reads: Sequence[tuple[float, int, int, int]]) -> None:
        """Several reads, each of one event: time, size, and what is of no interest here.

        ``index`` is the number of the first one's event.
        """
        # Where reads are no longer kept as they come, all but the last ones would be forgotten again.
        skipped = 0 if self._due else max(0, len(reads) - LAST)
        for n in range(skipped, len(reads)):
            self.read(reads[n][0], index + n, reads[n][1])

    def violation(self, at: float, index: int) -> None:
        """A breach showed with the read before: what came just before it, and what comes next."""
        for read in self._recent[-_BEFORE - 1 :]:
            self.mark(*read)
        self._recent.clear()
        self.mark(at, "violation", index)
        self._due = max(self._due, _AFTER)

    def end(self, at: float, kind: str) -> None:
        """The end with the last reads before it, for which there is always room."""
        recent, entries = self._recent, self.entries
        if not recent and len(entries) < MAX_ENTRIES:
            entries.append(entry((at, kind, 0, 0)))
            return
        del entries[MAX_ENTRIES - len(recent) - 1 :]
        entries += map(entry, (*recent, (at, kind, 0, 0)))
        recent.clear()
