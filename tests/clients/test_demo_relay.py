"""The official SDK through teeline against a relay with known faults: nothing changes for it, and
every fault gets its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from teeline.proxy.demo.scenarios import SCENARIOS, Scenario
from teeline.validators.model import Exchange, Verdict
from tests.clients import sdk
from tests.clients.conftest import Start
from tests.clients.peers import breaches
from tests.clients.sdk import Outcome, ask, ask_async, ask_helper, saying

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
CLEAN = [s.name for s in SCENARIOS if not s.expected]
FAULTY = [s.name for s in SCENARIOS if s.expected]
STREAMS = [s.name for s in SCENARIOS if s.stream]

RAISES = {
    "cut-mid-event": "APIConnectionError",
    "no-blank-lines": "JSONDecodeError",
    "error-string": "InternalServerError",
}
"""The faults that the SDK itself lets a program know of; all others it passes over in silence."""

HELPER_RAISES = {
    "cut-mid-event": "APIConnectionError",
    "no-blank-lines": "JSONDecodeError",
    "tool-index-missing": "TypeError",
    "json-for-stream": "AssertionError",
    "html-at-200": "AssertionError",
}
"""The same for the stream helper, which puts a completion together."""


Ask = Callable[[str, Mapping[str, Any]], Outcome]

with_both_clients = pytest.mark.parametrize("ask", [ask, ask_async])


@with_both_clients
@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_answer_is_the_same_through_teeline_and_passes(
    ask: Ask, name: str, relay: str, teeline: Start
) -> None:
    through, asked = teeline(relay), BY_NAME[name].request
    direct, got = ask(relay, asked), ask(through.base_url, asked)
    assert got == direct
    assert got.error == ""
    exchange = through.exchange()
    assert breaches(exchange) == set()
    assert exchange.inspection == "full"


@with_both_clients
@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_named_and_the_sdk_behaves_as_without_teeline(
    ask: Ask, name: str, relay: str, teeline: Start
) -> None:
    """The same objects and then the same exception, or the same silence."""
    through, asked = teeline(relay), BY_NAME[name].request
    direct, got = ask(relay, asked), ask(through.base_url, asked)
    assert got == direct
    assert got.exception == RAISES.get(name, "")
    assert_named(BY_NAME[name], through.exchange())


@pytest.mark.parametrize("name", STREAMS)
def test_the_stream_helper_behaves_as_without_teeline(
    name: str, relay: str, teeline: Start
) -> None:
    through, asked = teeline(relay), BY_NAME[name].request
    direct, got = ask_helper(relay, asked), ask_helper(through.base_url, asked)
    assert got == direct
    assert got.exception == HELPER_RAISES.get(name, "")
    assert_named(BY_NAME[name], through.exchange())


def assert_named(scenario: Scenario, exchange: Exchange) -> None:
    """Exactly the scenario's faults; of a stream that was left early, those that showed by then."""
    found, expected = breaches(exchange), set(scenario.expected)
    assert found == expected


def test_the_stream_helper_puts_tool_calls_together(relay: str, teeline: Start) -> None:
    through = teeline(relay)
    outcome = ask_helper(through.base_url, BY_NAME["clean-tools"].request)
    calls = outcome.got[-1].choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["get_weather", "get_time"]
    assert [call.function.arguments for call in calls] == ['{"city":"Paris"}'] * 2


def test_usage_that_was_asked_for_arrives_and_is_kept(relay: str, teeline: Start) -> None:
    through = teeline(relay)
    request = BY_NAME["clean-usage"].request
    outcome = ask(through.base_url, request)
    usage = outcome.got[-1].usage
    seen = through.exchange()
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 7, 19)
    assert seen.usage.items() >= {"prompt_tokens": 12, "completion_tokens": 7}.items()


def test_fields_of_the_answer_reach_the_program(relay: str, teeline: Start) -> None:
    """The request id that support asks for, and all others but the time of the answer."""
    through = teeline(relay)
    seen = []
    for base_url in (relay, through.base_url):
        with sdk.client(base_url) as client:
            raw = client.chat.completions.with_raw_response.create(**BY_NAME["clean-json"].request)
            parsed = raw.parse()
            seen.append([f for f in raw.headers.multi_items() if f[0] != "date"])
            assert parsed._request_id == "req_demo"
    assert seen[0] == seen[1]
    assert through.exchange().request_id == "req_demo"


def test_models_are_listed(relay: str, teeline: Start) -> None:
    through = teeline(relay)
    with sdk.client(relay) as direct, sdk.client(through.base_url) as client:
        assert client.models.list().data == direct.models.list().data
    assert through.exchange().operation == "models"


def test_fifty_at_once_are_kept_apart(relay: str, teeline: Start) -> None:
    """Streams and documents side by side; each client gets the answer to its own request."""
    through = teeline(relay)
    names = [f"model-{number}" for number in range(50)]

    async def models(client: sdk.openai.AsyncOpenAI, name: str, stream: bool) -> set[str]:
        answer = await client.chat.completions.create(
            model=name, messages=saying("Hi"), stream=stream
        )
        if isinstance(answer, sdk.openai.AsyncStream):
            return {chunk.model async for chunk in answer}
        return {answer.model}

    async def ask_all() -> list[set[str]]:
        async with sdk.async_client(through.base_url) as client:
            work = [models(client, name, n % 2 == 0) for n, name in enumerate(names)]
            return await asyncio.gather(*work)

    assert asyncio.run(ask_all()) == [{name} for name in names]
    exchanges = through.exchanges(50)
    assert sorted((e.model or "", e.response_model or "") for e in exchanges) == sorted(
        (name, name) for name in names
    )
    assert {e.verdict for e in exchanges} == {Verdict.PASS}
    assert len({e.id for e in exchanges}) == 50
