"""Streams of legacy completions: the automaton of a choice, and what the end owes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from teeline.validators.checks.completionstream import AFTER_FINISH
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import byte_by_byte, inspect

TEXT, FINISH = {"text": "!"}, {"finish_reason": "stop"}


def chunk(**choice: Any) -> dict[str, Any]:
    """A chunk with one choice; members that are not given stand as on an empty chunk."""
    return {
        "id": "cmpl-A2",
        "object": "text_completion",
        "created": 1790000000,
        "choices": [{"text": "", "index": 0, "logprobs": None, "finish_reason": None, **choice}],
        "model": "gpt-3.5-turbo-instruct:20230824-v2",
    }


def stream(*events: Any, limits: Limits = DEFAULT_LIMITS, **change: Any) -> Exchange:
    """What is found in a stream of these events, ``[DONE]`` behind them."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    body += "data: [DONE]\n\n" if change.pop("done", True) else ""
    return inspect(
        exchange({"on": "completions-stream", "body": body, **change}), byte_by_byte, limits
    )


def worth(seen: Exchange) -> set[str]:
    return {v.rule.id for v in seen.violations if v.severity.word != "info"}


@pytest.mark.parametrize(
    ("text", "finish"), list(itertools.product(("", "!"), (None, "stop", "length")))
)
def test_a_chunk_after_the_finish_breaks_what_the_table_says(text: str, finish: str | None) -> None:
    seen = stream(chunk(**TEXT), chunk(**FINISH), chunk(text=text, finish_reason=finish))
    row = AFTER_FINISH.get((bool(text), finish is not None, finish == "stop"), ())
    assert worth(seen) == set(row)


def test_a_stream_in_which_no_choice_came_has_too_few_unless_a_rule_says_why() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    asked = {"/stream_options": '{"include_usage":true}'}
    assert worth(stream({**chunk(), "choices": [], "usage": usage}, request=asked)) == {
        "cross.choices-too-few"
    }
    assert worth(stream({**chunk(), "choices": []})) == {"completions.choices-empty-no-usage"}
    assert worth(stream({**chunk(), "choices": None})) == {"completions.choices-type"}


@pytest.mark.parametrize("index", [None, "0", True, 0.5])
def test_a_text_of_no_choice_takes_only_what_depends_on_it_away(index: Any) -> None:
    """Of several choices it may be any one's; the only choice is its own."""
    several = (chunk(**TEXT), chunk(**FINISH), chunk(index=1, **TEXT), chunk(index=index, **FINISH))
    assert worth(stream(*several, request={"/n": "2"})) == {"completions.choice-index-type"}
    late = (chunk(**TEXT), chunk(**FINISH), chunk(index=index, **TEXT))
    assert worth(stream(*late, request={"/n": "2"})) == {"completions.choice-index-type"}
    assert worth(stream(*late)) == {
        "completions.choice-index-type",
        "completions.text-after-finish",
    }


@pytest.mark.parametrize("choices", [None, {}, "x", 5])
def test_an_end_that_may_lie_in_unreadable_choices_is_not_missed(choices: Any) -> None:
    events = [chunk(**TEXT), {**chunk(), "choices": choices}]
    assert worth(stream(*events)) == {"completions.choices-type"}


def test_choices_finish_each_for_itself_and_interleave() -> None:
    seen = stream(
        chunk(index=1, text="b"),
        chunk(text="a"),
        chunk(index=1, **FINISH),
        chunk(text="a"),
        chunk(finish_reason="length"),
        request={"/n": "2"},
    )
    assert worth(seen) == set()
    assert seen.finish == ["stop", "length"]


def test_an_empty_finish_word_on_every_chunk_is_one_fault() -> None:
    seen = stream(chunk(text="a", finish_reason=""), chunk(finish_reason=""))
    assert worth(seen) == {"completions.finish-unknown"}


def test_a_finish_word_that_is_no_word_is_one_fault() -> None:
    assert worth(stream(chunk(text="a", finish_reason=[]))) == {"completions.finish-unknown"}


def test_a_last_chunk_of_chat_takes_the_place_of_the_finish() -> None:
    odd = {**chunk(), "choices": [{"delta": {}, "finish_reason": "stop"}]}
    assert worth(stream(chunk(text="a"), odd)) == {"completions.chat-shape"}


@pytest.mark.parametrize("connection", ["aborted", "client_closed"])
def test_a_stream_that_was_broken_off_owes_no_end(connection: str) -> None:
    seen = stream(chunk(text="a"), done=False, connection=connection)
    assert worth(seen) <= {"http.truncated"}


def test_after_an_error_nothing_is_owed() -> None:
    error = {"error": {"message": "x", "type": "server_error", "param": None, "code": None}}
    assert worth(stream(chunk(text="a"), error, done=False)) == set()


def test_another_apis_events_are_named_once() -> None:
    events = [
        {"type": "message_start", "message": {}},
        {"type": "content_block_delta", "delta": {"text": "a"}},
    ]
    assert worth(stream(*events)) == {"completions.foreign-shape"}


def test_usage_of_an_empty_text_may_lack_what_was_not_generated() -> None:
    usage = {**chunk(), "choices": [], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    asked = {"/stream_options": '{"include_usage":true}'}
    assert worth(stream(chunk(**FINISH), usage, request=asked)) == set()
    found = worth(stream(chunk(**TEXT), chunk(**FINISH), usage, request=asked))
    assert found == {"usage.keys-missing"}


def test_rows_of_azures_filter_are_no_chunks() -> None:
    row = {"id": "", "object": "", "created": 0, "model": ""}
    first = {**row, "choices": [], "prompt_filter_results": []}
    last = {**row, "choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]}
    assert worth(stream(first, chunk(**TEXT), chunk(**FINISH), last)) == set()


def test_more_choices_than_can_be_followed_are_said_and_not_judged() -> None:
    seen = stream(*(chunk(index=n, text="a") for n in range(9)), limits=Limits(choices=4))
    assert seen.inspection == "partial (choice-limit)"
    assert worth(seen) == set()


def test_a_stream_asked_for_but_empty_is_one_fault() -> None:
    assert worth(stream(done=False)) == {"completions.no-chunks"}
    body = exchange({"on": "completions-stream", "body": "just text"})
    assert "sse.no-event-stream" in worth(inspect(body))
