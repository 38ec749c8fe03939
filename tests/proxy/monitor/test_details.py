"""One exchange in full: what broke stands beside where it showed, and a forged record can do no harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.audit.record import exchange_record
from teeline.proxy.monitor.details import detailed, rule_page, unsettled
from teeline.proxy.monitor.rows import live_row
from teeline.validators.model import Place, Severity, Side, TimelineEntry, Unit
from teeline.validators.rules import register
from tests.proxy.samples import START, exchange, violation

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = tuple(exchange_record(exchange(violation())))


def at(index: int) -> Place:
    return Place(Side.RESPONSE, Unit.EVENT, index, 0, "")


def broken() -> dict[str, Any]:
    made = exchange(
        violation("http.processing-ms-missing", Severity.INFO, place=at(0)),
        violation("http.ratelimit-missing", Severity.INFO, place=at(0)),
        violation("chatstream.done-missing", place=at(3)),
        timeline=[
            TimelineEntry(START, "request", 0, 0),
            TimelineEntry(START + 1, "head", 0, 200),
            TimelineEntry(START + 1, "violation", 0, 0),
            TimelineEntry(START + 1, "violation", 0, 0),
            TimelineEntry(START + 2, "read", 2, 90),
            TimelineEntry(START + 3, "read", 3, 80),
            TimelineEntry(START + 3, "violation", 3, 0),
            TimelineEntry(START + 4, "complete", 0, 0),
        ],
    )
    return exchange_record(made)


def test_each_entry_says_which_violation_was_found_there_and_what_a_read_showed() -> None:
    found = detailed(broken(), None, None)
    by_number = {each["number"]: each["rule"] for each in found["violations"]}
    told = [
        (entry["kind"], entry["shows"], by_number.get(entry["broken"]))
        for entry in found["timeline"]
    ]
    assert told == [
        ("request", None, None),
        ("head", None, None),
        ("violation", "info", "http.processing-ms-missing"),
        ("violation", "info", "http.ratelimit-missing"),
        ("read", None, None),
        ("read", "fail", None),
        ("violation", "fail", "chatstream.done-missing"),
        ("complete", None, None),
    ]


def test_violations_come_with_the_rules_reason_and_remedy_the_worst_first() -> None:
    worst = detailed(broken(), None, None)["violations"][0]
    rule = register()["chatstream.done-missing"]
    assert (worst["why"], worst["fix"]) == (rule.why, rule.fix)
    assert worst["evidence"] == '"finish_reason": "stop"'


def test_how_to_do_it_again_names_no_key_and_the_upstreams_address() -> None:
    again = detailed(broken(), None, "https://relay.example/v1")["again"]
    assert again["relay"].startswith("curl -sS -N -i https://relay.example/v1/chat/completions")
    assert "$OPENAI_API_KEY" in again["relay"]


def test_an_exchange_without_a_record_says_what_its_row_knows() -> None:
    row = live_row(exchange(violation(), ended=None))
    found = unsettled(row)
    assert found["settled"] is False
    assert found["violations"][0]["fix"] == register()["chatstream.done-missing"].fix


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON),
    st.sampled_from(["violations", "timeline", "timing", "capture", "usage"]),
    st.lists(JSON),
)
def test_a_forged_record_never_raises_and_can_be_sent(
    fields: dict[str, Any], name: str, value: list[Any]
) -> None:
    for forged in (fields, broken() | fields, broken() | {name: value}):
        assert orjson.dumps(detailed(forged, Path("nowhere"), None), option=orjson.OPT_NON_STR_KEYS)


def test_what_a_record_holds_is_bounded_and_escaped() -> None:
    long = "\u202e<img src=x onerror=alert(1)>" * 50_000
    forged = broken() | dict.fromkeys(("id", "model", "path", "ended", "operation"), long)
    forged["violations"] = [{"rule": long, "message": long, "evidence": long}] * 5000
    forged["timeline"] = [[START, long, 1, 1]] * 5000
    forged["finish"] = [long] * 5000
    data = orjson.dumps(detailed(forged, None, None))
    assert len(data) < 400_000
    assert "\u202e" not in data.decode()


@pytest.mark.parametrize("rule", sorted(register()))
def test_every_rule_has_a_page_with_examples_that_differ(rule: str) -> None:
    page = rule_page(register()[rule])
    assert page["why"] and page["fix"]
    assert any(differs for _, differs in page["bad"] + page["good"])
