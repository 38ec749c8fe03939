"""NNRP/1 packets: bytes of one direction in, packets and lost framing out, as they come.

What belongs here: the 40-byte header read and written, where packets begin and end. What
doesn't: what stands in metadata and bodies (nnrplayout.py), building those (nnrpencode.py), what a
packet means for an operation, and which rule a wrong field breaks (validators/nnrp). All integers are
little-endian; nothing is padded.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, NamedTuple

MAGIC: Final = b"NNRP"
HEADER_BYTES: Final = 40
KNOWN_FLAGS: Final = 63
"""ACK_REQUIRED, CAN_DROP, STALE, EOS, RETRANSMIT, KEYFRAME."""

_HEADER: Final = Struct("<4sBBBBIIIIIHHQ")


class Message(enum.IntEnum):
    """The registered message types."""

    CLIENT_HELLO = 0x01
    SERVER_HELLO_ACK = 0x02
    SESSION_PATCH = 0x03
    SESSION_PATCH_ACK = 0x04
    CLOSE = 0x05
    ERROR = 0x06
    SESSION_OPEN = 0x07
    SESSION_OPEN_ACK = 0x08
    SESSION_CLOSE = 0x09
    SESSION_CLOSE_ACK = 0x0A
    FRAME_SUBMIT = 0x10
    FRAME_CANCEL = 0x11
    RESULT_PUSH = 0x12
    RESULT_DROP = 0x13
    CACHE_PUT = 0x14
    CACHE_ACK = 0x15
    CACHE_INVALIDATE = 0x16
    FLOW_UPDATE = 0x17
    RESULT_HINT = 0x18
    TRANSPORT_PROBE = 0x19
    TRANSPORT_PROBE_ACK = 0x1A
    SESSION_MIGRATE = 0x1B
    SESSION_MIGRATE_ACK = 0x1C
    PING = 0x20
    PONG = 0x21
    CANCEL = 0x30
    ABORT = 0x31
    PRIORITY_UPDATE = 0x32
    DEADLINE = 0x33
    EXPIRE_AT = 0x34
    SUPERSEDE = 0x35
    BUDGET_UPDATE = 0x36
    PROGRESS = 0x37
    PARTIAL_RESULT = 0x38
    BACKPRESSURE = 0x39
    CREDIT_UPDATE = 0x3A
    CAPABILITY_NEGOTIATION = 0x3B
    DEGRADE_PROFILE = 0x3C
    ROUTE_HINT = 0x3D
    EXECUTION_HINT = 0x3E
    TRACE_CONTEXT = 0x3F
    RESULT_DROP_REASON = 0x40
    OBJECT_DECLARE = 0x41
    OBJECT_REF = 0x42
    OBJECT_RELEASE = 0x43
    OBJECT_PATCH = 0x44
    OBJECT_DELTA = 0x45
    CACHE_REFERENCE = 0x46
    CACHE_MISS = 0x47
    ERROR_RECOVERABLE = 0x48
    RETRY_AFTER = 0x49


_OTHER_LENGTHS: Final = {
    Message.CLIENT_HELLO: 64,
    Message.SERVER_HELLO_ACK: 80,
    Message.SESSION_OPEN: 48,
    Message.SESSION_OPEN_ACK: 56,
    Message.SESSION_CLOSE: 24,
    Message.SESSION_CLOSE_ACK: 16,
    Message.SESSION_PATCH: 36,
    Message.SESSION_PATCH_ACK: 48,
    Message.FRAME_SUBMIT: 72,
    Message.RESULT_PUSH: 64,
    Message.FRAME_CANCEL: 0,
    Message.PING: 0,
    Message.PONG: 0,
    Message.RESULT_DROP: 0,
    Message.RESULT_HINT: 16,
    Message.TRANSPORT_PROBE: 16,
    Message.TRANSPORT_PROBE_ACK: 16,
    Message.SESSION_MIGRATE: 24,
    Message.SESSION_MIGRATE_ACK: 24,
    Message.CACHE_PUT: 40,
    Message.CACHE_ACK: 40,
    Message.BUDGET_UPDATE: 40,
    Message.PARTIAL_RESULT: 40,
    Message.OBJECT_DECLARE: 48,
    Message.OBJECT_REF: 48,
    Message.OBJECT_PATCH: 40,
    Message.OBJECT_DELTA: 40,
    Message.CACHE_REFERENCE: 56,
}
METADATA_LENGTHS: Final[Mapping[int, int]] = {
    **{code: _OTHER_LENGTHS.get(code, 32) for code in Message if code is not Message.CLOSE}
}
"""Bytes of fixed metadata by message type; CLOSE has no documented length."""


class Packet(NamedTuple):
    """One packet. ``offset`` is where it begins in its direction, ``index`` its number there, from 1.

    ``whole`` false: it was larger than what is kept, and ``meta`` and ``body`` are empty.
    """

    index: int  # type: ignore[assignment]  # its number; nobody searches a packet
    offset: int
    version: int
    wire_format: int
    type: int
    flags: int
    meta_bytes: int
    body_bytes: int
    session: int
    frame: int
    meta: bytes = b""
    body: bytes = b""
    whole: bool = True

    @property
    def size(self) -> int:
        return HEADER_BYTES + self.meta_bytes + self.body_bytes

    @property
    def body_offset(self) -> int:
        return self.offset + HEADER_BYTES + self.meta_bytes


class Lost(enum.StrEnum):
    """Why the border of the next packet can't be told."""

    MAGIC = "magic"
    HEADER_LENGTH = "header-length"


Run = Callable[[bytes, int, int, int], tuple[int, int]]
"""Reads packets in bytes from a position on; also given what to add to a position for its offset, and the
number of the packet before. Gives the position and the number that it came to."""


class Splitter:
    """Cuts one direction into packets. ``lost`` is set where framing was lost; nothing comes after it.

    ``push`` the bytes, then take packets with ``next`` until there is none; ``through`` and ``skim`` let
    somebody else take the packets that come next. A packet of more than ``keep`` bytes comes without its
    contents as soon as its header is there. At most ``keep`` bytes wait.
    """

    __slots__ = ("_at", "_data", "_index", "_keep", "_need", "_rest", "_skip", "lost", "offset")

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._data = b""
        self._at = 0
        self._rest = bytearray()  # of a packet that is not complete
        self._need = 1
        self._skip = 0
        self._index = 0
        self.offset = 0
        self.lost: Lost | None = None

    @property
    def incomplete(self) -> bool:
        """Whether the direction stands in the midst of a packet."""
        return self.lost is None and bool(self._rest or self._skip)

    @property
    def drained(self) -> bool:
        """Whether all that was pushed has been read."""
        return self._at == len(self._data)

    @property
    def next_index(self) -> int:
        return self._index + 1

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that are complete with these bytes."""
        self.push(data)
        return list(iter(self.next, None))

    def push(self, data: bytes) -> None:
        """Takes bytes in; what came before has been read."""
        if self.lost is not None:
            return
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return
            data = bytes(self._rest)
            self._rest = bytearray()
        self._data, self._at = data, 0

    def through(self, data: bytes, run: Run) -> bool:
        """Takes bytes in and lets ``run`` read them first; whether it has read them all."""
        if self._skip or self._rest or self.lost is not None:
            self.push(data)
            return False
        at, self._index = run(data, 0, self.offset, self._index)
        self.offset += at
        if at == len(data):
            return True
        self._data, self._at = data, at
        return False

    def skim(self, run: Run) -> int:
        """Lets ``run`` read packets; how many it took."""
        start, before = self._at, self._index
        self._at, self._index = run(self._data, start, self.offset - start, before)
        self.offset += self._at - start
        return self._index - before

    def next(self) -> Packet | None:
        """The next packet; None where it is not complete."""
        data, at = self._data, self._at
        held = len(data) - at
        if held < HEADER_BYTES:
            if held:
                self._check_start(data[at : at + 8])
                self._wait(HEADER_BYTES if held >= 8 else held + 1)
            else:
                self._data, self._at = b"", 0
            return None
        (magic, version, wire, kind, header, flags, meta, body, session, frame, _, _, _) = (
            _HEADER.unpack_from(data, at)
        )
        if magic != MAGIC or header != HEADER_BYTES:
            self._check_start(data[at : at + 8])
            self._data, self._at = b"", 0
            return None
        size = HEADER_BYTES + meta + body
        whole = size <= self._keep
        if whole and held < size:
            self._wait(size)
            return None
        taken = min(size, held)
        self._index += 1
        between = at + HEADER_BYTES + meta
        packet = Packet(
            self._index,
            self.offset,
            version,
            wire,
            kind,
            flags,
            meta,
            body,
            session,
            frame,
            data[at + HEADER_BYTES : between] if whole else b"",
            data[between : at + size] if whole else b"",
            whole,
        )
        self._at += taken
        self._skip = size - taken
        self.offset += size
        return packet

    def _wait(self, need: int) -> None:
        """Keeps what is left until there are ``need`` bytes of it."""
        self._need = need
        self._rest = bytearray(self._data[self._at :]) if self.lost is None else bytearray()
        self._data, self._at = b"", 0

    def _check_start(self, start: bytes) -> None:
        """Framing is lost at the first byte that can't be right, however few have come."""
        if not MAGIC.startswith(start[:4]):
            self.lost = Lost.MAGIC
        elif len(start) >= 8 and start[7] != HEADER_BYTES:
            self.lost = Lost.HEADER_LENGTH


# -- writing -----------------------------------------------------------------------------------------


def packed(kind: int, meta: bytes, body: bytes, session: int, frame: int, **header: int) -> bytes:
    """A packet as bytes; ``header`` overrides version, wire_format, header_len, flags and lengths."""
    return (
        _HEADER.pack(
            MAGIC,
            header.get("version", 1),
            header.get("wire_format", 0),
            kind,
            header.get("header_len", HEADER_BYTES),
            header.get("flags", 0),
            header.get("meta_len", len(meta)),
            header.get("body_len", len(body)),
            session,
            frame,
            0,
            0,
            0,
        )
        + meta
        + body
    )
