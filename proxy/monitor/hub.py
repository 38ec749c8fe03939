"""The state behind the live page, made of batches of all processes, and what a viewer is told of it.

What belongs here: taking batches in, and updates for viewers who have seen so much already. What
doesn't: batches (feed.py), HTTP (events.py, pages.py), the past (history.py).

A viewer is a number: how far it has read. An update is made of what the hub holds when it is asked
for; nothing waits for a viewer, so that a slow one loses rows, which it is told, and never costs memory.
Everything is bounded by this module's constants, whatever comes in.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.audit.statistics import band
from teeline.proxy.monitor.faults import Faults, Kind
from teeline.proxy.monitor.feed import MESSAGE, VERSION
from teeline.proxy.monitor.filters import Asked
from teeline.proxy.monitor.rows import Row
from teeline.proxy.monitor.traffic import Traffic

log = logging.getLogger("teeline.monitor")

HELD: Final = 500
"""Rows of closed exchanges that are held."""
ROWS: Final = 40
"""Rows of an update."""
STREAMS: Final = 40
"""Exchanges under way of an update."""
RECORDS_BYTES: Final = 8 * 1024 * 1024
UPSTREAMS: Final = 64
SILENT: Final = 10.0
"""Seconds without a word after which a process's open exchanges are taken for ended with it."""
FAULTS_EVERY: Final = 1.0
"""Seconds between two lists of faults for a viewer."""


_Made = tuple[int, float, list[dict[str, Any]]]
"""What is made once for all viewers, of which version and when."""


class Cursor(NamedTuple):
    """How far a viewer has read. ``hub`` tells one run of the hub from another."""

    hub: str
    seq: int
    faults: int = 0

    def __str__(self) -> str:
        return f"{self.hub}.{self.seq}"


class _Worker:
    """What a process said last of what is under way."""

    def __init__(self) -> None:
        self.at = 0.0
        self.open: dict[str, int] = {}
        self.streams: Sequence[Row] = ()
        self.lost = 0


class Hub:
    """Used on one event loop. ``upstreams`` are the configured ones, in the order they are shown in."""

    def __init__(self, upstreams: Iterable[str], *, clock: Callable[[], float] = time.time) -> None:
        self.version = 0
        """Grows with each batch."""
        self.refused = 0
        """Batches that were none: our own mistake."""
        self.scores: Mapping[str, Mapping[str, Any]] = {}
        """Score and band by upstream, where the audit log knows them."""
        self._clock = clock
        self._name = secrets.token_hex(4)
        self._traffic = {name: Traffic(clock()) for name in upstreams}
        self._faults = Faults()
        self._rows: deque[tuple[int, Row]] = deque(maxlen=HELD)
        self._seq = 0
        self._workers: dict[str, _Worker] = {}
        self._records: OrderedDict[str, bytes] = OrderedDict()
        self._records_size = 0
        self._cards: _Made = (-1, 0.0, [])
        self._listed: _Made = (-1, 0.0, [])

    # -- what comes in ---------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """Takes a batch in. Never raises: what is no batch is counted."""
        try:
            if len(data) > 2 * MESSAGE:
                raise ValueError("too large")
            self._take(orjson.loads(data))
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            self.refused += 1
            if self.refused == 1:
                log.error("monitor: a batch was refused: %s", type(error).__name__)
        self.version += 1

    def gone(self, worker: str) -> None:
        """A process has ended, and with it what it had open."""
        if (known := self._workers.get(worker)) is not None:
            known.open, known.streams = {}, ()
        self.version += 1

    def _take(self, batch: Mapping[str, Any]) -> None:
        if batch["v"] != VERSION:
            raise ValueError("another version")
        now = self._clock()
        for name, (*counts, first) in batch.get("tallies", {}).items():
            if (traffic := self._of(name, now)) is not None:
                traffic.add(now, counts, {int(number): count for number, count in first.items()})
        for rule, severity, upstream, model, count, at, exchange in batch.get("faults", ()):
            self._faults.add(Kind(rule, severity, upstream, model), count, at, exchange)
        for row in batch.get("rows", ()):
            self._seq += 1
            self._rows.append((self._seq, row))
        # Counted as if they had been there: a viewer has missed them.
        self._seq += batch.get("left_out", 0)
        worker = self._workers.setdefault(str(batch["worker"]), _Worker())
        worker.at = now
        worker.lost = batch.get("lost", worker.lost)
        worker.open = batch.get("open", worker.open)
        worker.streams = batch.get("streams", worker.streams)
        for record in batch.get("records", ()):
            self._keep(str(record["id"]), orjson.dumps(record))

    def _of(self, name: str, now: float) -> Traffic | None:
        known = self._traffic.get(name)
        if known is None and len(self._traffic) < UPSTREAMS:
            known = self._traffic[name] = Traffic(now)
        return known

    def _keep(self, name: str, record: bytes) -> None:
        self._records_size += len(record) - len(self._records.pop(name, b""))
        self._records[name] = record
        while self._records_size > RECORDS_BYTES:
            _, oldest = self._records.popitem(last=False)
            self._records_size -= len(oldest)

    # -- what goes out ---------------------------------------------------------------------------

    def snapshot(self, asked: Asked) -> tuple[dict[str, Any], Cursor]:
        """All that a new viewer needs."""
        now = self._clock()
        rows = [row for _, row in reversed(self._rows) if asked.matches(row)][:ROWS]
        cursor = Cursor(self._name, self._seq, self._faults.version)
        return {
            **self._now(now, asked),
            "series": {name: each.series() for name, each in self._traffic.items()},
            "faults": self._list_faults(now),
            "rows": rows,
            "unlisted": 0,
        }, cursor

    def update(
        self, asked: Asked, since: Cursor, *, faults: bool = True
    ) -> tuple[dict[str, Any], Cursor]:
        """What happened since a viewer's cursor; ``faults``: the list, if it has changed."""
        now = self._clock()
        seen = 0
        rows: list[Row] = []
        for seq, row in reversed(self._rows):
            if seq <= since.seq or len(rows) == ROWS:
                break
            seen += 1
            if asked.matches(row):
                rows.append(row)
        found: dict[str, Any] = {
            **self._now(now, asked),
            "series": {name: each.series(2) for name, each in self._traffic.items()},
            "rows": rows,
            "unlisted": max(0, self._seq - since.seq - seen),
        }
        version = since.faults
        if faults and version != self._faults.version:
            found["faults"] = self._list_faults(now)
            version = self._faults.version
        return found, Cursor(self._name, self._seq, version)

    def resumed(self, text: str) -> Cursor | None:
        """The cursor that a viewer says it had; None where it is another run's, or no cursor."""
        name, dot, seq = text.partition(".")
        if not dot or name != self._name or not seq.isdecimal() or len(seq) > 15:
            return None
        return Cursor(self._name, min(int(seq), self._seq))

    def row(self, exchange: str) -> Row | None:
        """What is known of an exchange, under way or over."""
        streams = (row for worker in self._workers.values() for row in worker.streams)
        closed = (row for _, row in reversed(self._rows))
        found = [row for rows in (closed, streams) for row in rows if row["id"] == exchange]
        return found[0] if found else None

    def record(self, exchange: str) -> dict[str, Any] | None:
        """Its audit record, where there is no log and it is not long ago."""
        found = self._records.get(exchange)
        record: dict[str, Any] | None = None if found is None else orjson.loads(found)
        return record

    def _now(self, now: float, asked: Asked) -> dict[str, Any]:
        self._bury(now)
        streams = [row for worker in self._workers.values() for row in worker.streams]
        streams.sort(key=_by_start)
        return {
            "at": round(now, 3),
            "upstreams": self._all_cards(now),
            "streams": [row for row in streams if asked.matches(row)][:STREAMS],
            "lost": sum(worker.lost for worker in self._workers.values()),
        }

    def _all_cards(self, now: float) -> list[dict[str, Any]]:
        """The cards, made once for all viewers."""
        if not _is_good(self._cards, self.version, now):
            cards = [self._card(name, traffic, now) for name, traffic in self._traffic.items()]
            self._cards = (self.version, now, cards)
        return self._cards[2]

    def _list_faults(self, now: float) -> list[dict[str, Any]]:
        """The list of faults, made once for all viewers."""
        if not _is_good(self._listed, self._faults.version, now):
            self._listed = (self._faults.version, now, self._faults.listed(now))
        return self._listed[2]

    def _card(self, name: str, traffic: Traffic, now: float) -> dict[str, Any]:
        card = traffic.card(now)
        under_way = sum(worker.open.get(name, 0) for worker in self._workers.values())
        return {"name": name, "open": under_way, **card, **self._score(name, card)}

    def _score(self, name: str, card: Mapping[str, Any]) -> Mapping[str, Any]:
        if (known := self.scores.get(name)) is not None:
            return known
        if not card["closed"]:
            return {"score": None, "band": None, "scored": "15 min"}
        share = 100.0 * (card["closed"] - card["failed"]) / card["closed"]
        return {"score": round(share, 1), "band": band(share), "scored": "15 min"}

    def _bury(self, now: float) -> None:
        for worker in self._workers.values():
            if worker.open and now - worker.at > SILENT:
                worker.open, worker.streams = {}, ()


def _is_good(made: _Made, version: int, now: float) -> bool:
    """Whether what was made says what is now: rates fall and times pass without a batch."""
    return made[0] == version and 0.0 <= now - made[1] < 1.0


def _by_start(row: Row) -> float:
    return float(-row["at"])
