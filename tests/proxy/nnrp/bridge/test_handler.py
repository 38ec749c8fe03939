"""What comes of a request: an answer, or an error that is one, whatever server and client do.

teeline's rules judge every test here (``bridged``): what the bridge sends to its client and to its server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from teeline.proxy.nnrp.bridge.chat import ChatStream
from teeline.proxy.nnrp.bridge.handler import Times
from teeline.proxy.nnrp.client import ClientLimits
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    Message,
)
from teeline.validators.wire.nnrpcodes import CancelReason, DropReason, ErrorCode, ErrorScope
from teeline.validators.wire.nnrplayout import (
    control_meta,
)
from tests.proxy.nnrp.bridge.answers import (
    COMPLETED,
    COMPLETION,
    RESPONSE,
    USAGE,
    answering,
    asked,
    hello,
    text,
)
from tests.proxy.nnrp.bridge.bridged import MESSAGES, Answer, bridged
from tests.proxy.nnrp.scripted import Peer, Submit
from tests.proxy.raw import client, run


def drop(submit: Submit, reason: DropReason) -> bytes:
    named = (submit.session, submit.frame, submit.id, 1)
    return encode.result_drop_reason(*named, reason, b"\x1b[31msaid")


# -- what is answered ----------------------------------------------------------------------------------


def test_a_stream_tells_text_finish_and_the_end() -> None:
    answer = asked(hello, stream=True)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.data[-1] == b"[DONE]"
    told = "".join(c["choices"][0]["delta"].get("content", "") for c in answer.chunks)
    assert told == "Hello"


def test_usage_is_streamed_when_it_is_asked_for() -> None:
    answer = asked(hello, stream=True, stream_options={"include_usage": True})
    assert answer.chunks[-1]["usage"] == USAGE


def test_a_body_is_passed_on_as_its_bytes() -> None:
    raw = (
        b'{ "id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"m","usage":'
        b'{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12},"choices":[{"index":0,"message":'
        b'{"role":"assistant","content":"a\\u00e4\\ud83d\\ude00","refusal":null},"logprobs":null,'
        b'"finish_reason":"stop"}],"x":12345678901234567890123,"y":1.10}'
    )

    async def answer(peer: Peer, submit: Submit) -> None:
        await peer.result(submit, b'{"type":"response.completed" , "body": ' + raw + b"\n}")

    assert asked(answer).body == raw


def test_a_request_s_body_reaches_the_server_as_its_bytes_and_nothing_else_does() -> None:
    raw = (
        b'{"model":"m", "seed":12345678901234567890123,"top_p":1.0,"messages":'
        b'[{"role":"user","content":"\\u00e4"}],\r\n"metadata":{"b":"1","a":"2"}}'
    )
    got: list[bytes] = []

    async def answer(peer: Peer, submit: Submit) -> None:
        got.append(submit.raw)
        await hello(peer, submit)

    async def test() -> None:
        async with bridged(answering(answer)) as (up, _):
            headers = {
                "Authorization": "Bearer sk-secret",
                "X-Request-Id": "mine-1",
                "X-Timeout-Ms": "5",
                "Cookie": "a=b",
            }
            answered = await up.ask("/v1/chat/completions", b" " + raw + b"\n", headers)
            assert answered.headers["x-request-id"] == "mine-1"

    run(test())
    assert got == [
        b'{"schema_version":"openai-compatible/1","operation":"chat.completions.create",'
        b'"request_id":"mine-1","body":' + raw + b"}"
    ]


def test_hints_come_from_configured_header_fields_alone() -> None:
    got: list[Any] = []

    async def answer(peer: Peer, submit: Submit) -> None:
        got.append(submit.envelope.get("nnrp"))
        await hello(peer, submit)

    async def test() -> None:
        hints = {"x-nnrp-timeout": "timeout_ms", "x-diagnostics": "diagnostics", "x-class": "class"}
        async with bridged(answering(answer), hints=hints) as (up, _):
            await up.chat()
            body = {"model": "m", "messages": MESSAGES}
            fields = {"X-NNRP-Timeout": "9000", "X-Diagnostics": "true", "X-Class": "batch"}
            await up.ask("/v1/chat/completions", body, fields)
            wrong = await up.ask("/v1/chat/completions", body, {"X-NNRP-Timeout": "soon"})
            assert (wrong.status, wrong.error["code"]) == (400, "invalid_hint")

    run(test())
    assert got == [None, {"timeout_ms": 9000, "diagnostics": True, "class": "batch"}]


def test_a_request_id_is_made_where_the_client_has_none_or_one_that_is_not_fit() -> None:
    async def test() -> None:
        repeated = frozenset({"cross.duplicate-id"})  # the server says the same again
        async with bridged(answering(hello), breaches=repeated) as (up, _):
            for given in ({}, {"X-Request-Id": "a b"}, {"X-Request-Id": "x" * 200}):
                body = {"model": "m", "messages": MESSAGES}
                answer = await up.ask("/v1/chat/completions", body, given)
                assert answer.headers["x-request-id"].startswith("req_")

    run(test())


def test_a_tool_call_reaches_the_client() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    call = {"index": 0, "item_id": "item_1", "call_id": "call_1"}
    told = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [told]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}

    async def answer(peer: Peer, submit: Submit) -> None:
        if submit.envelope["body"].get("stream"):
            kind = "response.tool_call."
            await peer.event(submit, 1, {"type": kind + "started", "name": "f", **call})
            for n, piece in enumerate(('{"a":', "1}"), 2):
                await peer.event(
                    submit, n, {"type": kind + "delta", "arguments_delta": piece, **call}
                )
            done = {"type": kind + "completed", "name": "f", "arguments": '{"a":1}', **call}
            await peer.event(submit, 4, done)
        await peer.result(
            submit, {"type": "response.completed", "body": {**COMPLETION, "choices": [choice]}}
        )

    streamed = asked(answer, stream=True, tools=[tool])
    entries = [
        entry for c in streamed.chunks for entry in c["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert [e.get("id") for e in entries] == ["call_1", None, None]
    assert "".join(e["function"]["arguments"] for e in entries) == '{"a":1}'
    assert streamed.chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert asked(answer, tools=[tool]).json["choices"] == [choice]


@pytest.mark.parametrize("stream", [False, True])
def test_an_empty_success_of_events_is_an_answer(stream: bool) -> None:
    async def answer(peer: Peer, submit: Submit) -> None:
        await peer.event(submit, 1, text("Hello"))
        counts = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
        await peer.event(submit, 2, {"type": "response.usage", "usage": counts})
        await peer.result(submit, None)

    got = asked(answer, stream=stream)
    if stream:
        assert got.data[-1] == b"[DONE]"
    else:
        assert got.json["choices"][0]["message"]["content"] == "Hello"


@pytest.mark.parametrize("stream", [False, True])
def test_responses_are_answered(stream: bool) -> None:
    async def test() -> Answer:
        async with bridged(answering(hello)) as (up, _):
            return await up.ask("/v1/responses", {"model": "m", "input": "Hi", "stream": stream})

    answer = run(test())
    if not stream:
        assert answer.json == RESPONSE
        return
    kinds = [chunk["type"] for chunk in answer.chunks]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds.count("response.output_text.delta") == 2
    assert kinds[-1] == "response.completed"
    final = answer.chunks[-1]["response"]
    assert final["id"] == answer.chunks[0]["response"]["id"]
    assert final["usage"] == RESPONSE["usage"]


def test_models_and_embeddings_are_answered() -> None:
    models = {
        "object": "list",
        "data": [{"id": "m", "object": "model", "created": 1_790_000_000, "owned_by": "o"}],
    }
    embeddings = {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
        "model": "m",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    got: list[Any] = []

    async def answer(peer: Peer, submit: Submit) -> None:
        got.append((submit.envelope["operation"], submit.envelope["body"]))
        body = models if submit.envelope["operation"] == "models.list" else embeddings
        await peer.result(submit, {"type": "response.completed", "body": body})

    async def test() -> None:
        async with bridged(answering(answer)) as (up, _):
            assert (await up.ask("/v1/models")).json == models
            asking = {"model": "m", "input": "Hi", "encoding_format": "float"}
            assert (await up.ask("/v1/embeddings", asking)).json == embeddings

    run(test())
    assert [operation for operation, _ in got] == ["models.list", "embeddings.create"]
    assert got[0][1] == {}


# -- what goes wrong behind ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"type": "invalid_request_error", "code": "missing_messages"}, 400),
        ({"type": "invalid_request_error", "code": "unsupported_operation"}, 404),
        ({"type": "invalid_request_error", "code": "unsupported_model"}, 404),
        ({"type": "authentication_error", "code": "invalid_api_key"}, 401),
        ({"type": "permission_error", "code": "forbidden"}, 403),
        ({"type": "rate_limit_error", "code": "rate_limit_exceeded"}, 429),
        ({"type": "server_error", "code": "overloaded"}, 503),
        ({"type": "server_error", "code": "timeout"}, 504),
        ({"type": "server_error", "code": "backend_error"}, 500),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_stream_is_a_status(
    error: dict[str, str], status: int, stream: bool
) -> None:
    async def answer(peer: Peer, submit: Submit) -> None:
        await peer.result(
            submit, {"type": "response.error", "error": {**error, "message": "m"}}, 500
        )

    got = asked(answer, stream=stream)
    assert got.status == status
    assert got.error == {**error, "message": "m", "param": None}
    assert "teeline-error" not in got.headers
    assert ("Retry-After" in got.headers) == (status in (429, 503))


ENDS: dict[str, tuple[Callable[[Submit], bytes], int, str]] = {
    "deadline": (lambda s: drop(s, DropReason.DEADLINE), 504, "deadline_exceeded"),
    "backpressure": (lambda s: drop(s, DropReason.BACKPRESSURE), 503, "overloaded"),
    "transport": (lambda s: drop(s, DropReason.TRANSPORT_CLOSED), 502, "upstream_lost"),
    "cancelled": (lambda s: drop(s, DropReason.PEER_CANCELLED), 500, "cancelled"),
    "capability": (lambda s: drop(s, DropReason.CAPABILITY), 404, "unsupported_operation"),
    "busy": (lambda s: failed(s, ErrorCode.SERVER_BUSY), 503, "overloaded"),
    "internal": (lambda s: failed(s, ErrorCode.INTERNAL), 500, "upstream_failed"),
    "malformed": (lambda s: failed(s, ErrorCode.MALFORMED_BODY), 502, "upstream_failed"),
    "raw result": (lambda s: raw_result(s), 502, "upstream_invalid"),
    "no JSON": (lambda s: result(s, b"{"), 502, "upstream_invalid"),
    "another document": (lambda s: result(s, b'{"type":"x"}'), 502, "upstream_invalid"),
    "empty failure": (lambda s: empty(s, 503), 503, "upstream_failed"),
    "no body": (lambda s: result(s, b'{"type":"response.completed"}'), 502, "upstream_invalid"),
    "response.cancelled": (
        lambda s: result(s, b'{"type":"response.cancelled","reason":"r"}'),
        500,
        "cancelled",
    ),
    "no packet": (lambda s: b"HTTP/1.1 200 OK\r\n\r\n", 502, "upstream_invalid"),
}


def failed(submit: Submit, code: ErrorCode) -> bytes:
    return encode.error(code, ErrorScope.FRAME, submit.session, submit.frame, fatal=False)


def result(submit: Submit, document: bytes) -> bytes:
    return encode.result_push(submit.session, submit.frame, 200, document)


def empty(submit: Submit, status: int) -> bytes:
    return encode.result_push(submit.session, submit.frame, status, None)


def raw_result(submit: Submit) -> bytes:
    """A document without prelude and descriptor, as native peers let it pass."""
    document = json.dumps(COMPLETED).encode()
    packet = bytearray(result(submit, document))
    body_length = len(document).to_bytes(4, "little")
    return bytes(packet[:16]) + body_length + bytes(packet[20:104]) + document


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stream", [False, True])
def test_every_other_end_is_an_openai_error(end: str, stream: bool) -> None:
    data, status, code = ENDS[end]

    async def answer(peer: Peer, submit: Submit) -> None:
        await peer.send(data(submit))

    got = asked(answer, stream=stream)
    assert (got.status, got.error["code"]) == (status, code)
    assert got.headers["teeline-error"] == code
    assert "\x1b" not in got.error["message"]


@pytest.mark.parametrize("end", [*ENDS, "reset", "response.error", "no JSON event"])
def test_an_error_in_a_stream_is_an_event_and_no_end_mark(end: str) -> None:
    async def answer(peer: Peer, submit: Submit) -> None:
        await peer.event(submit, 1, text("Hel"))
        if end == "reset":
            peer.reset()
            raise ConnectionResetError
        if end == "response.error":
            error = {"type": "server_error", "code": "backend_error", "message": "m"}
            await peer.result(submit, {"type": "response.error", "error": error}, 500)
        elif end == "no JSON event":
            await peer.event(submit, 2, b"data: {}\n\n")
        else:
            await peer.send(ENDS[end][0](submit))

    got = asked(answer, stream=True)
    assert got.status == 200 and not got.cut
    assert set(got.chunks[-1]) == {"error"}
    assert got.chunks[-2]["choices"][0]["delta"] == {"content": "Hel"}
    assert b"[DONE]" not in got.data


def test_a_stream_of_responses_ends_with_an_error_event() -> None:
    async def answer(peer: Peer, submit: Submit) -> None:
        await peer.event(submit, 1, text("Hel"))
        await peer.send(drop(submit, DropReason.DEADLINE))

    async def test() -> Answer:
        async with bridged(answering(answer)) as (up, _):
            return await up.ask("/v1/responses", {"model": "m", "input": "Hi", "stream": True})

    answer_ = run(test())
    assert answer_.chunks[-1]["type"] == "error"
    assert answer_.chunks[-1]["code"] == "deadline_exceeded"


def test_a_server_that_is_not_there_is_502() -> None:
    async def test() -> None:
        limits = ClientLimits(connect=0.1)
        async with bridged(answering(hello), limits) as (up, server):
            server.refuse()
            answer = await up.chat()
            assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")

    run(test())


def test_a_server_s_own_wait_is_passed_on() -> None:
    async def answer(peer: Peer, submit: Submit) -> None:
        await peer.send(encode.retry_after(submit.session, submit.frame, submit.id, 1, 2500))
        await peer.send(drop(submit, DropReason.BACKPRESSURE))

    assert asked(answer).headers["Retry-After"] == "3"


def test_a_fault_of_the_bridge_s_own_cuts_a_stream_and_writes_no_second_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(self: ChatStream, document: object) -> bytes:
        raise RuntimeError("sk-secret")

    monkeypatch.setattr(ChatStream, "end", fails)
    cut = frozenset({"http.truncated"})

    async def test() -> None:
        async with bridged(answering(hello), breaches=cut) as (up, _):
            answer = await up.chat(stream=True)
            assert answer.status == 200 and answer.cut
            assert b"HTTP/1.1" not in answer.body
            assert (await up.chat()).status == 200

    run(test())


# -- clients that leave, and times ---------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_operation(stream: bool) -> None:
    async def test() -> None:
        asked_for, cancelled = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.opened()
            submit = await peer.submit()
            if stream:
                await peer.event(submit, 1, text("Hel"))
            asked_for.set()
            packet = await peer.expect(Message.CANCEL)
            assert control_meta(packet.meta).reason == CancelReason.USER_CANCELLED
            assert control_meta(packet.meta).operation == submit.id
            cancelled.set()
            await peer.until_closed()

        async with bridged(script) as (up, _):
            request = asyncio.create_task(up.chat(stream=stream))
            await asked_for.wait()
            request.cancel()
            await cancelled.wait()

    run(test())


@pytest.mark.parametrize("times", [Times(whole=0.05), Times(idle=0.05), Times()])
@pytest.mark.parametrize("stream", [False, True])
def test_an_operation_that_takes_too_long_is_504_and_cancelled(times: Times, stream: bool) -> None:
    async def test() -> None:
        cancelled = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.opened()
            submit = await peer.submit()
            if stream:
                await peer.event(submit, 1, text("Hel"))
            packet = await peer.expect(Message.CANCEL)
            assert control_meta(packet.meta).reason == CancelReason.DEADLINE
            cancelled.set()
            await peer.until_closed()

        hints = {"x-timeout-ms": "timeout_ms"}
        async with bridged(script, times=times, hints=hints) as (up, _):
            body = {"model": "m", "messages": MESSAGES, "stream": stream}
            fields = {"X-Timeout-Ms": "50"} if times == Times() else {}
            answer = await up.ask("/v1/chat/completions", body, fields)
            await cancelled.wait()
            if stream:
                assert answer.chunks[-1]["error"]["code"] == "timeout"
            else:
                assert (answer.status, answer.error["code"]) == (504, "timeout")

    run(test())


def test_the_head_goes_out_when_the_server_is_silent_for_too_long() -> None:
    async def test() -> None:
        head_there = asyncio.Event()

        async def answer(peer: Peer, submit: Submit) -> None:
            await head_there.wait()
            await peer.send(drop(submit, DropReason.DEADLINE))

        late = frozenset({"chatstream.error-before-content"})
        async with bridged(answering(answer), breaches=late, times=Times(head=0.01)) as (up, _):
            body = json.dumps({"model": "m", "messages": MESSAGES, "stream": True})
            url = up.url + "/v1/chat/completions"
            async with up.http.post(url, data=body) as response:
                assert response.status == 200
                head_there.set()
                got = await response.read()
            assert json.loads(got.removeprefix(b"data: "))["error"]["code"] == "deadline_exceeded"

    run(test())


def test_a_client_that_reads_nothing_is_left_and_its_operation_cancelled() -> None:
    async def test() -> None:
        cancelled = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.opened()
            submit = await peer.submit()

            async def pour() -> None:
                for sequence in range(1, 100_000):
                    await peer.event(submit, sequence, text("x" * 60_000))

            pouring = asyncio.create_task(pour())
            await peer.expect(Message.CANCEL)
            pouring.cancel()
            await asyncio.gather(pouring, return_exceptions=True)
            cancelled.set()
            await peer.until_closed()

        async with bridged(script, times=Times(stall=0.1)) as (up, _):
            body = json.dumps({"model": "m", "messages": MESSAGES, "stream": True}).encode()
            async with client(up.direct) as wire:
                await wire.send(
                    b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
                await cancelled.wait()

    run(test())
