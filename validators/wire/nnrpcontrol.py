"""Messages of NNRP/1 about a connection that no rule looks into: handshake, closes, RETRY_AFTER.

What belongs here: their layouts, and readers for peers that have to act on them. What doesn't: layouts
that rules read (nnrp.py), building packets (nnrpencode.py).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

HELLO_LAYOUT: Final = Struct("<BBH6I4H2I4H3I")
HELLO_ACK_LAYOUT: Final = Struct("<BBBB11I6H5I")
CLOSE_LAYOUT: Final = Struct("<HBBIQII")
CLOSE_ACK_LAYOUT: Final = Struct("<BBHQI")
RETRY_AFTER_LAYOUT: Final = Struct("<QQIIHBBI")


class CloseMeta(NamedTuple):
    """SESSION_CLOSE. ``policy`` is an InFlight, ``last`` the last operation that the sender knows."""

    reason: int
    policy: int
    last: int


def close_meta(meta: bytes) -> CloseMeta:
    """The metadata of a SESSION_CLOSE, which must be 24 bytes."""
    reason, policy, _, _, last, _, _ = CLOSE_LAYOUT.unpack(meta)
    return CloseMeta(reason, policy, last)


def retry_after_ms(meta: bytes) -> int:
    """The milliseconds that a RETRY_AFTER names; its metadata must be 32 bytes."""
    return int(RETRY_AFTER_LAYOUT.unpack(meta)[2])
