"""The relay answers what was asked, as asked, and stays upright whatever it is sent."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import pytest

from teeline.proxy.demo.face import CLEAN_MODEL
from teeline.proxy.demo.relay import MAX_MODEL, MAX_REQUEST, Relay, chosen
from teeline.proxy.demo.scenarios import CLEAN_JSON, CLEAN_STREAM, DONE, SCENARIOS

_BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


class _Reply(NamedTuple):
    status: int
    content_type: str
    body: bytes


async def _with_relay(use: Callable[[Relay, str], Awaitable[Any]]) -> Any:
    relay = Relay()
    base_url = await relay.start()
    try:
        return await use(relay, base_url)
    finally:
        await relay.stop()


def _posted(body: bytes, path: str = "/chat/completions", method: str = "POST") -> _Reply:
    async def use(relay: Relay, base_url: str) -> _Reply:
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(method, base_url + path, data=io.BytesIO(body)) as answer,
        ):
            return _Reply(answer.status, answer.content_type, await answer.read())

    reply: _Reply = asyncio.run(_with_relay(use))
    return reply


def _asked(**request: Any) -> _Reply:
    return _posted(json.dumps({"messages": []} | request).encode())


def _raw(request: bytes) -> bytes:
    """Everything that comes back on one connection until the relay closes it."""

    async def use(relay: Relay, base_url: str) -> bytes:
        port = urlsplit(base_url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        data = await reader.read()
        writer.close()
        await writer.wait_closed()
        return data

    data: bytes = asyncio.run(_with_relay(use))
    return data


def _raw_post(model: str) -> bytes:
    body = json.dumps({"model": model, "messages": [], "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def test_the_list_of_models_is_the_list_of_scenarios_and_the_clean_face() -> None:
    """A client finds every fault by asking for the models, in the order of the demo."""
    reply = _posted(b"", "/models", "GET")
    document = json.loads(reply.body)
    assert [entry["id"] for entry in document["data"]] == [*_BY_NAME, CLEAN_MODEL]
    assert {entry["object"] for entry in document["data"]} == {"model"}
    assert document["object"] == "list"


@pytest.mark.parametrize("stream", [True, False])
def test_an_unknown_model_is_answered_cleanly_as_asked(stream: bool) -> None:
    """A client's own model name works, too, and the answer names it."""
    reply = _asked(model="my-model", stream=stream)
    expected = CLEAN_STREAM if stream else CLEAN_JSON
    assert reply.status == 200
    assert reply.content_type == expected.content_type.partition(";")[0]
    body = b"".join(expected.pieces).replace(b"@model@", b"my-model")
    assert reply.body == body.replace(b"@id@", b"chatcmpl-demo-1")


def test_a_fault_that_only_streams_have_leaves_a_json_answer_clean() -> None:
    """``stream`` is honoured: no client gets a stream that it did not ask for."""
    reply = _asked(model="no-done")
    assert json.loads(reply.body)["choices"][0]["finish_reason"] == "stop"


def test_a_fault_of_both_kinds_shows_in_both() -> None:
    """Asked without a stream, the untranslated word stands in the JSON answer."""
    reply = _asked(model="finish-end-turn")
    assert json.loads(reply.body)["choices"][0]["finish_reason"] == "end_turn"


def test_a_stream_carries_the_usage_that_was_asked_for() -> None:
    """A client that always asks for usage must not get a second fault beside the scenario's own."""
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    events = chosen(_BY_NAME, {"model": "text-after-finish"} | asked).pieces
    assert json.loads(events[-2].removeprefix(b"data: "))["usage"]["total_tokens"] == 19
    assert events[-1] == DONE
    own = chosen(_BY_NAME, {"model": "clean-usage"} | asked)
    assert own is _BY_NAME["clean-usage"].answer


def test_a_compressed_answer_says_so_and_is_one() -> None:
    """What is sent under gzip decodes to the document."""
    reply = _asked(model="clean-gzip")
    assert json.loads(gzip.decompress(reply.body))["model"] == "clean-gzip"


def test_a_cut_answer_ends_without_its_last_chunk() -> None:
    """The connection closes in the middle of the chunked framing, not behind it."""
    data = _raw(_raw_post("cut-mid-event"))
    assert b"Transfer-Encoding: chunked" in data
    assert b"It is 21" in data
    assert not data.endswith(b"0\r\n\r\n")


def test_a_whole_stream_ends_with_its_last_chunk() -> None:
    """The counterpart: what is not cut is complete, without [DONE] as well."""
    assert _raw(_raw_post("no-done")).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"model":7}', 400),
        (b'{"messages":[]}', 400),
        (b"[" * 100_000, 400),
        (b'{"model":"x","pad":"' + b"y" * MAX_REQUEST + b'"}', 413),
    ],
)
def test_a_broken_request_gets_the_error_of_the_api(body: bytes, status: int) -> None:
    """Whatever comes in, the answer is a documented error and quotes nothing of it."""
    reply = _posted(body)
    assert reply.status == status
    assert set(json.loads(reply.body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", ["/audio/speech", "/chat/completions/x", "/%2e%2e/etc"])
def test_other_paths_are_not_found(path: str) -> None:
    """A client that calls something else learns so in the API's words."""
    reply = _posted(b"{}", path)
    assert reply.status == 404
    assert json.loads(reply.body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "name", ['a"b\\c', "line\nend\x00", "ü 漢 🙂", "x" * 5000, "@model@", "@id@"]
)
def test_any_model_name_leaves_the_answer_whole(name: str) -> None:
    """A name comes back as JSON text, shortened where it is long; it can't break a document."""
    reply = _asked(model=name)
    assert json.loads(reply.body)["model"] == name[:MAX_MODEL]
    events = _asked(model=name, stream=True).body.split(b"\n\n")
    first = json.loads(events[0].removeprefix(b"data: "))
    assert first["model"] == name[:MAX_MODEL]


def test_a_transcript_is_kept_of_an_announced_request_alone_and_until_it_is_taken() -> None:
    """A relay that stays up for hours must not keep what it was asked."""
    trace_id = "a" * 32

    async def use(relay: Relay, base_url: str) -> list[bool]:
        relay.expect(trace_id)
        async with aiohttp.ClientSession() as session:
            for name in (trace_id, "b" * 32):
                fields = {"traceparent": f"00-{name}-{'1' * 16}-00"}
                url = base_url + "/chat/completions"
                async with session.post(url, data=b'{"model":"x"}', headers=fields) as answer:
                    await answer.read()
        return [relay.take(name) is not None for name in (trace_id, "b" * 32, trace_id)]

    assert asyncio.run(_with_relay(use)) == [True, False, False]


def test_a_client_that_leaves_mid_stream_does_no_harm() -> None:
    """The next request is answered as if nothing had been."""

    async def use(relay: Relay, base_url: str) -> int:
        port = urlsplit(base_url).port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_raw_post("clean-stream"))
        await writer.drain()
        writer.transport.abort()
        async with (
            aiohttp.ClientSession() as session,
            session.get(base_url + "/models") as answer,
        ):
            return answer.status

    assert asyncio.run(_with_relay(use)) == 200


def test_stop_may_be_called_before_start_and_twice() -> None:
    """Whoever cleans up does not have to know how far the start came."""

    async def run() -> None:
        relay = Relay()
        await relay.stop()
        await relay.start()
        await relay.stop()
        await relay.stop()

    asyncio.run(run())
