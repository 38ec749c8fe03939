"""A session believes its server in nothing: what no test of the whole client can bring about."""

from __future__ import annotations

import random
from typing import Any

import pytest

from teeline.proxy.nnrp import clientsession
from teeline.proxy.nnrp.clientlink import Endpoint, Receiver
from teeline.proxy.nnrp.clientoperation import Operation
from teeline.proxy.nnrp.clientsession import ClientSession
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import Message, Splitter, packed
from tests.proxy.raw import run
from tests.validators.wire.test_nnrpencode import everything


class Link:
    """A link that keeps what is written and does nothing."""

    def __init__(self) -> None:
        self.congested = False
        self.written = bytearray()
        self.paused = self.over = False

    @property
    def types(self) -> list[int]:
        return [packet.type for packet in Splitter(1 << 20).feed(bytes(self.written))]

    def write(self, data: bytes) -> None:
        self.written += data

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.over = True

    def abort(self) -> None:
        self.over = True


async def opened(monkeypatch: pytest.MonkeyPatch) -> tuple[ClientSession, Link]:
    """A session whose server has answered the handshake before it was asked."""
    link = Link()

    async def connect(self: Any, receiver: Receiver, context: Any, max_packet: int) -> Link:
        receiver.received(encode.server_hello_ack(4) + encode.session_open_ack(1, 4))
        return link

    monkeypatch.setattr(Endpoint, "connect", connect)
    session = await ClientSession.open(
        Endpoint.parse("h:1"), None, in_flight=4, max_packet=1 << 16, changed=lambda _: None
    )
    return session, link


def test_pings_are_not_answered_to_a_server_that_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        session, link = await opened(monkeypatch)
        link.congested = True
        session.received(encode.ping(1))
        assert (Message.PONG in link.types, session.free) == (False, 0)
        link.congested = False
        session.received(encode.ping(1))
        assert (Message.PONG in link.types, session.free) == (True, 4)

    run(test())


def test_frames_of_another_session_are_nobody_s(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        session, _ = await opened(monkeypatch)
        operation = session.submit(b"{}")
        session.received(encode.partial_result(2, 1, 1, 1, b"{}"))
        session.received(encode.result_push(2, 1, 200, None))
        assert operation.ending is None and not operation.waiting

    run(test())


def test_no_bytes_of_a_server_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every packet there is, cut, changed and in any order: each operation ends at most once."""
    chance = random.Random(7)
    packets = [*everything(), *(packed(kind, b"", b"", 1, 1) for kind in range(256))]

    async def test() -> None:
        for _ in range(300):
            session, _link = await opened(monkeypatch)
            operations: list[Operation] = [session.submit(b"{}") for _ in range(2)]
            for _ in range(20):
                data = bytearray(chance.choice(packets))
                data[20:28] = b"\1\0\0\0" + bytes([chance.randrange(3), 0, 0, 0])
                if chance.random() < 0.3:
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                session.received(bytes(data))
                if session.free and chance.random() < 0.2:
                    operations.append(session.submit(b"{}"))
            session.lost()
            assert all(operation.ending is not None for operation in operations)
            assert session.over and not session.free and session.ending

    run(test())


@pytest.mark.parametrize(
    ("body", "frames", "bitmap"),
    [
        (b"", 1, 16),
        (bytes(32), 1, 16),
        (b"{}", 1, 16),
        (encode.typed_body(b"{}"), 0, 0),
        (encode.typed_body(b"{}"), 2, 16),
        (encode.typed_body(b"{}")[:-1], 1, 16),
        (encode.typed_body(b"{}") + b"x", 1, 16),
        (encode.typed_body(b""), 1, 16),
    ],
)
def test_a_result_that_is_not_what_it_says_has_no_document(
    body: bytes, frames: int, bitmap: int
) -> None:
    assert clientsession._document(body, frames, bitmap) is None
