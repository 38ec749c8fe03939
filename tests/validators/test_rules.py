"""The register holds what each rule needs to be understood, and its examples say one thing each."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.model import Severity
from teeline.validators.rules import register
from teeline.validators.rules.examples import ExampleError, bases, exchange

RULES = sorted(register().values(), key=lambda rule: rule.id)


def test_the_register_is_read_once() -> None:
    assert register() is register()


def test_ids_are_families_and_faults_in_plain_words() -> None:
    for rule in RULES:
        family, _, fault = rule.id.partition(".")
        assert family == rule.family and fault
        assert all(c.islower() or c.isdigit() or c in ".-" for c in rule.id), rule.id


def test_each_rule_says_what_is_wrong_why_it_hurts_and_how_to_fix_it() -> None:
    for rule in RULES:
        for text in (rule.summary, rule.why, rule.fix, rule.source.text):
            assert text.strip() == text != "", rule.id
            assert text.isprintable(), rule.id
        assert isinstance(rule.severity, Severity) and rule.source.deduction >= 0


def test_what_foreign_words_break_is_a_failure() -> None:
    """Untranslated values of other APIs are never lowered (openai-rules: G.2)."""
    for rule in RULES:
        if rule.id.endswith("finish-foreign"):
            assert rule.severity is Severity.FAIL


BASE = next(iter(bases()))


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        ({}, "unknown base"),
        ({"on": "nothing"}, "unknown base"),
        ({"on": BASE, "sets": {}}, "unknown keys"),
        ({"on": BASE, "replace": [["not in there", "x"]]}, "does not occur"),
        ({"on": BASE, "cut": "not in there"}, "does not occur"),
        ({"on": BASE, "set": {"id": "1"}}, "no JSON Pointer"),
    ],
)
def test_an_example_that_can_not_be_rendered_says_why(example: Any, reason: str) -> None:
    with pytest.raises(ExampleError, match=reason):
        exchange(example)


def test_an_example_changes_nothing_for_the_next_one() -> None:
    before = exchange({"on": "chat"})
    exchange(
        {"on": "chat", "set": {"/id": "5"}, "headers": {"x-a": "1"}, "request": {"/model": "5"}}
    )
    assert exchange({"on": "chat"}) == before
