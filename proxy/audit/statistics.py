"""Sums over the index: by upstream, model, rule and hour, and the scoreboard of relays.

What belongs here: counting. What doesn't: filters (query.py), layout (proxy/reports/statistics.py).

Where only time and upstreams are asked for, whole hours come from their sums (sums.py) and records are
looked at in the hours at both ends alone; any other question walks the records.

The scoreboard is what passive traffic says of a relay: for each family of rules the share of
exchanges that the family is about and that break none of it with a fail. It isn't the relay check,
which asks questions of its own; the bands are the same.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from teeline.proxy.audit.index import SEVERITIES, VERDICTS
from teeline.proxy.audit.query import Filters, Plan
from teeline.proxy.audit.sums import HOUR
from teeline.validators.scoring import Band

_TOP: Final = 20
_FAIL: Final = VERDICTS["fail"]
_WARN: Final = VERDICTS["warn"]

_STREAM: Final = True
_FAMILIES: Final[Mapping[str, tuple[tuple[str, ...], bool | None]]] = {
    "http": ((), None),
    "error": ((), None),
    "cross": ((), None),
    "sse": ((), _STREAM),
    "chat": (("chat",), not _STREAM),
    "chatstream": (("chat",), _STREAM),
    "tools": (("chat",), None),
    "structured": (("chat", "responses"), None),
    "responses": (("responses",), None),
    "respstream": (("responses",), _STREAM),
    "completions": (("completions",), None),
    "embeddings": (("embeddings",), None),
    "models": (("models",), None),
    "usage": (("chat", "completions", "embeddings", "responses"), None),
    "nnrp": ((), None),
}
"""Families of the relay's side: the operations that they are about (none: all), and whether streams."""
_WHERE_BROKEN: Final = frozenset({"nnrp"})
"""Families with a line only where they were broken: the index knows no carrier, and most relays have
none of NNRP."""


class Tally(NamedTuple):
    """Exchanges under one name. ``name`` is a word, or for hours Unix seconds."""

    name: str
    exchanges: int
    failed: int
    warned: int

    @property
    def failing(self) -> float:
        """The share of exchanges that fail, 0 to 1."""
        return self.failed / self.exchanges if self.exchanges else 0.0


class RuleTally(NamedTuple):
    """A rule: its severity as it was reported last, exchanges that broke it, and how often in all."""

    rule: str
    severity: int
    exchanges: int
    times: int


class Statistics(NamedTuple):
    """What the records that pass come to. ``lost`` are exchanges that no record tells of."""

    total: Tally
    lost: int
    first: int | None
    last: int | None
    upstreams: list[Tally]
    models: list[Tally]
    hours: list[Tally]
    rules: list[RuleTally]


class FamilyScore(NamedTuple):
    """``exchanges`` that a family is about, and those of them without a fail of it."""

    family: str
    exchanges: int
    clean: int

    @property
    def share(self) -> float:
        """0 to 100."""
        return 100.0 * self.clean / self.exchanges


class Score(NamedTuple):
    """A relay by its traffic: all families, exchanges without any fail, and what is broken most."""

    upstream: str
    exchanges: int
    clean: int
    families: list[FamilyScore]
    rules: list[RuleTally]

    @property
    def share(self) -> float:
        """0 to 100; not rounded, so that 89.99 is not excellent."""
        return 100.0 * self.clean / self.exchanges if self.exchanges else 0.0


def band(share: float) -> str:
    """What a share (0 to 100) is called, in the words of the relay check."""
    return Band.of(share).value


def statistics(db: sqlite3.Connection, filters: Filters) -> Statistics:
    """Sums over the records that pass."""
    source, words = _source(db, filters), _words(db)
    lost = db.execute("SELECT coalesce(sum(count), 0) FROM losses").fetchone()[0]
    hours, upstreams, models = _Tallies(), _Tallies(), _Tallies()
    firsts, lasts = [], []
    sql = (
        "SELECT hour, upstream, model, verdict, sum(exchanges), min(first), max(last)"
        " FROM {exchanges} GROUP BY 1, 2, 3, 4"
    )
    # One walk for all of them: of a million records it is what takes the time.
    for hour, upstream, model, verdict, count, first, last in source.rows(db, sql):
        for tallies, name in ((hours, hour), (upstreams, upstream), (models, model)):
            tallies.add(name, verdict, count)
        firsts.append(first)
        lasts.append(last)
    return Statistics(
        hours.total(),
        int(lost),
        min(firsts, default=None),
        max(lasts, default=None),
        upstreams.by_size(words),
        models.by_size(words)[:_TOP],
        [hours.tally(hour, str(hour * 3600)) for hour in sorted(hours)],
        _rules(db, source).get(None, [])[:_TOP],
    )


def scores(db: sqlite3.Connection, filters: Filters) -> list[Score]:
    """The scoreboard, one entry a relay that the records which pass came from, by name."""
    source, words = _source(db, filters), _words(db)
    relays = _Tallies()
    about: defaultdict[int, Counter[tuple[str, bool]]] = defaultdict(Counter)
    sql = (
        "SELECT upstream, operation, stream, verdict, sum(exchanges)"
        " FROM {exchanges} GROUP BY 1, 2, 3, 4"
    )
    for upstream, operation, stream, verdict, count in source.rows(db, sql):
        relays.add(upstream, verdict, count)
        about[upstream][words.get(operation, ""), bool(stream)] += count
    failed = _failed(db, source)
    rules = _rules(db, source, by="upstream", least=SEVERITIES["warn"])
    found = []
    for number in relays:
        if name := words.get(number, ""):
            relay = relays.tally(number, name)
            families = _families(about[number], failed.get(number, {}))
            most = rules.get(number, [])[:_TOP]
            clean = relay.exchanges - relay.failed
            found.append(Score(name, relay.exchanges, clean, families, most))
    return sorted(found)


class _Tallies(dict[int, list[int]]):
    """Exchanges, failed and warned ones, by a number."""

    def add(self, key: int, verdict: int, count: int) -> None:
        counts = self.setdefault(key, [0, 0, 0])
        counts[0] += count
        counts[1] += count if verdict == _FAIL else 0
        counts[2] += count if verdict == _WARN else 0

    def tally(self, key: int, name: str) -> Tally:
        return Tally(name, *self[key])

    def total(self) -> Tally:
        columns = zip([0, 0, 0], *self.values(), strict=True)
        exchanges, failed, warned = (sum(column) for column in columns)
        return Tally("", exchanges, failed, warned)

    def by_size(self, words: Mapping[int, str]) -> list[Tally]:
        """The largest first; the numbers are words."""
        named = [self.tally(number, words.get(number, "")) for number in self]
        return sorted(named, key=lambda tally: (-tally.exchanges, tally.name))


class _Source(NamedTuple):
    """Where sums come from: for each kind of them a subquery, and its parameters.

    ``exchanges`` has hour, upstream, model, operation, stream, verdict, exchanges, first, last;
    ``broken`` upstream, rule, severity, exchanges, times; ``failures`` upstream, family, exchanges.
    """

    exchanges: str
    broken: str
    failures: str
    values: list[Any]

    def rows(self, db: sqlite3.Connection, sql: str) -> sqlite3.Cursor:
        """Runs a statement over one of the three, which it names in braces."""
        return db.execute(sql.format(**self._asdict()), self.values)


def _source(db: sqlite3.Connection, filters: Filters) -> _Source:
    plan = Plan(db, filters)
    hours = plan.hours()
    if hours is None:
        return _from_records(*plan.counted(), few=plan.is_timed)
    if not plan.is_timed:
        return _Source(
            f"(SELECT * FROM totals e WHERE {hours.where})",
            f"(SELECT * FROM broken_ever e WHERE {hours.where})",
            f"(SELECT * FROM failures e WHERE {hours.where})",
            hours.values,
        )
    times = "(e.at >= ? AND e.at < ? OR e.at >= ? AND e.at < ?)"
    edges = _from_records(
        f"{times} AND {hours.where}",
        [hours.since, hours.first * HOUR, hours.end * HOUR, hours.until, *hours.values],
        few=True,
    )
    whole = f"e.hour >= ? AND e.hour < ? AND {hours.where}"

    def both(columns: str, table: str, records: str) -> str:
        return f"(SELECT {columns} FROM {table} e WHERE {whole} UNION ALL SELECT * FROM {records})"

    return _Source(
        both(
            "hour, upstream, model, operation, stream, verdict, exchanges, first, last",
            *("totals", edges.exchanges),
        ),
        both("upstream, rule, severity, exchanges, times", "broken", edges.broken),
        both("upstream, family, exchanges", "failures", edges.failures),
        [hours.first, hours.end, *hours.values, *edges.values],
    )


def _from_records(where: str, values: list[Any], *, few: bool = False) -> _Source:
    """Sums over the records themselves; ``few`` of them, which an index finds, pass."""
    # Of few records the violations are looked up; else SQLite knows best where to begin.
    join = "exchanges e CROSS JOIN violations v" if few else "violations v JOIN exchanges e"
    violations = f"FROM {join} ON e.n = v.exchange WHERE {where}"
    fail = SEVERITIES["fail"]
    return _Source(
        f"(SELECT e.at / {HOUR} AS hour, e.upstream, e.model, e.operation, e.stream, e.verdict,"
        f" 1 AS exchanges, e.at AS first, e.at AS last FROM exchanges e WHERE {where})",
        # An exchange reports each rule once: its violations are as many as the exchanges.
        f"(SELECT e.upstream, v.rule, v.severity, 1 AS exchanges, v.count AS times {violations})",
        f"(SELECT e.upstream, v.family, count(DISTINCT v.exchange) AS exchanges {violations}"
        f" AND +v.severity = {fail} GROUP BY +e.upstream, v.family)",
        values,
    )


def _families(
    about: Mapping[tuple[str, bool], int], failed: Mapping[str, int]
) -> list[FamilyScore]:
    found = []
    for family, (operations, stream) in _FAMILIES.items():
        exchanges = sum(
            count
            for (operation, streamed), count in about.items()
            if (not operations or operation in operations) and stream in (None, streamed)
        )
        if exchanges and (family not in _WHERE_BROKEN or failed.get(family)):
            # A rule may be broken where its family wasn't to be expected: none is below nothing.
            clean = max(0, exchanges - failed.get(family, 0))
            found.append(FamilyScore(family, exchanges, clean))
    return found


def _failed(db: sqlite3.Connection, source: _Source) -> dict[int, dict[str, int]]:
    """By upstream and family: exchanges with a fail."""
    words = _words(db)
    found: defaultdict[int, dict[str, int]] = defaultdict(dict)
    sql = "SELECT upstream, family, sum(exchanges) FROM {failures} GROUP BY 1, 2"
    for upstream, family, count in source.rows(db, sql):
        found[upstream][words.get(family, "")] = count
    return found


def _rules(
    db: sqlite3.Connection, source: _Source, by: str = "NULL", least: int = 0
) -> dict[int | None, list[RuleTally]]:
    """The rules that were broken, the worst first, by what ``by`` says."""
    words = _words(db)
    sql = (
        f"SELECT {by}, rule, max(severity), sum(exchanges), sum(times) FROM {{broken}}"
        f" WHERE severity >= {least} GROUP BY 1, 2"
    )
    found: defaultdict[int | None, list[RuleTally]] = defaultdict(list)
    for group, rule, *counts in source.rows(db, sql):
        found[group].append(RuleTally(words.get(rule, ""), *counts))
    for rules in found.values():
        rules.sort(key=lambda rule: (-rule.severity, -rule.exchanges, rule.rule))
    return found


def _words(db: sqlite3.Connection) -> dict[int, str]:
    """The words that group something; messages are longer, and group nothing here."""
    return dict(db.execute("SELECT id, word FROM words WHERE length(word) <= 256"))
