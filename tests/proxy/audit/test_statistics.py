"""Sums are those of the records, and a relay's bands are not rounded in its favour."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from teeline.proxy.audit.index import Index
from teeline.proxy.audit.query import Filters
from teeline.proxy.audit.schema import connect
from teeline.proxy.audit.statistics import band, scores, statistics
from teeline.validators.model import Severity, Timing
from teeline.validators.rules import register
from tests.proxy.audit.logs import writer
from tests.proxy.samples import START, exchange, violation

FAIL, WARN = Severity.FAIL, Severity.WARN


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    def at(hour: int) -> Timing:
        return Timing(START + hour * 3600, None, None, None, START + hour * 3600 + 1, 0.0)

    log = writer(tmp_path)
    log.start()
    log.note_lost("queue-full", 2)
    log.append(
        [
            exchange(violation(severity=FAIL, count=5), upstream="a", timing=at(0)),
            exchange(
                violation(severity=FAIL), violation("chat.x", WARN), upstream="a", timing=at(0)
            ),
            exchange(violation("usage.x", WARN), upstream="a", timing=at(1)),
            *(exchange(upstream="a", timing=at(2), stream=False) for _ in range(17)),
            exchange(upstream="b", operation="embeddings", stream=False, timing=at(2)),
        ]
    )
    log.close()
    db = connect(tmp_path)
    Index(tmp_path, db).catch_up()
    yield db
    db.close()


def test_sums_are_by_upstream_model_rule_and_hour(db: sqlite3.Connection) -> None:
    found = statistics(db, Filters())
    assert found.total == ("", 21, 2, 1)
    assert found.lost == 2
    assert found.upstreams == [("a", 20, 2, 1), ("b", 1, 0, 0)]
    assert found.models == [("gpt-4o-mini", 21, 2, 1)]
    assert [(hour.exchanges, hour.failed) for hour in found.hours] == [(2, 2), (1, 0), (18, 0)]
    assert int(found.hours[0].name) % 3600 == 0
    assert [(r.rule, r.severity, r.exchanges, r.times) for r in found.rules] == [
        ("chatstream.done-missing", 3, 2, 6),
        ("chat.x", 2, 1, 1),
        ("usage.x", 2, 1, 1),
    ]


def test_sums_keep_to_the_filters(db: sqlite3.Connection) -> None:
    assert statistics(db, Filters(upstream=("b",))).total.exchanges == 1
    assert statistics(db, Filters(rules=("usage.x",))).total == ("", 1, 0, 1)
    nothing = statistics(db, Filters(upstream=("none",)))
    assert (nothing.total.exchanges, nothing.first, nothing.hours) == (0, None, [])


def test_a_family_is_measured_by_the_exchanges_that_it_is_about(db: sqlite3.Connection) -> None:
    a, b = scores(db, Filters())
    assert (a.upstream, a.exchanges, a.clean, a.share) == ("a", 20, 18, 90.0)
    shares = {family.family: (family.exchanges, family.clean) for family in a.families}
    assert shares["chatstream"] == (3, 1)
    assert shares["chat"] == (17, 17)
    assert shares["usage"] == (20, 20)
    assert "embeddings" not in shares
    assert [rule.rule for rule in a.rules] == ["chatstream.done-missing", "chat.x", "usage.x"]
    assert {family.family for family in b.families} >= {"embeddings", "http"}
    assert b.share == 100.0


def test_a_relay_has_no_line_for_a_carrier_that_it_never_broke(tmp_path: Path) -> None:
    """The index knows HTTP and NNRP exchanges by their operation alone."""
    log = writer(tmp_path)
    log.start()
    log.append(
        [
            exchange(violation("nnrp.body-size", FAIL), upstream="adapter"),
            exchange(upstream="adapter"),
            exchange(upstream="relay"),
        ]
    )
    log.close()
    db = connect(tmp_path)
    Index(tmp_path, db).catch_up()
    adapter, relay = scores(db, Filters())
    db.close()
    assert [(f.exchanges, f.clean) for f in adapter.families if f.family == "nnrp"] == [(2, 1)]
    assert "nnrp" not in {f.family for f in relay.families}


def test_bands_are_cut_and_not_rounded() -> None:
    assert [band(share) for share in (100, 90, 89.999, 80, 79.999, 60, 59.999, 0)] == [
        *("excellent", "excellent", "passed", "passed"),
        *("marginal", "marginal", "failed", "failed"),
    ]


def test_every_family_that_can_fail_a_relay_has_its_line() -> None:
    """A new family of rules must say what exchanges it is about."""
    from teeline.proxy.audit.statistics import _FAMILIES

    failing = {r.family for r in register().values() if r.severity is FAIL} - {"request"}
    assert failing <= set(_FAMILIES)
