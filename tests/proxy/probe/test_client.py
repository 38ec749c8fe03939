"""The client hides nothing: what was sent, what came, how it ended."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from teeline.proxy.demo.scenarios import EVENT_STREAM, Answer
from teeline.proxy.probe.client import OpenAIClient, RefusedError, SSEEvent, UnreachableError
from teeline.proxy.probe.target import Target
from teeline.validators.model import Ended
from tests.proxy.probe.relays import KEY, MODEL, Exchange, document, error, serving

Result = TypeVar("Result")
HELLO = [{"role": "user", "content": "Reply with exactly: pong"}]


def using(url: str, work: Callable[[OpenAIClient], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with OpenAIClient(url, KEY) as client:
            return await work(client)

    return asyncio.run(run())


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_a_base_url_is_taken_with_and_without_its_version(suffix: str) -> None:
    with serving() as mock:
        response = using(mock.url + suffix, lambda c: c.list_models())
    assert mock.paths() == ["/v1/models"]
    assert response.status_code == 200
    assert response.json["object"] == "list"


def test_an_answer_is_kept_as_it_came() -> None:
    with serving() as mock:
        response = using(mock.url, lambda c: c.chat_completions_create(model=MODEL, messages=HELLO))
    assert response.json["choices"][0]["message"]["content"] == "pong"
    assert response.text.startswith("{")
    assert response.request_id == "req_mock"
    assert response.end_at >= response.started
    assert ("x-request-id", "req_mock") in response.headers
    assert response.ended is Ended.COMPLETE
    assert mock.seen[0].headers["Authorization"] == f"Bearer {KEY}"


def test_a_request_id_that_is_not_there_is_empty() -> None:
    with serving() as mock:
        mock.fields.clear()
        assert (
            using(mock.url, lambda c: c.responses_create(model=MODEL, input="x")).request_id == ""
        )


def test_streams_come_as_events_of_both_protocols() -> None:
    async def chat(client: OpenAIClient) -> list[SSEEvent]:
        stream = client.chat_completions_stream(model=MODEL, messages=HELLO)
        return [event async for event in stream]

    async def responses(client: OpenAIClient) -> list[SSEEvent]:
        return [event async for event in client.responses_stream(model=MODEL, input="x")]

    with serving() as mock:
        chunks, events = using(mock.url, chat), using(mock.url, responses)
    assert chunks[-1].done
    assert chunks[-1].json is None
    assert chunks[0].json["object"] == "chat.completion.chunk"
    assert events[0].event == events[0].json["type"] == "response.created"
    assert not any(event.done for event in events)


def test_a_stream_that_is_refused_says_what_came() -> None:
    async def work(client: OpenAIClient) -> None:
        async for _ in client.responses_stream(model=MODEL, input="x"):
            pass

    with (
        serving(lambda e: error(403, "not for you")) as mock,
        pytest.raises(RefusedError) as caught,
    ):
        using(mock.url, work)
    assert caught.value.response.status_code == 403
    assert caught.value.response.json["error"]["message"] == "not for you"


@pytest.mark.parametrize("status", [301, 307])
def test_no_redirect_is_followed(status: int) -> None:
    with serving(lambda e: Answer((b"",), status=status), location="/elsewhere") as mock:
        assert using(mock.url, lambda c: c.list_models()).status_code == status
    assert mock.paths() == ["/v1/models"]


def test_a_compressed_answer_is_decoded_and_its_bytes_are_kept() -> None:
    packed = gzip.compress(b'{"object":"list","data":[]}')
    with serving(lambda e: Answer((packed,)), content_encoding="gzip") as mock:
        response = using(mock.url, lambda c: c.list_models())
    assert response.json == {"object": "list", "data": []}
    assert b"".join(read.data for read in response.reads) == packed


def test_an_answer_that_breaks_off_is_an_answer_with_what_came() -> None:
    def cut(exchange: Exchange) -> Answer:
        return Answer((b'data: {"a":1}\n\n', b"data: {"), EVENT_STREAM, cut=True)

    with serving(cut) as mock:
        response = using(mock.url, lambda c: c.chat_completions_create(model=MODEL))
    assert response.ended is Ended.UPSTREAM_ABORTED
    assert response.text.startswith('data: {"a":1}')
    assert [event.json for event in response.events()] == [{"a": 1}]


def test_nothing_is_sent_twice() -> None:
    """A server error is a finding, and a retry would hide it."""
    with serving(lambda e: error(503, "later")) as mock:
        assert using(mock.url, lambda c: c.responses_create(model=MODEL)).status_code == 503
    assert len(mock.seen) == 1


def test_a_server_that_is_not_there_is_said_in_one_line() -> None:
    with pytest.raises(UnreachableError, match=r"\A[^\n]+\Z"):
        using("http://127.0.0.1:9", lambda c: c.list_models())


def test_header_fields_and_queries_of_the_user_go_along() -> None:
    target = Target(
        "http://x", KEY, (("X-Team", "blue"),), auth_header="api-key", query=(("api-version", "1"),)
    )

    async def run(url: str) -> None:
        there = Target(url, target.key, target.headers, target.auth_header, target.query)
        async with OpenAIClient.to(there) as client:
            response = await client.list_models()
            assert response.request.target.endswith("/models?api-version=1")

    with serving(lambda e: document({})) as mock:
        asyncio.run(run(mock.url + "/v1"))
    fields = mock.seen[0].headers
    assert (fields["X-Team"], fields["api-key"]) == ("blue", KEY)
    assert "Authorization" not in fields
