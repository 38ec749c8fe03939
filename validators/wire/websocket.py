"""WebSocket (RFC 6455) as one side sends it after the upgrade: frames in, pieces of messages out.

What belongs here: the head of the upgrade, frame headers, masks, fragments. What doesn't: what messages
hold. Control frames are passed over; nothing but a frame's header ever waits.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

MAX_HEAD: Final = 64 * 1024
_END_OF_HEAD: Final = b"\r\n\r\n"
_BINARY: Final = 2
_FIRST_CONTROL: Final = 8
_CLOSE: Final = 8


class WebSocketFault(enum.StrEnum):
    """Why the rest of a direction can't be read."""

    HEAD = "head"
    """The head has no end within bounds, or it refuses the upgrade."""
    RESERVED = "reserved"
    """A reserved bit or opcode: an extension, compression mostly, that is not undone here."""


class Piece(NamedTuple):
    """Payload of a message. ``last``: the message ends with it."""

    data: bytes
    binary: bool
    last: bool


class Frames:
    """Reads one direction from its head on; ``fault`` is set where it can't be read any more.

    ``closing``: the side has sent a close frame, behind which it sends nothing (RFC 6455 5.5.1).
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._in_head = True
        self._left = 0
        self._mask = b""
        self._masked = 0
        self._final = True
        self._control = False
        self._binary = True
        self.in_message = False
        self.closing = False
        self.fault: WebSocketFault | None = None

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces of messages that came with these bytes."""
        if self.fault is not None or self.closing:
            return []
        self._buffer += data
        if self._in_head and not self._past_head():
            return []
        pieces: list[Piece] = []
        while self.fault is None and self._buffer:
            if not self._left and not self._header(pieces):
                break
            if self.closing:
                self._buffer.clear()
                break
            if self._left:
                self._payload(pieces)
        return pieces

    def _past_head(self) -> bool:
        end = self._buffer.find(_END_OF_HEAD)
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                self.fault = WebSocketFault.HEAD
            return False
        words = bytes(self._buffer[:64]).split(b" ", 2)
        if words[0].startswith(b"HTTP/") and words[1:2] != [b"101"]:
            self.fault = WebSocketFault.HEAD
            return False
        del self._buffer[: end + len(_END_OF_HEAD)]
        self._in_head = False
        return True

    def _header(self, pieces: list[Piece]) -> bool:
        """Takes a frame's header; False where more bytes are needed."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        first, second = buffer[0], buffer[1]
        length, extra = second & 0x7F, 0
        if length >= 126:
            extra = 2 if length == 126 else 8
        masked = 4 if second & 0x80 else 0
        if len(buffer) < 2 + extra + masked:
            return False
        if extra:
            length = int.from_bytes(buffer[2 : 2 + extra], "big")
        self._mask = bytes(buffer[2 + extra : 2 + extra + masked])
        del buffer[: 2 + extra + masked]
        self._left, self._masked = length, 0
        opcode = first & 0x0F
        if first & 0x70 or 2 < opcode < _FIRST_CONTROL:
            self.fault = WebSocketFault.RESERVED
            return False
        self._control = opcode >= _FIRST_CONTROL
        self.closing = self.closing or opcode == _CLOSE
        if not self._control:
            self._final = bool(first & 0x80)
            if opcode:
                self._binary = opcode == _BINARY
            self.in_message = True
            if not length:
                self._emit(pieces, b"")
        return True

    def _payload(self, pieces: list[Piece]) -> None:
        taken = bytes(self._buffer[: self._left])
        del self._buffer[: len(taken)]
        self._left -= len(taken)
        if not self._control:
            self._emit(pieces, self._unmasked(taken) if self._mask else taken)

    def _unmasked(self, data: bytes) -> bytes:
        shift = self._masked % 4
        self._masked += len(data)
        mask = (self._mask[shift:] + self._mask[:shift]) * (len(data) // 4 + 1)
        whole = int.from_bytes(data, "little") ^ int.from_bytes(mask[: len(data)], "little")
        return whole.to_bytes(len(data), "little")

    def _emit(self, pieces: list[Piece], data: bytes) -> None:
        last = self._final and not self._left
        pieces.append(Piece(data, self._binary, last))
        self.in_message = not last
