"""What a server says of itself while a connection and a session are opened (NNRP/1 SERVER_HELLO_ACK,
SESSION_OPEN_ACK).

What belongs here: the fields of the two as values. What doesn't: packets (nnrp.py), asking (proxy/nnrp).
Neither message, nor any other, has a place for the capability document of openai-compatible/1: what is
negotiated here is the protocol's.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from teeline.validators.wire.nnrplayout import (
    OPEN_ACK_LAYOUT,
)

PAYLOAD_KINDS: Final = (
    "tensor",
    "token chunk",
    "audio chunk",
    "video chunk",
    "structured event",
    "tool delta",
    "opaque bytes",
)
"""The payload kinds by the number of their bit; the profile's documents are structured events."""

_HELLO_ACK: Final = Struct("<BBBB11I6H5I")


class ServerHello(NamedTuple):
    """SERVER_HELLO_ACK. ``profiles`` and ``payload_kinds`` are bitmaps; 0 stands for no limit said."""

    version: int
    wire_format: int
    auth_status: int
    profiles: int
    payload_kinds: int
    lanes: int
    frames: int
    latency_budget_ms: int
    max_body: int
    retry_after_ms: int

    @property
    def kinds(self) -> list[str]:
        """The payload kinds that the server takes."""
        return [name for bit, name in enumerate(PAYLOAD_KINDS) if self.payload_kinds >> bit & 1]


class SessionGrant(NamedTuple):
    """SESSION_OPEN_ACK. ``session`` 0: it was refused; ``granted`` of ``most`` operations at once."""

    session: int
    profile: int
    status: int
    schema: int
    schema_version: int
    granted: int
    most: int
    lease_ms: int
    resume_ms: int
    error: int


def server_hello(meta: bytes) -> ServerHello:
    """The metadata of a SERVER_HELLO_ACK, which must be 80 bytes."""
    v = _HELLO_ACK.unpack(meta)
    return ServerHello(v[0], v[1], v[2], v[5], v[6], v[15], v[16], v[18], v[21], v[23])


def session_grant(meta: bytes) -> SessionGrant:
    """The metadata of a SESSION_OPEN_ACK, which must be 56 bytes."""
    v = OPEN_ACK_LAYOUT.unpack(meta)
    return SessionGrant(v[0], v[1], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[14])
