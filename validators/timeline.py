"""The course of an exchange in at most 64 entries: its head, its first reads, what surrounds each
violation, its last reads.

What belongs here: which reads are worth remembering. A read costs one tuple and one append; the rest
is done when something is found, and at the end: only then do the last reads become entries.
"""

from __future__ import annotations

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
    """Collects the entries of one exchange; ``entries`` is in the order of time."""

    __slots__ = ("_due", "_recent", "entries")

    def __init__(self) -> None:
        self.entries: list[TimelineEntry] = []
        self._recent: list[Moment] = []
        self._due = _FIRST  # reads that are kept as they come

    def mark(self, at: float, kind: str, index: int = 0, size: int = 0) -> None:
        """A moment that is kept, while there is room."""
        entries = self.entries
        if len(entries) < MAX_ENTRIES:
            entries.append(entry((at, kind, index, size)))

    def read(self, at: float, index: int, size: int) -> None:
        """A read of the answer's body; ``index`` is the number of its last event."""
        if self._due:
            self._due -= 1
            entries = self.entries
            if len(entries) < MAX_ENTRIES:
                entries.append(entry((at, "read", index, size)))
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
