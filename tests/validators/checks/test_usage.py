"""Usage is found wrong exactly where one of the documented relations between its counters does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from teeline.validators.checks.context import Context
from teeline.validators.checks.request import facts_of
from teeline.validators.checks.usage import check_usage, check_zeros
from teeline.validators.fields.usage import CHAT_USAGE, RESPONSES_USAGE, UsageTable
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation
from tests.validators.answers import ASKED

OBSERVATIONS = {"usage.vendor-fields", "usage.cache-write-missing"}


def context(request: Any = ASKED) -> Context:
    ctx = Context(Exchange(), Operation.CHAT, DEFAULT_LIMITS)
    ctx.request = facts_of(request, Operation.CHAT)
    return ctx


def broken(usage: Any, table: UsageTable = CHAT_USAGE) -> set[str]:
    """The rules that a usage object breaks, observations apart."""
    ctx = context()
    check_usage(ctx, usage, table, "/usage")
    return {v.rule.id for v in ctx.exchange.violations} - OBSERVATIONS


def usage_of(
    counts: tuple[int, int, int],
    prompt: Any = None,
    completion: Any = None,
    table: UsageTable = CHAT_USAGE,
) -> dict[str, Any]:
    """A usage object; the details as given, left out where None."""
    usage: dict[str, Any] = dict(zip(table.keys, counts, strict=True))
    if prompt is not None:
        usage[table.prompt_details] = prompt
    if completion is not None:
        usage[table.completion_details] = completion
    return usage


# -- every combination of small counters -----------------------------------------------------------


def test_the_total_is_the_sum_of_its_parts() -> None:
    for prompt, completion, total in product(range(4), range(4), range(8)):
        wanted = set()
        if total < prompt + completion:
            wanted = {"usage.total-too-low"}
        elif total > prompt + completion:
            wanted = {"usage.total-too-high"}
        for table in (CHAT_USAGE, RESPONSES_USAGE):
            details = ({"cached_tokens": 0}, {"reasoning_tokens": 0})
            usage = usage_of((prompt, completion, total), *details, table=table)
            assert broken(usage, table) == wanted


SMALL = (None, 0, 1, 2, 3)
"""A counter: absent, or as many."""


def details(**counters: int | None) -> dict[str, int]:
    return {name: count for name, count in counters.items() if count is not None}


def test_parts_of_the_prompt_do_not_exceed_it() -> None:
    for whole, cached, written, text, audio in product(range(4), SMALL, SMALL, SMALL, SMALL):
        counters = details(
            cached_tokens=cached, cache_write_tokens=written, text_tokens=text, audio_tokens=audio
        )
        wanted = set()
        if (cached or 0) > whole:
            wanted.add("usage.cached-exceeds-prompt")
        if (written or 0) > whole:
            wanted.add("usage.cache-write-exceeds-prompt")
        if (text or 0) + (audio or 0) > whole:
            wanted.add("usage.modalities-exceed-total")
        assert broken(usage_of((whole, 1, whole + 1), counters)) == wanted, counters


def test_parts_of_the_completion_do_not_exceed_it() -> None:
    for whole, reasoning, accepted, rejected, text in product(range(4), SMALL, SMALL, SMALL, SMALL):
        counters = details(
            reasoning_tokens=reasoning,
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=rejected,
            text_tokens=text,
        )
        wanted = set()
        if (reasoning or 0) > whole:
            wanted.add("usage.reasoning-exceeds-completion")
        if (accepted or 0) + (rejected or 0) > whole:
            wanted.add("usage.prediction-exceeds-completion")
        if (text or 0) > whole:
            wanted.add("usage.modalities-exceed-total")
        assert broken(usage_of((1, whole, whole + 1), None, counters)) == wanted, counters


def test_modalities_are_added_up() -> None:
    three = {"text_tokens": 1, "audio_tokens": 1, "image_tokens": 1}
    assert broken(usage_of((3, 0, 3), three)) == set()
    assert broken(usage_of((2, 0, 2), three)) == {"usage.modalities-exceed-total"}


@pytest.mark.parametrize("size", [2**31, 2**53 + 1, 2**64 - 1])
def test_large_counters_are_compared_exactly(size: int) -> None:
    assert broken(usage_of((size, 1, size + 1))) == set()
    assert broken(usage_of((size, 1, size))) == {"usage.total-too-low"}


# -- types -----------------------------------------------------------------------------------------

COUNTERS: list[tuple[Any, str]] = [
    (0, ""),
    (6, ""),
    (6.0, ""),
    (None, "usage.keys-missing"),
    (6.5, "usage.not-integer"),
    ("6", "usage.not-integer"),
    ("", "usage.not-integer"),
    (True, "usage.not-integer"),
    ([], "usage.not-integer"),
    ({}, "usage.not-integer"),
    (float("inf"), "usage.not-integer"),
    (float("nan"), "usage.not-integer"),
    (-1, "usage.negative"),
    (-1.0, "usage.negative"),
]


@pytest.mark.parametrize(("value", "rule"), COUNTERS)
def test_each_counter_is_a_count(value: Any, rule: str) -> None:
    """A counter that is none is not compared with anything (P9)."""
    for name in CHAT_USAGE.keys:
        usage: dict[str, Any] = {**usage_of((6, 6, 12)), name: value}
        found = broken(usage)
        if rule:
            assert found == {rule}
        else:
            assert found <= {"usage.total-too-low", "usage.total-too-high"}


def test_a_counter_that_is_left_out_is_missing() -> None:
    for name in CHAT_USAGE.keys:
        usage = usage_of((6, 6, 12))
        del usage[name]
        assert broken(usage) == {"usage.keys-missing"}
    assert broken({}) == {"usage.keys-missing"}


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (None, ""),
        (0, ""),
        (1.0, ""),
        (1.5, "usage.details-type"),
        ("1", "usage.details-type"),
        (True, "usage.details-type"),
        ([], "usage.details-type"),
        (-1, "usage.negative"),
    ],
)
def test_each_counter_of_the_details_is_a_count_or_null(value: Any, rule: str) -> None:
    wanted = {rule} if rule else set()
    assert broken(usage_of((6, 6, 12), {"cached_tokens": value})) == wanted
    assert broken(usage_of((6, 6, 12), None, {"audio_tokens": value})) == wanted


@pytest.mark.parametrize("value", [[], "x", 5, True, 1.5])
def test_details_are_an_object(value: Any) -> None:
    assert broken(usage_of((6, 6, 12), value)) == {"usage.details-type"}
    assert broken(usage_of((6, 6, 12), None, value)) == {"usage.details-type"}


@pytest.mark.parametrize("value", [[], "x", 5, True, [usage_of((1, 1, 2))]])
def test_usage_is_an_object(value: Any) -> None:
    assert broken(value) == {"usage.not-object"}


def test_foreign_counters_are_foreign_in_place_of_our_own_and_extras_beside_them() -> None:
    for table, other in ((CHAT_USAGE, RESPONSES_USAGE), (RESPONSES_USAGE, CHAT_USAGE)):
        foreign = usage_of((6, 6, 12), table=other)
        both = {
            **foreign,
            **usage_of((6, 6, 12), {"cached_tokens": 0}, {"reasoning_tokens": 0}, table),
        }
        assert broken(foreign, table) == {"usage.foreign-keys"}
        assert broken(both, table) == set()


@pytest.mark.parametrize(
    ("prompt", "completion", "wanted"),
    [
        ({"cached_tokens": 0}, {"reasoning_tokens": 0}, set()),
        (None, {"reasoning_tokens": 0}, {"usage.responses-details-missing"}),
        ({"cached_tokens": 0}, None, {"usage.responses-details-missing"}),
        ({}, {"reasoning_tokens": 0}, {"usage.responses-counter-missing"}),
        ({"cached_tokens": 0}, {"reasoning_tokens": None}, {"usage.responses-counter-missing"}),
    ],
)
def test_responses_usage_has_its_details_and_their_counters(
    prompt: Any, completion: Any, wanted: set[str]
) -> None:
    usage = usage_of((6, 6, 12), prompt, completion, RESPONSES_USAGE)
    assert broken(usage, RESPONSES_USAGE) == wanted
    assert broken(usage_of((6, 6, 12), prompt, completion)) == set()


def test_names_of_vendors_are_an_observation_and_so_listed() -> None:
    ctx = context()
    check_usage(ctx, {**usage_of((6, 6, 12)), "cost": 0.1, "queue_time": 1}, CHAT_USAGE, "/usage")
    [violation] = ctx.exchange.violations
    assert violation.rule.id == "usage.vendor-fields"
    assert "cost" in violation.evidence and "queue_time" in violation.evidence


# -- counters that are zero ------------------------------------------------------------------------


def zeros(
    counts: tuple[int, int, int],
    *,
    answered: bool,
    request: Any = ASKED,
    cached: int = 0,
    table: UsageTable = CHAT_USAGE,
) -> set[str]:
    ctx = context(request)
    usage = usage_of(counts, {"cached_tokens": cached}, {"reasoning_tokens": 0}, table)
    seen = check_usage(ctx, usage, table, "/usage")
    assert seen is not None
    before = {v.rule.id for v in ctx.exchange.violations}
    check_zeros(ctx, seen, table, "/usage", answered=answered)
    return {v.rule.id for v in ctx.exchange.violations} - before


REQUESTS: list[tuple[Mapping[str, Any] | None, bool]] = [
    ({"messages": [{"role": "user", "content": "Hi"}]}, True),
    ({"input": "Hi"}, True),
    ({"prompt": "Hi"}, True),
    ({"instructions": "Hi"}, True),
    ({"messages": []}, False),
    ({"input": ""}, False),
    ({}, False),
    (None, False),
]


def test_a_count_is_zero_exactly_where_there_was_nothing_to_count() -> None:
    for prompt, completion, answered, cached, (request, sent) in product(
        (0, 1), (0, 1), (True, False), (0, 1), REQUESTS
    ):
        if cached > prompt:
            continue
        wanted = set()
        if completion == 0 and answered:
            wanted.add("usage.completion-zero")
        if prompt == 0 and sent:
            wanted.add("usage.prompt-zero")
        counts = (prompt, completion, prompt + completion)
        assert zeros(counts, answered=answered, request=request, cached=cached) == wanted


def test_a_prompt_that_was_wholly_cached_may_be_counted_there_alone() -> None:
    assert zeros((0, 1, 1), answered=True, cached=5) == set()


def test_responses_usage_is_all_zeros_at_times() -> None:
    assert zeros((0, 0, 0), answered=True, table=RESPONSES_USAGE) == set()
    assert zeros((0, 0, 0), answered=True) == {"usage.completion-zero", "usage.prompt-zero"}


# -- facts -----------------------------------------------------------------------------------------


def test_plain_counters_and_details_are_kept_as_facts() -> None:
    ctx = context()
    usage = usage_of((6, 5, 11), {"cached_tokens": 2, "x": 9}, {"reasoning_tokens": 1.0})
    assert check_usage(ctx, usage, CHAT_USAGE, "/usage") == {
        "prompt_tokens": 6,
        "completion_tokens": 5,
        "total_tokens": 11,
    }
    assert ctx.exchange.usage == {
        "prompt_tokens": 6,
        "completion_tokens": 5,
        "total_tokens": 11,
        "prompt_tokens_details.cached_tokens": 2,
        "completion_tokens_details.reasoning_tokens": 1,
    }


def test_counters_that_are_none_are_no_facts() -> None:
    ctx = context()
    assert (
        check_usage(ctx, {**usage_of((6, 5, 11)), "total_tokens": "x"}, CHAT_USAGE, "/usage")
        is None
    )
    assert ctx.exchange.usage == {}
