"""Members of events: every type in every place is judged, texts and counts are kept within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.limits import Limits
from tests.validators.nnrp.steps import CHAT, Steps

ODD: tuple[Any, ...] = (None, True, -1, 1.5, "1", "", [], {}, [0], 2**70, 1e300)


def right_index(value: Any) -> bool:
    return not isinstance(value, bool) and (value in (2**70, 1e300))


@pytest.mark.parametrize("value", ODD)
def test_an_index_is_a_whole_number_from_zero(value: Any) -> None:
    found = Steps().text("Hello", index=value).rules
    assert found == ({} if right_index(value) else {"nnrp.text-index-invalid": 1})


def test_texts_without_an_index_make_no_choice_wrong_at_the_end() -> None:
    """Which choice they belong to can't be told, so nothing is compared with them."""
    steps = Steps().text("Hel").text("other", index=None).text("lo").ends()
    assert steps.rules == {"nnrp.text-index-invalid": 1}


def test_choices_beyond_the_limit_are_said_and_not_held() -> None:
    steps = Steps(limits=Limits(choices=2))
    for index in range(50):
        steps.text("x", index)
    assert (len(steps.op.texts), steps.op.exchange.inspection) == (2, "partial (choice-limit)")


def test_a_delta_that_is_no_string_takes_its_text_s_comparison_away() -> None:
    steps = Steps().text("Hel").event("output_text.delta", index=0, delta=7).ends()
    assert steps.rules == {"nnrp.text-delta-not-string": 1}


def test_characters_cut_between_two_deltas_are_one_text() -> None:
    body = json.loads(json.dumps(CHAT).replace("Hello", "a\U0001f600b"))
    steps = Steps()
    for half in (r"a\ud83d", r"\ude00b"):
        event = f'{{"type":"response.output_text.delta","index":0,"delta":"{half}"}}'
        steps.server("PARTIAL_RESULT", text=event)
    assert steps.ends(body=body).rules == {"nnrp.json-surrogate": 2}


COUNTS = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_a_whole_number_from_zero(name: str, value: Any) -> None:
    steps = Steps().event("usage", usage={**COUNTS, name: value})
    count = steps.rules.pop("nnrp.usage-count-invalid", 0)
    assert count == (not right_index(value))


def test_usage_is_kept_where_its_counts_can_be_told() -> None:
    steps = Steps().event("usage", usage={**COUNTS, "details": {"x": [1]}})
    assert steps.op.exchange.usage == COUNTS
    assert Steps().event("usage", usage={**COUNTS, "total_tokens": None}).op.exchange.usage == {}


@pytest.mark.parametrize("usage", [None, 7, [], "x", True])
def test_usage_that_is_no_object_is_named_and_not_kept(usage: Any) -> None:
    steps = Steps().event("usage", usage=usage).text("Hello").ends()
    assert steps.rules == {"nnrp.usage-not-object": 1}
    assert "nnrp.usage-not-last" in steps.noted


@pytest.mark.parametrize("chunk", [None, 7, "x", [], True])
def test_a_chunk_is_an_object(chunk: Any) -> None:
    found = Steps().event("output_text.delta", index=0, delta="x", openai_chunk=chunk).rules
    assert found == {"nnrp.openai-chunk-not-object": 1}
    found = Steps(tools=TOOLS).tool("started", name="f", openai_chunk=chunk).rules
    assert found == {"nnrp.tool-openai-chunk-not-object": 1}


TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [7], [None], [[]], [{"delta": 7}]])
def test_a_chunk_of_any_shape_is_held_against_its_event(value: Any) -> None:
    for chunk in (
        {"choices": value},
        {"choices": [{"delta": {"tool_calls": value}}]},
        {"x": value},
    ):
        steps = Steps().event("output_text.delta", index=0, delta="x", openai_chunk=chunk)
        assert steps.rules == {}


def test_a_legacy_delta_is_named_alone_and_makes_no_call() -> None:
    steps = Steps(tools=TOOLS).event("tool_call.delta", index=0, tool_call={"id": "call_1"})
    assert (steps.rules, steps.op.calls) == ({"nnrp.tool-legacy-shape": 1}, {})


@pytest.mark.parametrize("error", [None, 7, "x", [], {}, {"type": "t", "code": "c", "message": ""}])
def test_the_error_of_a_call_is_whole(error: Any) -> None:
    steps = Steps(tools=TOOLS).tool("started", name="f").tool("error", error=error)
    assert steps.rules == {"nnrp.tool-error-shape": 1}
    assert not steps.op.open_calls
