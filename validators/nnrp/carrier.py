"""What carries the packets of one direction: a plain stream, a WebSocket, or something unreadable.

What belongs here: telling carriers by the first bytes, and packets out of each. What doesn't: what
packets mean. The two directions are read independently of each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from teeline.validators.wire.nnrp import Lost, Packet, Run, Splitter
from teeline.validators.wire.websocket import Frames, Piece, WebSocketFault

_TLS: Final = b"\x16"
_HTTP: Final = (b"GET ", b"HTTP")


class Fault(NamedTuple):
    """Something wrong with the carrier itself; ``index`` is the number of the packet that comes next,
    ``offset`` where it begins."""

    rule: str
    detail: str
    index: int  # type: ignore[assignment]  # its number; nobody searches a fault
    offset: int


class Carrier(Protocol):
    """One direction: ``push`` bytes, then take packets with ``next`` until there is none.

    ``skim`` lets ``run`` take the packets that come next, ``through`` is ``push`` and ``skim``, and says
    whether nothing is left to look at. ``closing``: the side has said that it sends nothing more.
    ``unread`` says why nothing of the rest is inspected; empty where it is.
    """

    faults: list[Fault]
    unread: str

    @property
    def closing(self) -> bool: ...

    @property
    def incomplete(self) -> bool: ...

    @property
    def lost(self) -> Lost | None: ...

    @property
    def offset(self) -> int: ...

    @property
    def next_index(self) -> int: ...

    def push(self, data: bytes) -> None: ...

    def through(self, data: bytes, run: Run) -> bool: ...

    def skim(self, run: Run) -> object: ...

    def next(self) -> Packet | None: ...


class Plain:
    """Packets back to back: TCP and Unix sockets."""

    closing = False

    def __init__(self, keep: int) -> None:
        self.faults: list[Fault] = []
        self.unread = ""
        self._splitter = Splitter(keep)
        # No call in between: this is the way of every read.
        self.push = self._splitter.push
        self.through = self._splitter.through
        self.skim: Callable[[Run], object] = self._splitter.skim
        self.next = self._splitter.next

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
        self._pieces: deque[Piece] = deque()
        self._piece: Piece | None = None  # the one that packets are taken from
        self._count = 0  # packets of the current message
        self.push = self._push
        self.through = self._through
        self.skim = self._skim
        self.next = self._next

    @property
    def closing(self) -> bool:  # type: ignore[override]  # a constant of plain streams
        return self._frames.closing

    @property
    def incomplete(self) -> bool:
        return not self.unread and (super().incomplete or self._frames.in_message)

    def _push(self, data: bytes) -> None:
        self._pieces += self._frames.feed(data)
        self._begin_piece()
        if self._frames.fault is not None:
            refused = self._frames.fault is WebSocketFault.HEAD
            self.unread = "websocket-refused" if refused else "websocket-extension"

    def _through(self, data: bytes, run: Run) -> bool:
        self._push(data)
        self._skim(run)
        return self._piece is None and not (self.faults or self.unread or self.closing)

    def _begin_piece(self) -> bool:
        self._piece = self._pieces.popleft() if self._pieces else None
        if self._piece is not None:
            self._splitter.push(self._piece.data)
        return self._piece is not None

    def _skim(self, run: Run) -> None:
        while self._piece is not None:
            self._count += self._splitter.skim(run)
            if not (self._splitter.drained and self._piece_ended()):
                return

    def _next(self) -> Packet | None:
        while self._piece is not None:
            packet = self._splitter.next()
            if packet is not None:
                self._count += 1
                return packet
            self._piece_ended()
        return None

    def _piece_ended(self) -> bool:
        """All of a piece was read; whether there is another one."""
        if self._piece is not None and self._piece.last:
            self._message_ended(self._piece.binary)
        return self._begin_piece()

    def _message_ended(self, binary: bool) -> None:
        whole = self._count == 1 and not self._splitter.incomplete
        if self.lost is None and not (binary and whole):
            words = "binary" if binary else "text"
            detail = f"a {words} message with {self._count} packets that end in it"
            rule = "nnrp.websocket-message-not-one-packet"
            self.faults.append(Fault(rule, detail, self.next_index, self.offset))
        self._count = 0


class Encrypted:
    """TLS that is not ended here: bytes go by unread."""

    def __init__(self) -> None:
        detail = "the first byte is that of a TLS handshake"
        self.faults = [Fault("nnrp.carrier-encrypted", detail, 1, 0)]
        self.unread = "encrypted"
        self.closing = False
        self.incomplete = False
        self.lost: Lost | None = None
        self.offset = 0
        self.next_index = 1

    def push(self, _: bytes) -> None:
        """Nothing can be read."""

    def through(self, data: bytes, _: Run) -> bool:
        """Nothing can be read."""
        return False

    def skim(self, _: Run) -> None:
        """Nothing can be read."""

    def next(self) -> None:
        """There are no packets."""


def carrier_of(start: bytes, keep: int) -> Carrier | None:
    """The carrier that begins with these bytes; None where they are too few to tell."""
    if start.startswith(_TLS):
        return Encrypted()
    if start.startswith(_HTTP):
        return WebSocket(keep)
    if len(start) < 4 and any(word.startswith(start) for word in _HTTP):
        return None
    return Plain(keep)
