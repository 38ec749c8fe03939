"""What is left out is counted, told of, and bounded; nothing is swallowed silently."""

from __future__ import annotations

from typing import Any

from teeline.proxy.telemetry.damping import Damper
from teeline.validators.model import Severity
from tests.proxy.samples import START, exchange, violation


def decisions(damper: Damper, count: int, **changes: Any) -> list[int | None]:
    return [damper.decide(exchange(), violation(**changes)) for _ in range(count)]


def test_the_first_are_told_then_one_of_many_with_those_left_out() -> None:
    damper = Damper(first=2, every=3)
    assert decisions(damper, 8) == [0, 0, None, None, 2, None, None, 2]


def test_rules_and_upstreams_are_damped_apart() -> None:
    damper = Damper(first=1, every=100)
    assert damper.decide(exchange(), violation()) == 0
    assert damper.decide(exchange(), violation("usage.x")) == 0
    assert damper.decide(exchange(upstream="other"), violation()) == 0
    assert damper.decide(exchange(), violation()) is None


def test_a_window_ends_with_a_summary_and_begins_anew() -> None:
    damper = Damper(window=600, first=1, every=100)
    decisions(damper, 5, at=START)
    assert list(damper.ended(START + 599)) == []
    (summary,) = damper.ended(START + 600)
    assert summary.rule == "chatstream.done-missing"
    assert (summary.severity, summary.found, summary.left_out) == (Severity.FAIL, 5, 4)
    assert (summary.since, summary.until) == (START, START + 600)
    assert decisions(damper, 1) == [0]


def test_a_window_that_left_nothing_out_needs_no_summary() -> None:
    damper = Damper()
    decisions(damper, 3)
    assert list(damper.ended(START, all_of_them=True)) == []


def test_told_and_left_out_add_up_however_many_kinds_there_are() -> None:
    damper = Damper(first=1, every=10)
    told = left_out = 0
    for n in range(9000):
        decided = damper.decide(exchange(), violation(f"family.rule-{n % 3000}"))
        told += decided is not None
    left_out = sum(summary.left_out for summary in damper.ended(START, all_of_them=True))
    assert told + left_out == 9000
