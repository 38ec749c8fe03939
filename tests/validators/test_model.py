"""Severities are ordered, verdicts follow from them, and each side answers for its own faults."""

from __future__ import annotations

from itertools import product

import pytest

from teeline.validators.model import (
    Exchange,
    Place,
    Rule,
    RuleSource,
    Severity,
    Side,
    Unit,
    Verdict,
    Violation,
)


def rule(rule_id: str, severity: Severity) -> Rule:
    return Rule(rule_id, severity, "s", "w", "f", RuleSource("x"), {}, {})


def violation(rule_id: str, severity: Severity) -> Violation:
    place = Place(Side.RESPONSE, Unit.BODY)
    return Violation(rule(rule_id, severity), severity, "s", place, "", 0.0)


@pytest.mark.parametrize("severity", Severity)
def test_a_severity_is_read_from_its_own_word(severity: Severity) -> None:
    assert Severity.parse(severity.word) is severity
    assert Severity.parse(severity.word.upper()) is severity


@pytest.mark.parametrize("word", ["", "error", "warning", "2", "parse"])
def test_any_other_word_is_an_error_that_says_which_there_are(word: str) -> None:
    with pytest.raises(ValueError, match="info, warn or fail"):
        Severity.parse(word)


def test_severities_are_ordered_from_info_to_fail() -> None:
    assert Severity.INFO < Severity.WARN < Severity.FAIL


@pytest.mark.parametrize(
    ("severity", "verdict"),
    [
        (None, Verdict.PASS),
        (Severity.INFO, Verdict.PASS),
        (Severity.WARN, Verdict.WARN),
        (Severity.FAIL, Verdict.FAIL),
    ],
)
def test_a_verdict_is_the_worst_severity_and_info_is_none(
    severity: Severity | None, verdict: Verdict
) -> None:
    assert Verdict.of(severity) is verdict


def test_the_verdict_of_an_exchange_is_its_worst_on_the_relays_side() -> None:
    for first, second in product(Severity, repeat=2):
        exchange = Exchange(violations=[violation("chat.a", first), violation("http.b", second)])
        assert exchange.verdict is Verdict.of(max(first, second))
        assert exchange.client_verdict is Verdict.PASS


def test_a_clients_faults_are_its_own() -> None:
    faults = [violation("request.a", Severity.FAIL), violation("chat.b", Severity.WARN)]
    exchange = Exchange(violations=faults)
    assert (exchange.verdict, exchange.client_verdict) == (Verdict.WARN, Verdict.FAIL)
    assert exchange.worst(Side.REQUEST) is Severity.FAIL


def test_an_exchange_without_findings_passes() -> None:
    exchange = Exchange()
    assert exchange.verdict is exchange.client_verdict is Verdict.PASS
    assert exchange.worst(Side.RESPONSE) is None
    assert exchange.inspection == "full" and exchange.ended is None


def test_a_rule_belongs_to_the_family_of_its_id_and_the_side_of_its_family() -> None:
    ours = rule("chatstream.done-missing", Severity.FAIL)
    assert (ours.family, ours.side) == ("chatstream", Side.RESPONSE)
    assert rule("request.model-missing", Severity.WARN).side is Side.REQUEST


def test_exchanges_share_nothing() -> None:
    one, other = Exchange(), Exchange()
    one.violations.append(violation("chat.a", Severity.INFO))
    one.usage["n"] = 1
    one.finish.append("stop")
    one.timing.largest_gap = 1.0
    assert (other.violations, other.usage, other.finish) == ([], {}, [])
    assert other.timing.largest_gap == 0.0
