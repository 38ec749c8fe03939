"""Every filter finds what it says, through an index, in the order of time."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.audit.index import Index
from teeline.proxy.audit.query import (
    Entry,
    Filters,
    Plan,
    beginning_with,
    following,
    in_files,
    search,
    violations,
)
from teeline.proxy.audit.schema import connect
from teeline.validators.model import Ended, Exchange, Severity, Timing
from tests.proxy.audit.logs import writer
from tests.proxy.samples import START, exchange, violation

COUNT = 300
RULES = ("chatstream.done-missing", "chatstream.id-changes", "chat.id-missing", "usage.x_y")


def made(number: int) -> Exchange:
    chosen = random.Random(number)
    broken = [
        violation(
            rule,
            chosen.choice(list(Severity)),
            message=f"rule broken {chosen.randrange(3)} % of all",
        )
        for rule in chosen.sample(RULES, chosen.choice([0, 0, 1, 3]))
    ]
    at = START + number
    return exchange(
        *broken,
        id=f"{number:032x}",
        request_id=f"req-{number % 50}",
        upstream=f"relay-{number % 3}",
        model=chosen.choice(["m-1", "m-2", None]),
        operation=chosen.choice(["chat", "embeddings"]),
        status=chosen.choice([200, 200, 429, 500, 503, None]),
        ended=chosen.choice([Ended.COMPLETE, Ended.UPSTREAM_ABORTED]),
        client_key=f"{number % 5:016x}",
        timing=Timing(at, at + 0.1, at + 0.2, at + 0.9, at + 1, 0.1),
    )


EXCHANGES = [made(number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    folder: Path = tmp_path_factory.mktemp("log")
    log = writer(folder)
    log.start()
    log.append(EXCHANGES)
    log.close()
    db = connect(folder)
    Index(folder, db).catch_up()
    yield db
    db.close()


def passes(each: Exchange, filters: Filters) -> bool:
    """What the filters mean, in plain words."""
    at = each.timing.end or 0.0
    facts = (
        filters.since is None or at >= filters.since,
        filters.until is None or at < filters.until,
        not filters.id or each.id == filters.id,
        not filters.request_id or each.request_id == filters.request_id,
        not filters.upstream or each.upstream in filters.upstream,
        not filters.model or (each.model or "") in filters.model,
        not filters.operation or each.operation in filters.operation,
        not filters.status or _status(each.status, filters.status),
        not filters.verdict or each.verdict.value in filters.verdict,
        not filters.client_verdict or each.client_verdict.value in filters.client_verdict,
        not filters.ended or each.ended in filters.ended,
        not filters.key or each.client_key in filters.key,
    )
    on_violations = bool(filters.rules or filters.severity or filters.message)
    broken = any(
        (not filters.rules or v.rule.id in filters.rules or v.rule.family in filters.rules)
        and (not filters.severity or v.severity >= Severity.parse(filters.severity))
        and filters.message.lower() in v.message.lower()
        for v in each.violations
    )
    return all(facts) and (broken or not on_violations)


def _status(status: int | None, asked: tuple[int, ...]) -> bool:
    return status is not None and (status in asked or status // 100 in asked)


SINGLE: list[dict[str, Any]] = [
    {"since": START + 100.5},
    {"until": START + 100.5},
    {"since": START + 100, "until": START + 110},
    {"id": f"{7:032x}"},
    {"request_id": "req-7"},
    {"upstream": ("relay-1",)},
    {"upstream": ("relay-1", "relay-2", "none")},
    {"model": ("m-1",)},
    {"operation": ("embeddings",)},
    {"status": (429,)},
    {"status": (5,)},
    {"status": (5, 429, 200)},
    {"status": (3,)},
    {"verdict": ("fail",)},
    {"verdict": ("fail", "warn")},
    {"client_verdict": ("pass",)},
    {"ended": ("upstream_aborted",)},
    {"key": (f"{3:016x}",)},
    {"rules": ("chatstream.done-missing",)},
    {"rules": ("chatstream",)},
    {"rules": ("chat", "usage.x_y")},
    {"rules": ("chat", "chatstream")},
    {"severity": "fail"},
    {"severity": "info"},
    {"message": "BROKEN 1 %"},
    {"message": "%"},
    {"message": "nothing like it"},
]


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("asked", [{}, *SINGLE], ids=str)
def test_a_filter_finds_what_it_says_in_the_order_of_time(
    db: sqlite3.Connection, asked: dict[str, Any], newest: bool
) -> None:
    filters = Filters(**asked)
    expected = [each.id for each in EXCHANGES if passes(each, filters)]
    found = [entry.id for entry in search(db, filters, newest=newest)]
    assert found == (expected[::-1] if newest else expected)


def test_filters_together_find_what_passes_all_of_them(db: sqlite3.Connection) -> None:
    """Pairs and triples of filters, driven by whichever index is the best."""
    for seed in range(150):
        chosen = random.Random(seed).sample(SINGLE, random.Random(seed).choice([2, 2, 3]))
        filters = Filters(**{name: value for each in chosen for name, value in each.items()})
        expected = [each.id for each in EXCHANGES if passes(each, filters)]
        assert [entry.id for entry in search(db, filters, newest=False)] == expected, filters
        assert sorted(entry.id for entry in in_files(db, filters)) == expected, filters


@pytest.mark.parametrize("asked", [{}, *SINGLE], ids=str)
def test_every_filter_walks_an_index_and_sorts_no_table(
    db: sqlite3.Connection, asked: dict[str, Any]
) -> None:
    for sql, values in Plan(db, Filters(**asked)).statements(newest=True):
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        assert " USING INDEX " in plan[0] or " USING COVERING INDEX " in plan[0]
        assert not [step for step in plan if step.startswith("SCAN ")]
        by_time = not {"id", "request_id"} & set(asked)
        assert not by_time or not [step for step in plan if "TEMP B-TREE" in step and "e.n" in step]


def test_a_limit_ends_the_search(db: sqlite3.Connection) -> None:
    assert [entry.id for entry in search(db, Filters(), 3)] == [
        each.id for each in EXCHANGES[:-4:-1]
    ]


def test_an_entry_says_what_a_list_shows(db: sqlite3.Connection) -> None:
    each = next(e for e in EXCHANGES if e.model is None and e.violations)
    (entry,) = search(db, Filters(id=each.id))
    assert isinstance(entry, Entry)
    assert (entry.upstream, entry.model, entry.status) == (each.upstream, "", each.status)
    assert (entry.duration, entry.first_byte) == (1_000_000, 100_000)
    assert entry.line == EXCHANGES.index(each) + 2
    broken = violations(db, entry.n)
    assert {(b.rule, b.severity, b.times) for b in broken} == {
        (v.rule.id, v.severity.value, v.count) for v in each.violations
    }
    assert [b.severity for b in broken] == sorted((b.severity for b in broken), reverse=True)


def test_ids_are_found_by_their_beginning(db: sqlite3.Connection) -> None:
    start = f"{16:032x}"[:-1]
    assert [entry.id for entry in beginning_with(db, start, 100)] == [
        each.id for each in EXCHANGES[16:32]
    ]
    assert beginning_with(db, "x", 100) == []


def test_what_was_indexed_since_is_followed(db: sqlite3.Connection) -> None:
    filters = Filters(upstream=("relay-1",))
    found = [entry.n for entry in following(db, 290, filters)]
    assert found == [n for n in range(291, COUNT + 1) if (n - 1) % 3 == 1]
    assert list(following(db, COUNT, replace(filters, upstream=()))) == []
