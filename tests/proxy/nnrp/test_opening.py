"""The opening of a session with a server: what it offers, and what is said where it is none."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from teeline.proxy.nnrp.opening import Opening, OpeningError, open_once
from teeline.validators.model import Side
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import Message, Splitter, packed
from teeline.validators.wire.nnrpcodes import ErrorCode, SessionStatus
from tests.proxy.certs import Certificates

HELLO = encode.server_hello_ack(in_flight=3, max_body=4096)
ACK = encode.session_open_ack(5, in_flight=2)
CLOSED = encode.session_close_ack(5, 0)
REFUSED = encode.session_refused(SessionStatus.REJECTED, ErrorCode.LIMIT, b"\x1b[31mno room")
ANSWERS: dict[int, bytes] = {
    Message.CLIENT_HELLO: HELLO,
    Message.SESSION_OPEN: ACK,
    Message.SESSION_CLOSE: CLOSED,
}


class Server:
    """Answers each message of a client with given bytes, and closes at an empty answer.

    ``heard`` are the messages that came, ``gone`` is set once a client is.
    """

    def __init__(self, answers: dict[int, bytes]) -> None:
        self._answers = answers
        self.heard: list[int] = []
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = Splitter(1 << 16)
        try:
            while data := await reader.read(1 << 16):
                for packet in splitter.feed(data):
                    self.heard.append(packet.type)
                    answer = self._answers.get(packet.type)
                    if answer == b"":
                        return
                    writer.write(answer or b"")
        except ConnectionResetError:
            pass  # the client leaves at what it can't read
        finally:
            writer.close()
            await asyncio.sleep(0)
            self.gone.set()


def opened(
    answers: dict[int, bytes], heard: list[int] | None = None, timeout: float = 5.0
) -> Opening:
    async def work() -> Opening:
        peer = Server(answers)
        async with await asyncio.start_server(peer.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            try:
                return await open_once(f"nnrp://127.0.0.1:{port}", None, timeout)
            finally:
                await peer.gone.wait()
                if heard is not None:
                    heard.extend(peer.heard)

    return asyncio.run(work())


def test_what_a_server_offers_is_read_and_the_session_is_closed() -> None:
    heard: list[int] = []
    opening = opened(ANSWERS, heard)
    assert (opening.hello.version, opening.hello.wire_format, opening.hello.max_body) == (
        1,
        0,
        4096,
    )
    assert (opening.hello.frames, "structured event" in opening.hello.kinds) == (3, True)
    assert (opening.session.session, opening.session.granted, opening.session.most) == (5, 2, 2)
    assert (opening.session.profile, opening.session.schema) == (2, 0x1001)
    assert heard == [Message.CLIENT_HELLO, Message.SESSION_OPEN, Message.SESSION_CLOSE]


def test_the_bytes_of_both_sides_are_kept_in_their_order() -> None:
    passed = opened(ANSWERS).passed
    ours = b"".join(data for side, data in passed if side is Side.REQUEST)
    theirs = b"".join(data for side, data in passed if side is Side.RESPONSE)
    assert theirs == HELLO + ACK + CLOSED
    assert [packet.type for packet in Splitter(1 << 16).feed(ours)] == list(ANSWERS)


def test_a_refusal_is_an_answer_and_its_words_are_the_server_s() -> None:
    opening = opened({**ANSWERS, Message.SESSION_OPEN: REFUSED})
    assert (opening.session.session, opening.session.status) == (0, SessionStatus.REJECTED)
    assert opening.refusal == "\x1b[31mno room"


def test_other_messages_before_the_answer_are_passed_over() -> None:
    progress = packed(Message.PROGRESS, bytes(32), b"", 0, 0)
    assert opened({**ANSWERS, Message.CLIENT_HELLO: progress * 3 + HELLO}).hello.frames == 3


def test_a_server_that_does_not_answer_session_close_has_offered_all_the_same() -> None:
    assert opened({**ANSWERS, Message.SESSION_CLOSE: b""}).session.session == 5


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak NNRP"),
        (b"\0" * 100, "does not speak NNRP"),
        (b"", "closed before SERVER_HELLO_ACK"),
        (packed(Message.ERROR, bytes(32), b"", 0, 0), "but message 6"),
        (packed(Message.SERVER_HELLO_ACK, bytes(8), b"", 0, 0), "can be read, but message 2"),
        (packed(Message.PROGRESS, bytes(32), b"", 0, 0) * 100, "can be read, but message 55"),
        (packed(Message.SERVER_HELLO_ACK, bytes(80), bytes(70_000), 0, 0), "can be read"),
    ],
    ids=["http", "zeros", "end", "error", "short", "other", "too-long"],
)
def test_what_is_no_answer_is_said_in_one_line(answer: bytes, words: str) -> None:
    with pytest.raises(OpeningError, match=words) as told:
        opened({Message.CLIENT_HELLO: answer})
    assert str(told.value).isprintable()


def test_a_server_that_says_nothing_is_given_up() -> None:
    with pytest.raises(OpeningError, match=r"no answer within 0\.05 s"):
        opened({}, timeout=0.05)


def test_a_server_that_is_not_there_is_said_in_one_line() -> None:
    for url in ("nnrp://127.0.0.1:9", "ws://127.0.0.1:9/nnrp", "unix:/nonexistent/nnrp"):
        with pytest.raises(OpeningError, match="no connection"):
            asyncio.run(open_once(url, None, 5.0))


@pytest.mark.parametrize("url", ["nnrp://", "ws:///nnrp", "quic://host:1", "unix:"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        asyncio.run(open_once(url, None, 5.0))


def test_tls_unix_sockets_and_websockets_are_opened_as_well(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    theirs = certificates.server(certificates.issue("localhost"))

    async def socket(request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        async for message in answer:
            packet = Splitter(1 << 16).feed(message.data)[0]
            await answer.send_bytes(ANSWERS[packet.type])
        return answer

    async def work() -> list[Opening]:
        path = str(tmp_path / "nnrp")
        plain_peer, secured_peer = Server(ANSWERS), Server(ANSWERS)
        unix = await asyncio.start_unix_server(plain_peer.serve, path)
        tls = await asyncio.start_server(secured_peer.serve, "127.0.0.1", 0, ssl=theirs)
        app = web.Application()
        app.router.add_get("/nnrp", socket)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        secured, plain = (s.sockets[0].getsockname()[1] for s in (tls, site._server))  # type: ignore[union-attr]
        context: ssl.SSLContext = certificates.client()
        found = [
            await open_once(f"unix:{path}", None, 5.0),
            await open_once(f"nnrps://localhost:{secured}", context, 5.0),
            await open_once(f"ws://127.0.0.1:{plain}/nnrp", None, 5.0),
        ]
        await runner.cleanup()
        await plain_peer.gone.wait()
        await secured_peer.gone.wait()
        unix.close()
        tls.close()
        return found

    found: list[Any] = asyncio.run(work())
    assert [opening.session.session for opening in found] == [5, 5, 5]
