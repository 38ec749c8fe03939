"""What could be read in two ways goes nowhere: refused to its sender, never passed on."""

from __future__ import annotations

import asyncio

import pytest

from teeline.validators.model import Ended
from tests.proxy.raw import Recorder, Wire, ask, client, code_of, proxy, raw_upstream, run
from tests.proxy.test_parse import BAD_ANSWERS, BAD_REQUESTS

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
BEHIND = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"


class Seen:
    """An upstream that keeps all bytes that arrive at it."""

    def __init__(self) -> None:
        self.data = b""

    async def __call__(self, wire: Wire) -> None:
        while data := await wire.reader.read(65536):
            self.data += data


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_an_ambiguous_head_is_refused_and_not_a_byte_of_it_passed_on(name: str) -> None:
    async def test() -> None:
        seen = Seen()
        async with raw_upstream(seen) as upstream, proxy(upstream.url) as teeline:
            answer = await ask(teeline.port, BAD_REQUESTS[name] + BEHIND)
        assert (answer.status, code_of(answer)) == (400, "bad_request")
        assert answer.value(b"connection") == b"close"
        assert seen.data == b""

    run(test())


@pytest.mark.parametrize(
    "body",
    [
        b"5\nhello\n0\n\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        b"5;a\nb\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloo\r\n0\r\n\r\n",
        b"0\r\nX : 1\r\n\r\n",
        b"0\r\nX: a\n\r\n",
    ],
    ids=repr,
)
@pytest.mark.parametrize("apart", [False, True])
def test_an_ambiguous_body_never_comes_to_its_end(body: bytes, apart: bool) -> None:
    """What is behind it is not read as a request by anyone."""

    async def test() -> None:
        recorder, seen = Recorder(), Seen()
        async with (
            raw_upstream(seen) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(POST + b"" if apart else POST + body + BEHIND)
            if apart:
                while not seen.data:
                    await asyncio.sleep(0)
                await wire.send(body + BEHIND)
            answer = await wire.read_message()
            assert (answer.status, code_of(answer)) == (400, "bad_request")
            await asyncio.gather(*upstream.tasks)
        assert b"smuggled" not in seen.data
        assert not seen.data.endswith(b"0\r\n\r\n")
        assert recorder.ended == [Ended.REFUSED]

    run(test())


def test_a_second_request_hidden_behind_a_length_stays_a_body() -> None:
    async def test() -> None:
        seen = Seen()
        async with (
            raw_upstream(seen) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            head = b"GET /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(BEHIND)
            await wire.send(head + BEHIND)
            while BEHIND not in seen.data:
                await asyncio.sleep(0)
        assert seen.data.count(b"Content-Length") == 1

    run(test())


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_ambiguous_answer_becomes_a_502(name: str) -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(BAD_ANSWERS[name])
            await wire.ended()

        async with raw_upstream(script) as upstream, proxy(upstream.url, recorder) as teeline:
            answer = await ask(teeline.port, GET)
        assert (answer.status, code_of(answer)) == (502, "upstream_unparsable")
        assert recorder.ended == [Ended.REFUSED]

    run(test())


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 70_000,
        b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: 1\r\n" * 300 + b"\r\n",
    ],
    ids=["a long line", "a field without end", "many fields"],
)
def test_a_head_without_measure_is_refused(head: bytes) -> None:
    async def test() -> None:
        seen = Seen()
        async with raw_upstream(seen) as upstream, proxy(upstream.url) as teeline:
            answer = await ask(teeline.port, head)
        assert (answer.status, code_of(answer)) == (431, "head_too_large")
        assert seen.data == b""

    run(test())
