"""What carries packets is told by the first bytes, and packets come out of each carrier alike."""

from __future__ import annotations

import pytest

from teeline.validators.nnrp.carrier import Carrier, Encrypted, Plain, WebSocket, carrier_of
from teeline.validators.wire.nnrp import Lost, Packet, packed
from tests.validators.exchanges import Cut, byte_by_byte, partition, whole
from tests.validators.wsframes import frame

KEEP = 1 << 16
PACKETS = [packed(0x20, b"", bytes(size), 1, n) for n, size in enumerate((0, 5, 300), 1)]
HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
MULTIPLE = "nnrp.websocket-message-not-one-packet"


def read(carrier: Carrier, data: bytes, cut: Cut = whole) -> list[Packet]:
    packets: list[Packet] = []
    for piece in cut(data):
        carrier.push(piece)
        packets += iter(carrier.next, None)
    return packets


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"NNRP", Plain),
        (b"N", Plain),
        (b"GET / HTTP/1.1", WebSocket),
        (b"HTTP/1.1 101", WebSocket),
        (b"\x16\x03\x01", Encrypted),
        (b"\x16", Encrypted),
        (b"POST", Plain),
        (b"GEX", Plain),
        (b"\0", Plain),
    ],
)
def test_a_carrier_is_told_by_its_first_bytes(start: bytes, kind: type) -> None:
    assert type(carrier_of(start, KEEP)) is kind


@pytest.mark.parametrize("start", [b"", b"G", b"GET", b"H", b"HTT"])
def test_too_few_bytes_tell_nothing(start: bytes) -> None:
    assert carrier_of(start, KEEP) is None


@pytest.mark.parametrize("cut", [whole, byte_by_byte, partition(1), partition(2)])
def test_a_websocket_s_packets_are_those_of_a_stream(cut: Cut) -> None:
    plain = read(Plain(KEEP), b"".join(PACKETS), cut)
    messages = [frame(packet, opcode=2, masked=True) for packet in PACKETS]
    messages.insert(1, frame(b"ping", opcode=9))
    carrier = WebSocket(KEEP)
    assert read(carrier, HEAD + b"".join(messages), cut) == plain
    assert [packet.frame for packet in plain] == [1, 2, 3]
    assert carrier.faults == [] and not carrier.incomplete and not carrier.closing


@pytest.mark.parametrize("cut", [whole, byte_by_byte, partition(4)])
def test_a_packet_in_fragments_is_one_packet(cut: Cut) -> None:
    packet = PACKETS[2]
    parts = [packet[:7], packet[7:100], b"", packet[100:]]
    frames = [
        frame(part, opcode=2 if n == 0 else 0, final=n == len(parts) - 1)
        for n, part in enumerate(parts)
    ]
    frames.insert(2, frame(b"", opcode=10))
    carrier = WebSocket(KEEP)
    (found,) = read(carrier, HEAD + b"".join(frames), cut)
    assert (found.frame, carrier.faults) == (3, [])


@pytest.mark.parametrize("cut", [whole, byte_by_byte, partition(9)])
@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([frame(PACKETS[0] + PACKETS[1], opcode=2)], (3, 85)),
        ([frame(PACKETS[0])], (2, 40)),
        ([frame(b"", opcode=2)], (1, 0)),
        ([frame(PACKETS[0][:10], opcode=2), frame(PACKETS[0][10:], opcode=2)], (1, 0)),
    ],
    ids=["two", "text", "none", "half"],
)
def test_a_message_that_is_not_one_packet_is_named_where_it_ends(
    messages: list[bytes], place: tuple[int, int], cut: Cut
) -> None:
    carrier = WebSocket(KEEP)
    read(carrier, HEAD + b"".join(messages) + frame(PACKETS[2], opcode=2), cut)
    first = carrier.faults[0]
    assert (first.rule, (first.index, first.offset)) == (MULTIPLE, place)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "websocket-refused"),
        (HEAD + b"\xc2\x04NNRP", "websocket-extension"),
        (HEAD + b"\x83\x00", "websocket-extension"),
        (b"GET / HTTP/1.1\r\n" + b"x" * 70_000, "websocket-refused"),
    ],
)
def test_what_can_not_be_read_any_further_is_said(data: bytes, reason: str) -> None:
    carrier = WebSocket(KEEP)
    assert read(carrier, data + frame(PACKETS[0], opcode=2)) == []
    assert (carrier.unread, carrier.incomplete) == (reason, False)


@pytest.mark.parametrize("cut", [whole, byte_by_byte])
def test_a_close_frame_ends_its_side_whatever_follows(cut: Cut) -> None:
    carrier = WebSocket(KEEP)
    messages = [frame(PACKETS[0], opcode=2), frame(b"\x03\xe8", opcode=8), b"\x82\x7eNNRP"]
    assert len(read(carrier, HEAD + b"".join(messages), cut)) == 1
    assert carrier.closing and not carrier.incomplete


def test_framing_that_is_lost_in_a_message_stays_lost() -> None:
    carrier = WebSocket(KEEP)
    assert read(carrier, HEAD + frame(b"XXXX" + PACKETS[0], opcode=2)) == []
    assert carrier.lost is Lost.MAGIC
    assert read(carrier, frame(PACKETS[0], opcode=2)) == []
    assert len(carrier.faults) <= 1


def test_tls_is_passed_over() -> None:
    carrier = carrier_of(b"\x16\x03", KEEP)
    assert carrier is not None and carrier.unread == "encrypted"
    assert read(carrier, b"\x16\x03" + PACKETS[0], byte_by_byte) == []
    assert [fault.rule for fault in carrier.faults] == ["nnrp.carrier-encrypted"]
    assert not carrier.incomplete and not carrier.closing and carrier.lost is None
