"""A case passes by the public suite's rules: the end, the counts, the order, and the fields that are due."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.proxy.nnrp.conformance.judge import contains, judge
from teeline.proxy.nnrp.conformance.suite import Expected, Recipe
from teeline.proxy.nnrp.observed import Observed

TEXT, USAGE, DONE = "response.output_text.delta", "response.usage", "response.completed"


def recipe(*events: Expected, terminal: str = "success") -> Recipe:
    return Recipe("r", "chat.completions.create", {"body": {}}, {}, events, terminal)


def came(*kinds: str, terminal: str = "success", **fields: Any) -> Observed:
    events = [{"type": kind, **fields} for kind in kinds]
    return Observed(events, terminal, "RESULT_PUSH")


def reasons(expected: Recipe, observed: Observed) -> tuple[str, ...]:
    return judge(expected, observed).reasons


def test_what_is_due_passes_in_its_order() -> None:
    due = recipe(Expected(TEXT), Expected(USAGE), Expected(DONE))
    assert judge(due, came(TEXT, TEXT, USAGE, DONE)).passed


def test_another_end_fails() -> None:
    assert reasons(recipe(), came(terminal="error")) == ("the end is error, not success",)


def test_no_end_fails_with_what_happened_instead() -> None:
    observed = Observed(notes=["no end came in time"])
    assert reasons(recipe(terminal="error"), observed) == ("no end came in time",)


def test_an_end_that_can_t_be_read_fails() -> None:
    observed = Observed([], "error", "RESULT_PUSH", ["RESULT_PUSH holds no JSON object"])
    assert not judge(recipe(terminal="error"), observed).passed


@pytest.mark.parametrize(
    ("expected", "kinds", "passes"),
    [
        (Expected(TEXT, min_count=2), (TEXT,), False),
        (Expected(TEXT, min_count=2), (TEXT, TEXT), True),
        (Expected(TEXT, optional=True, min_count=0), (), True),
        (Expected(TEXT, optional=True, min_count=0), (TEXT,), True),
        (Expected(TEXT, min_count=0), (), True),
        (Expected(USAGE), (TEXT,), False),
    ],
)
def test_counts(expected: Expected, kinds: tuple[str, ...], passes: bool) -> None:
    assert judge(recipe(expected), came(*kinds)).passed is passes


def test_an_event_out_of_order_fails() -> None:
    due = recipe(Expected(TEXT), Expected(USAGE))
    assert reasons(due, came(USAGE, TEXT)) == (f"{USAGE} came out of order",)


def test_an_optional_event_that_came_early_is_no_matter() -> None:
    due = recipe(Expected(USAGE), Expected(TEXT, optional=True, min_count=0))
    assert judge(due, came(TEXT, USAGE)).passed


def test_the_first_event_must_have_the_fields() -> None:
    due = recipe(Expected("response.error", fields={"error": {"code": "x"}}), terminal="error")
    told = came("response.error", terminal="error", error={"code": "x", "message": "m"})
    assert judge(due, told).passed
    other = came("response.error", terminal="error", error={"code": "y"})
    assert reasons(due, other) == ("response.error has not the fields that are due",)


def test_events_of_odd_types_are_no_matter() -> None:
    observed = Observed([{"type": ["x"]}, {}, {"type": TEXT}], "success", "RESULT_PUSH")
    assert judge(recipe(Expected(TEXT)), observed).passed


@pytest.mark.parametrize(
    ("value", "expected", "whole"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ([], {}, False),
    ],
)
def test_containment(value: Any, expected: Any, whole: bool) -> None:
    assert contains(value, expected) is whole
