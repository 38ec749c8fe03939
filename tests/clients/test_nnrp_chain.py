"""OpenAI's package -> teeline -> bridge -> tap -> adapter -> llama.cpp's server, and all that it takes.

What belongs here: what a program gets to see is what the engine says, and what teeline finds of both
protocols on the way, and of the bridge between them: nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from teeline.config.model import ListenAddress
from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.adapter.upstream import Upstream, UpstreamOptions
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.bridge.server import BridgeOptions, BridgeServer
from teeline.proxy.nnrp.client import NnrpClient
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.server import NnrpServer
from teeline.validators.fields.nnrp import OPERATIONS
from teeline.validators.model import Ended, Exchange, Severity
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from tests.clients import sdk
from tests.clients.conftest import Start
from tests.clients.peers import Loop, Teeline, breaches
from tests.clients.sdk import WEATHER, Outcome, ask, ask_helper, ask_responses
from tests.clients.test_llama_server import KNOWN_OF_RESPONSES, request
from tests.proxy.nnrp.bridge.bridged import comparing
from tests.proxy.nnrp.peers import Kept, tapping

LOOPBACK = Address("127.0.0.1", 0)
OFFERED = Capabilities({name: Declared(True, True, True) for name in OPERATIONS})
ENGINE = {
    "responses.echo-missing",
    "usage.responses-details-missing",
    "error.code-type",
    *KNOWN_OF_RESPONSES,
}
"""What the engine itself breaks, here as without NNRP."""


class Chain:
    """The whole way; ``base_url`` is teeline's."""

    def __init__(
        self, front: Teeline, kept: Kept, compared: Kept, settle: Callable[[], None]
    ) -> None:
        self.base_url = front.base_url
        self._front, self._kept, self._compared, self._settle = front, kept, compared, settle

    def over_http(self) -> Exchange:
        return self._front.exchange()

    def over_nnrp(self) -> list[Exchange]:
        """The operations that the tap has seen, once their connections are closed."""
        self._settle()
        return self._kept.opened_

    def assert_clean(self) -> Exchange:
        """Nothing is found on either side of NNRP, and nothing of HTTP; the HTTP exchange."""
        exchange = self.over_http()
        assert breaches(exchange) - ENGINE == set()
        operations = self.over_nnrp()
        assert operations
        for operation in operations:
            assert breaches(operation) - ENGINE == set(), operation.operation
        assert len(self._compared.closed_) == len(operations)
        assert self._compared.rules == []
        assert {comparison.inspection for comparison in self._compared.closed_} == {"full"}
        return exchange


@asynccontextmanager
async def _bridged(
    engine: str, kept: Kept, compared: Kept
) -> AsyncIterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
    """Bridge, tap and adapter before an engine: the bridge's base URL, and how to end its connections."""
    async with Upstream(UpstreamOptions(engine)) as upstream:
        server = NnrpServer(LOOPBACK, Adapter(upstream))
        tap, observers = tapping(await server.start(), LOOPBACK, [kept])
        client = NnrpClient(Endpoint(await tap.start()))
        comparer = comparing(compared)
        bridge = BridgeServer(client, BridgeOptions(capabilities=OFFERED), comparer)

        async def settled() -> None:
            await client.close()
            await comparer.settle(30)

        bound = await bridge.start(ListenAddress("127.0.0.1", 0))
        try:
            yield f"http://{bound}/v1", settled
        finally:
            bridge.hurry()
            await bridge.stop()
            await client.close()
            await server.stop()
            await tap.stop()
            await observers.settle(1.0)


@pytest.fixture
def chain(llama_server: str, loop: Loop, teeline: Start) -> Iterator[Chain]:
    kept, compared = Kept(), Kept()
    with loop.within(_bridged(llama_server, kept, compared)) as (url, settled):
        yield Chain(teeline(url), kept, compared, lambda: loop.run(settled()))


def _texts(outcome: Outcome) -> str:
    choices = [choice for chunk in outcome.got for choice in chunk.choices]
    return "".join(choice.delta.content or "" for choice in choices)


def test_a_chat_is_what_the_engine_says(chain: Chain, llama_server: str) -> None:
    asked = request("Count to ten")
    (direct,), (got,) = ask(llama_server, asked).got, ask(chain.base_url, asked).got
    assert got.choices[0].message.content == direct.choices[0].message.content
    assert got.choices[0].finish_reason == direct.choices[0].finish_reason
    assert got.usage.completion_tokens == direct.usage.completion_tokens
    assert chain.assert_clean().ended is Ended.COMPLETE


@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_says_what_the_answer_says(chain: Chain, llama_server: str, usage: bool) -> None:
    asked = request("Count to ten")
    options = {"stream_options": {"include_usage": True}} if usage else {}
    (direct,) = ask(llama_server, asked).got
    outcome = ask(chain.base_url, asked | {"stream": True, **options})
    assert outcome.error == ""
    assert _texts(outcome) == direct.choices[0].message.content
    if usage:
        assert outcome.got[-1].usage.completion_tokens == direct.usage.completion_tokens
    exchange = chain.assert_clean()
    assert exchange.finish == [direct.choices[0].finish_reason]


@pytest.mark.parametrize("stream", [True, False])
def test_the_tool_is_called_as_without_nnrp(chain: Chain, stream: bool) -> None:
    asked = request("What is the weather in Paris?", tools=[WEATHER])
    outcome = (ask_helper if stream else ask)(chain.base_url, asked)
    assert outcome.error == ""
    (call,) = outcome.got[-1].choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    chain.assert_clean()
    operation = next(e for e in chain.over_nnrp() if e.operation)
    assert operation.stream is stream


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "a wrong option": (request("Hi", temperature="hot"), "BadRequestError"),
    "no messages": ({"model": "tiny-qwen2", "messages": []}, "BadRequestError"),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("stream", [True, False])
def test_an_error_is_the_exception_that_it_is_without_nnrp(
    chain: Chain, name: str, stream: bool
) -> None:
    asked, exception = ERRORS[name]
    outcome = ask(chain.base_url, asked | {"stream": stream})
    assert outcome.exception == exception
    exchange = chain.over_http()
    assert exchange.status == 400
    found = {rule for rule in breaches(exchange) if not rule.startswith("request.")}
    assert found - ENGINE == set()
    for operation in chain.over_nnrp():
        assert {v.rule.id for v in operation.violations if v.side.value == "response"} == set()


def test_a_program_that_leaves_a_stream_blames_nobody(chain: Chain) -> None:
    with sdk.client(chain.base_url) as client:
        asked = request("Tell me a story", max_tokens=4000, stream=True)
        with client.chat.completions.create(**asked, extra_body={"ignore_eos": True}) as stream:
            next(stream)
            next(stream)
        exchange = chain.over_http()
    assert exchange.ended is Ended.CLIENT_CLOSED
    assert breaches(exchange) == set()
    (operation,) = (e for e in chain.over_nnrp() if e.operation)
    assert breaches(operation) == set()


@pytest.mark.parametrize("stream", [True, False])
def test_a_response_comes_through(chain: Chain, llama_server: str, stream: bool) -> None:
    asked = {"model": "tiny-qwen2", "input": "Hi", "temperature": 0, "max_output_tokens": 60}
    (direct,) = ask_responses(llama_server, asked).got
    outcome = ask_responses(chain.base_url, asked | {"stream": stream})
    assert outcome.error == ""
    last = outcome.got[-1].response if stream else outcome.got[-1]
    assert last.output_text == direct.output_text
    chain.over_http()
    for operation in chain.over_nnrp():
        assert breaches(operation, Severity.FAIL) == set()


def test_models_are_listed(chain: Chain) -> None:
    with sdk.client(chain.base_url) as client:
        assert [model.id for model in client.models.list()] == ["tiny-qwen2"]
    chain.assert_clean()


def test_what_the_engine_does_not_do_is_not_found(chain: Chain) -> None:
    with sdk.client(chain.base_url) as client, pytest.raises(sdk.openai.NotFoundError):
        client.embeddings.create(model="tiny-qwen2", input="Hi")
