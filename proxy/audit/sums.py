"""Sums by hour beside the records of the index, so that counting a million of them takes no time.

What belongs here: what is summed up, and adding to it. What doesn't: asking (statistics.py), the tables
(schema.py).

Sums are kept a file, hour and upstream, and what they count by beside that (``totals``: model,
operation, streamed or not, verdict; ``broken``: rule and severity; ``failures``: the family of a rule
that was broken with a fail). Relays break many rules, so that these have sums over all hours as well
(``broken_ever``). A file that retention deletes takes its sums along. They grow with the
names that clients and relays use, never faster than the records themselves.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

HOUR: Final = 3_600_000_000
"""Microseconds."""
TABLES: Final = ("totals", "broken", "broken_ever", "failures")

_TOTAL: Final = """
INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
exchanges = exchanges + excluded.exchanges,
first = min(first, excluded.first), last = max(last, excluded.last)
"""
_BROKEN: Final = """
INSERT INTO broken VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
exchanges = exchanges + excluded.exchanges, times = times + excluded.times
"""
_BROKEN_EVER: Final = """
INSERT INTO broken_ever VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
exchanges = exchanges + excluded.exchanges, times = times + excluded.times
"""
_FAILURE: Final = """
INSERT INTO failures VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
exchanges = exchanges + excluded.exchanges
"""

MOST_TIMES: Final = 1 << 40
"""How often a rule was broken in one exchange, at most: a damaged line may claim any number, and the
sums of a million of them must stay within SQLite's 64 bits."""

_Place = tuple[int, int, int]
"""File, hour, upstream."""


class Exchange(NamedTuple):
    """A row of ``exchanges``; words by their numbers, times in microseconds."""

    n: int
    file: int
    offset: int
    length: int
    line: int
    at: int
    id: str
    upstream: int
    model: int
    operation: int
    stream: bool
    status: int | None
    request_id: str | None
    key: int
    verdict: int
    client: int
    ended: int
    inspection: int
    duration: int | None
    first_byte: int | None
    events: int
    received: int
    captured: bool


class Violation(NamedTuple):
    """A row of ``violations``."""

    exchange: int
    at: int
    rule: int
    family: int
    severity: int
    times: int
    message: int


class Sums:
    """What a batch of records adds. ``fail`` is the number of that severity."""

    def __init__(self, fail: int) -> None:
        self._fail = fail
        self._totals: dict[tuple[_Place, int, int, bool, int], list[int]] = {}
        self._broken: Counter[tuple[_Place, int, int]] = Counter()
        self._times: Counter[tuple[_Place, int, int]] = Counter()
        self._failures: Counter[tuple[_Place, int]] = Counter()

    def add(self, exchange: Exchange, violations: Sequence[Violation]) -> None:
        """A record, and what its exchange has broken: each rule once, as exchanges report them."""
        at = exchange.at
        place = (exchange.file, at // HOUR, exchange.upstream)
        kind = (exchange.model, exchange.operation, exchange.stream, exchange.verdict)
        total = self._totals.setdefault((place, *kind), [0, at, at])
        total[0] += 1
        total[1:] = min(total[1], at), max(total[2], at)
        for each in violations:
            self._broken[place, each.rule, each.severity] += 1
            self._times[place, each.rule, each.severity] += each.times
        for family in {each.family for each in violations if each.severity == self._fail}:
            self._failures[place, family] += 1

    def write(self, db: sqlite3.Connection) -> None:
        """Adds all of it, within the transaction that the records are in; sqlite3.Error."""
        db.executemany(_TOTAL, self._total_rows())
        db.executemany(_BROKEN, self._broken_rows())
        db.executemany(_BROKEN_EVER, self._broken_ever_rows())
        rows = ((*place, family, n) for (place, family), n in self._failures.items())
        db.executemany(_FAILURE, rows)

    def _total_rows(self) -> Iterable[tuple[int, ...]]:
        for (place, *kind), numbers in self._totals.items():
            yield (*place, *kind, *numbers)

    def _broken_ever_rows(self) -> Iterable[tuple[int, ...]]:
        sums: dict[tuple[int, int, int, int], list[int]] = {}
        for file, _, upstream, rule, severity, exchanges, times in self._broken_rows():
            total = sums.setdefault((file, upstream, rule, severity), [0, 0])
            total[0] += exchanges
            total[1] += times
        return ((*key, *total) for key, total in sums.items())

    def _broken_rows(self) -> Iterable[tuple[int, ...]]:
        for key, exchanges in self._broken.items():
            place, rule, severity = key
            yield (*place, rule, severity, exchanges, self._times[key])
