"""What carries the packets of one direction: a plain stream, a WebSocket, or something unreadable.

What belongs here: telling carriers by the first bytes, and packets out of each. What doesn't: what
packets mean. The two directions are read independently of each other.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from teeline.validators.wire.nnrp import Lost, Packet, Splitter
from teeline.validators.wire.websocket import Frames, WebSocketFault

_TLS: Final = b"\x16"
_HTTP: Final = (b"GET ", b"HTTP")


class Fault(NamedTuple):
    """Something wrong with the carrier itself."""

    rule: str
    detail: str


class Carrier(Protocol):
    """One direction. ``unread`` says why nothing of the rest is inspected; empty where it is."""

    faults: list[Fault]
    unread: str

    @property
    def incomplete(self) -> bool: ...

    @property
    def lost(self) -> Lost | None: ...

    @property
    def offset(self) -> int: ...

    @property
    def next_index(self) -> int: ...

    def feed(self, data: bytes) -> list[Packet]: ...


class Plain:
    """Packets back to back: TCP and Unix sockets."""

    def __init__(self, keep: int) -> None:
        self.faults: list[Fault] = []
        self.unread = ""
        self._splitter = Splitter(keep)
        self.feed = self._splitter.feed

    @property
    def incomplete(self) -> bool:
        return self._splitter.incomplete

    @property
    def lost(self) -> Lost | None:
        return self._splitter.lost

    @property
    def offset(self) -> int:
        return self._splitter.offset

    @property
    def next_index(self) -> int:
        return self._splitter.next_index


class WebSocket(Plain):
    """Packets in messages, one binary message a packet; offsets are those of the messages' bytes."""

    def __init__(self, keep: int) -> None:
        super().__init__(keep)
        self._frames = Frames()
        self._count = 0  # packets of the current message
        self._told = False
        self.feed = self._feed

    @property
    def incomplete(self) -> bool:
        return not self.unread and (super().incomplete or self._frames.in_message)

    def _feed(self, data: bytes) -> list[Packet]:
        found: list[Packet] = []
        for piece in self._frames.feed(data):
            packets = self._splitter.feed(piece.data)
            self._count += len(packets)
            found += packets
            if piece.last:
                self._message_ended(piece.binary)
        if self._frames.fault is not None:
            refused = self._frames.fault is WebSocketFault.HEAD
            self.unread = "websocket-refused" if refused else "websocket-extension"
        return found

    def _message_ended(self, binary: bool) -> None:
        whole = self._count == 1 and not self._splitter.incomplete
        if self.lost is None and not (binary and whole):
            words = "binary" if binary else "text"
            detail = f"a {words} message with {self._count} packets that end in it"
            self.faults.append(Fault("nnrp.websocket-message-not-one-packet", detail))
        self._count = 0


class Encrypted:
    """TLS that is not ended here: bytes go by unread."""

    def __init__(self) -> None:
        self.faults = [Fault("nnrp.carrier-encrypted", "the first byte is that of a TLS handshake")]
        self.unread = "encrypted"
        self.incomplete = False
        self.lost: Lost | None = None
        self.offset = 0
        self.next_index = 1

    def feed(self, _: bytes) -> list[Packet]:
        return []


def carrier_of(start: bytes, keep: int) -> Carrier | None:
    """The carrier that begins with these bytes; None where they are too few to tell."""
    if start.startswith(_TLS):
        return Encrypted()
    if start.startswith(_HTTP):
        return WebSocket(keep)
    if len(start) < 4 and any(word.startswith(start) for word in _HTTP):
        return None
    return Plain(keep)
