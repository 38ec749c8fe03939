"""WebSocket directions are read frame by frame, however they are cut."""

from __future__ import annotations

import pytest

from teeline.validators.wire.websocket import MAX_HEAD, Frames, Piece, WebSocketFault

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def frame(payload: bytes, first: int = 0x82, mask: bytes = b"") -> bytes:
    size = len(payload)
    bit = 0x80 if mask else 0
    if size < 126:
        length = bytes([bit | size])
    elif size < 65536:
        length = bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([bit | 127]) + size.to_bytes(8, "big")
    masked = bytes(b ^ mask[n % 4] for n, b in enumerate(payload)) if mask else payload
    return bytes([first]) + length + mask + masked


def messages(data: bytes, size: int) -> tuple[list[tuple[bytes, bool]], Frames]:
    frames = Frames()
    pieces: list[Piece] = []
    for at in range(0, len(data), size):
        pieces += frames.feed(data[at : at + size])
    found: list[tuple[bytes, bool]] = []
    held = b""
    for piece in pieces:
        held += piece.data
        if piece.last:
            found.append((held, piece.binary))
            held = b""
    return found, frames


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000, 100_000])
def test_messages_come_out_whole(size: int) -> None:
    large = bytes(range(256)) * 300
    data = HEAD + frame(b"one") + frame(b"") + frame(large, mask=b"abcd") + frame(b"t", first=0x81)
    found, frames = messages(data, size)
    assert found == [(b"one", True), (b"", True), (large, True), (b"t", False)]
    assert frames.fault is None and not frames.in_message


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_fragments_are_one_message_and_control_frames_are_none(size: int) -> None:
    data = HEAD + frame(b"a", first=0x02) + frame(b"ping", first=0x89) + frame(b"b", first=0x80)
    assert messages(data, size)[0] == [(b"ab", True)]


def test_a_message_that_is_not_over_is_known() -> None:
    assert messages(HEAD + frame(b"abc")[:-1], 100)[1].in_message


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", WebSocketFault.HEAD),
        (b"GET / HTTP/1.1\r\n" + b"x" * MAX_HEAD, WebSocketFault.HEAD),
        (HEAD + frame(b"deflated", first=0xC2), WebSocketFault.RESERVED),
        (HEAD + frame(b"x", first=0x83), WebSocketFault.RESERVED),
    ],
)
def test_what_can_not_be_read_is_said_and_nothing_comes_after_it(
    data: bytes, fault: WebSocketFault
) -> None:
    found, frames = messages(data + frame(b"more"), 50)
    assert (found, frames.fault) == ([], fault)
