"""What each upstream did in the last quarter of an hour, in slots of five seconds.

What belongs here: adding up what batches tell, and the numbers of a card and its charts. What doesn't:
batches (feed.py), single exchanges and faults (hub.py, faults.py), the last day (history.py).

Sums over the window are kept as slots come and go, so that a card costs the same after a second and
after an hour.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from teeline.proxy.monitor.latency import quantile

SLOT: Final = 5.0
"""Seconds."""
SLOTS: Final = 180
RECENT: Final = 12
"""Slots, a minute, that rates are taken over."""

_FIELDS: Final = ("opened", "closed", "failed", "warned", "tokens")


class Slot:
    """What happened in five seconds. ``number`` is that of the slot since 1970."""

    __slots__ = ("_told", "counts", "first", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts = [0] * len(_FIELDS)
        self.first: Counter[int] = Counter()
        self._told: list[Any] | None = None

    def add(self, counts: list[int], first: Mapping[int, int]) -> None:
        self.counts = [ours + more for ours, more in zip(self.counts, counts, strict=True)]
        self.first.update(first)
        self._told = None

    def as_list(self) -> list[Any]:
        """Start in Unix seconds, counts as in ``_FIELDS``, p50 and p95 to the first event."""
        if self._told is None:
            # Made once: every new viewer is told the whole window.
            percentiles = [rounded(quantile(self.first, share)) for share in (0.5, 0.95)]
            self._told = [self.number * SLOT, *self.counts, *percentiles]
        return self._told


class Traffic:
    """One upstream's window. Times are Unix seconds; one that steps back falls into the newest slot."""

    def __init__(self, began: float) -> None:
        self.began = began
        self._slots: deque[Slot] = deque()
        self._counts = [0] * len(_FIELDS)
        self._first: Counter[int] = Counter()

    def add(self, now: float, counts: list[int], first: Mapping[int, int]) -> None:
        self._slot(now).add(counts, first)
        self._counts = [ours + more for ours, more in zip(self._counts, counts, strict=True)]
        self._first.update(first)

    def card(self, now: float) -> dict[str, Any]:
        """The numbers of now: rates over a minute, shares and times over the window."""
        self._expire(now)
        recent = self._recent(now)
        # The slot of now has only begun, and so may have the proxy.
        seconds = max(SLOT, min((RECENT - 1) * SLOT + now % SLOT, now - self.began))
        _, closed, failed, warned, _ = self._counts
        return {
            "rate": round(recent[0] / seconds, 2),
            "tokens_rate": round(recent[4] / seconds, 2),
            "closed": closed,
            "failed": failed,
            "warned": warned,
            "p50": rounded(quantile(self._first, 0.5)),
            "p95": rounded(quantile(self._first, 0.95)),
        }

    def series(self, last: int = SLOTS) -> list[list[Any]]:
        """The last slots in which something happened, the oldest first."""
        return [slot.as_list() for slot in list(self._slots)[-last:]]

    def _recent(self, now: float) -> list[int]:
        since = int(now // SLOT) - RECENT
        columns = zip(*(slot.counts for slot in self._within(since)), strict=True)
        return [sum(column) for column in columns] or [0] * len(_FIELDS)

    def _within(self, since: int) -> Iterator[Slot]:
        for slot in reversed(self._slots):
            if slot.number <= since:
                return
            yield slot

    def _slot(self, now: float) -> Slot:
        number = int(now // SLOT)
        if not self._slots or number > self._slots[-1].number:
            self._slots.append(Slot(number))
            self._expire(now)
        return self._slots[-1]

    def _expire(self, now: float) -> None:
        oldest = int(now // SLOT) - SLOTS
        while self._slots and self._slots[0].number <= oldest:
            gone = self._slots.popleft()
            self._counts = [a - b for a, b in zip(self._counts, gone.counts, strict=True)]
            self._first.subtract(gone.first)
            self._first = +self._first


def rounded(seconds: float | None) -> float | None:
    """To what a bucket's width is worth."""
    return None if seconds is None else round(seconds, 4)
