"""A client's connection and the one behind it live and end together."""

from __future__ import annotations

import asyncio

import pytest

from teeline.config.model import Config, ListenAddress, UpstreamConfig, UpstreamURL
from teeline.validators.model import Ended
from tests.proxy.raw import (
    Recorder,
    Wire,
    answering,
    ask,
    client,
    code_of,
    proxy,
    raw_upstream,
    run,
    serving,
)

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_requests_of_one_client_connection_share_one_upstream_connection() -> None:
    async def test() -> None:
        async with (
            answering(OK, CHUNKED + b"1\r\na\r\n0\r\n\r\n") as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            for _ in range(6):
                await wire.send(GET)
                await wire.read_message()
            assert len(upstream.wires) == 1
            assert (await ask(teeline.port, GET)).status == 200
            assert len(upstream.wires) == 2

    run(test())


def test_no_upstream_connection_is_opened_before_the_first_request() -> None:
    async def test() -> None:
        async with (
            answering(OK) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            assert (await ask(teeline.port, GET)).status == 200
            assert len(upstream.wires) == 1
            await wire.send(GET)
            await wire.read_message()
            assert len(upstream.wires) == 2

    run(test())


def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def test() -> None:
        async with (
            answering(OK, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET * 3)
            assert [(await wire.read_message()).status for _ in range(3)] == [200, 404, 200]

    run(test())


def test_a_client_that_closes_closes_the_upstream_connection() -> None:
    async def test() -> None:
        closed = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(OK)
            assert await wire.ended() == b""
            closed.set()

        async with raw_upstream(script) as upstream, proxy(upstream.url) as teeline:
            assert (await ask(teeline.port, GET)).status == 200
            await closed.wait()

    run(test())


def test_an_upstream_that_closes_an_idle_connection_closes_the_clients() -> None:
    """A stale connection shows to the client as it would without teeline; nothing is retried."""

    async def test() -> None:
        async with raw_upstream(_one_answer) as upstream, proxy(upstream.url) as teeline:
            async with client(teeline.port) as wire:
                await wire.send(GET)
                assert (await wire.read_message()).value(b"connection") is None
                assert await wire.ended() == b""
            assert len(upstream.wires) == 1

    run(test())


async def _one_answer(wire: Wire) -> None:
    await wire.read_message()
    await wire.send(OK)


def test_an_answer_that_nobody_asked_for_is_not_given_to_the_next_request() -> None:
    async def test() -> None:
        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(OK + OK)
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            assert (await wire.read_message()).status == 200
            assert await wire.ended() == b""

    run(test())


@pytest.mark.parametrize("side", ["client", "upstream"])
def test_connection_close_of_one_side_ends_both_and_is_said_to_the_other(side: str) -> None:
    async def test() -> None:
        close = b"Connection: close\r\n"
        request = GET.replace(b"\r\n\r\n", b"\r\n" + close + b"\r\n") if side == "client" else GET
        answer = OK.replace(b"\r\n\r\n", b"\r\n" + close + b"\r\n") if side == "upstream" else OK
        async with (
            answering(answer) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(request)
            received = await wire.read_message()
            assert await wire.ended() == b""
        assert received.value(b"connection") == b"close"
        asked = upstream.requests[0].value(b"connection")
        assert asked == (b"close" if side == "client" else None)

    run(test())


def test_a_request_for_another_upstream_closes_the_connection_to_the_first() -> None:
    async def test() -> None:
        left = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(OK)
            await wire.ended()
            left.set()

        async with raw_upstream(script) as first, answering(OK) as second:
            upstreams = (
                UpstreamConfig(UpstreamURL.parse(first.url), "first", prefix="/first"),
                UpstreamConfig(UpstreamURL.parse(second.url), "second"),
            )
            config = Config(upstreams=upstreams, listen=ListenAddress("127.0.0.1", 0))
            async with serving(config) as (_, ports), client(ports[0]) as wire:
                await wire.send(GET.replace(b"/v1", b"/first/v1"))
                assert (await wire.read_message()).status == 200
                await wire.send(GET)
                assert (await wire.read_message()).status == 200
                await left.wait()
                await wire.send(GET)
                assert (await wire.read_message()).status == 200
                assert len(second.wires) == 1

    run(test())


def test_a_connection_that_never_asks_costs_the_upstream_nothing() -> None:
    async def test() -> None:
        async with answering(OK) as upstream, proxy(upstream.url) as teeline:
            async with client(teeline.port) as wire:
                wire.close()
                assert await wire.ended() == b""
            assert upstream.wires == []

    run(test())


def test_garbage_behind_a_good_request_is_refused_after_its_answer() -> None:
    async def test() -> None:
        async with (
            answering(OK) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            assert (await wire.read_message()).status == 200
            await wire.send(b"garbage\r\n\r\n")
            assert (await wire.read_message()).status == 400
            assert await wire.ended() == b""

    run(test())


def test_a_failure_of_teelines_own_breaks_off_and_is_logged_by_its_kind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No answer is made up, and no traceback with a peer's bytes is printed."""

    def broken(*_: object, **__: object) -> bytes:
        raise LookupError("sk-secret")

    async def test() -> None:
        recorder = Recorder()
        async with answering(OK) as upstream, proxy(upstream.url, recorder) as teeline:
            monkeypatch.setattr("teeline.proxy.head.AnswerHead.forwarded", broken)
            async with client(teeline.port) as wire:
                await wire.send(GET)
                assert await wire.ended() == b""
        assert recorder.ended == [Ended.SHUTDOWN]

    run(test())
    assert "LookupError" in caplog.text
    assert "sk-secret" not in caplog.text


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /v1/x sk-secret HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03sk-secret", 400),
        (b"GET /v1/x HTTP/1.1\r\nHost: h\r\nX sk-secret: 1\r\n\r\n", 400),
        (b"GET /v1/x HTTP/1.1\r\nHost: h\r\nHost: sk-secret\r\n\r\n", 400),
        (b"GET /v1/x HTTP/1.1\r\nX: sk-secret\r\n\r\n", 400),
        (b"GET /v1/\xe9?sk-secret HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"CONNECT sk-secret:443 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (
            b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (b"GET /v1/x?sk-secret" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 431),
        (b"GET /v1/x HTTP/1.1\r\nHost: h\r\nX: sk-secret" + b"x" * 100_000 + b"\r\n\r\n", 431),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else None,
)
def test_what_is_no_request_is_refused_without_quoting_it(
    request_: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with answering(OK) as upstream, proxy(upstream.url) as teeline:
            answer = await ask(teeline.port, request_)
            assert not upstream.wires
        assert answer.status == status
        assert code_of(answer) in {"bad_request", "bad_target", "head_too_large"}
        assert b"sk-secret" not in answer.head + answer.body

    with caplog.at_level("DEBUG"):
        run(test())
    assert "sk-secret" not in caplog.text
