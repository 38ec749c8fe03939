"""The official SDK through teeline against a real engine: llama.cpp's server with a tiny model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.model import Ended, Exchange, Severity
from teeline.validators.rules import register
from tests.clients import sdk
from tests.clients.conftest import Start
from tests.clients.peers import breaches, read_to_its_end
from tests.clients.sdk import WEATHER, Outcome, ask, ask_helper, ask_responses, saying

KNOWN = {
    "chatstream.first-choice-not-zero": "two choices are computed side by side; either may be first",
    "chatstream.usage-repeated": "each of several choices is followed by a usage of its own",
    "error.code-type": "the code of a refusal is its status, a number",
}
"""Rules from warn up that chats of this version of the engine break, each with what it does; none is
at fail.
"""
KNOWN_OF_RESPONSES = {
    "respstream.seq-missing": "no event has a sequence_number",
    "respstream.field-missing": "no event has output_index or content_index, no part annotations",
    "responses.created-at-type": "the first two events hold a Response without created_at",
    "responses.model-type": "the first two events hold a Response without model",
    "responses.output-not-array": "the first two events hold a Response without output",
}
"""Rules at fail that its Responses streams break; other clients do fail over these."""


def request(text: str, **options: Any) -> dict[str, Any]:
    """One that the model was trained for; greedy, so that it says the same each time."""
    base = {"model": "tiny-qwen2", "messages": saying(text), "temperature": 0, "max_tokens": 60}
    return base | options


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "temp_c": {"type": "integer"}},
    "required": ["city", "temp_c"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "w", "schema": CITY, "strict": True}}
CHATS = {
    "chat": request("Hi"),
    "length": request("Count to ten", max_tokens=5),
    "stop": request("Count to ten", stop=["four"]),
    "unicode": request("Say something in unicode", max_tokens=100),
    "n2": request("Hi", n=2),
    "logprobs": request("Hi", logprobs=True, top_logprobs=2),
    "tools": request("What is the weather in Paris?", tools=[WEATHER]),
    "json-schema": request("Give JSON", response_format=FORMAT),
}
RESPONSE = {"model": "tiny-qwen2", "input": "Hi", "temperature": 0, "max_output_tokens": 60}
STREAMS = {
    name: asked | {"stream": True, "stream_options": {"include_usage": True}}
    for name, asked in CHATS.items()
}


def _judge(exchange: Exchange) -> None:
    assert breaches(exchange) - KNOWN.keys() == set()
    assert exchange.inspection == "full"
    assert read_to_its_end(exchange) or exchange.stream


@pytest.mark.parametrize("name", CHATS)
def test_an_answer_is_the_same_through_teeline(
    name: str, llama_server: str, teeline: Start
) -> None:
    """What the model says, why it stopped, and what it counted; ids and times are new each time."""
    through = teeline(llama_server)
    (direct,), (got,) = ask(llama_server, CHATS[name]).got, ask(through.base_url, CHATS[name]).got
    exchange = through.exchange()
    _judge(exchange)
    assert [_said(c.message) for c in got.choices] == [_said(c.message) for c in direct.choices]
    assert [c.finish_reason for c in got.choices] == [c.finish_reason for c in direct.choices]
    assert exchange.finish == [c.finish_reason for c in got.choices]
    assert exchange.usage["completion_tokens"] == got.usage.completion_tokens


def _said(message: Any) -> tuple[Any, ...]:
    calls = message.tool_calls or ()
    return message.content, [(call.function.name, call.function.arguments) for call in calls]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_says_what_the_answer_says(name: str, llama_server: str, teeline: Start) -> None:
    through = teeline(llama_server)
    (answer,) = ask(llama_server, CHATS[name]).got
    outcome = ask(through.base_url, STREAMS[name])
    assert outcome.error == ""
    exchange = through.exchange()
    _judge(exchange)
    assert exchange.events == len(outcome.got)
    assert exchange.usage["completion_tokens"] == outcome.got[-1].usage.completion_tokens
    for choice in answer.choices:
        assert _joined(outcome, choice.index) == (choice.message.content or "")


def _joined(outcome: Outcome, index: int) -> str:
    choices = [choice for chunk in outcome.got for choice in chunk.choices]
    return "".join(c.delta.content or "" for c in choices if c.index == index)


def test_the_stream_helper_calls_the_tool(llama_server: str, teeline: Start) -> None:
    through = teeline(llama_server)
    outcome = ask_helper(through.base_url, CHATS["tools"])
    assert outcome.error == ""
    (call,) = outcome.got[-1].choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    _judge(through.exchange())


def test_a_document_that_keeps_its_schema_is_found_to(llama_server: str, teeline: Start) -> None:
    """The engine holds the model to the schema; teeline checks that the answer does keep it."""
    through = teeline(llama_server)
    (answer,) = ask(through.base_url, CHATS["json-schema"]).got
    assert json.loads(answer.choices[0].message.content).keys() == {"city", "temp_c"}
    _judge(through.exchange())


def test_leaving_a_stream_blames_nobody(llama_server: str, teeline: Start) -> None:
    through = teeline(llama_server)
    with sdk.client(through.base_url) as client:
        asked = request("Tell me a story", max_tokens=4000, stream=True)
        with client.chat.completions.create(**asked, extra_body={"ignore_eos": True}) as stream:
            first = next(stream)
        exchange = through.exchange()
    assert first.choices[0].delta.role == "assistant"
    assert exchange.ended is Ended.CLIENT_CLOSED
    assert breaches(exchange) == set()


def test_a_refusal_keeps_its_words(llama_server: str, teeline: Start) -> None:
    through = teeline(llama_server)
    asked = request("Hi", temperature="hot")
    direct, got = ask(llama_server, asked), ask(through.base_url, asked)
    assert got == direct
    assert got.exception != ""
    exchange = through.exchange()
    assert breaches(exchange) - KNOWN.keys() == set()
    assert exchange.status is not None and exchange.status >= 400


def test_a_response_breaks_nothing_that_is_at_fail(llama_server: str, teeline: Start) -> None:
    through = teeline(llama_server)
    outcome = ask_responses(through.base_url, RESPONSE)
    assert outcome.error == ""
    assert breaches(through.exchange(), Severity.FAIL) == set()


def test_what_a_responses_stream_lacks_is_named(llama_server: str, teeline: Start) -> None:
    """The SDK passes over all of it in silence."""
    through = teeline(llama_server)
    outcome = ask_responses(through.base_url, RESPONSE | {"stream": True})
    assert outcome.error == ""
    exchange = through.exchange()
    assert exchange.inspection == "full"
    assert breaches(exchange, Severity.FAIL) == KNOWN_OF_RESPONSES.keys()


def test_what_is_known_of_the_engine_is_known_by_its_rules() -> None:
    """A rule that no longer exists excuses nothing; one at fail would not be excused lightly."""
    rules = register()
    assert all(rules[rule].severity < Severity.FAIL for rule in KNOWN)
