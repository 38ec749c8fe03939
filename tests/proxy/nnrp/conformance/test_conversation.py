"""A session with a server under test sees what comes, however odd, and always has an end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from teeline.proxy.nnrp.conformance.conversation import Conversation
from teeline.proxy.nnrp.observed import Observed
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import Message, packed
from teeline.validators.wire.nnrpcodes import DropReason, ErrorCode, ErrorScope

EVENT = b'{"type":"response.output_text.delta","index":0,"delta":"a"}'
COMPLETED = b'{"type":"response.completed","body":{}}'
CANCELLED = b'{"type":"response.cancelled","reason":"r"}'
ERROR = b'{"type":"response.error","error":{}}'


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


class FakeLink:
    """A link to nobody: the server's bytes are told by the test."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    @property
    def congested(self) -> bool:
        return False

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._conversation.lost()

    async def released(self) -> None: ...


def opened() -> tuple[Conversation, FakeLink]:
    """A conversation in session 1."""
    conversation = Conversation()
    link = FakeLink(conversation)
    conversation._link, conversation._session = link, 1
    return conversation, link


async def hearing(*packets: bytes, cancel_after: int | None = None) -> Observed:
    """What is observed of an operation that is answered with these packets."""
    conversation, _ = opened()
    running = asyncio.create_task(conversation.run(b"{}", cancel_after=cancel_after, timeout=0.05))
    await asyncio.sleep(0)
    for packet in packets:
        conversation.received(packet)
    return await running


def partial(body: bytes = EVENT, frame: int = 1) -> bytes:
    return encode.partial_result(1, frame, 1001, 1, body)


def result(document: bytes | None) -> bytes:
    return encode.result_push(1, 1, 200, document)


ENDS: dict[str, tuple[bytes, str, list[str]]] = {
    "completed": (result(COMPLETED), "success", []),
    "empty": (result(None), "success", []),
    "bare prelude": (packed(Message.RESULT_PUSH, bytes(64), bytes(32), 1, 1), "success", []),
    "cancelled": (result(CANCELLED), "cancelled", []),
    "error": (result(ERROR), "error", []),
    "an unknown type": (result(b'{"type":["x"]}'), "error", []),
    "no object": (result(b"[]"), "error", ["RESULT_PUSH holds no JSON object"]),
    "bare JSON": (
        packed(Message.RESULT_PUSH, bytes(64), COMPLETED, 1, 1),
        "error",
        ["RESULT_PUSH holds no JSON object"],
    ),
    "a drop for a cancel": (
        encode.result_drop_reason(1, 1, 1001, 2, DropReason.PEER_CANCELLED),
        "cancelled",
        ["dropped: peer_cancelled"],
    ),
    "a drop": (
        encode.result_drop_reason(1, 1, 1001, 2, DropReason.DEADLINE),
        "error",
        ["dropped: deadline"],
    ),
    "the legacy drop": (
        packed(Message.RESULT_DROP, b"", b"", 1, 1),
        "error",
        ["dropped: no reason"],
    ),
    "an error about it": (
        encode.error(ErrorCode.MALFORMED_BODY, ErrorScope.FRAME, 1, 1, fatal=False),
        "error",
        ["ERROR: malformed_body"],
    ),
    "an error about all": (
        encode.error(ErrorCode.INTERNAL, ErrorScope.CONNECTION),
        "error",
        ["ERROR: internal"],
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_end_is_told_for_what_it_is(name: str) -> None:
    packet, terminal, notes = ENDS[name]

    async def work() -> None:
        observed = await hearing(partial(), packet)
        assert (observed.terminal, observed.notes) == (terminal, notes)
        assert observed.events[0]["delta"] == "a"
        assert observed.end

    run(work())


def test_an_operation_without_an_end_says_so() -> None:
    async def work() -> None:
        observed = await hearing(partial(), partial(frame=7))
        assert (observed.end, observed.notes) == ("", ["no end came in time"])
        assert len(observed.events) == 1

    run(work())


def test_an_event_that_is_no_object_is_noted() -> None:
    async def work() -> None:
        observed = await hearing(partial(b"data: {}"), result(None))
        assert observed.notes == ["a PARTIAL_RESULT holds no JSON object"]

    run(work())


def test_a_cancel_goes_out_once_after_so_many_events() -> None:
    async def work() -> None:
        conversation, link = opened()
        running = asyncio.create_task(conversation.run(b"{}", cancel_after=2, timeout=5))
        await asyncio.sleep(0)
        before = len(link.sent)
        conversation.received(partial())
        assert len(link.sent) == before
        conversation.received(partial() + partial())
        sent = link.sent[before:]
        assert sent[6] == Message.CANCEL
        assert len(sent) == 40 + 32
        conversation.received(result(CANCELLED))
        assert (await running).terminal == "cancelled"

    run(work())


def test_a_connection_that_ends_first_ends_its_operations() -> None:
    async def work() -> None:
        conversation, _ = opened()
        running = asyncio.create_task(conversation.run(b"{}", timeout=5))
        await asyncio.sleep(0)
        conversation.lost()
        assert (await running).notes == ["the connection ended first"]

    run(work())


def test_no_server_s_bytes_break_it() -> None:
    talk = [partial(), *(packet for packet, _, _ in ENDS.values())]

    async def work() -> None:
        source = random.Random(21)
        for _ in range(2000):
            packets = [bytearray(source.choice(talk)) for _ in range(4)]
            for packet in source.choices(packets, k=2):
                packet[source.randrange(len(packet))] = source.randrange(256)
            conversation, _ = opened()
            running = asyncio.create_task(conversation.run(b"{}", timeout=5))
            await asyncio.sleep(0)
            conversation.received(b"".join(packets))
            conversation.lost()
            observed = await running
            assert observed.terminal in ("success", "error", "cancelled")

    run(work())


@pytest.mark.parametrize("number", [b"NaN", b"1e999"])
def test_a_number_that_is_none_is_no_json(number: bytes) -> None:
    async def work() -> None:
        odd = b'{"type":"response.completed","body":{"n":%s}}' % number
        observed = await hearing(partial(odd), result(odd))
        assert observed.events == []
        assert len(observed.notes) == 2

    run(work())
