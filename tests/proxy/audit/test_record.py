"""A record holds what the design lists, bounded, and nothing secret."""

from __future__ import annotations

import orjson

from teeline.proxy.audit.record import (
    Ended,
    Retired,
    ended_in,
    exchange_record,
    retired_in,
    ruleset_id,
)
from teeline.validators.model import Circumstances, Severity
from tests.proxy.samples import START, exchange, rule, violation


def test_an_exchange_is_recorded_with_the_keys_of_the_format() -> None:
    record = exchange_record(exchange(violation()))
    assert list(record) == [
        "id", "trace_id", "span_id", "upstream", "operation", "method", "path", "model", "stream",
        "status", "request_id", "client", "timing", "timeline", "bytes", "events", "usage",
        "finish", "verdict", "client_verdict", "violations", "inspection", "ended", "profile",
    ]  # fmt: skip
    assert record["timing"] == {
        "start": START,
        "first_byte": START + 0.2,
        "first_event": START + 0.25,
        "end": START + 1.5,
        "largest_gap": 0.1,
    }
    assert record["timeline"] == [[START, "request", 0, 0], [START + 1.5, "complete", 0, 0]]
    assert record["bytes"] == {"request": 120, "response": 2400}
    assert record["client"] == {"peer": "127.0.0.1", "key": None}
    assert record["verdict"] == "fail"
    assert record["client_verdict"] == "pass"


def test_a_violation_is_recorded_as_reports_have_it() -> None:
    (found,) = exchange_record(exchange(violation(count=7)))["violations"]
    assert found == {
        "rule": "chatstream.done-missing",
        "severity": "fail",
        "message": "the stream ended without [DONE]",
        "count": 7,
        "place": {
            "side": "response",
            "unit": "event",
            "index": 12,
            "byte": 2345,
            "pointer": "/choices/0/delta",
        },
        "evidence": '"finish_reason": "stop"',
    }


def test_what_a_profile_asks_of_a_violation_is_recorded_where_there_is_any() -> None:
    """A record can be judged again by another profile, without the body."""
    seen = Circumstances(frozenset({"whole-entry"}), frozenset({"b", "a"}))
    (found,) = exchange_record(exchange(violation(circumstances=seen)))["violations"]
    assert (found["held"], found["words"]) == (["whole-entry"], ["a", "b"])


def test_the_profile_that_was_applied_is_recorded() -> None:
    assert exchange_record(exchange(profile="mistral"))["profile"] == "mistral"
    assert exchange_record(exchange())["profile"] is None


def test_a_query_never_gets_into_the_log() -> None:
    record = exchange_record(exchange(path="/v1/chat?api-key=sk-secret#sk-secret"))
    assert record["path"] == "/v1/chat"


def test_hostile_values_are_bounded_and_can_be_written() -> None:
    evil = "\ud800\u202e\x1b" + "x" * 100_000
    record = exchange_record(
        exchange(
            *[violation(message=evil, evidence=evil) for _ in range(500)],
            model=evil,
            path="/" + evil,
            request_id=evil,
            upstream=evil,
            client=evil,
            method=evil,
            finish=[evil] * 500,
            usage={f"{evil}{n}": 10**40 for n in range(500)} | {"a": 10**40},
            events=10**40,
            inspection=evil,
        )
    )
    line = orjson.dumps(record)
    assert len(line) < 256 * 1024
    assert line.decode().isprintable()
    assert len(record["violations"]) == 100
    assert record["violations_omitted"] == 400


def test_what_is_not_known_is_null() -> None:
    record = exchange_record(exchange(model=None, status=None, request_id=None, ended=None))
    assert [record[key] for key in ("model", "status", "request_id", "ended")] == [None] * 4


def test_a_rule_sets_name_changes_with_ids_and_severities() -> None:
    one = {"a.b": rule("a.b"), "c.d": rule("c.d")}
    assert ruleset_id(one) == ruleset_id(dict(reversed(one.items())))
    assert ruleset_id(one) != ruleset_id({"a.b": rule("a.b")})
    assert ruleset_id(one) != ruleset_id(one | {"a.b": rule("a.b", Severity.WARN)})
    assert len(ruleset_id(one)) == 16


def test_entries_that_are_not_well_formed_are_left_out() -> None:
    ended = Ended("c", 1, 2, "h", 3)
    assert ended_in({"before": ended._asdict(), "previous": [{"chain": "c"}, 5]}) == [ended]
    assert ended_in({"before": None, "previous": "x"}) == []
    retired = Retired("c", 1, 2, "h")
    assert retired_in({"deleted": [retired._asdict()], "carried": [None]}) == [retired]
    assert retired_in({"deleted": {"chain": 1}}) == []
