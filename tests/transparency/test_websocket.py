"""A WebSocket passes: its handshake as it came, then bytes both ways until a side ends it."""

from __future__ import annotations

import asyncio

import pytest

from teeline.validators.model import Ended
from tests.proxy.raw import Recorder, Wire, client, code_of, proxy, raw_upstream, run

ASK = (
    b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n"
    b"Sec-WebSocket-Protocol: realtime\r\n\r\n"
)
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: x\r\n\r\n"
)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"


def test_the_handshake_arrives_and_bytes_pass_both_ways_as_they_come() -> None:
    async def test() -> None:
        recorder = Recorder()
        asked: list[bytes] = []

        async def script(wire: Wire) -> None:
            asked.append(await wire.read_head())
            await wire.send(SWITCH + b"\x81\x02hi")
            for number in range(100):
                frame = await wire.read(4)
                assert frame == b"\x82\x02%02d" % number
                await wire.send(frame[::-1])
            assert await wire.ended() == b""

        async with raw_upstream(script) as upstream, proxy(upstream.url, recorder) as teeline:
            async with client(teeline.port) as wire:
                await wire.send(ASK)
                assert await wire.read_head() == SWITCH
                assert await wire.read(4) == b"\x81\x02hi"
                for number in range(100):
                    await wire.send(b"\x82\x02%02d" % number)
                    assert await wire.read(4) == (b"\x82\x02%02d" % number)[::-1]
            await asyncio.gather(*upstream.tasks)
        authority = b"Host: 127.0.0.1:%d" % upstream.port
        expected = ASK.replace(b"Host: h", authority).replace(b"keep-alive, ", b"")
        assert asked == [expected]
        (exchange,) = recorder.exchanges
        assert (exchange.status, exchange.ended) == (101, Ended.COMPLETE)
        assert (exchange.request_bytes, exchange.response_bytes) == (400, 404)
        assert exchange.inspection == "none (websocket)"
        assert exchange.verdict == "pass"

    run(test())


def test_what_a_client_sends_ahead_waits_for_the_switch() -> None:
    """Before it these bytes may be the next request, and they are if the upgrade is declined."""

    async def test() -> None:
        go = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_head()
            await go.wait()
            await wire.send(SWITCH)
            assert await wire.read(5) == b"early"
            await wire.send(b"done")

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(ASK + b"early")
            await asyncio.sleep(0.01)
            go.set()
            await wire.read_head()
            assert await wire.read(4) == b"done"
            assert await wire.ended() == b""

    run(test())


def test_a_declined_upgrade_is_an_answer_like_any_other() -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            for _ in range(2):
                await wire.read_head()
                await wire.send(OK)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(ASK)
            assert (await wire.read_message()).body == b"ok"
            await wire.send(GET)
            assert (await wire.read_message()).body == b"ok"
        assert recorder.ended == [Ended.COMPLETE, Ended.COMPLETE]

    run(test())


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (GET, SWITCH),
        (ASK, SWITCH.replace(b"websocket", b"h2c")),
        (ASK, SWITCH.replace(b"Connection: Upgrade\r\n", b"")),
        (ASK.replace(b"websocket", b"h2c"), SWITCH),
    ],
    ids=["nobody asked", "to something else", "half a handshake", "what was asked was dropped"],
)
def test_a_switch_that_was_not_asked_for_is_no_answer(request_: bytes, answer: bytes) -> None:
    async def test() -> None:
        async def script(wire: Wire) -> None:
            head = await wire.read_head()
            assert b"h2c" not in head
            await wire.send(answer)
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(request_)
            got = await wire.read_message()
            assert (got.status, code_of(got)) == (502, "upstream_unparsable")

    run(test())


@pytest.mark.parametrize(
    ("who", "how", "ended"),
    [
        ("upstream", "close", Ended.COMPLETE),
        ("upstream", "reset", Ended.UPSTREAM_ABORTED),
        ("client", "close", Ended.COMPLETE),
        ("client", "reset", Ended.COMPLETE),
    ],
)
def test_the_end_of_one_side_is_the_end_of_both(who: str, how: str, ended: Ended) -> None:
    async def test() -> None:
        recorder = Recorder()
        switched, gone = asyncio.Event(), asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_head()
            await wire.send(SWITCH)
            await switched.wait()
            if who == "upstream":
                wire.reset() if how == "reset" else wire.close()
            else:
                await wire.ended()
            gone.set()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(ASK)
            await wire.read_head()
            switched.set()
            if who == "client":
                wire.reset() if how == "reset" else wire.close()
            await gone.wait()
            await wire.ended()
        assert recorder.ended == [ended]

    run(test())


def test_a_tunnel_is_cut_off_when_the_proxy_stops() -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_head()
            await wire.send(SWITCH)
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(ASK)
            await wire.read_head()
            await teeline.server.stop(0)
            assert await wire.ended() == b""
        assert recorder.ended == [Ended.SHUTDOWN]

    run(test())


def test_back_pressure_passes_through_a_tunnel() -> None:
    async def test() -> None:
        sent = 0

        async def script(wire: Wire) -> None:
            nonlocal sent
            await wire.read_head()
            await wire.send(SWITCH)
            for _ in range(400):
                await wire.send(b"x" * 50_000)
                sent += 50_000

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(ASK)
            await wire.read_head()
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.1)
            assert sent < 20_000_000
            await wire.read(20_000_000)

    run(test())
