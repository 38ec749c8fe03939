"""Packets come out whole however their bytes were cut, and lost framing is told at its first byte."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from teeline.validators.wire.nnrp import (
    HEADER_BYTES,
    METADATA_LENGTHS,
    Lost,
    Message,
    Packet,
    Splitter,
    packed,
)
from teeline.validators.wire.nnrplayout import (
    descriptors_of,
    looks_typed,
    partial_meta,
    payload_start,
    prelude_of,
    submit_meta,
)

CAPTURES = Path(__file__).parents[2] / "cases" / "nnrp"
KEEP = 1 << 20


def capture(name: str) -> bytes:
    return (CAPTURES / name).read_bytes()


def split(data: bytes, size: int, keep: int = KEEP) -> tuple[list[Packet], Splitter]:
    splitter = Splitter(keep)
    packets: list[Packet] = []
    for at in range(0, len(data), size):
        packets += splitter.feed(data[at : at + size])
    return packets, splitter


@pytest.mark.parametrize("name", ["capture_c2s.bin", "capture_s2c.bin"])
def test_a_capture_is_the_same_packets_in_pieces_of_every_size(name: str) -> None:
    data = capture(name)
    whole, splitter = split(data, len(data))
    assert not splitter.incomplete and splitter.lost is None
    assert sum(packet.size for packet in whole) == len(data)
    for size in (1, 7, 39, 41, 64):
        assert split(data, size)[0] == whole


@pytest.mark.parametrize("name", ["capture_c2s.bin", "capture_s2c.bin"])
def test_a_capture_is_the_same_packets_cut_at_every_byte(name: str) -> None:
    data = capture(name)
    whole = split(data, len(data))[0]
    for at in range(len(data)):
        splitter = Splitter(KEEP)
        assert splitter.feed(data[:at]) + splitter.feed(data[at:]) == whole


def test_the_captures_hold_the_packets_that_were_sent() -> None:
    sent = split(capture("capture_c2s.bin"), KEEP)[0] + split(capture("capture_s2c.bin"), KEEP)[0]
    assert len(sent) == 71
    assert all(len(packet.meta) == METADATA_LENGTHS[packet.type] for packet in sent)


def test_a_submit_is_read_down_to_its_payload() -> None:
    submit = next(
        p for p in split(capture("capture_c2s.bin"), KEEP)[0] if p.type == Message.FRAME_SUBMIT
    )
    meta, prelude = submit_meta(submit.meta), prelude_of(submit.body)
    assert prelude is not None
    (descriptor,) = descriptors_of(submit.body, prelude, 9)
    assert (meta.bitmap, meta.frames, descriptor.kind, descriptor.semantics) == (16, 1, 16, 1)
    assert submit.body[payload_start(prelude) :].startswith(b'{"schema_version"')
    assert looks_typed(submit.body)


def test_a_partial_result_says_how_long_its_body_is() -> None:
    partial = next(
        p for p in split(capture("capture_s2c.bin"), KEEP)[0] if p.type == Message.PARTIAL_RESULT
    )
    assert partial_meta(partial.meta).body_bytes == partial.body_bytes == len(partial.body)


@pytest.mark.parametrize(
    ("start", "lost"),
    [
        (b"X", Lost.MAGIC),
        (b"NNRQ", Lost.MAGIC),
        (b"HTTP/1.1 400 Bad Request\r\n", Lost.MAGIC),
        (b"NNRP\x01\x00\x10\x29", Lost.HEADER_LENGTH),
        (b"NNRP\x01\x00\x10", None),
        (b"NN", None),
    ],
)
def test_framing_is_lost_at_the_first_byte_that_can_not_be_right(
    start: bytes, lost: Lost | None
) -> None:
    for size in (1, 3, len(start)):
        packets, splitter = split(start, size)
        assert (packets, splitter.lost) == ([], lost)
        assert splitter.incomplete is (lost is None)


def test_nothing_comes_after_framing_was_lost() -> None:
    packet = packed(Message.PING, b"", b"", 1, 0)
    packets, splitter = split(packet + b"junk" + packet, 5)
    assert [p.type for p in packets] == [Message.PING]
    assert splitter.lost is Lost.MAGIC


def test_a_packet_larger_than_what_is_kept_is_passed_over() -> None:
    large = packed(Message.RESULT_PUSH, b"m" * 64, b"x" * 5000, 1, 7)
    ping = packed(Message.PING, b"", b"", 1, 0)
    for size in (1, 100, 10_000):
        (first, second), splitter = split(large + ping, size, keep=1000)
        assert (first.whole, first.meta, first.body, first.frame) == (False, b"", b"", 7)
        assert (second.type, second.index, second.offset) == (Message.PING, 2, len(large))
        assert not splitter.incomplete


def test_a_direction_that_ends_in_a_packet_is_incomplete() -> None:
    data = packed(Message.RESULT_PUSH, b"m" * 64, b"x" * 50, 1, 7)
    for at in range(1, len(data)):
        assert split(data[:at], 9)[1].incomplete
        assert split(data[:at], 9, keep=60)[1].incomplete


def test_any_bytes_are_cut_without_an_error() -> None:
    chance = random.Random(5)
    data = capture("capture_s2c.bin")
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        whole = split(bytes(broken), len(broken))
        pieces = split(bytes(broken), chance.randint(1, 300))
        assert whole[0] == pieces[0]
        assert whole[1].lost == pieces[1].lost


def test_a_header_says_everything_before_it_is_looked_at() -> None:
    data = packed(0x7F, b"ab", b"c", 3, 4, version=9, wire_format=2, flags=128)
    (packet,) = split(data, HEADER_BYTES)[0]
    assert (packet.version, packet.wire_format, packet.flags, packet.type) == (9, 2, 128, 0x7F)
    assert (packet.meta, packet.body, packet.body_offset) == (b"ab", b"c", 42)


def one_packet(data: bytes, start: int, base: int, index: int) -> tuple[int, int]:
    """Takes one packet, as somebody would who knows it."""
    size = HEADER_BYTES + sum(
        int.from_bytes(data[start + n : start + n + 4], "little") for n in (12, 16)
    )
    assert data[start : start + 4] == b"NNRP" and start + size <= len(data)
    return start + size, index + 1


def test_packets_that_somebody_else_takes_leave_the_others_as_they_are() -> None:
    data = capture("capture_s2c.bin")
    expected = split(data, len(data))[0]
    splitter = Splitter(KEEP)
    splitter.push(data)
    found: list[Packet] = []
    while (packet := splitter.next()) is not None:
        found.append(packet)
        assert splitter.drained or splitter.skim(one_packet) == 1
    assert found == expected[::2]
    assert splitter.next_index == len(expected) + 1 and not splitter.incomplete


def test_a_read_may_be_taken_as_a_whole() -> None:
    data = capture("capture_s2c.bin")
    first, second, *_ = split(data, len(data))[0]
    splitter = Splitter(KEEP)
    assert splitter.through(data[: first.size], one_packet)
    assert not splitter.through(data[first.size : first.size + second.size + 9], one_packet)
    assert splitter.next() is None and splitter.incomplete
    assert (splitter.next_index, splitter.offset) == (3, first.size + second.size)
    # Where a packet has begun, the bytes wait for its end.
    assert not splitter.through(data[first.size + second.size + 9 :], one_packet)
    third = splitter.next()
    assert third is not None and third.index == 3
