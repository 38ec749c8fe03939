"""An answer is held against what was asked for: model, choices, tokens, stop strings, logprobs."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.checks.context import Context
from teeline.validators.checks.cross import TextWatch, check_model, check_tokens, holds_logprobs
from teeline.validators.checks.request import UNKNOWN_REQUEST, facts_of
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation
from tests.validators.answers import (
    ASKED,
    STREAMED,
    TOOLS,
    chunk,
    completion,
    dumps,
    everything,
    finding,
    ids,
    inspected,
    opening,
    spoken,
    stream,
    streamed,
)


def context(request: Any, path: str = "/v1/chat/completions") -> Context:
    ctx = Context(Exchange(path=path), Operation.CHAT, DEFAULT_LIMITS)
    ctx.request = facts_of(request, Operation.CHAT)
    return ctx


@pytest.mark.parametrize(
    ("wanted", "got", "substituted"),
    [
        ("gpt-4o-mini", "gpt-4o-mini", False),
        ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", False),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini", False),
        ("gpt-4o", "GPT-4o", False),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", False),
        ("gpt-4o", "openai/gpt-4o", False),
        ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1", False),
        ("models/gemini-2.5-flash", "gemini-2.5-flash", False),
        ("gpt-3.5-turbo", "gpt-35-turbo", False),
        ("claude-sonnet-4@20250514", "claude-sonnet-4", False),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b-instruct", False),
        ("gpt-4-vision-preview", "gpt-4-1106-vision-preview", False),
        ("gpt-4-turbo-preview", "gpt-4-0125-preview", False),
        ("davinci-002", "davinci:2023-07-21-v2", False),
        ("babbage-002", "babbage:2023-07-21-v2", False),
        ("模型", "模型-1", False),
        ("gpt-4o", "gpt-3.5-turbo", True),
        ("deepseek-chat", "deepseek-v4-flash", True),
        ("gpt-4o", "claude-sonnet-4", True),
        ("anthropic/claude-haiku-4.5", "anthropic/claude-4.5-haiku-20251001", True),
        ("", "gpt-4o", False),
        ("gpt-4o", "", False),
        (None, "gpt-4o", False),
        (5, "gpt-4o", False),
        ("gpt-4o", None, False),
        ("gpt-4o", ["x"], False),
    ],
)
def test_a_model_is_related_to_the_one_asked_for_or_substituted(
    wanted: Any, got: Any, substituted: bool
) -> None:
    ctx = context({"model": wanted})
    check_model(ctx, got)
    assert ctx.report.has("cross.model-substituted") is substituted


def test_a_deployment_of_azure_is_called_anything() -> None:
    """P5."""
    ctx = context({"model": "my-own"}, "/openai/deployments/my-own/chat/completions")
    check_model(ctx, "gpt-4o-2024-08-06")
    assert not ctx.report.has("cross.model-substituted")


@pytest.mark.parametrize(("n", "came"), [*product([None, 1, 2, 3], [1, 2, 3])])
def test_as_many_choices_come_as_were_asked_for(n: int | None, came: int) -> None:
    wanted = n or 1
    rule = (
        {"cross.choices-too-many"}
        if came > wanted
        else {"cross.choices-too-few"}
        if came < wanted
        else set()
    )
    request = ASKED if n is None else {**ASKED, "n": n}
    base = completion()["choices"][0]
    body = dumps(completion(choices=[{**base, "index": i} for i in range(came)]))
    assert ids(inspected(body, request)) == rule
    events = [opening(index=i) for i in range(came)]
    events += [chunk({"content": "x"}, index=i) for i in range(came)]
    events += [chunk(finish="stop", index=i) for i in range(came)]
    assert ids(streamed(*events, request={**request, "stream": True})) == rule


@pytest.mark.parametrize(
    ("asked", "completion_tokens", "rule"),
    [
        ({}, 10**9, ""),
        ({"max_tokens": 10}, 10, ""),
        ({"max_tokens": 10}, 11, "cross.max-tokens-exceeded"),
        ({"max_completion_tokens": 10}, 11, "cross.max-tokens-exceeded"),
        ({"max_tokens": 5, "max_completion_tokens": 10}, 8, ""),
        ({"max_tokens": 10, "n": 3}, 30, ""),
        ({"max_tokens": 10, "n": 3}, 31, "cross.max-tokens-exceeded"),
        ({"max_tokens": -1}, 500, ""),
        ({"max_tokens": "10"}, 500, ""),
        ({"max_tokens": None}, 500, ""),
        ({"max_tokens": 10.0}, 500, ""),
    ],
)
def test_tokens_stay_within_the_limit_that_was_asked_for(
    asked: Any, completion_tokens: int, rule: str
) -> None:
    """-1 is what several servers take for "no limit"."""
    ctx = context(asked)
    check_tokens(ctx, completion_tokens, ["stop"], "/usage/completion_tokens")
    assert [v.rule.id for v in ctx.exchange.violations] == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("finish", "tokens", "short"),
    [
        (["length"], 49, True),
        (["length"], 50, False),
        (["stop"], 1, False),
        (["length", "length"], 1, False),
    ],
)
def test_a_length_limit_that_was_not_reached_is_an_observation(
    finish: list[str], tokens: int, short: bool
) -> None:
    ctx = context({"max_tokens": 100})
    check_tokens(ctx, tokens, finish, "/usage")
    assert ctx.report.has("cross.length-without-limit") is short


def test_nothing_is_held_against_a_request_that_was_not_read() -> None:
    """P7."""
    ctx = context({})
    ctx.request = UNKNOWN_REQUEST
    check_model(ctx, "anything")
    check_tokens(ctx, 10**9, ["length"], "/usage")
    assert ctx.exchange.violations == []


# -- texts -----------------------------------------------------------------------------------------


def watched(request: Any, pieces: list[str]) -> tuple[Context, TextWatch]:
    ctx = context(request)
    watch = TextWatch(ctx)
    for piece in pieces:
        watch.feed(piece, "/content")
    return ctx, watch


@pytest.mark.parametrize(
    ("stop", "text", "found"),
    [
        ("END", "Hello END", True),
        ("END", "Hello end", False),
        (["x", "END"], "END", True),
        (["a", "b", "c", "d", "END"], "END", False),
        ("", "anything", False),
        ([""], "anything", False),
        (None, "None", False),
        (5, "5", False),
        ([None, 5, "END"], "END", True),
        ("\n", "a\nb", True),
        ("x" * 257, "x" * 300, False),
    ],
)
def test_a_stop_string_does_not_stand_in_the_text(stop: Any, text: str, found: bool) -> None:
    """Four of them, as the API allows."""
    ctx, _ = watched({"stop": stop}, [text])
    assert ctx.report.has("cross.stop-sequence") is found


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(
    st.text("abE\ufffd", max_size=30),
    st.text("abE", min_size=1, max_size=4),
    st.lists(st.integers(0, 30), max_size=6),
)
def test_what_is_looked_for_is_found_however_the_text_was_cut(
    text: str, stop: str, cuts: list[int]
) -> None:
    bounds = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    ctx, watch = watched({"stop": stop}, [text[a:b] for a, b in pairwise(bounds)])
    assert ctx.report.has("cross.stop-sequence") is (stop in text)
    assert watch.replaced is ("\ufffd" in text)


@pytest.mark.parametrize(
    "pieces", [["a END", " b", " c"], ["a E", "ND", " b"], ["a END b c"], [*"a END b c d e f"]]
)
def test_a_stop_string_that_stands_there_once_is_counted_once(pieces: list[str]) -> None:
    ctx, _ = watched({"stop": "END"}, pieces)
    assert [v.count for v in ctx.exchange.violations] == [1]


@pytest.mark.parametrize("marker", ["<tool_call>", "[TOOL_CALLS]", "<function=", "<|python_tag|>"])
def test_a_call_in_the_text_is_seen_in_any_pieces_if_tools_were_sent(marker: str) -> None:
    text = f"Well: {marker}f</x>"
    for pieces in ([text], [*text]):
        body = stream(*spoken(*pieces))
        assert ids(inspected(body, {**STREAMED, **TOOLS})) == {"tools.call-as-text"}
        assert ids(inspected(body, STREAMED)) == set()


def test_a_call_that_stands_in_the_text_once_is_counted_once() -> None:
    body = stream(*spoken("<tool_call>", "f", "</x>"))
    assert finding(inspected(body, {**STREAMED, **TOOLS}), "tools.call-as-text").count == 1


@pytest.mark.parametrize(
    ("request_", "finish", "found"),
    [
        (ASKED, "stop", True),
        (ASKED, "length", False),
        (ASKED, "content_filter", True),
        ({**ASKED, "messages": [{"role": "user", "content": "what is \ufffd?"}]}, "stop", False),
        ({**ASKED, "metadata": {"a": [{"b": "\ufffd"}]}}, "stop", False),
        (None, "stop", False),
    ],
)
def test_replacement_characters_come_from_somewhere(
    request_: Any, finish: str, found: bool
) -> None:
    body = completion({"content": "a\ufffdb"})
    body["choices"][0]["finish_reason"] = finish
    wanted = {"cross.replacement-characters"} if found else set()
    assert ids(inspected(dumps(body), request_)) == wanted
    events = [opening(), chunk({"content": "a\ufffdb"}), chunk(finish=finish)]
    if request_ is not None:
        assert ids(streamed(*events, request={**request_, "stream": True})) == wanted


def test_replacement_characters_of_our_own_decoding_are_not_the_relays() -> None:
    """P9: bytes that are no UTF-8 have their rule."""
    body = dumps(completion()).replace(b"Hello", b"H\xff")
    assert ids(inspected(body)) == {"http.utf8-invalid"}
    events = stream(*spoken("Hello")).replace(b"Hello", b"H\xff")
    assert ids(inspected(events, STREAMED)) == {"sse.utf8-invalid"}


# -- logprobs --------------------------------------------------------------------------------------

TOKEN = {"token": "Hello", "logprob": -0.1, "bytes": None, "top_logprobs": []}


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (None, False),
        ({}, False),
        ({"content": None, "refusal": None}, False),
        ({"content": []}, True),
        ({"content": None, "refusal": [TOKEN]}, True),
        ([], True),
        ("x", True),
        (0, True),
    ],
)
def test_logprobs_are_there_if_anything_stands_in_them(value: Any, holds: bool) -> None:
    assert holds_logprobs(value) is holds


@pytest.mark.parametrize(("asked", "came"), [*product([None, False, True, 1], [False, True])])
def test_logprobs_come_if_they_were_asked_for(asked: Any, came: bool) -> None:
    request = ASKED if asked is None else {**ASKED, "logprobs": asked}
    rule = ""
    if (asked is True) != came:
        rule = "cross.logprobs-unrequested" if came else "cross.logprobs-missing"
    logprobs = {"content": [TOKEN], "refusal": None} if came else None
    body = completion()
    body["choices"][0]["logprobs"] = logprobs
    events = [opening(), chunk({"content": "Hello"}), chunk(finish="stop")]
    events[1]["choices"][0]["logprobs"] = logprobs
    for seen in (
        inspected(dumps(body), request),
        streamed(*events, request={**request, "stream": True}),
    ):
        found = {r for r in everything(seen) if "logprobs" in r}
        assert found == ({rule} if rule else set())


def test_an_answer_without_text_owes_no_logprobs() -> None:
    called = completion(
        {
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        }
    )
    called["choices"][0]["finish_reason"] = "tool_calls"
    assert ids(inspected(dumps(called), {**ASKED, **TOOLS, "logprobs": True})) == set()


@pytest.mark.parametrize(
    ("asked", "came", "found"),
    [(0, 1, True), (2, 2, False), (2, 3, True), (None, 1, True), (2, 0, False)],
)
def test_no_more_alternatives_come_than_were_asked_for(
    asked: int | None, came: int, found: bool
) -> None:
    top = [{"token": "x", "logprob": -1.0, "bytes": None}] * came
    body = completion()
    body["choices"][0]["logprobs"] = {"content": [{**TOKEN, "top_logprobs": top}], "refusal": None}
    request = {**ASKED, "logprobs": True, "top_logprobs": asked}
    assert ids(inspected(dumps(body), request)) == (
        {"cross.top-logprobs-count"} if found else set()
    )


def test_no_more_alternatives_come_in_a_stream_either() -> None:
    top = [{"token": "x", "logprob": -1.0, "bytes": None}] * 3
    events = [opening(), chunk({"content": "Hello"}), chunk(finish="stop")]
    events[1]["choices"][0]["logprobs"] = {
        "content": [{**TOKEN, "top_logprobs": top}],
        "refusal": None,
    }
    request = {**STREAMED, "logprobs": True, "top_logprobs": 2}
    assert ids(streamed(*events, request=request)) == {"cross.top-logprobs-count"}
