"""The numbers of several processes as one: what a process tells of its own, and their sum.

What belongs here: which series changed, how they are written for another process, and adding up. What
doesn't: the numbers of one process (metrics.py), the way between processes (proxy/link.py).

A process tells totals, of those series alone that changed since it told last. So a message that is
missing costs freshness, and what a process that died told last goes on to count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from teeline.proxy.telemetry.instruments import INSTRUMENTS, Instrument, Kind
from teeline.proxy.telemetry.metrics import (
    OVERFLOW,
    SERIES,
    Key,
    Observe,
    Readings,
    Series,
    Settle,
    Value,
)

_BY_NAME: Final = {instrument.name: instrument for instrument in INSTRUMENTS}

Changed = dict[str, list[tuple[Key, Value]]]
"""Series by metric, as JSON takes them."""


class Changes:
    """What has changed in a process's numbers; asked by one thread."""

    def __init__(self, meter: Readings) -> None:
        self._meter = meter
        self._told: dict[str, Mapping[Key, Value]] = {}

    def take(self) -> Changed:
        """The series whose numbers are others than when this was called last."""
        changed: Changed = {}
        for instrument, values in self._meter.snapshot():
            told = self._told.get(instrument.name, {})
            if found := [item for item in values.items() if told.get(item[0]) != item[1]]:
                changed[instrument.name] = found
            self._told[instrument.name] = values
        return changed


class Part:
    """What one process has told so far."""

    def __init__(self) -> None:
        self.numbers: dict[str, dict[Key, Value]] = {}


class Sums:
    """The numbers of all processes together; any thread may read them.

    ``limit`` is how many series a metric has at most: processes that fold differently are folded once
    more. A series that is told apart stays so, since counters never fall.
    """

    def __init__(self, clock: Callable[[], float] = time.time, limit: int = SERIES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._totals: dict[str, dict[Key, Value]] = {name: {} for name in _BY_NAME}
        self._observed: dict[str, Observe] = {}
        self.started = clock()

    @property
    def settle(self) -> Settle:
        return _settled

    def observe(self, instrument: Instrument, read: Observe) -> None:
        """Has ``read`` asked for numbers of our own, instead of what processes tell of the metric."""
        self._observed[instrument.name] = read

    def take(self, part: Part, told: Mapping[str, Any]) -> None:
        """What a process tells, as it came out of JSON; ValueError where it can't be that."""
        try:
            read = [(_BY_NAME[name], _series(name, items)) for name, items in _items(told)]
        except (TypeError, IndexError) as error:
            raise ValueError("no series") from error
        with self._lock:
            for instrument, series in read:
                before = part.numbers.setdefault(instrument.name, {})
                for key, value in series:
                    self._add(instrument, key, value, before.get(key))
                    before[key] = value

    def retire(self, part: Part) -> None:
        """A process is gone: what it counted stays, what it had open doesn't."""
        with self._lock:
            for name, numbers in part.numbers.items():
                if _BY_NAME[name].kind is Kind.GAUGE:
                    for key, value in numbers.items():
                        assert isinstance(value, int)
                        self._add(_BY_NAME[name], key, 0, value)
            part.numbers.clear()

    def values(self, instrument: Instrument) -> Mapping[Key, Value]:
        if (read := self._observed.get(instrument.name)) is not None:
            return dict(read())
        with self._lock:
            # Values are replaced, never changed: a copy of the table is enough.
            return dict(self._totals[instrument.name])

    def snapshot(self) -> list[Series]:
        taken = (Series(instrument, self.values(instrument)) for instrument in INSTRUMENTS)
        return [series for series in taken if series.values]

    def _add(self, instrument: Instrument, key: Key, value: Value, before: Value | None) -> None:
        totals = self._totals[instrument.name]
        if key not in totals and len(totals) >= self._limit:
            key = OVERFLOW
        totals[key] = _sum(totals.get(key), value, before)


def _sum(total: Value | None, value: Value, before: Value | None) -> Value:
    """``total`` with ``value`` in the place of ``before``."""
    if isinstance(value, int):
        return _number(total) + value - _number(before)
    buckets, added = value
    if isinstance(before, tuple):
        buckets = [now - then for now, then in zip(buckets, before[0], strict=True)]
        added -= before[1]
    if isinstance(total, tuple):
        buckets = [all_ + now for all_, now in zip(total[0], buckets, strict=True)]
        added += total[1]
    return buckets, added


def _number(value: Value | None) -> int:
    return value if isinstance(value, int) else 0


async def _settled(deadline: float) -> None:
    """What processes tell is in the sums once it has come."""


def _items(told: Mapping[str, Any]) -> list[tuple[str, Any]]:
    if not isinstance(told, dict) or not told.keys() <= _BY_NAME.keys():
        raise ValueError("numbers of a metric that there is not")
    return list(told.items())


def _series(name: str, items: Any) -> list[tuple[Key, Value]]:
    """The series of a metric, each of the kind that the metric has."""
    instrument = _BY_NAME[name]
    if not isinstance(items, list):
        raise ValueError("no list of series")
    return [(_key(instrument, item[0]), _value(instrument, item[1])) for item in items]


def _key(instrument: Instrument, parts: Any) -> Key:
    key = tuple(parts)
    if key != OVERFLOW and len(key) != len(instrument.attributes):
        raise ValueError("a key of another metric")
    return key


def _value(instrument: Instrument, value: Any) -> Value:
    if instrument.kind is not Kind.HISTOGRAM:
        if not isinstance(value, int):
            raise ValueError("a count that is no number")
        return value
    buckets, total = value
    if len(buckets) != len(instrument.bounds) + 1:
        raise ValueError("buckets of another metric")
    return [int(count) for count in buckets], float(total)
