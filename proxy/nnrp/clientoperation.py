"""One operation as its client sees it: events while it runs, then one end.

What belongs here: what has come and waits to be read, and the ways in which an operation ends. What
doesn't: packets (clientsession.py), what events and documents mean (proxy/nnrp/bridge).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from teeline.validators.wire.nnrpcodes import CancelReason

HIGH_WATER: Final = 256 * 1024
"""Bytes of events that wait before the operation is full: its connection is read no further."""
_OVERHEAD: Final = 64
"""Bytes that an event takes beside its own."""


@dataclass(frozen=True, slots=True)
class Result:
    """RESULT_PUSH. ``document`` is its JSON, None for an empty success; ``status`` the peer's own code."""

    status: int
    document: bytes | None


@dataclass(frozen=True, slots=True)
class Dropped:
    """RESULT_DROP_REASON, or RESULT_DROP (reason 0). ``diagnostic`` is the peer's text, bounded."""

    reason: int
    diagnostic: bytes = b""


@dataclass(frozen=True, slots=True)
class Failed:
    """An ERROR about the operation, its session or its connection."""

    code: int
    diagnostic: bytes = b""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ended, or the server broke the protocol; ``why`` quotes no peer."""

    why: str
    protocol: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """This side cancelled; whatever the server still sends is dropped."""

    reason: CancelReason


Ending = Result | Dropped | Failed | Lost | Cancelled


class Operation:
    """A submit that was sent. ``cancel`` is the session's, called at most once, before any end."""

    __slots__ = ("_bytes", "_cancel", "_events", "_full", "_waiter", "ending", "frame", "full", "id",
                 "retry_after_ms")  # fmt: skip

    def __init__(
        self,
        id: int,
        frame: int,
        cancel: Callable[[Operation, CancelReason], None],
        full: Callable[[Operation], None],
    ) -> None:
        self.id, self.frame = id, frame
        self._cancel, self._full = cancel, full
        self._events: list[bytes] = []
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self.ending: Ending | None = None
        self.full = False
        self.retry_after_ms = 0

    # -- for whoever asked -----------------------------------------------------------------------------

    async def read(self) -> list[bytes]:
        """The events that have come since, in their order: waits for the first; none at the end.

        Each is the JSON of a PARTIAL_RESULT, unchecked. ``ending`` is set once nothing is returned.
        """
        await self.arrival()
        events, self._events = self._events, []
        self._bytes = 0
        if self.full:
            self.full = False
            self._full(self)
        return events

    @property
    def waiting(self) -> bool:
        """Whether events have come that nobody has read."""
        return bool(self._events)

    async def arrival(self) -> None:
        """Waits until ``read`` would not wait."""
        while not self._events and self.ending is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def cancel(self, reason: CancelReason) -> None:
        """Ends the operation for both sides; nothing where it has ended."""
        if self.ending is None:
            self._cancel(self, reason)

    # -- for the session -------------------------------------------------------------------------------

    def arrived(self, event: bytes) -> None:
        self._events.append(event)
        self._bytes += len(event) + _OVERHEAD
        if self._bytes > HIGH_WATER and not self.full:
            self.full = True
            self._full(self)
        self._wake()

    def end(self, ending: Ending) -> None:
        """The end, which counts only once. What a cancelled operation has waiting is dropped."""
        if self.ending is not None:
            return
        self.ending = ending
        if isinstance(ending, Cancelled):
            self._events.clear()
            self._bytes = 0
        if self.full:
            self.full = False
            self._full(self)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
