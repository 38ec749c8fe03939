"""What all requests share: what is refused and never submitted, bounds, and the end of the bridge.

teeline's rules judge every test here (``bridged``): what the bridge sends to its client and to its server.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from teeline.proxy.nnrp.bridge.asked import BASELINE
from teeline.proxy.nnrp.client import ClientLimits
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from teeline.validators.wire.nnrp import (
    Message,
)
from teeline.validators.wire.nnrpcodes import CancelReason
from teeline.validators.wire.nnrplayout import (
    control_meta,
)
from tests.proxy.nnrp.bridge.answers import answering, hello, text
from tests.proxy.nnrp.bridge.bridged import Bridged, bridged
from tests.proxy.nnrp.scripted import Peer, Submit
from tests.proxy.nnrp.soak import soak
from tests.proxy.raw import client, run

# -- what is refused -----------------------------------------------------------------------------------


def test_what_is_not_declared_is_404_and_never_submitted() -> None:
    async def nobody(peer: Peer, submit: Submit) -> None:
        raise AssertionError("it was submitted")

    async def test() -> None:
        async with bridged(answering(nobody), capabilities=BASELINE) as (up, _):
            for path, body in (
                ("/v1/responses", {"model": "m", "input": "Hi"}),
                ("/v1/models", None),
                ("/v1/embeddings", {"model": "m", "input": "Hi"}),
            ):
                answer = await up.ask(path, body)
                assert (answer.status, answer.error["code"]) == (404, "unsupported_operation")
            answer = await up.ask("/v1/files")
            assert (answer.status, answer.error["code"]) == (404, "unknown_url")
            answer = await up.ask("/v1/chat/completions")
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")

    run(test())


def test_modes_tools_and_models_that_are_not_declared_are_refused() -> None:
    chat = {"chat.completions.create": Declared(False, True, False)}
    declared = Capabilities(chat, models=frozenset({"m"}))

    async def test() -> None:
        async with bridged(answering(hello), capabilities=declared) as (up, _):
            answer = await up.chat(stream=True)
            assert (answer.status, answer.error["param"]) == (400, "stream")
            tool = {"type": "function", "function": {"name": "f"}}
            answer = await up.chat(tools=[tool])
            assert (answer.status, answer.error["param"]) == (400, "tools")
            answer = await up.chat(model="other")
            assert (answer.status, answer.error["code"]) == (404, "model_not_found")
            assert (await up.chat()).status == 200

    run(test())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[]", "invalid_json"),
        (b"{} {}", "invalid_json"),
        (b"\xef\xbb\xbf{}", "invalid_json"),
        (b'{"a":"\xff"}', "invalid_json"),
        (b'{"a":NaN}', "invalid_json"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "invalid_json"),
        (b'{"nnrp":{}}', "unknown_parameter"),
        (b'{"stream":"yes"}', "invalid_type"),
    ],
)
def test_bodies_that_no_envelope_can_hold_are_400(body: bytes, code: str) -> None:
    async def nobody(peer: Peer, submit: Submit) -> None:
        raise AssertionError("it was submitted")

    async def test() -> None:
        async with bridged(answering(nobody)) as (up, _):
            answer = await up.ask("/v1/chat/completions", body)
            assert (answer.status, answer.error["code"]) == (400, code)

    run(test())


def test_pages_in_browsers_are_not_served() -> None:
    """They could spend what the model costs: the bridge asks for no key, and loopback is theirs, too."""

    async def test() -> None:
        async with bridged(answering(hello)) as (up, _):
            body = {"model": "m", "messages": []}
            for origin in ("https://evil.example", up.url, "null"):
                answer = await up.ask("/v1/chat/completions", body, {"Origin": origin})
                assert (answer.status, answer.error["code"]) == (403, "origin_refused")
            assert "Access-Control-Allow-Origin" not in answer.headers

    run(test())


def test_a_body_above_the_limit_is_413() -> None:
    async def test() -> None:
        async with bridged(answering(hello), body=1000) as (up, _):
            answer = await up.ask("/v1/chat/completions", b'{"a":"' + b"x" * 1000 + b'"}')
            assert (answer.status, answer.error["code"]) == (413, "body_too_large")
            assert (await up.chat()).status == 200

    run(test())


def test_more_requests_than_may_be_open_are_503_and_told_when_to_come_again() -> None:
    async def test() -> None:
        asked_for, go_on = asyncio.Event(), asyncio.Event()

        async def answer(peer: Peer, submit: Submit) -> None:
            asked_for.set()
            await go_on.wait()
            await hello(peer, submit)

        async with bridged(answering(answer), open_requests=1) as (up, _):
            first = asyncio.create_task(up.chat())
            await asked_for.wait()
            second = await up.chat()
            assert (second.status, second.error["code"]) == (503, "overloaded")
            assert second.headers["Retry-After"] == "1"
            go_on.set()
            assert (await first).status == 200

    run(test())


def test_sessions_that_are_all_in_use_are_503() -> None:
    async def test() -> None:
        asked_for, go_on = asyncio.Event(), asyncio.Event()

        async def answer(peer: Peer, submit: Submit) -> None:
            asked_for.set()
            await go_on.wait()
            await hello(peer, submit)

        limits = ClientLimits(sessions=1, in_flight=1)
        async with bridged(answering(answer), limits) as (up, _):
            first = asyncio.create_task(up.chat())
            await asked_for.wait()
            second = await up.chat()
            assert (second.status, second.error["code"]) == (503, "overloaded")
            go_on.set()
            assert (await first).status == 200

    run(test())


def test_bytes_that_are_no_http_are_refused_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with bridged(answering(hello)) as (up, _):
            port = up.direct
            async with client(port) as wire:
                await wire.send(b"GET / HTTP/1.1\r\nAuthorization: sk-secret\x01\r\n\r\n")
                assert (await wire.read_message(answer=True)).status == 400
            async with client(port) as wire:
                await wire.send(b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n")
                assert (await wire.read_message(answer=True)).status == 400

    with caplog.at_level(logging.DEBUG):
        run(test())
    assert "sk-secret" not in caplog.text


# -- the end -------------------------------------------------------------------------------------------


def test_open_answers_are_finished_before_it_stops() -> None:
    async def test() -> None:
        asked_for, go_on = asyncio.Event(), asyncio.Event()

        async def answer(peer: Peer, submit: Submit) -> None:
            asked_for.set()
            await go_on.wait()
            await hello(peer, submit)

        async with bridged(answering(answer)) as (up, _):
            request = asyncio.create_task(up.chat())
            await asked_for.wait()
            stopping = asyncio.create_task(up.bridge.stop())
            await asyncio.sleep(0)
            go_on.set()
            assert (await request).status == 200
            await stopping

    run(test())


@pytest.mark.parametrize("stream", [False, True])
def test_answers_that_take_too_long_get_a_proper_end_when_it_stops(stream: bool) -> None:
    async def test() -> None:
        told = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.opened()
            submit = await peer.submit()
            if stream:
                await peer.event(submit, 1, text("Hel"))
            told.set()
            packet = await peer.expect(Message.CANCEL)
            assert control_meta(packet.meta).reason == CancelReason.SHUTDOWN
            await peer.until_closed()

        async with bridged(script, grace=0.01) as (up, _):
            request = asyncio.create_task(up.chat(stream=stream))
            await told.wait()
            await up.bridge.stop()
            answer = await request
            assert not answer.cut
            error = answer.chunks[-1]["error"] if stream else answer.error
            assert error["code"] == "shutting_down"

    run(test())


def test_requests_that_wait_for_a_session_get_a_proper_end_when_it_stops() -> None:
    async def test() -> None:
        asked_for = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.expect(Message.CLIENT_HELLO)
            asked_for.set()  # and never answered
            await peer.until_closed()

        async with bridged(script, grace=0.01) as (up, _):
            request = asyncio.create_task(up.chat())
            await asked_for.wait()
            await up.bridge.stop()
            answer = await request
            assert (answer.status, answer.error["code"]) == (503, "shutting_down")

    run(test())


def test_hundreds_of_requests_at_once_get_each_its_own_answer() -> None:
    async def answer(peer: Peer, submit: Submit) -> None:
        said = submit.envelope["body"]["messages"][0]["content"]
        await peer.event(submit, 1, text(said))
        await peer.result(submit, None)

    async def ask(up: Bridged, number: int) -> str:
        messages = [{"role": "user", "content": f"number {number}"}]
        answer = await up.chat(stream=True, messages=messages)
        return "".join(c["choices"][0]["delta"].get("content", "") for c in answer.chunks)

    async def test() -> None:
        limits = ClientLimits(sessions=8, in_flight=50)
        async with bridged(answering(answer), limits, open_requests=400) as (up, _):
            told = await asyncio.gather(*(ask(up, n) for n in range(200)))
            assert told == [f"number {n}" for n in range(200)]

    run(test())


def test_two_hundred_mixed_operations_end_properly() -> None:
    """With clients that leave, and a server that drops, breaks and restarts; soak.py says what is proper."""
    tally = run(soak(200, seed=1))
    assert tally.faults == []
    assert sum(tally.ends.values()) == 200
    assert tally.restarts == 5 and tally.cancels
    assert tally.ends["answer"] and tally.ends["error"] and tally.ends["left"]
