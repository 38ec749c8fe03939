"""Sums over the index: by upstream, model, rule and hour, and the scoreboard of relays.

What belongs here: counting. What doesn't: filters (query.py), layout (proxy/reports/statistics.py).

The scoreboard is what passive traffic says of a relay: for each family of rules the share of
exchanges that the family is about and that break none of it with a fail. It isn't the relay check,
which asks questions of its own; the bands are the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from teeline.proxy.audit.index import SEVERITIES, VERDICTS
from teeline.proxy.audit.query import Filters, Plan
from teeline.validators.scoring import Band

_HOUR: Final = 3_600_000_000
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
}
"""Families of the relay's side: the operations that they are about (none: all), and whether streams."""


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
    where, values = Plan(db, filters).where()
    total = _tallies(db, "''", where, values)
    first, last = db.execute(
        f"SELECT min(e.at), max(e.at) FROM exchanges e WHERE {where}", values
    ).fetchone()
    lost = db.execute("SELECT coalesce(sum(count), 0) FROM losses").fetchone()[0]
    hours = _tallies(db, f"e.at / {_HOUR}", where, values)
    return Statistics(
        total[0] if total else Tally("", 0, 0, 0),
        int(lost),
        first,
        last,
        _named(_tallies(db, _word("upstream"), where, values)),
        _named(_tallies(db, _word("model"), where, values))[:_TOP],
        [Tally(str(int(h.name) * 3600), *h[1:]) for h in sorted(hours, key=lambda h: int(h.name))],
        _rules(db, where, values),
    )


def scores(db: sqlite3.Connection, filters: Filters) -> list[Score]:
    """The scoreboard, one entry a relay that the records which pass came from, by name."""
    where, values = Plan(db, filters).where()
    relays = sorted(_tallies(db, _word("upstream"), where, values))
    return [_score(db, relay, where, values) for relay in relays if relay.name]


def _score(db: sqlite3.Connection, relay: Tally, where: str, values: list[Any]) -> Score:
    upstream = "e.upstream = (SELECT id FROM words WHERE word = ?)"
    within, given = f"{upstream} AND {where}", [relay.name, *values]
    about = _about(db, within, given)
    failed = dict(_failed(db, within, given))
    families = [
        FamilyScore(family, exchanges, exchanges - failed.get(family, 0))
        for family, (operations, stream) in _FAMILIES.items()
        if (
            exchanges := sum(
                count
                for (operation, streamed), count in about.items()
                if (not operations or operation in operations) and stream in (None, streamed)
            )
        )
    ]
    # A rule may be broken where its family wasn't to be expected: nobody is below nothing.
    families = [family._replace(clean=max(0, family.clean)) for family in families]
    rules = _rules(db, f"{within} AND v.severity >= {SEVERITIES['warn']}", given)
    clean = relay.exchanges - relay.failed
    return Score(relay.name, relay.exchanges, clean, families, rules)


def _about(db: sqlite3.Connection, where: str, values: list[Any]) -> dict[tuple[str, bool], int]:
    sql = (
        f"SELECT {_word('operation')}, e.stream, count(*) FROM exchanges e"
        f" WHERE {where} GROUP BY e.operation, e.stream"
    )
    return {(op, bool(stream)): count for op, stream, count in db.execute(sql, values)}


def _failed(db: sqlite3.Connection, where: str, values: list[Any]) -> Iterator[tuple[str, int]]:
    sql = (
        "SELECT (SELECT word FROM words WHERE id = v.family), count(DISTINCT v.exchange)"
        " FROM exchanges e JOIN violations v ON v.exchange = e.n"
        f" WHERE {where} AND v.severity = {SEVERITIES['fail']} GROUP BY v.family"
    )
    yield from db.execute(sql, values)


def _rules(db: sqlite3.Connection, where: str, values: list[Any]) -> list[RuleTally]:
    sql = (
        "SELECT (SELECT word FROM words WHERE id = v.rule), max(v.severity),"
        " count(DISTINCT v.exchange), sum(v.count)"
        " FROM exchanges e JOIN violations v ON v.exchange = e.n"
        f" WHERE {where} GROUP BY v.rule"
    )
    found = [RuleTally(*row) for row in db.execute(sql, values)]
    return sorted(found, key=lambda rule: (-rule.severity, -rule.exchanges, rule.rule))[:_TOP]


def _tallies(db: sqlite3.Connection, by: str, where: str, values: list[Any]) -> list[Tally]:
    sql = (
        f"SELECT {by} AS name, count(*), sum(e.verdict = {_FAIL}), sum(e.verdict = {_WARN})"
        f" FROM exchanges e WHERE {where} GROUP BY 1"
    )
    return [Tally(str(name or ""), *counts) for name, *counts in db.execute(sql, values)]


def _named(tallies: list[Tally]) -> list[Tally]:
    """The largest first."""
    return sorted(tallies, key=lambda tally: (-tally.exchanges, tally.name))


def _word(column: str) -> str:
    return f"(SELECT word FROM words WHERE id = e.{column})"
