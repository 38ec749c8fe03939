"""A completed body against its stream: texts, calls and usage told twice, in any shape."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.nnrp.completed import finish_cut
from tests.validators.nnrp.packets import ENVELOPE
from tests.validators.nnrp.steps import CHAT, Steps

TEXT, TOOLS_, USAGE = (f"nnrp.completed-{name}-mismatch" for name in ("text", "tools", "usage"))


def chat(*texts: Any) -> dict[str, Any]:
    choices = [
        {**CHAT["choices"][0], "index": n, "message": {"role": "assistant", "content": text}}
        for n, text in enumerate(texts)
    ]
    return {**CHAT, "choices": choices}


@pytest.mark.parametrize(
    ("told", "body", "differs"),
    [
        ({0: "Hello"}, chat("Hello"), 0),
        ({0: "Hello"}, chat("Hell"), 1),
        ({0: "a", 1: "b"}, chat("a", "b"), 0),
        ({0: "a", 1: "b"}, chat("b", "a"), 2),
        ({0: "a"}, chat("a", ""), 0),
        ({0: "a"}, chat("a", None), 0),
        ({0: "a"}, chat("a", "b"), 1),
        ({0: "a", 1: "b"}, chat("a"), 0),
        ({0: "a"}, chat(7), 0),
        ({0: "a"}, chat(["a"]), 0),
        ({0: "a"}, {**CHAT, "choices": None}, 0),
        ({0: "a"}, {**CHAT, "choices": [None, 7, {}, {"index": 0}, {"message": []}]}, 0),
    ],
)
def test_texts_are_compared_choice_by_choice(told: dict[int, str], body: Any, differs: int) -> None:
    steps = Steps(n=2)
    for index, text in told.items():
        steps.text(text, index)
    assert steps.ends(body=body).rules.get(TEXT, 0) == differs


def tool_body(*calls: Any, **message: Any) -> dict[str, Any]:
    return {
        **CHAT,
        "choices": [
            {"index": 0, "message": {"content": None, "tool_calls": list(calls), **message}}
        ],
    }


def function(arguments: Any = "{}", name: Any = "f", id_: Any = "call_1") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def streamed() -> Steps:
    steps = Steps(tools=[{"type": "function", "function": {"name": "f"}}])
    return steps.tool("started", name="f").tool("completed", name="f", arguments="{}")


@pytest.mark.parametrize(
    ("calls", "differs"),
    [
        ([function()], False),
        ([function("{ }")], True),
        ([function(name="g")], True),
        ([function(id_="other")], True),
        ([function(), function(id_="call_2")], True),
        ([], True),
        ([function(arguments={})], False),
        ([function(id_=7)], True),
        ([None, 7, {}, {"id": "call_1"}], True),
        ([function(name=None)], True),
    ],
)
def test_calls_are_compared_by_their_ids(calls: list[Any], differs: bool) -> None:
    assert (TOOLS_ in streamed().ends(body=tool_body(*calls)).rules) is differs


def test_a_call_that_failed_may_be_there_or_not() -> None:
    error = {"type": "t", "code": "c", "message": "m"}
    for calls in ([], [function(arguments="")]):
        steps = Steps(tools=[{"type": "function", "function": {"name": "f"}}])
        steps.tool("started", name="f").tool("error", error=error)
        assert TOOLS_ not in steps.ends(body=tool_body(*calls)).rules


@pytest.mark.parametrize("body", [{}, {"x": 1}, {"choices": 7}, {"output": None}])
def test_a_body_without_answers_is_compared_with_nothing(body: Any) -> None:
    assert not {TEXT, TOOLS_, USAGE} & streamed().text("x").ends(body=body).rules.keys()


@pytest.mark.parametrize(
    ("usage", "differs"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}, False),
        ({"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}, False),
        ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 13}, True),
        ({"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}, True),
        ({"prompt_tokens": 9, "completion_tokens": 3}, False),
        ({"prompt_tokens": "9", "completion_tokens": 3, "total_tokens": 12}, False),
        ({"prompt_tokens": True, "completion_tokens": 3, "total_tokens": 12}, False),
        (None, False),
        ([], False),
    ],
)
def test_counts_are_compared_under_either_name(usage: Any, differs: bool) -> None:
    counts = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    steps = Steps().text("Hello").event("usage", usage=counts).ends(body={**CHAT, "usage": usage})
    assert (USAGE in steps.rules) is differs


def test_the_last_usage_is_the_one_that_counts() -> None:
    steps = Steps().text("Hello")
    for total in (99, 12):
        steps.event("usage", usage={"input_tokens": 9, "output_tokens": 3, "total_tokens": total})
    assert USAGE not in steps.ends().rules


RESPONSE = {
    "object": "response",
    "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
    ],
}


def test_calls_of_responses_are_found_among_the_items() -> None:
    envelope = {
        **ENVELOPE,
        "operation": "responses.create",
        "body": {"model": "m", "input": "Hi", "stream": True},
    }
    steps = Steps(envelope)
    steps.tool("started", name="f").tool("completed", name="f", arguments="{}")
    assert TOOLS_ not in steps.ends(body=RESPONSE).rules
    missing = Steps(envelope).ends(body=RESPONSE)
    assert {
        "nnrp.tool-events-missing-undeclared",
        "nnrp.stream-without-events",
    } <= missing.rules.keys()


@pytest.mark.parametrize(
    ("body", "cut"),
    [
        (None, False),
        ({}, False),
        ({"choices": [{"finish_reason": "stop"}, {"finish_reason": "length"}]}, True),
        ({"choices": [{"finish_reason": ["length"]}]}, False),
        ({"choices": {"finish_reason": "length"}}, False),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, True),
        ({"incomplete_details": "max_output_tokens"}, False),
    ],
)
def test_whether_a_length_cut_the_answer_is_read_from_any_shape(body: Any, cut: bool) -> None:
    assert finish_cut(body) is cut


@pytest.mark.parametrize("stream", [False, None])
def test_an_answer_that_was_not_streamed_has_no_stream_to_lack(stream: Any) -> None:
    envelope = {**ENVELOPE, "body": {**ENVELOPE["body"], "stream": stream}}
    steps = Steps(envelope).ends()
    assert (steps.rules, steps.noted) == ({}, set())
