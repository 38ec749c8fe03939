"""The hub's state is the sum of what all processes tell, and a viewer costs it nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from multidict import MultiDict

from teeline.proxy.audit.record import exchange_record
from teeline.proxy.monitor.feed import MESSAGE, VERSION
from teeline.proxy.monitor.filters import Asked, asked
from teeline.proxy.monitor.hub import HELD, RECORDS_BYTES, ROWS, SILENT, UPSTREAMS, Hub
from teeline.proxy.monitor.rows import Row, live_row
from tests.proxy.audit.logs import Clock
from tests.proxy.samples import START, exchange, violation

ALL = Asked()


def batch(*rows: Row, worker: str = "0", **members: Any) -> bytes:
    failed = sum(row["verdict"] == "fail" for row in rows)
    told = {
        "v": VERSION,
        "worker": worker,
        "at": START,
        "tallies": {"my-relay": [len(rows), len(rows), failed, 0, 0, {}]} if rows else {},
        "open": {},
        "streams": [],
        "faults": [],
        "rows": rows,
        "left_out": 0,
        "lost": 0,
    }
    return orjson.dumps(told | members)


def rows(count: int, **changes: Any) -> list[Row]:
    return [live_row(exchange(**changes)) for _ in range(count)]


def hub(clock: Clock | None = None) -> Hub:
    return Hub(["my-relay"], clock=clock or Clock())


def test_processes_add_up() -> None:
    made = hub()
    for worker in "ab":
        made.take(batch(*rows(3), worker=worker, open={"my-relay": 2}, lost=1))
    told, _ = made.snapshot(ALL)
    (card,) = told["upstreams"]
    assert (card["name"], card["closed"], card["open"]) == ("my-relay", 6, 4)
    assert told["lost"] == 2
    assert len(told["rows"]) == 6


def test_a_viewer_is_told_each_row_once_newest_first() -> None:
    made = hub()
    first, second = rows(2), rows(3)
    made.take(batch(*first))
    told, cursor = made.snapshot(ALL)
    assert told["rows"] == first[::-1]
    made.take(batch(*second))
    told, cursor = made.update(ALL, cursor)
    assert told["rows"] == second[::-1]
    assert told["unlisted"] == 0
    assert made.update(ALL, cursor)[0]["rows"] == []


def test_a_slow_viewer_loses_rows_is_told_how_many_and_costs_no_memory() -> None:
    made = hub()
    _, cursor = made.snapshot(ALL)
    for _ in range(100):
        made.take(batch(*rows(100), left_out=7))
    told, _ = made.update(ALL, cursor)
    assert len(told["rows"]) == ROWS
    assert told["unlisted"] == 100 * 107 - ROWS
    assert len(made._rows) == HELD


def test_a_filter_is_applied_before_rows_are_counted_out() -> None:
    made = hub()
    only = asked(MultiDict([("verdict", "fail")]))
    _, cursor = made.snapshot(only)
    broken = live_row(exchange(violation()))
    made.take(batch(broken, *rows(ROWS * 2)))
    told, _ = made.update(only, cursor)
    assert told["rows"] == [broken]
    assert told["unlisted"] == 0


def test_who_comes_back_goes_on_where_he_was() -> None:
    made = hub()
    made.take(batch(*rows(2)))
    _, cursor = made.snapshot(ALL)
    made.take(batch(*(later := rows(2))))
    resumed = made.resumed(str(cursor))
    assert resumed is not None
    assert made.update(ALL, resumed)[0]["rows"] == later[::-1]


@pytest.mark.parametrize("text", ["", "x", "other.5", ".5", "{}.-1", "{}.9e9", "{}." + "9" * 40])
def test_a_cursor_that_is_none_begins_anew(text: str) -> None:
    made = hub()
    name = str(made.snapshot(ALL)[1]).partition(".")[0]
    assert made.resumed(text.format(name)) is None


def test_a_cursor_from_the_future_is_now() -> None:
    made = hub()
    name = str(made.snapshot(ALL)[1]).partition(".")[0]
    cursor = made.resumed(f"{name}.999999")
    assert cursor is not None
    assert made.update(ALL, cursor)[0]["unlisted"] == 0


def test_faults_are_told_when_they_change() -> None:
    made = hub()
    fault = ["usage.x", "fail", "my-relay", "m", 3, START, "e"]
    _, cursor = made.snapshot(ALL)
    made.take(batch(faults=[fault]))
    told, same = made.update(ALL, cursor, faults=False)
    assert "faults" not in told
    told, cursor = made.update(ALL, same)
    assert [(line["rule"], line["count"]) for line in told["faults"]] == [("usage.x", 3)]
    assert "faults" not in made.update(ALL, cursor)[0]


def test_what_a_silent_or_dead_process_had_open_is_over() -> None:
    clock = Clock()
    made = hub(clock)
    stream = live_row(exchange(ended=None))
    made.take(batch(worker="a", open={"my-relay": 1}, streams=[stream]))
    made.take(batch(worker="b", open={"my-relay": 1}))
    assert made.row(stream["id"]) == stream
    made.gone("b")
    made.gone("nobody")
    assert made.snapshot(ALL)[0]["upstreams"][0]["open"] == 1
    clock.now += SILENT + 1
    told, _ = made.snapshot(ALL)
    assert told["upstreams"][0]["open"] == 0
    assert told["streams"] == []


def test_streams_under_way_pass_the_filter_too() -> None:
    made = hub()
    mine, other = live_row(exchange(ended=None)), live_row(exchange(ended=None, model="other"))
    made.take(batch(open={"my-relay": 2}, streams=[mine, other]))
    told, _ = made.snapshot(asked(MultiDict([("model", "other")])))
    assert told["streams"] == [other]


def test_records_without_a_log_are_held_within_their_bytes() -> None:
    made = hub()
    record = exchange_record(exchange(violation(message="x" * 500)))
    count = 2 * RECORDS_BYTES // len(orjson.dumps(record))
    for number in range(count):
        made.take(batch(records=[record | {"id": str(number)}]))
    assert made.record("0") is None
    kept = made.record(str(count - 1))
    assert kept is not None
    assert kept["violations"][0]["rule"] == "chatstream.done-missing"
    assert sum(map(len, made._records.values())) <= RECORDS_BYTES


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        batch(v=2),
        batch(tallies=[]),
        batch(tallies={"my-relay": [1]}),
        batch(faults=[[1]]),
        batch(rows=None),
        b" " * (2 * MESSAGE + 1),
    ],
)
def test_what_is_no_batch_is_counted_and_breaks_nothing(data: bytes) -> None:
    made = hub()
    made.take(data)
    assert made.refused == 1
    made.take(batch(*rows(1)))
    assert made.snapshot(ALL)[0]["upstreams"][0]["closed"] == 1


def test_the_number_of_upstreams_is_bounded() -> None:
    made = hub()
    for number in range(3 * UPSTREAMS):
        made.take(batch(tallies={f"u{number}": [1, 1, 0, 0, 0, {}]}))
    assert len(made.snapshot(ALL)[0]["upstreams"]) == UPSTREAMS


def test_the_score_is_the_audit_logs_where_there_is_one() -> None:
    made = hub()
    assert made.snapshot(ALL)[0]["upstreams"][0]["band"] is None
    made.take(batch(live_row(exchange(violation())), *rows(8)))
    card = made.snapshot(ALL)[0]["upstreams"][0]
    assert (card["score"], card["band"], card["scored"]) == (88.9, "passed", "15 min")
    made.scores = {"my-relay": {"score": 99.0, "band": "excellent", "scored": "24 h"}}
    made.take(batch())
    assert made.snapshot(ALL)[0]["upstreams"][0]["band"] == "excellent"
