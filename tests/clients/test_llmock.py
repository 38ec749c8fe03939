"""The official SDK through teeline against llmock, a stand-in for the API that means to conform."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.model import Severity
from tests.clients.conftest import Start
from tests.clients.peers import breaches, read_to_its_end
from tests.clients.sdk import (
    WEATHER,
    WEATHER_OF_RESPONSES,
    ask,
    ask_helper,
    ask_responses,
    saying,
)

MODEL = "gpt-4o-mini"
CHATS: dict[str, dict[str, Any]] = {
    "chat": {},
    "n2": {"n": 2},
    "tools": {"tools": [WEATHER]},
    "stream": {"stream": True},
    "stream-usage": {"stream": True, "stream_options": {"include_usage": True}},
    "stream-n2": {"stream": True, "n": 2},
    "stream-tools": {"stream": True, "tools": [WEATHER]},
}


@pytest.mark.parametrize("name", CHATS)
def test_nothing_documented_is_reported_as_broken(name: str, llmock: str, teeline: Start) -> None:
    through = teeline(llmock)
    request = {"model": MODEL, "messages": saying("What is the weather?"), **CHATS[name]}
    outcome = ask(through.base_url, request)
    assert outcome.error == ""
    exchange = through.exchange()
    assert breaches(exchange, Severity.FAIL) == set()
    assert exchange.inspection == "full"
    assert read_to_its_end(exchange) or exchange.stream
    assert exchange.stream is ("stream" in name)


def test_tools_come_together_through_teeline(llmock: str, teeline: Start) -> None:
    through = teeline(llmock)
    request = {"model": MODEL, "messages": saying("Weather in Paris?"), "tools": [WEATHER]}
    outcome = ask_helper(through.base_url, request)
    assert outcome.error == ""
    (call,) = outcome.got[-1].choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert breaches(through.exchange(), Severity.FAIL) == set()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [[], [WEATHER_OF_RESPONSES]])
def test_responses_pass_as_well(
    stream: bool, tools: list[Any], llmock: str, teeline: Start
) -> None:
    through = teeline(llmock)
    asked = {"model": MODEL, "input": "Weather in Paris?", "stream": stream, "tools": tools}
    outcome = ask_responses(through.base_url, asked)
    assert outcome.error == ""
    exchange = through.exchange()
    assert (exchange.operation, exchange.inspection) == ("responses", "full")
    assert breaches(exchange, Severity.FAIL) == set()


def test_a_refusal_keeps_its_words(llmock: str, teeline: Start) -> None:
    through = teeline(llmock)
    request = {"model": MODEL, "messages": saying("Hi"), "temperature": "hot"}
    direct, got = ask(llmock, request), ask(through.base_url, request)
    assert got == direct
    assert got.exception == "UnprocessableEntityError"
    assert through.exchange().status == 422
