"""An operation becomes one request, its answer comes back in the profile's words, and both end together."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from aiohttp import web

from teeline.proxy.nnrp.documents import written
from teeline.proxy.nnrp.observed import Observed
from teeline.proxy.nnrp.serverlimits import ServerLimits
from teeline.validators.model import Exchange
from teeline.validators.nnrp.bridge import Bridge, Front, HttpEnd
from tests.proxy.nnrp.adapter.engine import capable
from tests.proxy.nnrp.adapter.peers import (
    HELLO,
    Endless,
    Running,
    adapting,
    asked,
    chunk,
    envelope,
    events,
)

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1790000000,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def kinds(observed: Observed) -> list[str]:
    return [event["type"].removeprefix("response.") for event in observed.events]


def error(observed: Observed) -> tuple[str, str]:
    told = observed.events[-1]["error"]
    return told["type"], told["code"]


async def hello(request: web.Request) -> web.StreamResponse:
    return await events(request, *HELLO)


async def whole(request: web.Request) -> web.StreamResponse:
    return web.json_response(ANSWER)


def test_a_stream_is_told_event_by_event() -> None:
    async def work() -> None:
        async with adapting(hello) as running:
            observed = await asked(running, envelope(stream=True, model="m"))
        assert kinds(observed) == ["output_text.delta", "output_text.delta", "completed"]
        message = observed.events[-1]["body"]["choices"][0]["message"]
        assert message["content"] == "Hello"
        assert running.breaches() == set()

    run(work())


def test_a_document_comes_back_byte_for_byte() -> None:
    text = json.dumps(ANSWER).replace("1790000000", "1790000000 ").replace("null", " null")

    async def as_written(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, content_type="application/json")

    async def work() -> None:
        async with adapting(as_written) as running:
            observed = await asked(running, envelope())
        assert observed.events[-1]["body"] == ANSWER
        assert running.breaches() == set()

    run(work())


def test_the_body_goes_out_as_it_was_written_and_nothing_of_the_envelope_with_it() -> None:
    payload = envelope(seed=1, nnrp={"timeout_ms": 9000, "trace": "x"}, request_id="r-7")
    payload = payload.replace(b'"seed": 1', b'"seed" : 12345678901234567890123,  "top_p":1.0')

    async def work() -> None:
        async with adapting(whole, key="sk-secret") as running:
            await asked(running, payload)
        (body,) = running.bodies
        assert b'"seed" : 12345678901234567890123,  "top_p":1.0' in body
        assert b"nnrp" not in body
        (request,) = running.asked
        assert (request.method, request.path) == ("POST", "/v1/chat/completions")
        assert request.headers["Authorization"] == "Bearer sk-secret"
        assert request.headers["X-Request-Id"] == "r-7"

    run(work())


@pytest.mark.parametrize(
    ("operation", "method", "path"),
    [
        ("responses.create", "POST", "/v1/responses"),
        ("embeddings.create", "POST", "/v1/embeddings"),
        ("models.list", "GET", "/v1/models"),
    ],
)
def test_each_operation_has_its_path(operation: str, method: str, path: str) -> None:
    async def work() -> None:
        async with adapting(whole) as running:
            observed = await asked(running, envelope(operation))
        assert observed.terminal == "success"
        (request,) = running.asked
        assert (request.method, request.path) == (method, path)

    run(work())


def test_what_is_not_offered_is_refused_without_a_request() -> None:
    async def work() -> None:
        async with adapting(whole, offered=frozenset({"chat.completions.create"})) as running:
            observed = await asked(running, envelope("responses.create", model="m", input="Hi"))
        assert error(observed) == ("invalid_request_error", "unsupported_operation")
        assert running.asked == []

    run(work())


def test_a_server_without_the_path_has_no_such_operation() -> None:
    async def absent(request: web.Request) -> web.StreamResponse:
        return web.json_response({"detail": "Not Found"}, status=404)

    async def work() -> None:
        async with adapting(absent) as running:
            observed = await asked(running, envelope("embeddings.create", model="m", input="Hi"))
        assert error(observed) == ("invalid_request_error", "unsupported_operation")

    run(work())


def failing(status: int, body: Any) -> Any:
    async def fail(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return fail


@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_keeps_the_server_s_words(stream: bool) -> None:
    told = {"message": "Too long.", "type": "invalid_request_error", "param": "messages"}
    refusal = failing(400, {"error": told | {"code": "context_length_exceeded"}})

    async def work() -> None:
        async with adapting(refusal) as running:
            observed = await asked(running, envelope(stream=stream))
        assert observed.terminal == "error"
        assert observed.events[-1]["error"] == told | {"code": "context_length_exceeded"}
        assert running.breaches() == set()

    run(work())


@pytest.mark.parametrize("how", ["refusal", "stream", "document"])
def test_a_key_that_the_server_quotes_goes_no_further(how: str) -> None:
    error = {"error": {"message": "Incorrect API key: sk-secret."}}

    async def quotes(request: web.Request) -> web.StreamResponse:
        if how == "stream":
            return await events(request, json.dumps(error), done=False)
        if how == "document":
            return web.json_response(ANSWER | {"debug": "sk-secret"})
        return web.json_response(error, status=401)

    async def work() -> None:
        async with adapting(quotes, key="sk-secret") as running:
            observed = await asked(running, envelope(stream=how == "stream"))
        assert observed.end
        assert "***" in json.dumps(observed.events)
        assert "sk-secret" not in json.dumps(observed.events)

    run(work())


def test_an_overloaded_server_s_wait_is_told_in_nnrp_s_words() -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=429, headers={"Retry-After": "3"})

    async def work() -> None:
        async with adapting(busy) as running:
            observed = await asked(running, envelope())
        assert error(observed) == ("rate_limit_error", "rate_limit_exceeded")
        assert "nnrp.overload-without-diagnostics" not in running.kept.rules

    run(work())


def test_an_error_in_midstream_ends_the_open_calls_and_the_operation() -> None:
    piece = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f"}}

    async def broken(request: web.Request) -> web.StreamResponse:
        begun = chunk({"role": "assistant", "content": None, "tool_calls": [piece]})
        return await events(request, begun, '{"error":{"message":"Out of memory"}}', done=False)

    async def work() -> None:
        async with adapting(broken) as running:
            observed = await asked(running, envelope(stream=True, tools=[TOOL]))
        assert kinds(observed) == ["tool_call.started", "tool_call.error", "error"]
        assert error(observed) == ("server_error", "backend_error")
        assert running.breaches() == set()

    run(work())


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_breaks_off_is_an_error(stream: bool) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        kind = "text/event-stream" if stream else "application/json"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        await response.write(f"data: {HELLO[1]}\n\n".encode())
        assert request.transport is not None
        request.transport.abort()
        return response

    async def work() -> None:
        async with adapting(cut) as running:
            observed = await asked(running, envelope(stream=stream))
        assert error(observed) == ("server_error", "backend_error")
        assert running.breaches() == set()

    run(work())


def test_a_server_that_is_not_there_is_an_error_of_the_operation() -> None:
    async def gone(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def work() -> None:
        async with adapting(gone) as running:
            observed = await asked(running, envelope())
        assert error(observed) == ("server_error", "backend_error")

    run(work())


def test_a_server_that_does_not_stream_is_told_as_if_it_did() -> None:
    async def work() -> None:
        async with adapting(whole) as running:
            observed = await asked(running, envelope(stream=True))
        assert kinds(observed) == ["output_text.delta", "usage", "completed"]
        assert running.breaches() == set()

    run(work())


def test_a_server_that_streams_unasked_is_told_as_one_document() -> None:
    async def work() -> None:
        async with adapting(hello) as running:
            observed = await asked(running, envelope())
        assert kinds(observed) == ["completed"]
        assert observed.events[0]["body"]["choices"][0]["message"]["content"] == "Hello"
        assert "nnrp.nonstream-partials" not in running.breaches()

    run(work())


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_is_no_json_is_the_server_s_fault(stream: bool) -> None:
    async def nonsense(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>", content_type="text/html")

    async def work() -> None:
        async with adapting(nonsense) as running:
            observed = await asked(running, envelope(stream=stream))
        assert error(observed) == ("server_error", "backend_error")

    run(work())


def test_an_answer_beyond_its_bound_is_given_up() -> None:
    async def large(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"a":"' + b"x" * (1 << 20) + b'"}')

    async def work() -> None:
        async with adapting(large) as running:
            observed = await asked(running, envelope())
        assert error(observed) == ("server_error", "backend_error")

    run(work())


def test_a_coding_that_was_not_asked_for_is_not_guessed_at() -> None:
    async def packed(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        response = web.json_response(ANSWER)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async def work() -> None:
        async with adapting(packed) as running:
            observed = await asked(running, envelope())
        assert error(observed) == ("server_error", "backend_error")

    run(work())


# -- cancelling --------------------------------------------------------------------------------------


def test_a_cancel_on_the_wire_ends_the_request() -> None:
    async def work() -> None:
        endless = Endless()
        async with adapting(endless) as running:
            observed = await asked(running, envelope(stream=True), cancel_after=3)
            await asyncio.wait_for(endless.left.wait(), 10)
        assert observed.terminal == "cancelled"
        assert kinds(observed)[-1] == "cancelled"
        assert running.breaches() == set()

    run(work())


def test_a_cancel_that_was_asked_for_beforehand_ends_the_request() -> None:
    async def work() -> None:
        endless = Endless()
        async with adapting(endless) as running:
            hint = {"cancel_after_events": 2}
            observed = await asked(running, envelope(stream=True, nnrp=hint))
            await asyncio.wait_for(endless.left.wait(), 10)
        assert kinds(observed) == ["output_text.delta", "output_text.delta", "cancelled"]
        assert running.breaches() == set()

    run(work())


def test_a_client_that_leaves_ends_its_requests() -> None:
    async def work() -> None:
        endless = Endless()
        async with adapting(endless) as running:
            async with running.talking() as conversation:
                task = asyncio.create_task(conversation.run(envelope(stream=True), timeout=10))
                await asyncio.wait_for(endless.begun.wait(), 10)
                conversation.abort()
                await task
            await asyncio.wait_for(endless.left.wait(), 10)
            await _until_idle(running)

    run(work())


async def _until_idle(running: Running) -> None:
    while running.server.open_operations:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("by", ["client", "adapter"])
def test_a_timeout_ends_the_request_and_says_so(by: str) -> None:
    async def work() -> None:
        endless = Endless()
        hint = {"timeout_ms": 50} if by == "client" else {}
        async with adapting(endless, timeout=10 if by == "client" else 0.05) as running:
            observed = await asked(running, envelope(stream=True, nnrp=hint))
            await asyncio.wait_for(endless.left.wait(), 10)
        assert error(observed) == ("timeout_error", "timeout")
        assert running.breaches() == set()

    run(work())


def test_operations_beyond_the_bound_are_told_to_wait() -> None:
    async def work() -> None:
        endless = Endless()
        limits = ServerLimits(operations=1)
        async with adapting(endless, limits=limits) as running, running.talking() as conversation:
            first = asyncio.create_task(conversation.run(envelope(stream=True), timeout=10))
            await asyncio.wait_for(endless.begun.wait(), 10)
            observed = await conversation.run(envelope(), timeout=10)
            conversation.abort()
            await first
        assert error(observed) == ("server_error", "overloaded")
        assert "nnrp.overload-without-diagnostics" not in running.kept.rules
        assert len(running.asked) == 1

    run(work())


def test_a_slow_client_holds_its_server_back() -> None:
    """The events of an operation that nobody reads don't pile up: the server's writes stop."""

    async def work() -> None:
        text = chunk({"content": "x" * 8192})
        sent = 0

        async def fast(request: web.Request) -> web.StreamResponse:
            nonlocal sent
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            try:
                while True:
                    await response.write(f"data: {text}\n\n".encode())
                    sent += len(text)
            except ConnectionError:
                return response

        async with adapting(fast, max_answer=1 << 40) as running, running.talking() as conversation:
            assert conversation._link is not None
            task = asyncio.create_task(conversation.run(envelope(stream=True), timeout=10))
            while not sent:
                await asyncio.sleep(0.001)
            conversation._link.pause()
            before = -1
            while sent > before:
                before = sent
                await asyncio.sleep(0.3)
            conversation._link.resume()
            while sent == before:
                await asyncio.sleep(0.001)
            conversation.abort()
            await task

    run(work())


LONG = [{"role": "user", "content": "A long story"}]
KINDS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "whole": ({}, ("success", "")),
    "stream": ({"stream": True}, ("success", "")),
    "tools": ({"stream": True, "tools": [TOOL]}, ("success", "")),
    "cancel": ({"stream": True, "messages": LONG}, ("cancelled", "")),
    "hint": (
        {"stream": True, "messages": LONG, "nnrp": {"cancel_after_events": 3}},
        ("cancelled", ""),
    ),
    "timeout": (
        {"stream": True, "messages": LONG, "nnrp": {"timeout_ms": 5}},
        ("error", "timeout"),
    ),
    "fail": ({"model": "backend-error"}, ("error", "backend_error")),
    "invalid": ({"messages": []}, ("error", "missing_messages")),
    "leave": ({"stream": True, "messages": LONG}, ("error", "")),
}


def test_many_operations_of_every_kind_have_their_own_ends_and_leave_nothing() -> None:
    """270 at random, 16 at a time, each in a connection of its own."""

    async def one(running: Running, kind: str) -> None:
        body, (terminal, code) = KINDS[kind]
        async with running.talking() as conversation:
            after = 2 if kind == "cancel" else None
            asking = conversation.run(envelope(**body), cancel_after=after, timeout=20)
            task = asyncio.create_task(asking)
            if kind == "leave":
                await asyncio.sleep(0)
                conversation.abort()
            observed = await task
        assert (observed.terminal, observed.error_code()) == (terminal, code), kind
        assert bool(observed.end) is (kind != "leave")

    async def work() -> None:
        kinds = [kind for kind in KINDS for _ in range(30)]
        random.Random(4).shuffle(kinds)
        at_once = asyncio.Semaphore(16)

        async def bounded(running: Running, kind: str) -> None:
            async with at_once:
                await one(running, kind)

        async with adapting(capable) as running:
            await asyncio.gather(*(bounded(running, kind) for kind in kinds))
            await _until_idle(running)
        assert running.breaches() == set()

    run(work())


# -- both sides against each other ---------------------------------------------------------------------

CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
TOOL_CHUNKS = (
    chunk({"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
    chunk({}, "tool_calls"),
)
SIDES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "stream": ({"stream": True}, HELLO),
    "tools": ({"stream": True, "tools": [TOOL]}, TOOL_CHUNKS),
    "document": ({}, (json.dumps(ANSWER),)),
}


@pytest.mark.parametrize("name", SIDES)
def test_what_is_told_over_nnrp_is_what_the_server_said(name: str) -> None:
    """By the rules that compare the two sides of a bridge: body, text, chunks, answer."""
    body, says = SIDES[name]
    stream = "stream" in body

    async def answer(request: web.Request) -> web.StreamResponse:
        if stream:
            return await events(request, *says)
        return web.Response(text=says[0], content_type="application/json")

    async def work() -> None:
        payload = envelope(**body, nnrp={"timeout_ms": 9000})
        async with adapting(answer) as running:
            observed = await asked(running, payload)
        exchange = Exchange()
        bridge = Bridge(exchange, Front.NNRP)
        bridge.submitted(payload)
        bridge.http_request("POST", "/v1/chat/completions", running.bodies[0])
        bridge.http_answer(200)
        for data in (*says, "[DONE]") if stream else ():
            bridge.http_event(data.encode())
        if not stream:
            bridge.http_body(says[0].encode())
        *told, end = (written(event) for event in observed.events)
        for event in told:
            bridge.event(event)
        bridge.ended(end, 1.0)
        bridge.http_ended(HttpEnd.WHOLE, 1.0)
        bridge.close(1.0)
        assert exchange.violations == []

    run(work())
