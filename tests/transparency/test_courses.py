"""How messages follow each other through teeline: as they would on a direct connection."""

from __future__ import annotations

import asyncio

import pytest

from teeline.validators.model import Ended
from tests.proxy.raw import (
    Recorder,
    Wire,
    answering,
    client,
    proxy,
    raw_upstream,
    run,
)

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REQUESTS = (
    b"POST /v1/a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /v1/b HTTP/1.1\r\nHost: h\r\n\r\n",
    b"PUT /v1/c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n",
    b"DELETE /v1/d HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
)
ANSWERS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    OK,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n",
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_pipelined_requests_arrive_whole_in_order_however_they_are_cut(size: int) -> None:
    async def test() -> None:
        async with (
            answering(*ANSWERS) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            sent = b"".join(REQUESTS)
            for at in range(0, len(sent), size):
                await wire.send(sent[at : at + size])
                await asyncio.sleep(0)
            for answer in ANSWERS:
                message = await wire.read_message()
                assert message.head + message.body == answer
        authority = b"Host: 127.0.0.1:%d" % upstream.port
        arrived = b"".join(message.head + message.body for message in upstream.requests)
        assert arrived == sent.replace(b"Host: h", authority)

    run(test())


@pytest.mark.parametrize("size", [1, 2, 5, 33])
def test_answers_arrive_the_same_however_they_are_cut(size: int) -> None:
    async def test() -> None:
        async def script(wire: Wire) -> None:
            for answer in ANSWERS:
                await wire.read_message()
                for at in range(0, len(answer), size):
                    await wire.send(answer[at : at + size])
                    await asyncio.sleep(0)
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            for answer in ANSWERS:
                await wire.send(GET)
                message = await wire.read_message()
                assert message.head + message.body == answer

    run(test())


def test_more_than_may_wait_is_held_up_and_nothing_of_it_is_lost() -> None:
    """A client that sends a thousand requests ahead is read as fast as they are answered."""

    async def test() -> None:
        async with (
            answering(OK) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            big = GET.replace(b"Host", b"X-Pad: " + b"x" * 1000 + b"\r\nHost")
            sending = asyncio.create_task(wire.send(big * 1000))
            for _ in range(1000):
                assert (await wire.read_message()).body == b"ok"
            await sending
        assert len(upstream.requests) == 1000
        assert len(upstream.wires) == 1

    run(test())


def test_a_client_of_http_1_0_keeps_its_connection_where_both_sides_keep_it() -> None:
    async def test() -> None:
        request = b"GET /v1/models HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"
        async with (
            answering(OK) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            for _ in range(2):
                await wire.send(request)
                answer = await wire.read_message()
                assert (answer.value(b"connection"), answer.body) == (b"keep-alive", b"ok")
        assert [r.value(b"connection") for r in upstream.requests] == [b"keep-alive"] * 2
        assert len(upstream.wires) == 1

    run(test())


def test_a_client_of_http_1_0_that_asks_for_nothing_gets_the_end_of_its_connection() -> None:
    async def test() -> None:
        async with (
            answering(OK) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(b"GET /v1/models HTTP/1.0\r\nHost: h\r\n\r\n")
            assert (await wire.read_message()).body == b"ok"
            assert await wire.ended() == b""

    run(test())


def test_an_upstream_of_http_1_0_ends_the_clients_connection_unless_it_keeps_its_own() -> None:
    async def test(option: bytes, kept: bool) -> None:
        answer = OK.replace(b"1.1", b"1.0").replace(b"\r\n\r\n", b"\r\n" + option + b"\r\n")
        async with (
            answering(answer) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            got = await wire.read_message()
            assert (got.value(b"connection") == b"keep-alive") is kept
            if kept:
                await wire.send(GET)
                assert (await wire.read_message()).body == b"ok"
            else:
                assert await wire.ended() == b""

    run(test(b"Connection: keep-alive\r\n", True))
    run(test(b"\r\n", False))


def test_a_client_that_shuts_its_sending_half_down_gets_its_answer() -> None:
    """The upstream sees the same half-close, and may answer or not, as on a direct connection."""

    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.ended()
            await wire.send(OK)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            wire.writer.write_eof()
            assert (await wire.read_message()).body == b"ok"
            assert await wire.ended() == b""
        assert recorder.ended == [Ended.COMPLETE]

    run(test())


@pytest.mark.parametrize("answers", [True, False])
def test_a_client_that_sends_no_more_is_gone_unless_it_takes_what_comes(answers: bool) -> None:
    """An upstream that doesn't mind is left within a second where nobody reads its answer."""

    async def test() -> None:
        recorder = Recorder()
        left = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            if answers:
                await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
                await asyncio.sleep(1.2)
                await wire.send(b"0\r\n\r\n")
            await left.wait()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            wire.writer.write_eof()
            async with asyncio.timeout(2):
                received = await wire.ended()
            assert received.endswith(b"0\r\n\r\n" if answers else b"")
            left.set()
        assert recorder.ended == [Ended.COMPLETE if answers else Ended.CLIENT_CLOSED]

    run(test())


def test_any_number_of_interim_answers_arrives() -> None:
    async def test() -> None:
        interim = b"HTTP/1.1 102 Processing\r\nX: %d\r\n\r\n"
        many = b"".join(interim % number for number in range(500))
        async with (
            answering(many + OK) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            assert await wire.read(len(many)) == many
            assert (await wire.read_message()).body == b"ok"

    run(test())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n",
        b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="a"\r\nContent-Length: 0\r\n\r\n',
        b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["redirect", "login", "retry", "cookie"],
)
def test_what_an_answer_asks_of_the_client_is_left_to_the_client(answer: bytes) -> None:
    async def test() -> None:
        async with (
            answering(answer) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            for _ in range(2):
                await wire.send(GET)
                message = await wire.read_message()
                assert message.head == answer
        assert len(upstream.requests) == 2
        assert all(len(request.lines) == 2 for request in upstream.requests)

    run(test())


@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_early_answer_reaches_a_client_that_is_still_uploading(how: str) -> None:
    """An upstream that refuses a large body and ends: neither its answer nor ours to it is lost."""

    async def test() -> None:
        recorder = Recorder()
        refusal = (
            b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig"
        )

        async def script(wire: Wire) -> None:
            await wire.read_head()
            await wire.send(refusal)
            if how == "reset":
                wire.reset()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n")
            for _ in range(20):
                wire.writer.write(b"x" * 50_000)
                await asyncio.sleep(0.001)
            answer = await wire.read_message()
            assert (answer.status, answer.body) == (413, b"big")
        assert recorder.ended == [Ended.COMPLETE]
        assert recorder.exchanges[0].status == 413

    run(test())
