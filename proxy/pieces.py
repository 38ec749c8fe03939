"""The buffer that all connections of a process read into.

What belongs here: how received bytes come into being. What doesn't: what is done with them. A
connection hands each piece on within the call that brings it, so one buffer serves all of them:
an idle connection holds none, and the kernel writes into memory that is warm.
"""

from __future__ import annotations

from typing import Final

SIZE: Final = 64 * 1024
"""Bytes of a piece at most; as many wait for a slow side before the fast one is held up."""

_BUFFER: Final = memoryview(bytearray(SIZE))


def buffer() -> memoryview:
    """Where the next piece is to be read into."""
    return _BUFFER


def piece(count: int) -> bytes:
    """What was read: the first ``count`` bytes of the buffer."""
    return bytes(_BUFFER[:count])
