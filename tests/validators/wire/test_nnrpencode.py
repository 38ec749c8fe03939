"""What is built is byte for byte what the native SDK sends, and reads back as what it was built from."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange, Side
from teeline.validators.nnrp.inspector import NnrpInspector
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    METADATA_LENGTHS,
    Message,
    Packet,
    Splitter,
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
    error_meta,
    open_ack_meta,
    open_meta,
    partial_meta,
    payload_start,
    prelude_of,
    result_meta,
    submit_meta,
)

CAPTURES = Path(__file__).parents[2] / "cases" / "nnrp"


def captured(side: str) -> list[tuple[Packet, bytes]]:
    data = (CAPTURES / f"capture_{side}.bin").read_bytes()
    return [(p, data[p.offset : p.offset + p.size]) for p in Splitter(1 << 24).feed(data)]


def of_type(side: str, kind: Message) -> list[tuple[Packet, bytes]]:
    return [(packet, data) for packet, data in captured(side) if packet.type == kind]


def only(data: bytes) -> Packet:
    (packet,) = Splitter(1 << 24).feed(data)
    return packet


def document(packet: Packet) -> bytes:
    prelude = prelude_of(packet.body)
    assert prelude is not None
    return packet.body[payload_start(prelude) :]


# -- against what the SDK sent -------------------------------------------------------------------------


def test_the_opening_and_the_close_are_those_of_the_sdk() -> None:
    built = {
        ("c2s", Message.CLIENT_HELLO): encode.client_hello(),
        ("c2s", Message.SESSION_OPEN): encode.session_open(4),
        ("c2s", Message.SESSION_CLOSE): encode.session_close(1, 1016, CloseReason.CLIENT_SHUTDOWN),
        ("s2c", Message.SERVER_HELLO_ACK): encode.server_hello_ack(4),
        ("s2c", Message.SESSION_CLOSE_ACK): encode.session_close_ack(1, 1016),
    }
    for (side, kind), data in built.items():
        assert [raw for _, raw in of_type(side, kind)] == [data], kind.name


def test_a_session_is_granted_as_the_sdk_grants_it_but_with_one_number() -> None:
    """A native server grants 2 of 4 operations; what is built grants what it allows."""
    ((packet, _),) = of_type("s2c", Message.SESSION_OPEN_ACK)
    ours = only(encode.session_open_ack(1, 4))
    assert packet.meta[:16] == ours.meta[:16] and packet.meta[18:] == ours.meta[18:]
    assert open_ack_meta(ours.meta) == open_ack_meta(packet.meta)


def test_submits_are_those_of_the_sdk() -> None:
    submits = of_type("c2s", Message.FRAME_SUBMIT)
    assert len(submits) >= 15
    for packet, data in submits:
        operation = submit_meta(packet.meta).operation
        built = encode.frame_submit(packet.session, packet.frame, operation, document(packet))
        assert built == data


def test_events_are_those_of_the_sdk() -> None:
    events = of_type("s2c", Message.PARTIAL_RESULT)
    assert len(events) >= 20
    for packet, data in events:
        meta = partial_meta(packet.meta)
        built = encode.partial_result(
            packet.session, packet.frame, meta.operation, meta.sequence, packet.body
        )
        assert built == data


def test_results_are_those_of_the_sdk() -> None:
    """Frame 9 of the capture is wrong on purpose, frame 7 has the longer form of an empty success."""
    for packet, data in of_type("s2c", Message.RESULT_PUSH):
        if packet.frame in (7, 9):
            continue
        held = document(packet) if packet.body else None
        status = result_meta(packet.meta).status
        assert encode.result_push(packet.session, packet.frame, status, held) == data


def test_cancels_and_drops_are_those_of_the_sdk() -> None:
    for packet, data in [*of_type("c2s", Message.CANCEL), *of_type("c2s", Message.ABORT)]:
        meta = control_meta(packet.meta)
        named = (packet.session, packet.frame, meta.operation, meta.sequence)
        reason = CancelReason(meta.reason)
        if packet.type == Message.CANCEL:
            assert encode.cancel(*named, reason) == data
        else:
            assert encode.abort(*named, reason, packet.body) == data
    for packet, data in of_type("c2s", Message.FRAME_CANCEL):
        assert encode.frame_cancel(packet.session, packet.frame) == data
    drops = of_type("s2c", Message.RESULT_DROP_REASON)
    assert drops
    for packet, _ in drops:
        meta = control_meta(packet.meta)
        named = (packet.session, packet.frame, meta.operation, meta.sequence)
        built = only(encode.result_drop_reason(*named, DropReason(meta.reason), packet.body))
        assert control_meta(built.meta) == meta and built.body == packet.body


# -- against the decoder -------------------------------------------------------------------------------


def everything() -> Iterable[bytes]:
    yield encode.client_hello()
    yield encode.server_hello_ack(8, 1 << 20)
    yield encode.session_open(8)
    yield encode.session_open_ack(3, 8)
    yield encode.session_refused(SessionStatus.RETRY_LATER, ErrorCode.SERVER_BUSY, b"full")
    yield encode.session_close(3, 9, CloseReason.SERVER_SHUTDOWN)
    yield encode.session_close_ack(3, 9)
    yield encode.ping(3)
    yield encode.pong(3)
    yield encode.frame_submit(3, 1, 9, b"{}")
    yield encode.partial_result(3, 1, 9, 1, b"{}", final=True)
    yield encode.result_push(3, 1, 200, b"{}", queue_ms=70_000)
    yield encode.result_push(3, 1, 200, None)
    yield encode.frame_cancel(3, 1)
    yield encode.cancel(3, 1, 9, 1, CancelReason.DEADLINE)
    yield encode.abort(3, 1, 9, 2, CancelReason.SHUTDOWN, b"stop")
    yield encode.result_drop_reason(3, 1, 9, 2, DropReason.BACKPRESSURE, b"full")
    yield encode.retry_after(3, 1, 9, 1, 250, b"wait")
    yield encode.error(ErrorCode.INTERNAL, ErrorScope.SESSION, 3, diagnostic=b"broken")


def test_all_packets_have_the_metadata_length_of_their_type_and_name_what_follows() -> None:
    packets = Splitter(1 << 24).feed(b"".join(everything()))
    assert len(packets) == sum(1 for _ in everything())
    for packet in packets:
        assert len(packet.meta) == METADATA_LENGTHS[packet.type], Message(packet.type).name
        assert (packet.version, packet.wire_format, packet.flags) == (1, 0, 0)


def test_a_close_of_the_connection_is_a_bare_header() -> None:
    packet = only(encode.close())
    assert (packet.type, packet.meta, packet.body) == (Message.CLOSE, b"", b"")


def test_values_read_back_as_they_were_given() -> None:
    big = 2**64 - 1
    submit = only(encode.frame_submit(2**32 - 1, 2**32 - 1, big, b'{"a":1}'))
    assert (submit.session, submit.frame) == (2**32 - 1, 2**32 - 1)
    assert submit_meta(submit.meta).operation == big
    assert document(submit) == b'{"a":1}'
    refused = only(encode.session_refused(SessionStatus.REJECTED, ErrorCode.AUTHENTICATION, b"no"))
    meta = open_ack_meta(refused.meta)
    assert (meta.session, meta.status, meta.error) == (0, 1, 2)
    assert refused.body == b"no"
    assert open_meta(only(encode.session_open(7)).meta).profile == 2
    failed = error_meta(
        only(
            encode.error(ErrorCode.SERVER_BUSY, ErrorScope.FRAME, 3, 4, b"full", retry_after_ms=5)
        ).meta
    )
    assert failed == (11, 2, 5, 3, 4)
    push = result_meta(only(encode.result_push(1, 1, 503, b"{}", queue_ms=70_000)).meta)
    assert (push.status, push.queue_ms, push.frames, push.bitmap) == (503, 65535, 1, 16)
    empty = only(encode.result_push(1, 1, 200, None))
    assert result_meta(empty.meta)[-2:] == (0, 0) and not empty.body


def test_an_id_beyond_its_field_is_an_error_and_no_other_id() -> None:
    with pytest.raises(struct.error):
        encode.frame_cancel(1, 2**32)
    with pytest.raises(struct.error):
        encode.cancel(1, 1, 2**64, 1, CancelReason.USER_CANCELLED)


def test_a_conversation_that_is_built_breaks_no_rule() -> None:
    envelope = (
        b'{"schema_version":"openai-compatible/1","operation":"chat.completions.create",'
        b'"request_id":"req_1","body":{"model":"m","messages":[{"role":"user","content":"Hi"}],'
        b'"stream":true}}'
    )
    delta = b'{"type":"response.output_text.delta","index":0,"delta":"Hello"}'
    cancelled = b'{"type":"response.cancelled","reason":"peer_cancelled"}'
    told = [
        (Side.REQUEST, encode.client_hello()),
        (Side.RESPONSE, encode.server_hello_ack(4)),
        (Side.REQUEST, encode.session_open(4)),
        (Side.RESPONSE, encode.session_open_ack(1, 4)),
        (Side.REQUEST, encode.frame_submit(1, 1, 1, envelope)),
        (Side.RESPONSE, encode.partial_result(1, 1, 1, 1, delta)),
        (Side.REQUEST, encode.cancel(1, 1, 1, 1, CancelReason.USER_CANCELLED)),
        (Side.RESPONSE, encode.result_push(1, 1, 499, cancelled)),
        (Side.REQUEST, encode.session_close(1, 1, CloseReason.CLIENT_SHUTDOWN)),
        (Side.RESPONSE, encode.session_close_ack(1, 1)),
    ]
    made: list[Exchange] = []

    def exchange() -> Exchange:
        made.append(Exchange())
        return made[-1]

    inspector = NnrpInspector(exchange, DEFAULT_LIMITS, None)
    for number, (side, data) in enumerate(told):
        inspector.feed(side, data, number / 100)
    assert len(made) == 1
    assert not made[0].violations
