"""Sums by hour say what the records say, for every window and relay, and go with their files."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from teeline.proxy.audit import statistics as asking
from teeline.proxy.audit.index import Index
from teeline.proxy.audit.query import Filters, Plan
from teeline.proxy.audit.schema import connect
from teeline.proxy.audit.statistics import scores, statistics
from teeline.proxy.audit.sums import MOST_TIMES, TABLES
from teeline.validators.model import Severity, Timing
from tests.proxy.audit.logs import Clock, edit, files, writer
from tests.proxy.samples import START, exchange, violation

RULES = [
    ("chatstream.done-missing", Severity.FAIL),
    ("chatstream.x", Severity.FAIL),
    ("usage.x", Severity.WARN),
    ("timing.x", Severity.INFO),
]


@pytest.fixture(name="db", scope="module")
def _db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Four files over nine hours, three relays, some records at the very ends of an hour."""
    folder = tmp_path_factory.mktemp("log")
    chosen, clock = random.Random(6), Clock()
    log = writer(folder, clock)
    log.start()
    for day in range(4):
        clock.now = START + day * 90_000
        for _ in range(60):
            end = START + chosen.choice((chosen.uniform(0, 9 * 3600), 3600 * 4 - START % 3600))
            found = chosen.sample(RULES, chosen.choice((0, 0, 1, 2, 4)))
            log.append(
                [
                    exchange(
                        *(violation(rule, severity, count=day + 1) for rule, severity in found),
                        upstream=chosen.choice("abc"),
                        model=chosen.choice(("m", "n")),
                        operation=chosen.choice(("chat", "responses")),
                        stream=chosen.random() < 0.5,
                        timing=Timing(end - 1, end=end),
                    )
                ]
            )
    log.close()
    assert len(files(folder)) == 4
    db = connect(folder)
    Index(folder, db).catch_up()
    yield db
    db.close()


@pytest.mark.parametrize("upstream", [(), ("a",), ("b", "c"), ("none",)], ids=str)
@pytest.mark.parametrize(
    ("since", "until"),
    [
        (None, None),
        (0.5, 8.2),
        (1.0, 1.0),
        (3.99, 4.01),
        (2.2, None),
        (None, 6.7),
        (5.1, 5.9),
        (5.5, 6.5),
    ],
)
def test_what_is_summed_is_what_is_recorded(
    db: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
    upstream: tuple[str, ...],
    since: float | None,
    until: float | None,
) -> None:
    base = START - START % 3600
    window = [None if at is None else base + at * 3600 for at in (since, until)]
    filters = Filters(since=window[0], until=window[1], upstream=upstream)
    summed = statistics(db, filters), scores(db, filters)
    monkeypatch.setattr(Plan, "hours", lambda self: None)
    assert summed == (statistics(db, filters), scores(db, filters))


def test_a_whole_hour_is_answered_without_a_look_at_its_records(db: sqlite3.Connection) -> None:
    """All that a million records cost is the sums, and the records of the hours at both ends."""
    base = START - START % 3600
    window = Filters(since=base + 1800, until=base + 9000)
    for filters, walks in (
        (Filters(), 0),
        (Filters(upstream=("a",)), 0),
        (window, 2),
        (replace(window, upstream=("a", "b")), 2),
    ):
        source = asking._source(db, filters)
        for kind in ("exchanges", "broken", "failures"):
            plan = source.rows(db, f"EXPLAIN QUERY PLAN SELECT * FROM {{{kind}}}").fetchall()
            of_records = [row[3] for row in plan if row[3].split()[:2] == ["SEARCH", "e"]]
            assert of_records == ["SEARCH e USING INDEX exchange_at (at>? AND at<?)"] * walks
            scanned = [row[3] for row in plan if row[3].startswith("SCAN v")]
            assert scanned == []


def test_sums_go_with_the_file_that_they_are_of(tmp_path: Path) -> None:
    clock = Clock()
    log = writer(tmp_path, clock)
    log.start()
    log.append([exchange(violation()), exchange()])
    clock.now += 90_000
    log.append([exchange(violation())])
    log.close()
    db = connect(tmp_path)
    index = Index(tmp_path, db)
    index.catch_up()
    assert statistics(db, Filters()).total == ("", 3, 2, 0)
    edit(files(tmp_path)[0], lambda lines: lines[:2])
    index.catch_up()
    assert statistics(db, Filters()).total == ("", 2, 2, 0)
    for path in files(tmp_path):
        path.unlink()
    index.catch_up()
    for table in TABLES:
        assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    db.close()


@pytest.mark.parametrize("count", [b"9223372036854775807", b"1e300", b"-9223372036854775808"])
def test_numbers_that_nobody_could_have_counted_are_no_obstacle(
    tmp_path: Path, count: bytes
) -> None:
    """A line that was edited may claim any; sums of many such lines are still sums."""
    log = writer(tmp_path)
    log.start()
    log.append([exchange(violation(count=77)) for _ in range(5)])
    log.close()
    edit(files(tmp_path)[0], lambda ls: [x.replace(b'"count":77', b'"count":' + count) for x in ls])
    db = connect(tmp_path)
    Index(tmp_path, db).catch_up()
    (rule,) = statistics(db, Filters()).rules
    assert rule.exchanges == 5
    assert rule.times == (0 if count.startswith(b"-") else 5 * MOST_TIMES)
    assert statistics(db, Filters(since=0.0)).rules == [rule]
    assert scores(db, Filters(status=(200,)))[0].rules == [rule]
    db.close()
