"""A message that reaches a peer through teeline is the one that reaches it directly.

Each promise is kept over real sockets: an upstream and a client of bare sockets, once connected to
each other and once through teeline, compared byte by byte. Left out of the comparison are the lines
that may change: those of a hop (RFC 9110 7.6.1) and the value of Host.
"""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from teeline.proxy.form import HOP_BY_HOP
from tests.proxy.raw import Message, RawUpstream, Wire, answering, client, proxy, raw_upstream, run

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GZIP = gzip.compress(b'{"object":"list","data":[]}', mtime=0)
ZSTD = zstandard.compress(b'{"object":"list","data":[]}')
SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def dechunked(body: bytes) -> bytes:
    content = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        content += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return content


def compared(message: Message) -> bytes:
    """Every byte that must be the same: start line, lines, body with its framing.

    Lines of a hop are left out, and the value of Host.
    """
    lines = [message.lines[0]]
    for line in message.lines[1:]:
        name = line.partition(b":")[0]
        if name.lower() == b"host":
            line = name + b": (the upstream)"
        if name.lower() not in HOP_BY_HOP:
            lines.append(line)
    return b"\r\n".join((*lines, b"", message.body))


async def observe(
    upstream: RawUpstream, port: int, request: bytes, bodyless: bool
) -> tuple[Message, Message]:
    """What the upstream receives and what the client receives for one request to a port."""
    async with client(port) as wire:
        await wire.send(request)
        answer = await wire.read_message(bodyless=bodyless, answer=True)
    return upstream.requests[-1], answer


async def assert_same(request: bytes, answer: bytes, *, bodyless: bool = False) -> None:
    async with answering(answer) as upstream, proxy(upstream.url) as teeline:
        direct = await observe(upstream, upstream.port, request, bodyless)
        through = await observe(upstream, teeline.port, request, bodyless)
    assert compared(through[0]) == compared(direct[0])
    assert compared(through[1]) == compared(direct[1])


def post(*lines: bytes, body: bytes = b"{}") -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: client.example\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return head + b"".join(line + b"\r\n" for line in lines) + length + body


REQUESTS = {
    "case, order and repeats of fields": post(
        b"x-B: 1", b"AUTHORIZATION: Bearer sk-test", b"X-b: 2", b"accept: */*", b"X-B: 1"
    ),
    "an empty value": post(b"X-Empty:", b"X-Next: 1"),
    "values above ASCII": post(b"X-Latin: caf\xe9", "X-Utf: caf\u00e9".encode()),
    "a tab and blanks inside a value": post(b"X-Tab: a\tb  c"),
    "blanks around values": post(b"X-None:1", b"X-Many:   2 \t", b"X-Tab:\t3", b"X-Only: \t "),
    "Host without a blank": b"GET /v1/x HTTP/1.1\r\nhost:client.example\r\n\r\n",
    "control bytes of text": post(b"X-Odd: \x80\xff ~"),
    "a field name of every token character": post(b"!#$%&'*+-.^_`|~09azAZ: 1"),
    "sixty-four repeats": post(*(b"X-Many: %d" % number for number in range(64))),
    "a value of 32 KiB": post(b"X-Long: " + b"v" * 32768),
    "an offered coding": post(b"Accept-Encoding: zstd;q=1, br;q=0"),
    "no field but Host": b"GET /v1/models HTTP/1.1\r\nHost: client.example\r\n\r\n",
    "fields that proxies like to add": post(
        b"Via: 1.1 other", b"X-Forwarded-For: 10.0.0.1", b"Forwarded: for=10.0.0.1"
    ),
    "a trace context": post(b"traceparent: 00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"),
    "cookies": post(b"Cookie: a=1; b=2", b"Referer: http://client.example/"),
    "a body with GET": b"GET /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
    "a body with DELETE": b"DELETE /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
    "a body of no bytes": b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    "POST without a body": b"POST /v1/x HTTP/1.1\r\nHost: h\r\n\r\n",
    "a chunked body": b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    + chunked(b"one", b"two"),
    "chunk extensions and sizes in odd forms": b"POST /v1/x HTTP/1.1\r\nHost: h\r\n"
    b'Transfer-Encoding: chunked\r\n\r\n00003;a=b;c="d e"\r\none\r\nA;x\r\n0123456789\r\n000;z\r\n\r\n',
    "trailers": b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked"
    b"\r\n\r\n3\r\none\r\n0\r\nX-Sum: 1\r\nx-empty:\r\n\r\n",
    "a coding in capitals": b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
    + chunked(b"one"),
    "a length with zeros before it": b"POST /v1/x HTTP/1.1\r\nHost: h\r\n"
    b"Content-Length: 0003\r\n\r\nabc",
    "a body of several parts": post(
        b"Content-Type: multipart/form-data; boundary=b",
        body=b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
        b"\x00\xff\r\n--b--\r\n",
    ),
    "HTTP/1.0": b"GET /v1/x HTTP/1.0\r\nHost: h\r\n\r\n",
    "HTTP/1.0 with a body": b"POST /v1/x HTTP/1.0\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
    "credentials in many forms": post(
        b"Authorization: Bearer sk-test", b"api-key: k", b"x-api-key: k", b"OpenAI-Organization: o"
    ),
    "a condition and a range": post(b'If-None-Match: "a"', b"Range: bytes=0-1"),
    "an expectation": post(b"Expect: 100-continue"),
    "a chunked body of no bytes": b"PUT /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n0\r\n\r\n",
    "a body that is no text": post(b"Content-Type: audio/wav", body=bytes(range(256)) * 64),
    "a coded body": post(b"Content-Encoding: gzip", body=GZIP),
    "an unusual method": b"PROPFIND /v1/x HTTP/1.1\r\nHost: h\r\n\r\n",
    "OPTIONS of a path": b"OPTIONS /v1/x HTTP/1.1\r\nHost: h\r\nOrigin: http://a\r\n\r\n",
    "OPTIONS of the server": b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_arrives_as_it_was_sent(name: str) -> None:
    run(assert_same(REQUESTS[name], OK))


TARGETS = [
    b"/",
    b"/v1",
    b"/v1?",
    b"/v1/models?",
    b"/v1/models??a",
    b"//v1//chat///completions",
    b"/v1/./a/../b",
    b"/v1/a%2Fb%20c?x=%C3%A9&y=a+b&y=",
    b"/v1/%zz%?%",
    b"/v1/a;b=c,d:e@f!$&'()*+=~",
    b'/v1/x?q={"a":[1]}|\\^`',
    b"/v1/x?a#b",
    b"/v1beta/models",
    b"/v1/v1/models",
    b"/" + b"long/" * 4000,
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: repr(target[:40]))
def test_a_target_arrives_as_it_was_sent(target: bytes) -> None:
    run(assert_same(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % target, OK))


def answered(body: bytes, coding: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (coding, len(body)) + body


ANSWERS = {
    "case, order and repeats of fields": b"HTTP/1.1 200 OK\r\nx-B: 1\r\nSET-COOKIE: a=1\r\n"
    b"X-b: 2\r\nset-cookie: b=2\r\nContent-Length: 2\r\n\r\nok",
    "repeats of fields that stand once": b"HTTP/1.1 200 OK\r\nServer: a\r\nServer: b\r\n"
    b"Content-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 0\r\n\r\n",
    "an empty value": b"HTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n",
    "values above ASCII": b"HTTP/1.1 200 OK\r\nX: caf\xe9 \xc3\xa9\r\nContent-Length: 0\r\n\r\n",
    "a reason of its own": b"HTTP/1.1 429 Slow Down, Please\r\nContent-Length: 2\r\n\r\nno",
    "an empty reason": b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok",
    "a reason above ASCII": b"HTTP/1.1 200 d\xe9j\xc3\xa0\r\nContent-Length: 2\r\n\r\nok",
    "an unknown status": b"HTTP/1.1 599 Odd\r\nContent-Length: 2\r\n\r\nno",
    "no Date, Server or Content-Type": OK,
    "Date and Server of the upstream": b"HTTP/1.1 200 OK\r\nDate: never\r\nServer: x/1\r\n"
    b"Content-Length: 2\r\n\r\nok",
    "a chunked body": SSE_HEAD + chunked(b"data: 1\n\n", b"data: [DONE]\n\n"),
    "a chunked body of no bytes": SSE_HEAD + chunked(),
    "a coded body": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
    % (len(GZIP), GZIP),
    "a body whose coding is a lie": b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n"
    b"Content-Length: 2\r\n\r\nok",
    "a body in deflate": answered(zlib.compress(b"{}"), b"deflate"),
    "a body in br": answered(brotli.compress(b"{}"), b"br"),
    "a body in zstd": answered(ZSTD, b"zstd"),
    "a body in an unknown coding": answered(b"{}", b"x-rot13, aws-chunked"),
    "blanks around values": b"HTTP/1.1 200 OK\r\nX-None:1\r\nX-Many:   2 \t\r\nX-Only: \t \r\n"
    b"Content-Length:2\r\n\r\nok",
    "a value of 60 KB": b"HTTP/1.1 200 OK\r\nX-Long: " + b"v" * 60_000 + b"\r\n"
    b"Content-Length: 0\r\n\r\n",
    "chunk extensions and sizes in odd forms": SSE_HEAD
    + b'00003;a=b;c="d e"\r\none\r\nA;x\r\n0123456789\r\n000;z\r\n\r\n',
    "trailers": b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\none\r\n0\r\nX-Sum: 1\r\nx-empty:\r\n\r\n",
    "sizes padded with blanks": SSE_HEAD + b"3  \r\none\r\n0  \r\n\r\n",
    "a line without a reason": b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
    "a binary download": b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
    b"Content-Length: 65536\r\n\r\n" + bytes(range(256)) * 256,
    "a request for a login": b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="a"\r\n'
    b"Content-Length: 2\r\n\r\nno",
    "a reset of content": b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "two fields of CORS": b"HTTP/1.1 200 OK\r\nVary: Origin\r\nvary: Accept\r\n"
    b"Content-Length: 0\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n",
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n",
    "proxy status": b"HTTP/1.1 200 OK\r\nProxy-Status: a; error=x\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_arrives_as_it_was_sent(name: str) -> None:
    answer = ANSWERS[name]
    bodyless = answer.startswith(b"HTTP/1.1 204")
    run(assert_same(post(), answer, bodyless=bodyless))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\n\r\n",
    ],
)
def test_an_answer_to_head_keeps_its_fields_and_has_no_body(answer: bytes) -> None:
    run(assert_same(b"HEAD /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", answer, bodyless=True))


def test_not_modified_keeps_its_length_and_has_no_body() -> None:
    answer = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\nContent-Length: 1234\r\n\r\n'
    run(assert_same(b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", answer, bodyless=True))


def test_a_body_that_ends_with_its_connection_stays_one() -> None:
    """No length is made up and no chunks are: the framing a client sees is the upstream's."""

    async def test() -> None:
        answer = b"HTTP/1.1 200 OK\r\nX: 1\r\nConnection: close\r\n\r\nuntil the end"
        async with answering(answer) as upstream, proxy(upstream.url) as teeline:
            _, through = await observe(upstream, teeline.port, post(), False)
        assert through.body == b"until the end"
        assert through.value(b"content-length") is None
        assert through.value(b"transfer-encoding") is None

    run(test())


def test_hop_by_hop_fields_end_here_and_nothing_takes_their_place() -> None:
    async def test() -> None:
        request = post(
            b"Connection: X-Mine, keep-alive, Content-Length",
            b"X-Mine: 1",
            b"Keep-Alive: timeout=5",
            b"TE: trailers",
            b"Proxy-Authorization: Basic c2VjcmV0",
            b"Upgrade: h2c",
        )
        answer = (
            b"HTTP/1.1 200 OK\r\nConnection: X-Theirs\r\nX-Theirs: 1\r\nKeep-Alive: timeout=5\r\n"
            b"Content-Length: 2\r\n\r\nok"
        )
        async with answering(answer) as upstream, proxy(upstream.url) as teeline:
            sent, received = await observe(upstream, teeline.port, request, False)
        assert sent.lines == [
            b"POST /v1/chat/completions HTTP/1.1",
            b"Host: 127.0.0.1:%d" % upstream.port,
            b"Content-Length: 2",
        ]
        assert received.lines == [b"HTTP/1.1 200 OK", b"Content-Length: 2"]

    run(test())


def test_host_names_the_upstream_in_the_place_and_case_it_had() -> None:
    async def test() -> None:
        request = b"GET /v1/models HTTP/1.1\r\nA: 1\r\nhOST: client.example\r\nB: 2\r\n\r\n"
        async with answering(OK) as upstream, proxy(upstream.url) as teeline:
            sent, _ = await observe(upstream, teeline.port, request, False)
        assert sent.lines[1:] == [b"A: 1", b"hOST: 127.0.0.1:%d" % upstream.port, b"B: 2"]

    run(test())


def test_events_arrive_one_by_one_before_the_upstream_sends_the_next() -> None:
    """The upstream sends an event only after the client has the one before: nothing is held back."""

    async def test() -> None:
        arrived = asyncio.Semaphore(0)
        events = [b'data: {"n":%d}\n\n' % number for number in range(50)]

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(SSE_HEAD)
            for event in events:
                await arrived.acquire()
                await wire.send(b"%x\r\n%b\r\n" % (len(event), event))
            await arrived.acquire()
            await wire.send(b"0\r\n\r\n")

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(post())
            await wire.read_head()
            for event in events:
                arrived.release()
                framed = b"%x\r\n%b\r\n" % (len(event), event)
                assert await wire.read(len(framed)) == framed
            arrived.release()
            assert await wire.read(5) == b"0\r\n\r\n"

    run(test())


def test_pieces_of_a_request_arrive_before_the_client_sends_the_next() -> None:
    async def test() -> None:
        received = asyncio.Semaphore(0)

        async def script(wire: Wire) -> None:
            await wire.read_head()
            for _ in range(20):
                await wire.read(10)
                received.release()
            await wire.send(OK)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 200\r\n\r\n")
            for _ in range(20):
                await wire.send(b"0123456789")
                await received.acquire()
            assert (await wire.read_message()).body == b"ok"

    run(test())


SIZE = 50 * 1000 * 1000
PIECE = b"x" * 50_000


class Flow:
    """How many bytes a sender got rid of; a receiver that does not read waits until that stands."""

    def __init__(self) -> None:
        self.sent = 0

    async def send(self, wire: Wire) -> None:
        for _ in range(SIZE // len(PIECE)):
            await wire.send(PIECE)
            self.sent += len(PIECE)

    async def stands(self) -> None:
        """Loopback moves bytes within a turn of the loop; many turns without any are a standstill."""
        before, turns = -1, 0
        while turns < 500:
            turns = turns + 1 if before == self.sent else 0
            before = self.sent
            await asyncio.sleep(0)


def test_fifty_megabytes_down_wait_for_a_slow_client_in_bounded_memory() -> None:
    """An upstream that is faster than its client is slowed down, not buffered."""
    flow = Flow()

    async def test() -> None:
        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
                b"Content-Length: %d\r\n\r\n" % SIZE
            )
            await flow.send(wire)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(b"GET /v1/files/1/content HTTP/1.1\r\nHost: h\r\n\r\n")
            await wire.read_head()
            await flow.stands()
            assert flow.sent < SIZE
            for _ in range(SIZE // len(PIECE)):
                assert await wire.read(len(PIECE)) == PIECE

    assert _peak(test) < 4_000_000


def test_fifty_megabytes_up_wait_for_a_slow_upstream_in_bounded_memory() -> None:
    flow = Flow()

    async def test() -> None:
        async def script(wire: Wire) -> None:
            await wire.read_head()
            await flow.stands()
            for _ in range(SIZE // len(PIECE)):
                assert await wire.read(len(PIECE)) == PIECE
            await wire.send(OK)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(
                b"POST /v1/files HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % SIZE
            )
            await flow.send(wire)
            assert (await wire.read_message()).body == b"ok"

    assert _peak(test) < 4_000_000


def _peak(test: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """The most memory that a test's objects take, in bytes; both peers' buffers count too."""
    tracemalloc.start()
    try:
        run(test())
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_hundred_streams_at_once_get_each_its_own_bytes() -> None:
    """All are open before the first gets its body, and none sees bytes of another."""

    async def test() -> None:
        everyone = asyncio.Barrier(100)

        async def script(wire: Wire) -> None:
            request = await wire.read_message()
            name = request.value(b"x-name") or b""
            await wire.send(SSE_HEAD)
            await everyone.wait()
            for number in range(10):
                event = b"data: %b %d\n\n" % (name, number)
                await wire.send(b"%x\r\n%b\r\n" % (len(event), event))
            await wire.send(b"0\r\n\r\n")

        async def stream(port: int, name: bytes) -> bytes:
            async with client(port) as wire:
                await wire.send(post(b"X-Name: " + name))
                return dechunked((await wire.read_message()).body)

        async with raw_upstream(script) as upstream, proxy(upstream.url) as teeline:
            names = [b"stream-%d" % number for number in range(100)]
            bodies = await asyncio.gather(*(stream(teeline.port, name) for name in names))
        for name, body in zip(names, bodies, strict=True):
            assert body == b"".join(b"data: %b %d\n\n" % (name, number) for number in range(10))

    run(test())
