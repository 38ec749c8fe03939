"""Every rule is proven by its own examples: the bad one is found by it alone, the good one is clean."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.history import History
from teeline.validators.model import Rule, Severity
from teeline.validators.rules import register
from teeline.validators.rules.examples import before, exchange, limits, over_http
from tests.validators.exchanges import inspect
from tests.validators.nnrp import connections as nnrp

RULES = sorted(register().values(), key=lambda rule: rule.id)


def found(rule: Rule, example: dict[str, Any]) -> dict[str, Severity]:
    """What is said of an example, in the language of the rule's family."""
    if not over_http(rule):
        return {v.rule.id: v.severity for v in nnrp.violations(example)}
    return found_over_http(example)


def found_over_http(example: dict[str, Any]) -> dict[str, Severity]:
    """What is said of an example, after the exchanges that its upstream had before."""
    history = History()
    for earlier in before(example):
        inspect(earlier, history=history)
    seen = inspect(exchange(example), limits=limits(example), history=history)
    return {v.rule.id: v.severity for v in seen.violations}


def worth_acting_on(findings: dict[str, Severity]) -> set[str]:
    return {rule for rule, severity in findings.items() if severity >= Severity.WARN}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_bad_example_is_found_by_its_rule_and_by_no_other(rule: Rule) -> None:
    findings = found(rule, dict(rule.bad))
    assert rule.id in findings
    also = set(rule.bad.get("also", ()))  # type: ignore[call-overload]
    assert worth_acting_on(findings) - {rule.id} == also


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_good_example_is_clean(rule: Rule) -> None:
    findings = found(rule, dict(rule.good))
    assert rule.id not in findings
    assert worth_acting_on(findings) == set()
