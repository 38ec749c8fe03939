"""Time as exchanges see it.

What belongs here: the one place that reads the wall clock for observation. What doesn't: timeouts
and deadlines, which are the event loop's (asyncio counts them on its own monotonic clock).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

Now = Callable[[], float]
"""The present of one exchange, in seconds since the Unix epoch; never steps back."""


class Clock(Protocol):
    """Gives each exchange a time of its own."""

    def start(self) -> Now:
        """A source of times for one exchange, anchored to the wall clock at this call."""


class SystemClock:
    """One reading of the wall clock an exchange, carried on by the monotonic clock.

    A wall clock that is set back in the middle of an exchange must not give an event a time before
    the one that caused it; anchoring again for each exchange keeps a long-running process from
    drifting.
    """

    def start(self) -> Now:
        anchor = time.time() - time.monotonic()
        monotonic = time.monotonic
        return lambda: anchor + monotonic()
