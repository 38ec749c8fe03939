"""What forwarding costs on a connection that is kept, in calls of functions: see test_price.py, which
counts what observers do.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from teeline.config.model import UpstreamConfig, UpstreamURL
from teeline.proxy import pieces
from teeline.proxy.connection import ClientConnection, Clients
from teeline.proxy.forward import Forwarder
from teeline.proxy.observers import Observers
from teeline.proxy.upstream import Owner, Upstream, UpstreamConnection
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Ended
from tests.proxy.raw import run
from tests.proxy.test_price import calls

BODY = b'{"model":"m","messages":[]}'
ASKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 27\r\n\r\n" + BODY
ANSWERED = b"HTTP/1.1 200 OK\r\nx-request-id: req_%08d\r\nContent-Length: 2\r\n\r\n{}"
STREAMED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
CHUNK = b"a\r\ndata: {}\n\n\r\n"


class Unseen:
    """Observers, and the tee of every exchange: they keep the content, and cost one call each time."""

    received = 0

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.now = float

    def open(self, *of: Any) -> Unseen:
        return self

    def request_head(self, head: RequestHead, at: float) -> None: ...

    def request_body(self, data: bytes, at: float) -> None:
        self.seen.append(data)

    def request_end(self, at: float) -> None: ...

    def response_head(self, head: ResponseHead, at: float) -> None: ...

    def response_body(self, data: bytes, at: float) -> None:
        self.seen.append(data)

    def end(self, ended: Ended) -> None:
        self.seen.append(b"")


class Line(asyncio.Transport):
    """A transport that keeps what is written; ``used`` is set with that."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.used = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written.append(data)
        self.used.set()

    def is_closing(self) -> bool:
        return False


class Pair:
    """A client's connection and the one behind it, after a first exchange on them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tee = Unseen()
        upstream = Upstream(UpstreamConfig(UpstreamURL.parse("http://up/v1")))
        forwarder = Forwarder([upstream], cast(Observers, self.tee))
        clients = Clients(
            forwarder.begin, on_closed=lambda: None, head_limit=8192, head_timeout=None
        )
        self.client: ClientConnection = clients()
        self.front, self.back = Line(), Line()
        self.client.connection_made(self.front)

        async def connect(upstream: Upstream, owner: Owner) -> UpstreamConnection:
            self.behind = UpstreamConnection(owner)
            self.behind.connection_made(self.back)
            return self.behind

        monkeypatch.setattr(Upstream, "connect", connect)

    async def begin(self) -> None:
        """Passes answers until their form is known."""
        self.ask()
        await self.back.used.wait()
        self.answer(ANSWERED % 0)
        for number in (1, 2):
            self.ask()
            self.answer(ANSWERED % number)
        for kept in (self.front.written, self.back.written, self.tee.seen):
            kept.clear()

    def ask(self) -> None:
        pieces.BUFFER[: len(ASKED)] = ASKED
        self.client.buffer_updated(len(ASKED))

    def answer(self, piece: bytes) -> None:
        pieces.BUFFER[: len(piece)] = piece
        self.behind.buffer_updated(len(piece))


def test_a_json_exchange_is_twenty_eight_calls_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        pair = Pair(monkeypatch)
        await pair.begin()

        def exchanges() -> None:
            for number in range(50, 100):
                pair.ask()
                pair.answer(ANSWERED % number)

        # Beside seven of the tee, and six of the test and its transports.
        assert calls(exchanges) / 50 <= 41.1
        assert pair.back.written == [ASKED.replace(b"Host: h", b"Host: up")] * 50
        assert pair.front.written == [ANSWERED % number for number in range(50, 100)]
        assert pair.tee.seen == [BODY, b"{}", b""] * 50

    run(test())


def test_a_chunk_in_a_piece_is_three_calls_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        pair = Pair(monkeypatch)
        await pair.begin()
        pair.ask()
        pair.answer(STREAMED)
        pair.answer(CHUNK)

        def chunks() -> None:
            for _ in range(100):
                pair.answer(CHUNK)

        # Beside one of the tee, and three of the test and its transports.
        assert calls(chunks) / 100 <= 7.1
        assert pair.front.written == [STREAMED, *[CHUNK] * 101]
        assert pair.tee.seen == [BODY, *[CHUNK[3:-2]] * 101]

    run(test())
