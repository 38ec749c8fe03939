"""Questions to the index: filters, and the records that pass them, newest or oldest first.

What belongs here: from filters to SQL that uses an index. What doesn't: tables (schema.py), sums
(statistics.py), words on the command line (cli/audit).

One condition drives: it says which index is walked, in the order of time, so that the first records
of an answer come at once however many there are. Which one is found by counting a little; where it
has several values (a rule of a family, 5xx), their walks are merged. The other conditions are looked
at in each row.

Every question takes a connection, and a connection belongs to one thread. Who asks in the process
that keeps the index fresh (``indexkeeper.py``) opens ``schema.reader(folder)`` for a question or a
few, in the thread that asks, and closes it again: that takes a fraction of a millisecond, sees what
was committed last, waits for no writer, and never holds on to an index that was made anew since.
"""

from __future__ import annotations

import heapq
import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

from teeline.proxy.audit.index import SEVERITIES, VERDICTS
from teeline.proxy.audit.sums import HOUR

_WORD_COLUMNS: Final = ("upstream", "model", "operation", "key", "ended")
_CODE_COLUMNS: Final = ("verdict", "client")
_PROBE: Final = 5000
"""Rows of an index that are counted to find the condition that drives."""
_MESSAGES: Final = 200
"""Different messages whose walks are merged; more are compared row by row."""
_STATUS_CLASS: Final = 100
_ANY_TIME: Final = (-(1 << 62), 1 << 62)


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked for; empty is all. ``since`` and ``until`` in Unix seconds, the end excluded.

    ``status`` holds numbers, and 1 to 5 for a whole class. ``rules`` are ids or families.
    ``severity`` is the least. Conditions on violations must hold for one and the same violation.
    """

    since: float | None = None
    until: float | None = None
    id: str = ""
    request_id: str = ""
    upstream: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    status: tuple[int, ...] = ()
    verdict: tuple[str, ...] = ()
    client_verdict: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    severity: str = ""
    message: str = ""


class Entry(NamedTuple):
    """A record as the index knows it, and where it is: file, byte, length, line."""

    n: int
    at: int
    chain: str
    file: int
    offset: int
    length: int
    line: int
    id: str
    upstream: str
    model: str
    operation: str
    stream: bool
    status: int | None
    request_id: str | None
    key: str
    verdict: int
    client: int
    ended: str
    inspection: str
    duration: int | None
    first_byte: int | None
    events: int
    received: int
    captured: bool


class Broken(NamedTuple):
    """A violation as the index knows it."""

    rule: str
    severity: int
    times: int
    message: str


class Hours(NamedTuple):
    """Whole hours from ``first`` to before ``end`` (since 1970) within ``since`` and ``until``
    (microseconds), and the conditions on upstreams over ``e``.
    """

    first: int
    end: int
    since: int
    until: int
    where: str
    values: list[Any]


class Condition(NamedTuple):
    """``column`` (of exchanges, or of violations where ``v``) is one of ``values``."""

    table: str
    column: str
    values: tuple[Any, ...]

    @property
    def walked(self) -> str:
        """The index that can drive it."""
        return ("exchange_" if self.table == "e" else "violation_") + self.column

    @property
    def timed(self) -> bool:
        """Whether that index ends in the time; those of ids don't."""
        return self.column not in ("id", "request_id")


_ENTRY = f"""
e.n, e.at, f.chain, f.number, e.offset, e.length, e.line, e.id,
{", ".join(f"(SELECT word FROM words WHERE id = e.{c})" for c in ("upstream", "model", "operation"))},
e.stream, e.status, e.request_id, (SELECT word FROM words WHERE id = e.key), e.verdict, e.client,
{", ".join(f"(SELECT word FROM words WHERE id = e.{c})" for c in ("ended", "inspection"))},
e.duration, e.first_byte, e.events, e.received, e.captured
"""


def search(
    db: sqlite3.Connection, filters: Filters, limit: int | None = None, *, newest: bool = True
) -> Iterator[Entry]:
    """The records that pass, in the order of time."""
    plan = Plan(db, filters)
    walks = [_rows(db, sql, values) for sql, values in plan.statements(newest=newest)]
    merged: Iterator[Entry] = (
        walks[0]
        if len(walks) == 1
        else heapq.merge(*walks, key=attrgetter("at", "n"), reverse=newest)
    )
    return itertools.islice(_once(merged), limit)


def violations(db: sqlite3.Connection, n: int) -> list[Broken]:
    """What a record's exchange has broken, the worst first."""
    rows = db.execute(
        "SELECT r.word, v.severity, v.count, m.word FROM violations v"
        " JOIN words r ON r.id = v.rule JOIN words m ON m.id = v.message"
        " WHERE v.exchange = ? ORDER BY v.severity DESC, v.rowid",
        (n,),
    )
    return [Broken(*row) for row in rows]


def following(db: sqlite3.Connection, after: int, filters: Filters) -> Iterator[Entry]:
    """The records that pass and were indexed after the one with number ``after``, in that order."""
    where, values = Plan(db, filters).where()
    sql = f"{_select()} WHERE e.n > ? AND {where} ORDER BY e.n"
    return _rows(db, sql, [after, *values])


def in_files(db: sqlite3.Connection, filters: Filters) -> Iterator[Entry]:
    """The records that pass, file by file: for reading them all."""
    where, values = Plan(db, filters).where()
    source = _select("INDEXED BY exchange_file")
    files = db.execute("SELECT id FROM files ORDER BY chain, number").fetchall()
    sql = f"{source} WHERE e.file = ? AND {where} ORDER BY e.offset"
    return itertools.chain.from_iterable(_rows(db, sql, [file, *values]) for (file,) in files)


def beginning_with(db: sqlite3.Connection, start: str, limit: int) -> list[Entry]:
    """The records whose ids begin with some digits."""
    source = _select("INDEXED BY exchange_id")
    sql = f"{source} WHERE e.id >= ? AND e.id < ? ORDER BY e.id LIMIT ?"
    return list(_rows(db, sql, [start, start + "\U0010ffff", limit]))


class Plan:
    """How a question is put to the index."""

    def __init__(self, db: sqlite3.Connection, filters: Filters) -> None:
        self._db = db
        self._conditions = list(_conditions(db, filters))
        self._times = (
            _ANY_TIME[0] if filters.since is None else round(filters.since * 1e6),
            _ANY_TIME[1] if filters.until is None else round(filters.until * 1e6),
        )

    @property
    def is_timed(self) -> bool:
        """Whether it is about some time, rather than about all of it."""
        return self._times != _ANY_TIME

    def where(self) -> tuple[str, list[Any]]:
        """All conditions as one expression over ``e``, to be looked at in each record."""
        return self._within_time(*_all_of(self._conditions, "e"))

    def counted(self) -> tuple[str, list[Any]]:
        """The same for sums over all records that pass, in whatever order SQLite finds them.

        Those of a few values are looked up by them; those with some violation are a set.
        """
        free = [each for each in self._conditions if each.table == "v"]
        free += [
            each for each in self._conditions if each.table == "e" and self._passing(each) < _PROBE
        ]
        clauses, values = _all_of([each for each in self._conditions if each not in free], "e")
        inner = [each for each in free if each.table == "v"]
        outer = [each for each in free if each.table == "e"]
        clauses += [_one_of(each, free=True) for each in outer]
        if inner:
            among = " AND ".join(_one_of(each, free=True) for each in inner)
            clauses.append(f"e.n IN (SELECT v.exchange FROM violations v WHERE {among})")
        values += [value for each in (*outer, *inner) for value in each.values]
        return self._within_time(clauses, values)

    def _within_time(self, clauses: list[str], values: list[Any]) -> tuple[str, list[Any]]:
        if self._times == _ANY_TIME:
            return " AND ".join(clauses) or "1", values
        return " AND ".join(["e.at >= ? AND e.at < ?", *clauses]), [*self._times, *values]

    def hours(self) -> Hours | None:
        """The whole hours that are asked for, and what is left over at both ends; None where the sums
        of hours (sums.py) can't answer, since something else than time and upstream is asked for.
        """
        if any((each.table, each.column) != ("e", "upstream") for each in self._conditions):
            return None
        since, until = self._times
        first, end = -(-since // HOUR), until // HOUR
        if first >= end:
            return None  # within an hour, or two, there is little to be counted
        clauses, values = _all_of(self._conditions, "e")
        return Hours(first, end, since, until, " AND ".join(clauses) or "1", values)

    def statements(self, *, newest: bool) -> list[tuple[str, list[Any]]]:
        """One statement a value of the driving condition."""
        driver = self._driver()
        order = "DESC" if newest else "ASC"
        if driver is None:
            source = f"{_select('INDEXED BY exchange_at')} WHERE e.at >= ? AND e.at < ?"
            return [(f"{source} ORDER BY e.at {order}, e.n {order}", [*self._times])]
        return [self._driven(driver, value, order) for value in driver.values]

    def _driven(self, driver: Condition, value: Any, order: str) -> tuple[str, list[Any]]:
        table = driver.table
        others = [each for each in self._conditions if each is not driver]
        if table == "e":
            source = _select(f"INDEXED BY {driver.walked}")
            ordered = f"e.at {order}, e.n {order}"
        else:
            source = (
                f"SELECT {_ENTRY} FROM violations v INDEXED BY {driver.walked}"
                " CROSS JOIN exchanges e ON e.n = v.exchange JOIN files f ON f.id = e.file"
            )
            ordered = f"v.at {order}"
        at = f"{table}.at" if driver.timed else f"+{table}.at"
        clauses, values = _all_of(others, table)
        first = f"{table}.{driver.column} = ? AND {at} >= ? AND {at} < ?"
        where = " AND ".join([first, *clauses])
        return f"{source} WHERE {where} ORDER BY {ordered}", [value, *self._times, *values]

    def _driver(self) -> Condition | None:
        """The condition that the fewest rows pass, as far as counting a little can tell."""
        able = [each for each in self._conditions if len(each.values) <= _MESSAGES]
        if not able:
            return None
        return min(able, key=self._passing)

    def _passing(self, condition: Condition) -> int:
        table = "exchanges" if condition.table == "e" else "violations"
        within = "AND at >= ? AND at < ?" if condition.timed else ""
        times = self._times if condition.timed else ()
        sql = (
            f"SELECT count(*) FROM (SELECT 1 FROM {table} INDEXED BY {condition.walked}"
            f" WHERE {condition.column} = ? {within} LIMIT {_PROBE})"
        )
        return sum(self._db.execute(sql, (v, *times)).fetchone()[0] for v in condition.values)


def _all_of(conditions: Sequence[Condition], table: str) -> tuple[list[str], list[Any]]:
    """Clauses for conditions; where no violation is walked (``table`` e), one must exist."""
    own = [each for each in conditions if each.table == "e" or table == "v"]
    broken = [each for each in conditions if each not in own]
    clauses = [_one_of(each) for each in own]
    if broken:
        inner = " AND ".join(map(_one_of, broken))
        clauses.append(
            "EXISTS (SELECT 1 FROM violations v INDEXED BY violation_exchange"
            f" WHERE v.exchange = e.n AND {inner})"
        )
    return clauses, [value for each in (*own, *broken) for value in each.values]


def _select(indexed: str = "") -> str:
    return f"SELECT {_ENTRY} FROM exchanges e {indexed} JOIN files f ON f.id = e.file"


def _one_of(condition: Condition, *, free: bool = False) -> str:
    # The plus sign keeps SQLite from walking this column's index instead of the driving one's.
    marks, plus = ", ".join("?" * len(condition.values)), "" if free else "+"
    return f"{plus}{condition.table}.{condition.column} IN ({marks})"


def _conditions(db: sqlite3.Connection, filters: Filters) -> Iterator[Condition]:
    for column in ("id", "request_id"):
        if text := getattr(filters, column):
            yield Condition("e", column, (text,))
    for column in _WORD_COLUMNS:
        if words := getattr(filters, column):
            yield Condition("e", column, _numbers(db, words))
    if filters.verdict:
        yield Condition("e", "verdict", tuple(VERDICTS[word] for word in filters.verdict))
    if filters.client_verdict:
        yield Condition("e", "client", tuple(VERDICTS[word] for word in filters.client_verdict))
    if filters.status:
        yield Condition("e", "status", _statuses(db, filters.status))
    yield from _broken(db, filters)


def _broken(db: sqlite3.Connection, filters: Filters) -> Iterator[Condition]:
    rules = [rule for rule in filters.rules if "." in rule.removesuffix(".*")]
    families = [rule.removesuffix(".*") for rule in filters.rules if rule not in rules]
    if families:
        # Both at once only where both were asked for: rules of the families, and single ones.
        numbers = _numbers(db, [*rules, *_rules_of(db, families)]) if rules else ()
        yield (
            Condition("v", "rule", numbers)
            if rules
            else Condition("v", "family", _numbers(db, families))
        )
    elif rules:
        yield Condition("v", "rule", _numbers(db, rules))
    if filters.severity:
        least = SEVERITIES[filters.severity]
        yield Condition("v", "severity", tuple(range(least, max(SEVERITIES.values()) + 1)))
    if filters.message:
        yield Condition("v", "message", _messages(db, filters.message))


def _numbers(db: sqlite3.Connection, words: Sequence[str]) -> tuple[int, ...]:
    """The numbers of words; for those that the index doesn't know, one that nothing has."""
    found = (
        db.execute("SELECT id FROM words WHERE word = ?", (word,)).fetchone()
        for word in dict.fromkeys(words)
    )
    return tuple(dict.fromkeys(-1 if row is None else int(row[0]) for row in found))


def _rules_of(db: sqlite3.Connection, families: Sequence[str]) -> list[str]:
    rows: list[str] = []
    for family in families:
        like = _like(family) + ".%"
        found = db.execute("SELECT word FROM words WHERE word LIKE ? ESCAPE '!'", (like,))
        rows += [word for (word,) in found if " " not in word]
    return rows


def _messages(db: sqlite3.Connection, text: str) -> tuple[int, ...]:
    """The numbers of the words that hold a text; every word is looked at, they are few."""
    sql = "SELECT id FROM words WHERE word LIKE ? ESCAPE '!'"
    return tuple(row[0] for row in db.execute(sql, (f"%{_like(text)}%",))) or (-1,)


def _like(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _statuses(db: sqlite3.Connection, asked: Sequence[int]) -> tuple[int, ...]:
    """Status codes, classes replaced by those of their codes that occur."""
    found = [status for status in asked if status >= _STATUS_CLASS]
    for status in asked:
        if status < _STATUS_CLASS:
            found += _occurring(db, status * _STATUS_CLASS, (status + 1) * _STATUS_CLASS)
    return tuple(dict.fromkeys(found)) or (-1,)


def _occurring(db: sqlite3.Connection, low: int, high: int) -> Iterator[int]:
    # One look into the index a code, instead of one a record.
    sql = "SELECT min(status) FROM exchanges WHERE status >= ? AND status < ?"
    while (status := db.execute(sql, (low, high)).fetchone()[0]) is not None:
        yield status
        low = status + 1


def _rows(db: sqlite3.Connection, sql: str, values: Sequence[Any]) -> Iterator[Entry]:
    return (Entry(*row) for row in db.execute(sql, values))


def _once(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Without repeats: an exchange may have broken several of the rules asked for."""
    seen: set[int] = set()
    at = -1
    for entry in entries:
        if entry.at != at:
            seen.clear()
            at = entry.at
        if entry.n not in seen:
            seen.add(entry.n)
            yield entry
