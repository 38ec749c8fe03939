"""Rows of now and of the past have the same members, and nothing of a peer passes unescaped."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from teeline.proxy.audit.query import Filters, search, violations
from teeline.proxy.monitor.rows import BROKEN, indexed_row, live_row
from teeline.validators.model import Severity
from tests.proxy.monitor.past import indexed
from tests.proxy.samples import exchange, violation

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egpj.exe\u200b" + "x" * 1_000_000


def test_a_row_of_now_and_its_row_of_the_past_say_the_same(tmp_path: Path) -> None:
    made = exchange(violation(), violation("usage.total-too-low", Severity.WARN))
    with indexed(tmp_path, [made]) as db:
        (entry,) = search(db, Filters())
        past = indexed_row(entry, violations(db, entry.n))
    now = live_row(made)
    assert past.keys() == now.keys()
    for name in now.keys() - {"at"}:
        assert past[name] == now[name], name
    assert past["at"] == pytest.approx(now["at"], abs=1)


def test_what_peers_wrote_is_escaped_and_bounded() -> None:
    made = exchange(
        violation(message=HOSTILE),
        model=HOSTILE,
        request_id=HOSTILE,
        operation=HOSTILE,
        upstream=HOSTILE,
        inspection=HOSTILE,
        response_bytes=2**80,
        events=2**80,
        status=2**80,
    )
    data = orjson.dumps(live_row(made))
    assert len(data) < 3000
    for hidden in ("\x1b", "\u202e", "\u200b"):
        assert hidden not in data.decode()


def test_the_worst_violations_are_named_and_all_are_counted() -> None:
    mild = [violation(f"http.a-{n}", Severity.INFO) for n in range(20)]
    row = live_row(exchange(*mild, violation()))
    assert len(row["broken"]) == BROKEN
    assert row["broken"][0]["severity"] == "fail"
    assert row["broken_count"] == 21


def test_an_exchange_under_way_has_no_end() -> None:
    made = exchange(ended=None)
    made.timing.end = None
    row = live_row(made)
    assert (row["ended"], row["seconds"]) == (None, None)
