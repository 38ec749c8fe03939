"""Frames: the same pieces of messages however the bytes are cut."""

from __future__ import annotations

import pytest

from teeline.validators.wire.websocket import MAX_HEAD, Frames, Piece, WebSocketFault
from tests.validators.wsframes import frame

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
TEXT = bytes(range(256)) * 300


def messages(pieces: list[Piece]) -> list[bytes]:
    joined, whole = b"", []
    for piece in pieces:
        joined += piece.data
        if piece.last:
            whole.append(joined)
            joined = b""
    return whole


@pytest.mark.parametrize("step", [1, 2, 7, 100, 1 << 20])
@pytest.mark.parametrize("masked", [False, True])
def test_messages_come_out_whole_however_they_are_cut(step: int, masked: bool) -> None:
    wire = HEAD + b"".join(
        (
            frame(b"hello", masked=masked),
            frame(b"", masked=masked),
            frame(TEXT[:300], masked=masked, final=False),
            frame(b"ping", opcode=9, masked=masked),
            frame(TEXT[300:500], opcode=0, masked=masked),
            frame(TEXT, masked=masked, opcode=2),
        )
    )
    frames = Frames()
    pieces = [p for n in range(0, len(wire), step) for p in frames.feed(wire[n : n + step])]
    assert messages(pieces) == [b"hello", b"", TEXT[:500], TEXT]
    assert pieces[-1].binary and not pieces[0].binary
    assert not frames.in_message


@pytest.mark.parametrize("first", [0xC1, 0xA1, 0x83])
def test_what_an_extension_makes_of_frames_is_not_read(first: int) -> None:
    frames = Frames()
    assert frames.feed(HEAD + bytes((first, 1, 65))) == []
    assert frames.fault is WebSocketFault.RESERVED
    assert frames.feed(frame(b"more")) == []


@pytest.mark.parametrize("head", [b"HTTP/1.1 403 No\r\n\r\n", b"x" * (MAX_HEAD + 1)])
def test_a_head_that_is_no_upgrade_ends_it(head: bytes) -> None:
    frames = Frames()
    assert frames.feed(head) == []
    assert frames.fault is WebSocketFault.HEAD
