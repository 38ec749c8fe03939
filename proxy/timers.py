"""The clocks of one exchange, for those limits of time that are set; by default there are none.

What belongs here: which limit runs when. What doesn't: what becomes of an exchange that is too late
(transfer.py), and the time to connect (upstream.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from teeline.config.model import Timeouts


class Timers:
    """Calls ``late`` once, when the first of the limits is over. The total one runs from here."""

    __slots__ = ("_handle", "_last", "_late", "_loop", "_timeouts", "_total")

    def __init__(self, timeouts: Timeouts, late: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeouts = timeouts
        self._late = late
        self._last = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._total: asyncio.TimerHandle | None = None
        if timeouts.total is not None:
            self._total = self._loop.call_later(timeouts.total, self._over)

    def request_ended(self) -> None:
        """The answer is waited for."""
        if self._timeouts.first_byte is not None:
            self._handle = self._loop.call_later(self._timeouts.first_byte, self._over)

    def answered(self) -> None:
        """The answer's head is there; its pieces may follow each other so slowly, no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._timeouts.idle is not None:
            self._last = self._loop.time()
            self._handle = self._loop.call_later(self._timeouts.idle, self._look)

    def progress(self) -> None:
        """A piece of the answer came. One clock is looked at when it runs out, not set anew."""
        self._last = self._loop.time()

    def cancel(self) -> None:
        for handle in (self._handle, self._total):
            if handle is not None:
                handle.cancel()
        self._handle = self._total = None

    def _look(self) -> None:
        idle = self._timeouts.idle
        assert idle is not None
        left = self._last + idle - self._loop.time()
        if left <= 0:
            self._over()
        else:
            self._handle = self._loop.call_later(left, self._look)

    def _over(self) -> None:
        self.cancel()
        self._late()
