"""A text that a stream tells several times: in deltas, in done events, in items, in the final response.

Holds a length and a running hash instead of the text, and a little of it that waits to be hashed.
"""

from __future__ import annotations

import hashlib

_WAITING = 1024
"""Bytes that are hashed together: hashing costs by the call more than by the byte."""


class Joined:
    """What is known of one text. ``broken``: a part of it could not be read, nothing is compared."""

    __slots__ = ("_hash", "_length", "_waiting", "_whole", "broken", "deltas", "final")

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._length = 0
        self._waiting = bytearray()
        self._whole: tuple[int, bytes] | None = None
        self.deltas = 0
        self.final = False
        self.broken = False

    def add(self, delta: str) -> None:
        """One more fragment."""
        self.add_utf8(delta.encode("utf-8", "surrogatepass"))

    def add_utf8(self, delta: bytes) -> None:
        """One more fragment, encoded."""
        self._waiting += delta
        self.deltas += 1
        if len(self._waiting) > _WAITING:
            self._flush()

    def _flush(self) -> None:
        self._hash.update(self._waiting)
        self._length += len(self._waiting)
        self._waiting = bytearray()

    def agrees(self, text: str) -> bool:
        """Whether a whole text is the one that is known; the first to come is taken as known."""
        if self.broken:
            return True
        if self._whole is None and self.deltas:
            self._flush()
            self._whole = (self._length, self._hash.digest())
        told = _fingerprint(text)
        if self._whole is None:
            self._whole = told
        return self._whole == told


def _fingerprint(text: str) -> tuple[int, bytes]:
    data = text.encode("utf-8", "surrogatepass")
    return len(data), hashlib.blake2b(data, digest_size=16).digest()
