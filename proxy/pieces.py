"""The buffer that all connections of a process read into.

What belongs here: how received bytes come into being. What doesn't: what is done with them. A
connection hands each piece on within the call that brings it, so one buffer serves all of them:
an idle connection holds none, and the kernel writes into memory that is warm.
"""

from __future__ import annotations

from typing import Final

SIZE: Final = 64 * 1024
"""Bytes of a piece at most; as many wait for a slow side before the fast one is held up."""

BUFFER: Final = memoryview(bytearray(SIZE))
"""Where the next piece is read into. It is whoever's piece was read last, and only until then."""
