"""Faults of one kind as one line: rule, upstream and model, how often and since when.

What belongs here: grouping and the trend. What doesn't: where findings come from (feed.py), the faults
of the past (history.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

KINDS: Final = 500
"""Kinds that are told apart; beyond that those not seen for longest are forgotten."""
MINUTES: Final = 15
LISTED: Final = 40

_MINUTE: Final = 60.0
_HALF: Final = 5
"""Minutes that are compared with as many before."""
_RISE: Final = 1.5
_RANK: Final = {"fail": 0, "warn": 1, "info": 2}


class Kind(NamedTuple):
    """What counts as the same fault."""

    rule: str
    severity: str
    upstream: str
    model: str


class Fault:
    """One kind. ``minutes`` are counts by the minute since 1970."""

    __slots__ = ("count", "exchange", "first", "last", "minutes")

    def __init__(self, at: float) -> None:
        self.count = 0
        self.first = self.last = at
        self.exchange = ""
        self.minutes: dict[int, int] = {}

    def add(self, count: int, at: float, exchange: str) -> None:
        self.count += count
        self.last = max(self.last, at)
        self.exchange = exchange
        minute = int(at // _MINUTE)
        self.minutes[minute] = self.minutes.get(minute, 0) + count
        while len(self.minutes) > MINUTES:
            del self.minutes[min(self.minutes)]

    def trend(self, now: float) -> list[int]:
        """Counts of the last 15 minutes, the oldest first; the one under way is the last."""
        minute = int(now // _MINUTE)
        return [self.minutes.get(minute - ago, 0) for ago in reversed(range(MINUTES))]


class Faults:
    """All kinds since the start, within bounds. ``forgotten`` counts those that were given up."""

    def __init__(self) -> None:
        self.forgotten = 0
        self.version = 0
        """Grows with each change."""
        self._kinds: dict[Kind, Fault] = {}

    def add(self, kind: Kind, count: int, at: float, exchange: str) -> None:
        self.version += 1
        # In the order of their last finding, so that the one to be forgotten is the first.
        fault = self._kinds.pop(kind, None) or Fault(at)
        fault.add(count, at, exchange)
        self._kinds[kind] = fault
        if len(self._kinds) > KINDS:
            del self._kinds[next(iter(self._kinds))]
            self.forgotten += 1

    def listed(self, now: float) -> list[dict[str, Any]]:
        """Those of the last 15 minutes, the worst and most frequent first."""
        found = ((kind, fault, fault.trend(now)) for kind, fault in self._kinds.items())
        recent = [(kind, fault, trend) for kind, fault, trend in found if any(trend)]
        recent.sort(key=lambda each: (_RANK.get(each[0].severity, 3), -sum(each[2]), each[0]))
        return list(_as_objects(recent[:LISTED], now))


def _as_objects(
    found: Iterable[tuple[Kind, Fault, list[int]]], now: float
) -> Iterator[dict[str, Any]]:
    for kind, fault, trend in found:
        yield {
            **kind._asdict(),
            "count": sum(trend),
            "first": round(fault.first, 3),
            "last": round(fault.last, 3),
            "exchange": fault.exchange,
            "trend": trend,
            "tendency": "new" if now - fault.first < _HALF * _MINUTE else tendency(trend),
        }


def tendency(trend: list[int]) -> str:
    """``rising``, ``falling`` or ``steady``: the last third of the counts against the one before."""
    third = max(1, len(trend) // 3)
    now, before = sum(trend[-third:]), sum(trend[-2 * third : -third])
    if now > before * _RISE:
        return "rising"
    return "falling" if before > now * _RISE else "steady"
