"""A server answers what it can, ends each operation once, and gives up on what it can't read."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from teeline.proxy.nnrp.serverconnection import MAX_UNANSWERED
from teeline.proxy.nnrp.serverlimits import ServerLimits
from teeline.proxy.nnrp.serverreply import Reply
from teeline.proxy.nnrp.submit import Submit
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    Message,
    packed,
)
from teeline.validators.wire.nnrpcodes import (
    CancelReason,
    CloseReason,
    DropReason,
    ErrorCode,
    ErrorScope,
    InFlight,
    SessionStatus,
)
from teeline.validators.wire.nnrplayout import (
    control_meta,
    error_meta,
    open_ack_meta,
    result_meta,
)
from tests.proxy.nnrp.linked import (
    DOCUMENT,
    Server,
    Serves,
    document,
    error_of,
    forever,
    run,
)

# -- handshake ---------------------------------------------------------------------------------------


def test_a_handshake_opens_a_session_of_its_own_each() -> None:
    async def work() -> None:
        server = Server(greet=False, limits=ServerLimits(in_flight=7))
        hello, first, second = encode.client_hello(), encode.session_open(4), encode.session_open(9)
        whole = hello + first + second
        for n in range(len(whole)):
            server.says(whole[n : n + 1])
        kinds = [packet.type for packet in server.link.packets]
        assert kinds == [Message.SERVER_HELLO_ACK, *[Message.SESSION_OPEN_ACK] * 2]
        opened = [open_ack_meta(packet.meta) for packet in server.link.packets[1:]]
        assert [(o.session, o.granted) for o in opened] == [(1, 4), (2, 7)]
        server.connection.lost()

    run(work())


def test_sessions_are_bounded() -> None:
    async def work() -> None:
        server = Server(limits=ServerLimits(sessions=1))
        server.says(encode.session_open(4))
        (packet,) = server.link.packets
        assert packet.session == 0
        assert open_ack_meta(packet.meta).status == SessionStatus.RETRY_LATER

    run(work())


def test_a_session_of_another_profile_is_refused() -> None:
    async def work() -> None:
        server = Server()
        opening = bytearray(encode.session_open(4))
        opening[44:46] = b"\0\0"  # profile_id
        server.says(bytes(opening))
        (packet,) = server.link.packets
        assert packet.session == 0
        assert open_ack_meta(packet.meta).status == SessionStatus.REJECTED

    run(work())


def test_a_client_that_opens_no_session_in_time_is_sent_away() -> None:
    async def work() -> None:
        server = Server(greet=False, limits=ServerLimits(handshake=0.01))
        packet = await server.link.until(Message.ERROR)
        assert error_of(packet) == (ErrorCode.LIMIT, ErrorScope.CONNECTION)
        assert server.link.closed

    run(work())


UNREADABLE = {
    "garbage": b"GARBAGE!",
    "no hello": encode.session_open(4),
    "version": packed(Message.CLIENT_HELLO, bytes(64), b"", 0, 0, version=2),
    "wire format": packed(Message.CLIENT_HELLO, bytes(64), b"", 0, 0, wire_format=1),
    "no common version": packed(Message.CLIENT_HELLO, b"\x02\x03" + bytes(62), b"", 0, 0),
    "metadata": packed(Message.CLIENT_HELLO, bytes(63), b"", 0, 0),
    "type": packed(0x7F, b"", b"", 0, 0),
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_what_can_t_be_read_ends_the_connection_with_an_error(data: bytes) -> None:
    async def work() -> None:
        server = Server(greet=False)
        server.says(data)
        (packet,) = server.link.packets
        assert packet.type == Message.ERROR
        assert error_meta(packet.meta).scope == ErrorScope.CONNECTION
        assert server.link.closed
        server.says(encode.client_hello())
        assert len(server.link.packets) == 1

    run(work())


# -- operations --------------------------------------------------------------------------------------


def test_an_operation_is_answered_in_order_and_frees_its_place() -> None:
    async def work() -> None:
        server = Server()
        server.submit()
        partial = await server.link.until(Message.PARTIAL_RESULT)
        result = await server.link.until(Message.RESULT_PUSH)
        assert (partial.session, partial.frame) == (result.session, result.frame) == (1, 1)
        assert document(result) == json.loads(DOCUMENT)
        assert server.service.submits == [Submit(1, 1, 1001, b"{}")]
        await asyncio.sleep(0)
        assert server.room.open == 0
        server.submit()  # the ids are free again
        await server.link.until(Message.RESULT_PUSH)

    run(work())


def test_nothing_follows_the_end_of_an_operation() -> None:
    async def talkative(submit: Submit, reply: Reply) -> None:
        reply.end(None, 200)
        reply.end(DOCUMENT, 200)
        await reply.event(b"{}")
        reply.drop(DropReason.NONE, "")

    async def work() -> None:
        server = Server(Serves(talkative))
        server.submit()
        result = await server.link.until(Message.RESULT_PUSH)
        assert (result.body, result_meta(result.meta).frames) == (b"", 0)
        await asyncio.sleep(0)
        assert server.link.packets == []

    run(work())


@pytest.mark.parametrize("fails", [True, False])
def test_a_service_that_fails_or_forgets_is_an_error_of_the_operation(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(submit: Submit, reply: Reply) -> None:
        if fails:
            raise RuntimeError("a bug")

    async def work() -> None:
        server = Server(Serves(broken))
        server.submit()
        result = await server.link.until(Message.RESULT_PUSH)
        assert document(result)["error"]["code"] == "internal_error"
        assert ("an operation failed" in caplog.text) is fails
        assert server.room.open == 0

    run(work())


def test_a_slow_client_holds_its_operations_back() -> None:
    told = 0

    async def busy(submit: Submit, reply: Reply) -> None:
        nonlocal told
        for _ in range(100):
            await reply.event(b"{}")
            told += 1
        reply.end(None, 200)

    async def work() -> None:
        server = Server(Serves(busy))
        server.link.room.clear()
        server.submit()
        await server.link.until(Message.PARTIAL_RESULT)
        for _ in range(10):
            await asyncio.sleep(0)
        assert told == 0
        server.link.room.set()
        await server.link.until(Message.RESULT_PUSH)
        assert told == 100

    run(work())


def test_large_ends_wait_for_a_slow_client_one_by_one() -> None:
    async def whole(submit: Submit, reply: Reply) -> None:
        await reply.complete(DOCUMENT)

    async def work() -> None:
        server = Server(Serves(whole))
        server.link.room.clear()
        for frame in (1, 2):
            server.submit(frame, 1000 + frame)
        for _ in range(10):
            await asyncio.sleep(0)
        assert server.link.packets == []
        server.link.room.set()
        await server.link.until(Message.RESULT_PUSH)
        await server.link.until(Message.RESULT_PUSH)

    run(work())


def test_a_client_that_reads_nothing_is_left() -> None:
    async def busy(submit: Submit, reply: Reply) -> None:
        await reply.event(b"{}")

    async def work() -> None:
        server = Server(Serves(busy), ServerLimits(patience=0.01))
        server.link.room.clear()
        server.submit()
        while not server.link.aborted:
            await asyncio.sleep(0.001)
        server.connection.lost()

    run(work())


def test_a_client_that_asks_and_reads_no_answer_is_left() -> None:
    async def work() -> None:
        server = Server()
        server.says(*[encode.ping(1)] * (2 * MAX_UNANSWERED))
        assert not server.link.aborted
        server.link.room.clear()
        server.says(*[encode.ping(1)] * MAX_UNANSWERED)
        assert not server.link.aborted
        server.says(encode.ping(1))
        assert server.link.aborted

    run(work())


@pytest.mark.parametrize(("frame", "operation"), [(1, 1002), (2, 1001), (2, 0)])
def test_ids_of_open_operations_are_not_taken_twice(frame: int, operation: int) -> None:
    async def work() -> None:
        server = Server(Serves(forever))
        server.submit(1, 1001)
        server.submit(frame, operation)
        packet = await server.link.until(Message.ERROR)
        assert error_of(packet) == (ErrorCode.INVALID_STATE, ErrorScope.FRAME)
        server.connection.lost()

    run(work())


@pytest.mark.parametrize(
    "packet",
    [encode.frame_submit(9, 1, 1001, b"{}"), encode.frame_cancel(9, 1)],
    ids=["submit", "cancel"],
)
def test_a_session_that_was_never_opened_has_no_operations(packet: bytes) -> None:
    async def work() -> None:
        server = Server()
        server.says(packet)
        told = await server.link.until(Message.ERROR)
        assert error_of(told) == (ErrorCode.INVALID_STATE, ErrorScope.SESSION)
        assert server.service.submits == []

    run(work())


def test_a_broken_frame_is_no_matter_of_the_profile() -> None:
    async def work() -> None:
        server = Server()
        good = encode.frame_submit(1, 1, 1001, b"{}")
        raw = packed(Message.FRAME_SUBMIT, good[40:112], b'{"bare":"json"}', 1, 1)
        server.says(raw)
        packet = await server.link.until(Message.ERROR)
        assert error_of(packet) == (ErrorCode.MALFORMED_BODY, ErrorScope.FRAME)
        assert server.service.submits == []

    run(work())


def test_a_request_beyond_the_bound_is_refused_before_it_is_there() -> None:
    async def work() -> None:
        server = Server(limits=ServerLimits(body=1000))
        whole = encode.frame_submit(1, 1, 1001, b" " * 2000)
        server.says(whole[:40])
        result = await server.link.until(Message.RESULT_PUSH)
        assert document(result)["error"]["code"] == "request_too_large"
        server.says(whole[40:])
        server.submit(2, 1002)
        assert (await server.link.until(Message.RESULT_PUSH)).frame == 2

    run(work())


@pytest.mark.parametrize("limits", [ServerLimits(in_flight=1), ServerLimits(operations=1)])
def test_beyond_the_bound_of_open_operations_a_client_is_told_to_wait(limits: ServerLimits) -> None:
    async def work() -> None:
        server = Server(Serves(forever), limits)
        server.submit(1, 1001)
        server.submit(2, 1002)
        assert [packet.type for packet in server.link.packets] == [
            Message.RETRY_AFTER,
            Message.RESULT_PUSH,
        ]
        assert document(server.link.packets[1])["error"]["code"] == "overloaded"
        server.connection.lost()

    run(work())


# -- cancelling and ends -----------------------------------------------------------------------------

CANCELS = {
    "CANCEL": encode.cancel(1, 1, 1001, 1, CancelReason.USER_CANCELLED),
    "FRAME_CANCEL": encode.frame_cancel(1, 1),
    "CANCEL of all": encode.cancel(1, 0, 0, 1, CancelReason.USER_CANCELLED),
}


@pytest.mark.parametrize("cancel", CANCELS.values(), ids=CANCELS)
def test_a_cancel_ends_the_work_and_says_so(cancel: bytes) -> None:
    async def work() -> None:
        server = Server(Serves(forever))
        server.submit()
        await asyncio.sleep(0)
        server.says(cancel, cancel)
        result = await server.link.until(Message.RESULT_PUSH)
        assert document(result)["type"] == "response.cancelled"
        assert result_meta(result.meta).status == 499
        assert server.service.cancelled == 1
        server.says(cancel)
        await asyncio.sleep(0)
        assert server.link.packets == []

    run(work())


def test_an_operation_that_is_cancelled_before_it_began_ends_all_the_same() -> None:
    async def work() -> None:
        server = Server(Serves(forever))
        server.submit()
        server.says(CANCELS["CANCEL"])
        assert (
            document(await server.link.until(Message.RESULT_PUSH))["type"] == "response.cancelled"
        )
        assert server.room.open == 0

    run(work())


def test_an_abort_is_answered_with_a_drop() -> None:
    async def work() -> None:
        server = Server(Serves(forever))
        server.submit()
        server.says(encode.abort(1, 1, 1001, 1, CancelReason.USER_CANCELLED, b"stop"))
        packet = await server.link.until(Message.RESULT_DROP_REASON)
        assert control_meta(packet.meta).reason == DropReason.PEER_CANCELLED

    run(work())


@pytest.mark.parametrize("how", ["lost", "close"])
def test_a_client_that_is_gone_has_no_operations(how: str) -> None:
    async def work() -> None:
        server = Server(Serves(forever))
        server.submit()
        await asyncio.sleep(0)
        if how == "lost":
            server.connection.lost()
        else:
            server.says(encode.close())
        while server.room.open:
            await asyncio.sleep(0)
        assert server.service.cancelled == 1
        assert server.link.packets == []

    run(work())


@pytest.mark.parametrize("policy", InFlight)
def test_a_session_is_closed_once_its_operations_are_over(policy: InFlight) -> None:
    async def work() -> None:
        over = asyncio.Event()

        async def until_over(submit: Submit, reply: Reply) -> None:
            await over.wait()
            reply.end(None, 200)

        server = Server(Serves(until_over))
        server.submit()
        await asyncio.sleep(0)
        server.says(encode.session_close(1, 1001, CloseReason.NORMAL, policy))
        assert server.link.packets == []
        if policy is InFlight.DRAIN:
            over.set()
        await server.link.until(
            Message.RESULT_PUSH if policy is InFlight.DRAIN else Message.RESULT_DROP_REASON
        )
        await server.link.until(Message.SESSION_CLOSE_ACK)
        server.submit(2, 1002)
        assert error_of(await server.link.until(Message.ERROR))[0] is ErrorCode.INVALID_STATE

    run(work())


def test_a_shutdown_waits_for_operations_and_gives_the_others_up() -> None:
    async def work() -> None:
        over = asyncio.Event()

        async def first_ends(submit: Submit, reply: Reply) -> None:
            await over.wait() if submit.frame == 1 else await forever(submit, reply)
            reply.end(None, 200)

        server = Server(Serves(first_ends))
        server.submit(1, 1001)
        server.submit(2, 1002)
        await asyncio.sleep(0)
        over.set()
        await server.connection.shut_down(0.05)
        assert [(p.type, p.frame) for p in server.link.packets] == [
            (Message.RESULT_PUSH, 1),
            (Message.RESULT_DROP_REASON, 2),
            (Message.CLOSE, 0),
        ]
        assert server.link.closed

    run(work())


def test_a_ping_is_answered_and_what_is_not_served_is_said() -> None:
    async def work() -> None:
        server = Server()
        server.says(encode.ping(1), packed(Message.SESSION_PATCH, bytes(36), b"", 1, 0))
        server.says(packed(Message.FLOW_UPDATE, bytes(32), b"", 1, 0))
        pong, error = server.link.packets
        assert (pong.type, pong.session) == (Message.PONG, 1)
        assert error_of(error) == (ErrorCode.UNSUPPORTED_CAPABILITY, ErrorScope.SESSION)

    run(work())


# -- hostile clients -----------------------------------------------------------------------------------

TALK = (
    encode.client_hello(),
    encode.session_open(4),
    encode.frame_submit(1, 1, 1001, b'{"a":1}'),
    encode.frame_submit(1, 2, 1002, b"{}"),
    encode.cancel(1, 1, 1001, 1, CancelReason.USER_CANCELLED),
    encode.frame_cancel(1, 2),
    encode.ping(1),
    encode.session_close(1, 1002, CloseReason.NORMAL),
    encode.close(),
)


def hostile(source: random.Random) -> bytes:
    """A client's bytes, some of them changed, repeated, or in another order."""
    packets = [bytearray(packet) for packet in TALK]
    for _ in range(source.randrange(3)):
        packets.insert(source.randrange(len(packets)), bytearray(source.choice(TALK)))
    for packet in source.choices(packets, k=source.randrange(4)):
        at = source.randrange(len(packet))
        packet[at] = source.randrange(256)
    return b"".join(packets)


def test_no_client_s_bytes_break_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever comes is answered or ended; what was begun is over when the client has gone."""

    async def work() -> None:
        source = random.Random(20)
        for _ in range(2000):
            server = Server(Serves(forever), ServerLimits(body=4096), greet=False)
            data = hostile(source)
            step = source.choice((1, 7, 40, len(data)))
            for at in range(0, len(data), step):
                server.says(data[at : at + step])
                await asyncio.sleep(0)
            server.connection.lost()
            while server.room.open:
                await asyncio.sleep(0)
        assert caplog.records == []

    run(work())


def test_a_packet_beyond_the_bound_other_than_a_request_ends_the_connection() -> None:
    async def work() -> None:
        server = Server(limits=ServerLimits(body=1000), greet=False)
        server.says(packed(Message.CLIENT_HELLO, bytes(64), b"", 0, 0, body_len=2000))
        (packet,) = server.link.packets
        assert error_of(packet) == (ErrorCode.LIMIT, ErrorScope.CONNECTION)

    run(work())
