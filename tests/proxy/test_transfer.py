"""The course of an exchange: who leaves, breaks or is late, and what the other side sees of it."""

from __future__ import annotations

import asyncio

import pytest

from teeline.config.model import Timeouts
from teeline.validators.model import Ended
from tests.ports import free_port
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
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
POST_CHUNKED = b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

UPLOADED = b"3\r\nabc\r\n"


class Upload:
    """An upstream that takes the first chunk of an upload, then whatever comes until it breaks off."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.received: list[bytes] = []

    async def script(self, wire: Wire) -> None:
        await wire.read_head()
        self.received.append(await wire.read(len(UPLOADED)))
        self.began.set()
        self.received.append(await wire.ended())


# -- heads before the final one -----------------------------------------------------------------


def test_a_body_is_sent_only_after_the_upstreams_own_100_continue() -> None:
    async def test() -> None:
        async def script(wire: Wire) -> None:
            head = await wire.read_head()
            assert b"\r\nExpect: 100-continue\r\n" in head
            await wire.send(b"HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\n")
            assert await wire.read(4) == b"body"
            await wire.send(OK)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(
                b"POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                b"Content-Length: 4\r\n\r\n"
            )
            interim = await wire.read_head()
            assert interim == b"HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\n"
            await wire.send(b"body")
            assert (await wire.read_message()).body == b"ok"

    run(test())


def test_an_expectation_that_is_refused_reaches_the_client_without_its_body() -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_head()
            await wire.send(
                b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )

        async with raw_upstream(script) as upstream, proxy(upstream.url, recorder) as teeline:
            request = b"POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
            answer = await ask(teeline.port, request + b"Content-Length: 4\r\n\r\n")
            assert answer.status == 417
        assert recorder.ended == [Ended.COMPLETE]

    run(test())


def test_early_hints_arrive_before_the_answer_and_are_not_the_answer() -> None:
    async def test() -> None:
        recorder = Recorder()
        hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        async with (
            answering(hints + OK) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            assert await wire.read_head() == hints
            assert (await wire.read_message()).body == b"ok"
        assert [exchange.status for exchange in recorder.exchanges] == [200]

    run(test())


def test_an_early_answer_arrives_while_the_client_still_sends_and_the_rest_is_passed_on() -> None:
    async def test() -> None:
        rest = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_head()
            await wire.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            assert await wire.read(10) == b"0123456789"
            rest.set()
            await wire.read_message()
            await wire.send(OK)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
            assert (await wire.read_message()).status == 401
            await wire.send(b"0123456789")
            await rest.wait()
            await wire.send(GET)
            assert (await wire.read_message()).status == 200

    run(test())


# -- an upstream that breaks ---------------------------------------------------------------------


def test_an_upstream_that_resets_before_its_head_gives_a_502() -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            wire.reset()

        async with raw_upstream(script) as upstream, proxy(upstream.url, recorder) as teeline:
            answer = await ask(teeline.port, GET)
        assert (answer.status, code_of(answer)) == (502, "upstream_closed")
        assert recorder.ended == [Ended.REFUSED]

    run(test())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_a_request_is_sent_once_whatever_its_method(method: str) -> None:
    async def test() -> None:
        async def script(wire: Wire) -> None:
            upstream.requests.append(await wire.read_message())
            wire.reset()

        async with raw_upstream(script) as upstream, proxy(upstream.url) as teeline:
            request = GET.replace(b"GET", method.encode())
            assert (await ask(teeline.port, request)).status == 502
        assert len(upstream.requests) == 1

    run(test())


@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize(
    "sent",
    [
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"a\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    ],
    ids=["between chunks", "within a chunk", "short of the length"],
)
def test_a_body_that_breaks_off_arrives_as_far_as_it_came_and_never_ends(
    sent: bytes, how: str
) -> None:
    """Its bytes arrive, then the connection ends short of what the framing promised."""

    async def test() -> None:
        recorder = Recorder()
        received = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(sent)
            await received.wait()
            wire.reset() if how == "reset" else wire.close()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_head()
            body = b""
            while b"hello" not in body:
                body += await wire.reader.read(100)
            received.set()
            body += await wire.ended()
        assert not body.endswith(b"0\r\n\r\n")
        assert body.count(b"hello") == 1
        assert recorder.ended == [Ended.UPSTREAM_ABORTED]

    run(test())


def test_bytes_that_came_with_the_break_arrive_too() -> None:
    async def test() -> None:
        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 400_000)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_head()
            assert len(await wire.ended()) == 400_000

    run(test())


def test_a_reset_of_a_body_that_ends_with_its_connection_is_passed_on_as_one() -> None:
    """A clean close would make the part that came the whole."""

    async def test() -> None:
        recorder = Recorder()
        received = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
            await received.wait()
            wire.reset()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_head()
            assert await wire.read(4) == b"half"
            received.set()
            with pytest.raises(ConnectionResetError):
                await wire.reader.read()
        assert recorder.ended == [Ended.UPSTREAM_ABORTED]

    run(test())


def test_chunks_that_make_no_sense_break_the_clients_body_off() -> None:
    async def test() -> None:
        recorder = Recorder()
        received = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(CHUNKED + b"5\r\nhello\r\n")
            await received.wait()
            await wire.send(b"not a size\r\n")
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_head()
            assert await wire.read(10) == b"5\r\nhello\r\n"
            received.set()
            assert await wire.ended() == b""
        assert recorder.ended == [Ended.UPSTREAM_ABORTED]

    run(test())


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
    ids=["another protocol", "two lengths", "a switch nobody asked for", "a boundless head"],
)
def test_an_upstream_that_speaks_no_http_gives_a_502(answer: bytes) -> None:
    async def test() -> None:
        async with answering(answer) as upstream, proxy(upstream.url) as teeline:
            got = await ask(teeline.port, GET)
        assert (got.status, code_of(got)) == (502, "upstream_unparsable")

    run(test())


def test_an_upstream_that_is_not_there_gives_a_502_and_is_found_when_it_comes() -> None:
    async def test() -> None:
        recorder = Recorder()
        port = free_port()
        async with proxy(f"http://127.0.0.1:{port}", recorder) as teeline:
            answer = await ask(teeline.port, GET)
            assert (answer.status, code_of(answer)) == (502, "upstream_unreachable")
            server = await asyncio.start_server(_answer_once, "127.0.0.1", port)
            assert (await ask(teeline.port, GET)).body == b"ok"
            server.close()
        assert recorder.ended == [Ended.REFUSED, Ended.COMPLETE]

    run(test())


async def _one_answer(wire: Wire) -> None:
    await wire.read_message()
    await wire.send(OK)


async def _answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _one_answer(Wire(reader, writer))
    writer.close()


# -- a client that leaves ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("sent", [b"", CHUNKED + b"1\r\na\r\n"], ids=["silent", "streaming"])
def test_a_client_that_leaves_cancels_the_upstream_request(sent: bytes, how: str) -> None:
    """The upstream sees it although it may never send another byte."""

    async def test() -> None:
        recorder = Recorder()
        asked, cancelled = asyncio.Event(), asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(sent)
            asked.set()
            await wire.ended()
            cancelled.set()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await asked.wait()
            if sent:
                await wire.read_head()
            wire.reset() if how == "reset" else wire.close()
            await cancelled.wait()
        assert recorder.ended == [Ended.CLIENT_CLOSED]

    run(test())


def test_a_client_that_leaves_within_its_body_cancels_the_upstream_request() -> None:
    async def test() -> None:
        recorder, upload = Recorder(), Upload()
        async with (
            raw_upstream(upload.script) as upstream,
            proxy(upstream.url, recorder) as teeline,
        ):
            async with client(teeline.port) as wire:
                await wire.send(POST_CHUNKED + UPLOADED)
                await upload.began.wait()
            await asyncio.gather(*upstream.tasks)
        assert upload.received == [UPLOADED, b""]
        assert recorder.ended == [Ended.CLIENT_CLOSED]

    run(test())


def test_a_body_that_makes_no_sense_is_refused_and_never_ends_for_the_upstream() -> None:
    async def test() -> None:
        recorder, upload = Recorder(), Upload()
        async with (
            raw_upstream(upload.script) as upstream,
            proxy(upstream.url, recorder) as teeline,
        ):
            async with client(teeline.port) as wire:
                await wire.send(POST_CHUNKED + UPLOADED)
                await upload.began.wait()
                await wire.send(b"zz\r\n")
                answer = await wire.read_message()
            await asyncio.gather(*upstream.tasks)
        assert (answer.status, code_of(answer)) == (400, "bad_request")
        assert upload.received == [UPLOADED, b""]
        assert recorder.ended == [Ended.REFUSED]

    run(test())


# -- limits of time ------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["first_byte", "total"])
def test_an_upstream_that_does_not_answer_in_time_gives_a_504(limit: str) -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.ended()

        timeouts = Timeouts(**{limit: 0.001})
        async with raw_upstream(script) as upstream:
            async with proxy(upstream.url, recorder, timeouts=timeouts) as teeline:
                answer = await ask(teeline.port, GET)
            await asyncio.gather(*upstream.tasks)
        assert (answer.status, code_of(answer)) == (504, "timeout")
        assert recorder.ended == [Ended.TIMEOUT]

    run(test())


@pytest.mark.parametrize("limit", ["idle", "total"])
def test_an_answer_that_stops_for_too_long_is_broken_off(limit: str) -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(CHUNKED + b"1\r\na\r\n")
            await wire.ended()

        timeouts = Timeouts(**{limit: 0.05})
        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder, timeouts=timeouts) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_head()
            assert not (await wire.ended()).endswith(b"0\r\n\r\n")
        assert recorder.ended == [Ended.TIMEOUT]

    run(test())


# -- teeline's own answers -----------------------------------------------------------------------


def test_an_answer_of_its_own_to_head_has_no_body() -> None:
    async def test() -> None:
        async with answering(OK) as upstream:
            url = upstream.url
        async with proxy(url) as teeline, client(teeline.port) as wire:
            await wire.send(GET.replace(b"GET", b"HEAD"))
            head = await wire.read_message(bodyless=True)
            assert head.status == 502
            assert await wire.ended() == b""

    run(test())


# -- clients of HTTP/1.0 -------------------------------------------------------------------------


def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async def test() -> None:
        body = CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"
        async with answering(body) as upstream, proxy(upstream.url) as teeline:
            answer = await ask(teeline.port, b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert answer.body == b"abc"
        assert answer.value(b"transfer-encoding") is None
        assert upstream.requests[0].lines[0] == b"GET /v1/models HTTP/1.0"

    run(test())
