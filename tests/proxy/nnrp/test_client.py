"""The client spreads operations over sessions, gives each exactly one end, and connects again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from teeline.proxy.nnrp.client import BusyError, ClientLimits, NnrpClient, UnavailableError
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.clientoperation import Cancelled, Dropped, Failed, Lost, Operation, Result
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    Message,
)
from teeline.validators.wire.nnrpcodes import (
    CancelReason,
    CloseReason,
    DropReason,
    ErrorCode,
    ErrorScope,
    SessionStatus,
)
from teeline.validators.wire.nnrplayout import (
    control_meta,
)
from tests.ports import free_port
from tests.proxy.nnrp.scripted import Peer, Script, Server, nnrp_server
from tests.proxy.raw import run

ENVELOPE = b'{"schema_version":"openai-compatible/1"}'


@asynccontextmanager
async def connected(script: Script, **limits: float) -> AsyncIterator[tuple[NnrpClient, Server]]:
    async with nnrp_server(script) as server:
        client = NnrpClient(Endpoint.parse(server.endpoint), limits=ClientLimits(**limits))  # type: ignore[arg-type]
        try:
            yield client, server
        finally:
            await client.close()


async def whole(operation: Operation) -> list[bytes]:
    """All events until the end."""
    events: list[bytes] = []
    while came := await operation.read():
        events += came
    return events


async def answering(peer: Peer) -> None:
    """Two events and an empty success to everything."""
    await peer.opened()
    while True:
        packet = await peer.packet()
        if packet.type == Message.SESSION_CLOSE:
            await peer.send(encode.session_close_ack(packet.session, 0))
        elif packet.type == Message.FRAME_SUBMIT:
            for n in (1, 2):
                event = b'{"n":%d}' % n
                await peer.send(encode.partial_result(1, packet.frame, packet.frame, n, event))
            await peer.send(encode.result_push(1, packet.frame, 200, None))


# -- one operation -------------------------------------------------------------------------------------


def test_events_come_in_order_and_then_the_end() -> None:
    async def test() -> None:
        async with connected(answering) as (client, _):
            operation = await client.submit(ENVELOPE)
            assert await whole(operation) == [b'{"n":1}', b'{"n":2}']
            assert operation.ending == Result(200, None)

    run(test())


def test_the_document_of_a_result_is_handed_on_as_its_bytes() -> None:
    document = b'{"type":"response.completed","body":{"n":12345678901234567890123}}'

    async def script(peer: Peer) -> None:
        await peer.opened()
        submit = await peer.submit()
        assert submit.raw == ENVELOPE
        await peer.result(submit, document)
        await peer.until_closed()

    async def test() -> None:
        async with connected(script) as (client, _):
            operation = await client.submit(ENVELOPE)
            assert await operation.read() == []
            assert operation.ending == Result(200, document)

    run(test())


def test_every_way_in_which_a_server_ends_an_operation_is_told_apart() -> None:
    async def script(peer: Peer) -> None:
        await peer.opened()
        one = await peer.submit()
        await peer.send(encode.retry_after(1, one.frame, one.id, 1, 250))
        dropped = encode.result_drop_reason(
            1, one.frame, one.id, 1, DropReason.BACKPRESSURE, b"full"
        )
        await peer.send(dropped)
        two = await peer.submit()
        await peer.send(
            encode.error(
                ErrorCode.FRAME_EXPIRED, ErrorScope.FRAME, 1, two.frame, b"late", fatal=False
            )
        )
        three = await peer.submit()
        body = bytearray(encode.result_push(1, three.frame, 200, b"{}"))
        body[40 + 64 + 12] ^= 1  # the payload length of the prelude
        await peer.send(bytes(body))
        four = await peer.submit()
        await peer.send(encode.partial_result(1, four.frame, four.id + 1, 1, b"{}"))
        assert (await peer.expect(Message.CANCEL)).frame == four.frame
        await peer.submit()
        await peer.send(encode.error(ErrorCode.INTERNAL, ErrorScope.SESSION, 1))

    async def test() -> None:
        async with connected(script) as (client, _):
            endings = []
            for _ in range(5):
                operation = await client.submit(ENVELOPE)
                assert await operation.read() == []
                endings.append((operation.ending, operation.retry_after_ms))
            assert endings[0] == (Dropped(4, b"full"), 250)
            assert endings[1] == (Failed(8, b"late"), 0)
            assert isinstance(endings[2][0], Lost) and endings[2][0].protocol
            assert isinstance(endings[3][0], Lost) and endings[3][0].protocol
            assert endings[4] == (Failed(12, b""), 0)

    run(test())


def test_a_cancel_is_sent_once_and_late_results_are_dropped() -> None:
    cancelled = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.opened()
        submit = await peer.submit()
        await peer.event(submit, 1, {})
        packet = await peer.expect(Message.CANCEL)
        assert control_meta(packet.meta)[:3] == (submit.id, 1, CancelReason.DEADLINE)
        await peer.event(submit, 2, {})
        await peer.result(submit, None)
        cancelled.set()
        later = await peer.submit()
        await peer.result(later, None)
        assert [p.type for p in await peer.until_closed()] == [Message.SESSION_CLOSE]

    async def test() -> None:
        async with connected(script) as (client, _):
            operation = await client.submit(ENVELOPE)
            await operation.read()
            operation.cancel(CancelReason.DEADLINE)
            operation.cancel(CancelReason.USER_CANCELLED)
            assert await operation.read() == []
            assert operation.ending == Cancelled(CancelReason.DEADLINE)
            await cancelled.wait()
            later = await client.submit(ENVELOPE)
            assert await later.read() == []
            assert later.ending == Result(200, None)

    run(test())


def test_bytes_that_are_no_packet_end_everything_on_that_connection_and_nothing_else() -> None:
    first = True

    async def script(peer: Peer) -> None:
        nonlocal first
        await peer.opened()
        if not first:
            await peer.result(await peer.submit(), None)
            await peer.until_closed()
            return
        first = False
        for _ in range(2):
            await peer.submit()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")

    async def test() -> None:
        async with connected(script, sessions=1) as (client, _):
            operations = [await client.submit(ENVELOPE) for _ in range(2)]
            for operation in operations:
                assert await operation.read() == []
                assert isinstance(operation.ending, Lost) and operation.ending.protocol
            again = await client.submit(ENVELOPE)
            assert await again.read() == [] and again.ending == Result(200, None)

    run(test())


def test_a_packet_above_the_limit_ends_its_operation_alone() -> None:
    async def script(peer: Peer) -> None:
        await peer.opened()
        one = await peer.submit()
        two = await peer.submit()
        await peer.event(one, 1, b'{"a":"' + bytes(5000).replace(b"\0", b"x") + b'"}')
        await peer.result(two, None)
        await peer.until_closed()

    async def test() -> None:
        async with connected(script, sessions=1, packet=4096) as (client, _):
            one, two = await client.submit(ENVELOPE), await client.submit(ENVELOPE)
            assert await one.read() == [] and isinstance(one.ending, Lost)
            assert await two.read() == [] and two.ending == Result(200, None)

    run(test())


def test_a_reader_that_is_slow_stops_the_server_and_gets_everything_in_the_end() -> None:
    """The server can't send on while nobody reads: what waits here and in the kernel is bounded."""
    event = b'{"a":"' + b"x" * 65536 + b'"}'
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.opened()
        submit = await peer.submit()
        for sent in range(1, 401):
            await peer.event(submit, sent, event)
        await peer.result(submit, None)
        await peer.until_closed()

    async def test() -> None:
        async with connected(script, packet=1 << 20) as (client, _):
            operation = await client.submit(ENVELOPE)
            while not operation.full:
                await asyncio.sleep(0)
            before = -1
            while sent != before:  # until the server stands
                before = sent
                await asyncio.sleep(0.05)
            assert sent < 400
            assert len(await whole(operation)) == 400

    run(test())


# -- sessions ------------------------------------------------------------------------------------------


def test_operations_are_spread_over_connections_before_they_share_one() -> None:
    async def script(peer: Peer) -> None:
        await peer.opened()
        await peer.until_closed()

    async def test() -> None:
        async with connected(script, sessions=2, in_flight=2) as (client, server):
            for connections in (1, 2, 2, 2):
                await client.submit(ENVELOPE)
                assert len(server.peers) == connections
            with pytest.raises(BusyError):
                await client.submit(ENVELOPE)

    run(test())


def test_a_server_that_grants_less_gets_less() -> None:
    async def script(peer: Peer) -> None:
        await peer.opened(in_flight=1)
        await peer.until_closed()

    async def test() -> None:
        async with connected(script, sessions=1, in_flight=8) as (client, _):
            await client.submit(ENVELOPE)
            with pytest.raises(BusyError):
                await client.submit(ENVELOPE)

    run(test())


def test_those_that_come_while_the_only_session_is_being_opened_share_it() -> None:
    async def test() -> None:
        async with connected(answering, sessions=1) as (client, server):
            operations = await asyncio.gather(*(client.submit(ENVELOPE) for _ in range(4)))
            for operation in operations:
                assert len(await whole(operation)) == 2
            assert len(server.peers) == 1

    run(test())


def test_an_idle_session_is_used_again_and_closed_when_it_stays_idle() -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.opened()
        for _ in range(2):
            await peer.result(await peer.submit(), None)
        assert [p.type for p in await peer.until_closed()] == [Message.SESSION_CLOSE]
        closed.set()

    async def test() -> None:
        async with connected(script, idle=0.01) as (client, server):
            for _ in range(2):
                operation = await client.submit(ENVELOPE)
                assert await operation.read() == []
            await closed.wait()
            assert len(server.peers) == 1

    run(test())


def test_a_lost_connection_is_replaced_and_what_was_open_on_it_is_told() -> None:
    connections = 0

    async def script(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        await peer.opened()
        submit = await peer.submit()
        if connections == 1:
            peer.reset()
            return
        await peer.result(submit, None)
        await peer.until_closed()

    async def test() -> None:
        async with connected(script) as (client, _):
            one = await client.submit(ENVELOPE)
            assert await one.read() == []
            assert isinstance(one.ending, Lost) and not one.ending.protocol
            two = await client.submit(ENVELOPE)
            assert await two.read() == [] and two.ending == Result(200, None)

    run(test())


def test_a_session_that_the_server_closes_takes_no_more_but_ends_what_it_has() -> None:
    connections = 0

    async def script(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        await peer.opened()
        submit = await peer.submit()
        if connections == 1:
            await peer.send(encode.session_close(1, submit.id, CloseReason.SERVER_SHUTDOWN))
            await peer.expect(Message.SESSION_CLOSE_ACK)
            await peer.event(submit, 1, {})
        await peer.result(submit, None)
        await peer.until_closed()

    async def test() -> None:
        async with connected(script, sessions=2) as (client, server):
            one = await client.submit(ENVELOPE)
            assert await one.read() == [b"{}"]
            two = await client.submit(ENVELOPE)
            assert len(server.peers) == 2
            assert await one.read() == [] and one.ending == Result(200, None)
            assert await two.read() == [] and two.ending == Result(200, None)

    run(test())


def test_it_waits_for_a_server_that_is_not_there_yet() -> None:
    async def test() -> None:
        port = free_port()
        client = NnrpClient(Endpoint.parse(f"nnrp://127.0.0.1:{port}"))
        waiting = asyncio.create_task(client.submit(ENVELOPE))
        await asyncio.sleep(0.02)
        async with nnrp_server(answering, port):
            assert len(await whole(await waiting)) == 2
            await client.close()

    run(test())


def test_a_server_that_never_comes_is_told_with_its_reason() -> None:
    async def test() -> None:
        port = free_port()
        limits = ClientLimits(connect=0.2)
        client = NnrpClient(Endpoint.parse(f"nnrp://127.0.0.1:{port}"), limits=limits)
        with pytest.raises(UnavailableError, match="Connect"):
            await client.submit(ENVELOPE)
        await client.close()

    run(test())


def refusing(status: SessionStatus) -> Script:
    async def script(peer: Peer) -> None:
        await peer.expect(Message.CLIENT_HELLO)
        await peer.send(encode.server_hello_ack(4))
        await peer.expect(Message.SESSION_OPEN)
        await peer.send(encode.session_refused(status, ErrorCode.AUTHENTICATION, b"\x1b[31m"))
        await peer.until_closed()

    return script


def test_a_refused_session_is_told_at_once_and_not_asked_for_again() -> None:
    async def test() -> None:
        async with connected(refusing(SessionStatus.REJECTED)) as (client, server):
            with pytest.raises(UnavailableError, match="refused the session") as caught:
                await client.submit(ENVELOPE)
            assert "\x1b" not in str(caught.value)
            assert len(server.peers) == 1

    run(test())


def test_a_session_that_is_put_off_is_asked_for_again_and_then_busy() -> None:
    async def test() -> None:
        async with connected(refusing(SessionStatus.RETRY_LATER), connect=0.3) as (client, server):
            with pytest.raises(BusyError):
                await client.submit(ENVELOPE)
            assert len(server.peers) > 1

    run(test())


def test_closing_cancels_what_is_open_and_closes_in_order() -> None:
    told: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.opened()
        await peer.submit()
        told.extend(p.type for p in await peer.until_closed())

    async def test() -> None:
        async with connected(script) as (client, _):
            operation = await client.submit(ENVELOPE)
            await client.close()
            assert operation.ending == Cancelled(CancelReason.SHUTDOWN)
            with pytest.raises(UnavailableError):
                await client.submit(ENVELOPE)
        assert told == [Message.CANCEL, Message.SESSION_CLOSE]

    run(test())


def test_a_close_that_is_repeated_is_acknowledged_once() -> None:
    async def script(peer: Peer) -> None:
        await peer.opened()
        submit = await peer.submit()
        await peer.send(encode.session_close(1, 0, CloseReason.NORMAL) * 1000)
        await peer.result(submit, None)
        packets = await peer.until_closed()
        assert [p.type for p in packets] == [Message.SESSION_CLOSE_ACK]

    async def test() -> None:
        async with connected(script) as (client, _):
            operation = await client.submit(ENVELOPE)
            assert await operation.read() == [] and operation.ending == Result(200, None)

    run(test())


def test_a_ping_is_answered() -> None:
    async def script(peer: Peer) -> None:
        await peer.opened()
        submit = await peer.submit()
        await peer.send(encode.ping(1))
        await peer.expect(Message.PONG)
        await peer.result(submit, None)
        await peer.until_closed()

    async def test() -> None:
        async with connected(script) as (client, _):
            operation = await client.submit(ENVELOPE)
            assert await operation.read() == [] and operation.ending == Result(200, None)

    run(test())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nnrp://h:1", "nnrp://h:1"),
        ("h:1", "nnrp://h:1"),
        ("tcp://h:1", "nnrp://h:1"),
        ("nnrps://h:1", "nnrps://h:1"),
        ("tls://[::1]:1", "nnrps://[::1]:1"),
        ("ws://h:1", "ws://h:1/nnrp"),
        ("wss://h:1/a/b?c", "wss://h:1/a/b?c"),
        ("unix:/run/s", "unix:/run/s"),
        ("unix:///run/s", "unix:/run/s"),
    ],
)
def test_endpoints_are_read_and_told(text: str, told: str) -> None:
    assert str(Endpoint.parse(text)) == told


@pytest.mark.parametrize("text", ["", "http://h:1", "nnrp://h", "unix:", "quic://h:1", "ws://h"])
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Endpoint.parse(text)
