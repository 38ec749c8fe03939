"""A program that leaves a stream stops the relay's work, and nobody is blamed for the missing end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from teeline.validators.model import Ended, Exchange
from tests.clients import sdk
from tests.clients.conftest import Start
from tests.clients.peers import Loop, breaches
from tests.clients.sdk import saying
from tests.proxy.raw import Wire, raw_upstream

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-request-id: req_1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)

REQUEST: dict[str, Any] = {"model": "m", "messages": saying("Hi"), "stream": True}


def event(delta: dict[str, str]) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000}
    data = b"data: %b\n\n" % json.dumps(chunk | {"model": "m", "choices": [choice]}).encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


class Endless:
    """An upstream that begins a stream and goes no further until its client leaves."""

    def __init__(self, url: str, left: asyncio.Event) -> None:
        self.base_url = url + "/v1"
        self._left = left

    async def saw_the_client_leave(self) -> bool:
        return await asyncio.wait_for(self._left.wait(), 10)


@asynccontextmanager
async def endless() -> AsyncIterator[Endless]:
    left = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.read_message()
        opening = event({"role": "assistant", "content": ""})
        await wire.send(HEAD + opening + event({"content": "Once"}))
        await wire.ended()
        left.set()

    async with raw_upstream(script) as upstream:
        yield Endless(upstream.url, left)


@pytest.fixture
def upstream(loop: Loop) -> Iterator[Endless]:
    with loop.within(endless()) as upstream:
        yield upstream


def _assert_left_without_blame(exchange: Exchange, upstream: Endless, loop: Loop) -> None:
    assert loop.run(upstream.saw_the_client_leave())
    assert exchange.ended is Ended.CLIENT_CLOSED
    assert exchange.events == 2
    assert breaches(exchange) == set()


def test_closing_a_stream_ends_it_everywhere(loop: Loop, upstream: Endless, teeline: Start) -> None:
    through = teeline(upstream.base_url)
    with sdk.client(through.base_url) as client:
        with client.chat.completions.create(**REQUEST) as stream:
            contents = [next(stream).choices[0].delta.content for _ in range(2)]
        assert contents == ["", "Once"]
        _assert_left_without_blame(through.exchange(), upstream, loop)


def test_leaving_the_stream_helper_ends_it_everywhere(
    loop: Loop, upstream: Endless, teeline: Start
) -> None:
    through = teeline(upstream.base_url)
    with sdk.client(through.base_url) as client:
        with client.chat.completions.stream(model="m", messages=saying("Hi")) as stream:
            for event in stream:
                if event.type == "content.delta" and event.snapshot == "Once":
                    break
        _assert_left_without_blame(through.exchange(), upstream, loop)


def test_a_cancelled_task_ends_its_stream_everywhere(
    loop: Loop, upstream: Endless, teeline: Start
) -> None:
    through = teeline(upstream.base_url)

    async def cancel_while_waiting() -> None:
        waits = asyncio.Event()

        async def read(client: sdk.openai.AsyncOpenAI) -> None:
            stream = await client.chat.completions.create(**REQUEST)
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    waits.set()

        async with sdk.async_client(through.base_url) as client:
            reading = asyncio.create_task(read(client))
            await waits.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    asyncio.run(cancel_while_waiting())
    _assert_left_without_blame(through.exchange(), upstream, loop)
