"""A policy changes what is reported of findings, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from teeline.validators.events import Closed, Found, Opened, Output, SchemaCheck
from teeline.validators.model import Exchange, Place, Severity, Side, Unit, Verdict, Violation
from teeline.validators.policy import Policy, UnknownRuleError
from teeline.validators.rules import register

RULES = register()
DONE, ROLE, HTML = "chatstream.done-missing", "chatstream.role-missing", "http.html-200"


def outputs(*rules: str) -> list[Output]:
    """An exchange from its opening to its end in which these rules were broken."""
    exchange = Exchange(id="x")
    place = Place(Side.RESPONSE, Unit.BODY)
    exchange.violations = [
        Violation(RULES[r], RULES[r].severity, RULES[r].summary, place, "", 1.0, n + 1)
        for n, r in enumerate(rules)
    ]
    found = [Found(exchange, violation) for violation in exchange.violations]
    return [Opened(exchange), *found, Closed(exchange)]


def reported(seen: Sequence[Output]) -> list[tuple[str, Severity, int]]:
    return [
        (o.violation.rule.id, o.violation.severity, o.violation.count)
        for o in seen
        if isinstance(o, Found)
    ]


def kept(seen: Sequence[Output]) -> list[str]:
    """What found and closed agree on."""
    closed = next(o for o in seen if isinstance(o, Closed))
    rules = [(v.rule.id, v.severity, v.count) for v in closed.exchange.violations]
    assert rules == reported(seen)
    assert isinstance(seen[0], Opened)
    return [rule for rule, _, _ in rules]


def test_without_settings_nothing_is_touched() -> None:
    given = outputs(DONE, HTML)
    assert Policy(RULES).apply(given) is given


def test_nothing_comes_of_nothing() -> None:
    assert Policy(RULES, ignore=[DONE]).apply(()) == ()


@pytest.mark.parametrize("pattern", ["chatstream", "chatstream.*"])
def test_a_family_is_selected_by_its_name_with_or_without_a_star(pattern: str) -> None:
    assert kept(Policy(RULES, select=[pattern]).apply(outputs(DONE, HTML, ROLE))) == [DONE, ROLE]


def test_a_family_is_no_prefix() -> None:
    """``chat`` is not ``chatstream``."""
    assert kept(Policy(RULES, select=["chat"]).apply(outputs(DONE, "chat.id-empty"))) == [
        "chat.id-empty"
    ]


def test_a_rule_is_selected_by_its_id() -> None:
    assert kept(Policy(RULES, select=[DONE, HTML]).apply(outputs(DONE, ROLE, HTML))) == [DONE, HTML]


def test_ignore_wins_over_select() -> None:
    policy = Policy(RULES, select=["chatstream"], ignore=[DONE])
    assert kept(policy.apply(outputs(DONE, ROLE, HTML))) == [ROLE]


def test_an_ignored_finding_leaves_the_verdict() -> None:
    given = outputs(DONE)
    closed = Policy(RULES, ignore=["chatstream"]).apply(given)[-1]
    assert isinstance(closed, Closed) and closed.exchange.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("severity", "verdict"),
    [(Severity.INFO, Verdict.PASS), (Severity.WARN, Verdict.WARN), (Severity.FAIL, Verdict.FAIL)],
)
def test_a_severity_that_was_set_counts_in_found_closed_and_verdict(
    severity: Severity, verdict: Verdict
) -> None:
    seen = Policy(RULES, severity={DONE: severity}).apply(outputs(ROLE, DONE))
    assert reported(seen) == [(ROLE, Severity.WARN, 1), (DONE, severity, 2)]
    assert kept(seen) == [ROLE, DONE]
    closed = seen[-1]
    assert isinstance(closed, Closed)
    assert closed.exchange.verdict is max(verdict, Verdict.WARN, key=list(Verdict).index)


def test_the_rule_itself_keeps_its_severity() -> None:
    policy = Policy(RULES, severity={"chatstream": Severity.INFO})
    found = policy.apply(outputs(DONE))[1]
    assert isinstance(found, Found)
    assert found.violation.severity is Severity.INFO
    assert found.violation.rule.severity is RULES[DONE].severity is Severity.FAIL


def test_the_later_pattern_of_two_wins() -> None:
    policy = Policy(RULES, severity={"chatstream": Severity.INFO, DONE: Severity.WARN})
    assert reported(policy.apply(outputs(DONE, ROLE))) == [
        (DONE, Severity.WARN, 1),
        (ROLE, Severity.INFO, 2),
    ]


def test_schema_checks_pass_whatever_is_ignored() -> None:
    check = SchemaCheck(Exchange(), 1, {}, {})
    assert Policy(RULES, ignore=["tools"]).apply([check]) == [check]


@pytest.mark.parametrize("pattern", ["chatstrem", "chatstream.done", "", "*", "chatstream.*.x"])
def test_a_pattern_that_matches_nothing_is_an_error_that_names_it(pattern: str) -> None:
    settings: list[dict[str, Any]] = [
        {"select": [pattern]},
        {"ignore": [pattern]},
        {"severity": {pattern: Severity.INFO}},
    ]
    for setting in settings:
        with pytest.raises(UnknownRuleError) as error:
            Policy(RULES, **setting)
        assert str(error.value) == pattern
