"""Every rule is proven by its own examples: the bad one is found by it alone, the good one is clean."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.exchangefile import parse, replay
from teeline.validators.inspector import Inspector
from teeline.validators.model import Exchange, Rule, Severity
from teeline.validators.rules import register
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import listed_models
from tests.validators.schemas import answer_schema_checks

NOW = 1_796_000_000.0
RULES = sorted(register().values(), key=lambda rule: rule.id)


def found(example: dict[str, Any]) -> dict[str, Severity]:
    document = exchange(example)
    inspector = Inspector(Exchange(id="example"), listed_models=listed_models(document))
    outputs = replay(inspector, parse(document), NOW)
    answer_schema_checks(inspector, outputs, NOW)
    return {v.rule.id: v.severity for v in inspector.exchange.violations}


def worth_acting_on(findings: dict[str, Severity]) -> set[str]:
    return {rule for rule, severity in findings.items() if severity >= Severity.WARN}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_bad_example_is_found_by_its_rule_and_by_no_other(rule: Rule) -> None:
    findings = found(dict(rule.bad))
    assert rule.id in findings
    also = set(rule.bad.get("also", ()))  # type: ignore[call-overload]
    assert worth_acting_on(findings) - {rule.id} == also


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_good_example_is_clean(rule: Rule) -> None:
    findings = found(dict(rule.good))
    assert rule.id not in findings
    assert worth_acting_on(findings) == set()
