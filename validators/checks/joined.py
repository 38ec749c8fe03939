"""Texts that a stream tells several times: in deltas, in done events, in items, in the final response.

What belongs here: one text and what is known of it, and how many of them a stream may have. Holds a length
and a running hash instead of the text, and a little of it that waits to be hashed. What doesn't: which text
an event means (respitems.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import MutableMapping
from typing import Any

from teeline.validators.checks.context import Context

_WAITING = 1024
"""Bytes that are hashed together: hashing costs by the call more than by the byte."""


class Texts:
    """The texts of one stream: bounded in number, and known as long as every event could be read.

    ``losses`` counts the events that could not be read, assigned or held: each may have told a fragment of
    any text, or its beginning or end (P9).
    """

    __slots__ = ("_ctx", "_held", "losses")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._held = 0
        self.losses = 0

    def open(
        self, store: MutableMapping[Any, Joined], key: Any, kind: str, *, partial: bool = False
    ) -> Joined:
        """A new text under a key, held as long as there is room; ``partial``: it may have begun before."""
        joined = Joined(self, kind, partial=partial)
        if self._held < self._ctx.limits.texts:
            self._held += 1
            store[key] = joined
        else:
            self._ctx.partial("part-limit")
            self.losses += 1
        return joined


class Joined:
    """What is known of one text of a kind.

    ``partial``: fragments are missing, only whole texts are compared. ``final``: its done event came.
    ``closed``: the part that it belongs to is over.
    """

    __slots__ = (
        "_half",
        "_hash",
        "_length",
        "_since",
        "_texts",
        "_waiting",
        "_whole",
        "closed",
        "deltas",
        "final",
        "kind",
        "partial",
    )

    def __init__(self, texts: Texts, kind: str, *, partial: bool = False) -> None:
        self._texts = texts
        self._since = texts.losses
        self._hash = hashlib.blake2b(digest_size=16)
        self._length = 0
        self._waiting = bytearray()
        self._half = ""
        self._whole: tuple[int, bytes] | None = None
        self.kind = kind
        self.partial = partial
        self.deltas = 0
        self.final = False
        self.closed = False

    def add(self, delta: str) -> None:
        """One more fragment. A character may be cut between its surrogates: the first waits for the other."""
        if self._half or "\ud800" <= delta[-1:] <= "\udbff":
            delta = self._half + delta
            cut = len(delta) - ("\ud800" <= delta[-1:] <= "\udbff")
            delta, self._half = delta[:cut], delta[cut:]
        self._add(_utf8(delta))

    def add_utf8(self, delta: bytes) -> None:
        """One more fragment, encoded, of whole characters."""
        if self._half:
            self.add(delta.decode())
        else:
            self._add(delta)

    def add_all(self, deltas: list[bytes]) -> None:
        """Several fragments, encoded, each of whole characters and not empty."""
        self.add_utf8(deltas[0] if len(deltas) == 1 else b"".join(deltas))
        self.deltas += len(deltas) - 1

    def _add(self, delta: bytes) -> None:
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
        told = _fingerprint(text)
        if self._whole is None:
            known = self.deltas and not self.partial and self._since == self._texts.losses
            self._whole = self.fingerprint() if known else told
        return self._whole == told

    def fingerprint(self) -> tuple[int, bytes]:
        """Bytes (UTF-8) and hash of the fragments so far, as one text."""
        self._waiting += _utf8(self._half)
        self._half = ""
        self._flush()
        return self._length, self._hash.digest()


def _utf8(text: str) -> bytes:
    """A text in UTF-8, two surrogates that follow each other as the character that they are."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")


def _fingerprint(text: str) -> tuple[int, bytes]:
    data = _utf8(text)
    return len(data), hashlib.blake2b(data, digest_size=16).digest()
