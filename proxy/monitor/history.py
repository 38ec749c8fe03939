"""What the live page asks of the past: the audit log by its index, away from the event loop.

What belongs here: the page's questions, in a thread of their own, within a time. What doesn't: filling
the index (proxy/audit/indexkeeper.py), what a question means (proxy/audit/query.py), one record in full
(details.py).

One question at a time: a page that asks for too much waits for itself, and not the traffic.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from teeline.proxy.audit import schema
from teeline.proxy.audit.index import SEVERITIES, VERDICTS
from teeline.proxy.audit.lookup import Found, GoneError, Lookup, upstream_url
from teeline.proxy.audit.query import Entry, Filters, Plan, beginning_with, search, violations
from teeline.proxy.audit.statistics import band, scores
from teeline.proxy.monitor.faults import tendency
from teeline.proxy.monitor.filters import SHORTEST_ID, Asked
from teeline.proxy.monitor.rows import Row, indexed_row
from teeline.proxy.text import printable

PAGE: Final = 100
"""Rows of an answer."""
DAY: Final = 86400.0
BUCKETS: Final = 144
"""Points of the chart of a day: ten minutes each."""
FAULTS: Final = 40
DEADLINE: Final = 10.0
"""Seconds that a question may take."""
KEPT: Final = 30.0
"""Seconds that sums over a day stay good."""
WAITING: Final = 16
"""Questions that may wait for their turn."""

_REST: Final = 20.0
"""Times as long as they took such sums stay good, so that a full log costs a twentieth at most."""
_STEPS = 10_000
"""Instructions of SQLite between two looks at the time."""
_WORDS: Final = {number: word for word, number in SEVERITIES.items()}
_TRENDS: Final = 24
_BY_TEXT: Final = 200

Answer = TypeVar("Answer")


class HistoryError(Exception):
    """A question can't be answered now; the text is one line that says why."""


class Place(NamedTuple):
    """Where a list goes on: behind the record of this time (microseconds) and number."""

    at: int
    n: int

    def __str__(self) -> str:
        return f"{self.at}.{self.n}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """ValueError where it is none."""
        at, dot, n = text.partition(".")
        if not dot or not at.isdecimal() or not n.isdecimal() or len(text) > 40:
            raise ValueError("no place in the log")
        return cls(int(at), int(n))


class Recorded(NamedTuple):
    """A record in full: the index's entry, the line, and the base URL that its upstream had."""

    entry: Entry
    found: Found
    url: str | None


class _Kept(Generic[Answer]):
    """An answer that many ask for: asked anew when it is old, and the older the longer it took."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = asyncio.Lock()
        self._answer: Answer | None = None
        self._until = 0.0

    async def get(self) -> Answer:
        async with self._lock:
            begun = self._clock()
            if self._answer is None or begun >= self._until:
                self._answer = await self._ask()
                now = self._clock()
                self._until = now + max(KEPT, _REST * (now - begun))
            return self._answer


class History:
    """Asks the index of the log in ``folder``; used on one event loop."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._waiting = 0
        self._closed = False
        self._db: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "teeline-history")
        self._day = _Kept(lambda: self._ask(lambda db: _day(db, self._clock())), time.monotonic)
        self._scores = _Kept(
            lambda: self._ask(lambda db: _scores(db, self._clock() - DAY)), time.monotonic
        )

    async def rows(
        self, asked: Asked, before: Place | None = None, until: float | None = None
    ) -> dict[str, Any]:
        """A page of rows, newest first, and where the next one begins (None: there is none)."""
        return await self._ask(lambda db: _rows(db, asked, before, until))

    async def record(self, exchange: str) -> Recorded | None:
        """The record of an exchange; None where the index knows none. HistoryError."""
        return await self._ask(lambda db: _record(db, self.folder, exchange))

    async def day(self) -> dict[str, Any]:
        """The last 24 hours: a chart an upstream, and the faults. As of KEPT seconds ago at most, or
        longer where it takes long."""
        return await self._day.get()

    async def scores(self) -> dict[str, dict[str, Any]]:
        """Score and band of each upstream over the last 24 hours, as old as those of ``day``."""
        return await self._scores.get()

    async def run(self, function: Callable[[], Answer]) -> Answer:
        """Something else that reads files, in the same thread. HistoryError."""
        return await self._ask(lambda db: function())

    async def close(self) -> None:
        """Ends the question under way; further ones get a HistoryError."""
        self._closed = True
        if (db := self._db) is not None:
            with contextlib.suppress(sqlite3.ProgrammingError):
                db.interrupt()  # it may have been closed this moment
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        if self._closed:
            raise HistoryError("the page is closing")
        if self._waiting >= WAITING:
            raise HistoryError("too many questions at once")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._answer, question)
        except GoneError as error:
            raise HistoryError(str(error)) from None
        except sqlite3.Error as error:
            interrupted = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT
            why = "the question takes too long" if interrupted else "the index can't be read"
            raise HistoryError(f"{why}; the audit log itself is complete") from None
        except OSError as error:
            raise HistoryError(f"the audit log can't be read: {error.strerror}") from None
        finally:
            self._waiting -= 1

    def _answer(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        end = time.monotonic() + DEADLINE
        with closing(schema.reader(self.folder)) as db:
            db.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            self._db = db
            try:
                return question(db)
            finally:
                self._db = None


def _rows(
    db: sqlite3.Connection, asked: Asked, before: Place | None, until: float | None
) -> dict[str, Any]:
    end = until if before is None else (before.at + 1) / 1e6
    found: list[Entry] = []
    for entry in _found(db, asked, end):
        if before is not None and (entry.at, entry.n) >= before:
            continue
        found.append(entry)
        if len(found) > PAGE:
            break
    shown = found[:PAGE]
    more = len(found) > PAGE
    return {
        "rows": [_row(db, entry) for entry in shown],
        "older": str(Place(shown[-1].at, shown[-1].n)) if more else None,
    }


def _row(db: sqlite3.Connection, entry: Entry) -> Row:
    return indexed_row(entry, violations(db, entry.n))


def _found(db: sqlite3.Connection, asked: Asked, until: float | None) -> Iterator[Entry]:
    """Newest first. A text that is an id or a request id is not looked for in messages."""
    text = asked.text
    if text:
        plain = asked.without_text()
        named = beginning_with(db, text, _BY_TEXT) if len(text) >= SHORTEST_ID else []
        found = [
            entry
            for entry in named
            if plain.matches(_row(db, entry)) and (until is None or entry.at < round(until * 1e6))
        ]
        if found:
            return iter(sorted(found, key=lambda entry: (-entry.at, -entry.n)))
        by_request = search(db, asked.filters(until, request_id=text))
        if (first := next(by_request, None)) is not None:
            return _chained(first, by_request)
    return search(db, asked.filters(until))


def _chained(first: Entry, others: Iterable[Entry]) -> Iterator[Entry]:
    yield first
    yield from others


def _record(db: sqlite3.Connection, folder: Path, exchange: str) -> Recorded | None:
    entry = next(iter(search(db, Filters(id=exchange), 1)), None)
    if entry is None:
        return None
    lookup = Lookup(folder)
    try:
        found = lookup.record(entry)
        return Recorded(entry, found, upstream_url(lookup.opening(entry), entry.upstream))
    finally:
        lookup.close()


def _scores(db: sqlite3.Connection, since: float) -> dict[str, dict[str, Any]]:
    return {
        score.upstream: {
            "score": round(score.share, 1),
            "band": band(score.share),
            "scored": "24 h",
        }
        for score in scores(db, Filters(since=since))
    }


def _day(db: sqlite3.Connection, now: float) -> dict[str, Any]:
    """Sums of ten minutes by upstream, and what was broken; one walk over the day each."""
    width = round(DAY / BUCKETS * 1e6)
    since = (round(now * 1e6) // width - BUCKETS + 1) * width
    where, values = Plan(db, Filters(since=since / 1e6)).where()
    series: dict[str, list[list[Any]]] = {}
    words: dict[int, str] = {}
    for upstream, bucket, closed, failed, warned in db.execute(
        f"SELECT e.upstream, e.at / {width}, count(*),"
        f" sum(e.verdict = {VERDICTS['fail']}), sum(e.verdict = {VERDICTS['warn']})"
        f" FROM exchanges e INDEXED BY exchange_at WHERE {where} GROUP BY 1, 2 ORDER BY 2",
        values,
    ):
        name = words.get(upstream) or words.setdefault(upstream, _word(db, upstream))
        series.setdefault(name, []).append([bucket * width / 1e6, closed, failed, warned])
    return {
        "since": since / 1e6,
        "width": width / 1e6,
        "series": series,
        "faults": _faults(db, since, now),
    }


def _faults(db: sqlite3.Connection, since: int, now: float) -> list[dict[str, Any]]:
    span = max(1, (round(now * 1e6) - since) // _TRENDS + 1)
    kinds: dict[tuple[int, int, int], dict[str, Any]] = {}
    rows = db.execute(
        f"SELECT v.rule, e.upstream, e.model, v.severity, (v.at - ?) / {span}, count(*),"
        " min(v.at), max(v.at), max(e.id)"
        " FROM violations v INDEXED BY violation_severity"
        " CROSS JOIN exchanges e ON e.n = v.exchange"
        " WHERE v.severity IN (?, ?) AND v.at >= ? GROUP BY 1, 2, 3, 4, 5",
        (since, SEVERITIES["warn"], SEVERITIES["fail"], since),
    )
    for rule, upstream, model, severity, part, count, first, last, exchange in rows:
        kind = kinds.setdefault((rule, upstream, model), _kind(severity, first))
        kind["severity"] = max(kind["severity"], severity)
        kind["count"] += count
        kind["first"], kind["last"] = min(kind["first"], first), max(kind["last"], last)
        kind["exchange"] = exchange
        kind["trend"][min(part, _TRENDS - 1)] += count
    listed = sorted(kinds.items(), key=lambda item: (-item[1]["severity"], -item[1]["count"]))
    return [_named(db, names, kind) for names, kind in listed[:FAULTS]]


def _kind(severity: int, first: int) -> dict[str, Any]:
    trend = [0] * _TRENDS
    return {"severity": severity, "count": 0, "first": first, "last": first, "trend": trend}


def _named(
    db: sqlite3.Connection, names: tuple[int, int, int], kind: Mapping[str, Any]
) -> dict[str, Any]:
    rule, upstream, model = (_word(db, number) for number in names)
    return {
        **kind,
        "rule": rule,
        "upstream": upstream,
        "model": model,
        "severity": _WORDS[kind["severity"]],
        "first": kind["first"] / 1e6,
        "last": kind["last"] / 1e6,
        "tendency": tendency(kind["trend"]),
    }


def _word(db: sqlite3.Connection, number: int) -> str:
    row = db.execute("SELECT word FROM words WHERE id = ?", (number,)).fetchone()
    return "" if row is None else printable(str(row[0]), 128)
