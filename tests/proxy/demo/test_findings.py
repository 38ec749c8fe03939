"""The demo is as expected only where every fault was found, and nothing but the faults."""

from __future__ import annotations

from dataclasses import replace

from teeline.proxy.demo.findings import all_problems, problems, shown
from teeline.proxy.demo.scenarios import SCENARIOS
from teeline.proxy.demo.traffic import Outcome
from teeline.validators.model import Exchange, Place, Rule, Side, Unit, Violation
from teeline.validators.rules import register

_BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


# Of the client's side; a rule is on that side by its family alone.
_CLIENTS = replace(register()["tools.args-invalid-json"], id="request.tools-shape-chat")


def violation(rule: str | Rule) -> Violation:
    declared = register()[rule] if isinstance(rule, str) else rule
    where = Place(declared.side, Unit.EVENT, 3, 120, "/choices/0")
    return Violation(declared, declared.severity, "message", where, "evidence", 0.0)


def outcome(name: str, *rules: str | Rule, differences: tuple[str, ...] = ()) -> Outcome:
    """A scenario's outcome with these rules reported."""
    exchange = Exchange(violations=[violation(rule) for rule in rules])
    return Outcome(_BY_NAME[name], exchange, differences, 10, 20)


def test_a_fault_that_its_rule_found_is_as_expected() -> None:
    """One fault, one rule, no words."""
    assert problems(outcome("no-done", "chatstream.done-missing")) == []


def test_a_clean_answer_that_passed_is_as_expected() -> None:
    """Observations of severity info are no report."""
    assert problems(outcome("clean-json")) == []
    assert problems(outcome("clean-json", "http.processing-ms-missing")) == []


def test_a_missed_fault_is_named() -> None:
    """The line says which scenario, and which rule was silent."""
    assert problems(outcome("no-done")) == ["no-done: chatstream.done-missing was not found"]


def test_a_report_about_a_clean_answer_is_named() -> None:
    """A false alarm is as bad as a miss."""
    (words,) = problems(outcome("clean-stream", "chatstream.done-missing"))
    assert words.startswith("clean-stream: chatstream.done-missing was reported")


def test_a_wrong_rule_beside_the_right_one_is_named() -> None:
    """The expected rule alone is not enough: another one is a false alarm."""
    (words,) = problems(outcome("no-done", "chatstream.done-missing", "usage.total-too-low"))
    assert words.startswith("no-done: usage.total-too-low was reported")


def test_a_report_about_the_demos_own_request_is_named() -> None:
    """The client's side is not the relay's, and the demo's client makes no mistakes."""
    (words,) = problems(outcome("clean-json", _CLIENTS))
    assert words == "clean-json: request.tools-shape-chat was reported of the demo's own request"


def test_changed_bytes_and_partial_inspection_are_named() -> None:
    """The verdict of something that was changed, or only half seen, is worth nothing."""
    partial = outcome("clean-json", differences=("answer: other header fields arrived",))
    partial.exchange.inspection = "partial (body-limit)"
    assert problems(partial) == [
        "clean-json: was not inspected in full: partial (body-limit)",
        "clean-json: answer: other header fields arrived",
    ]


def test_all_problems_come_in_the_order_of_the_scenarios() -> None:
    """The first line is about the first row."""
    found = all_problems([outcome("clean-json"), outcome("no-done"), outcome("cut-mid-event")])
    assert [words.partition(":")[0] for words in found] == ["no-done", "cut-mid-event"]


def test_what_is_shown_begins_with_the_worst_and_is_the_relays() -> None:
    """Info is left out, a warning stands behind a failure, the client's faults elsewhere."""
    found = shown(
        outcome(
            "no-done",
            "http.processing-ms-missing",
            "tools.args-invalid-json",
            _CLIENTS,
            "chatstream.done-missing",
        )
    )
    assert [v.rule.id for v in found] == ["chatstream.done-missing", "tools.args-invalid-json"]
    assert {v.rule.side for v in found} == {Side.RESPONSE}
