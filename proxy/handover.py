"""When observers learn of what passed: each step at once, or many of them together a moment later.

What belongs here: the bounds of that moment, and keeping the order. What doesn't: what a step does (tee.py)
and what it costs (validators).

Between two reads of sockets everything that an inspection needs has been pushed out of the processor's
caches; several steps in a row find it there, and forwarding finds its own. What waits is bounded in time, in
number and in bytes, and each step knows when it happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

log = logging.getLogger("teeline.tee")

Step = Callable[[Any, float], None]
"""Takes what happened and when."""

DELAY: Final = 0.01
"""Seconds that a step waits at most."""
MOST: Final = 96
"""Steps that wait at most."""
MUCH: Final = 24 * 1024
"""Bytes that wait at most: half a millisecond's work, in which no stream moves, whether they are ten whole
exchanges or a hundred chunks."""


class Handover(Protocol):
    """Has steps done, one after the other in the order in which they came."""

    def hand(self, step: Step, what: Any, at: float, size: int = 0) -> None:
        """Has ``step(what, at)`` done; ``size`` is in bytes, where some passed."""

    def catch_up(self) -> None:
        """Returns when nothing waits any more."""


class AtOnce:
    """Does each step as it comes."""

    def hand(self, step: Step, what: Any, at: float, size: int = 0) -> None:
        """Does it."""
        step(what, at)

    def catch_up(self) -> None:
        """There is nothing to do."""


class InBatches:
    """Lets steps wait for others, on one event loop. A step that raises loses itself alone."""

    def __init__(self) -> None:
        self._steps: list[tuple[Step, Any, float]] = []
        self._bytes = 0
        self._timed = False  # a timer is set, which may be an earlier batch's
        self._failed = False

    def hand(self, step: Step, what: Any, at: float, size: int = 0) -> None:
        """Has it done in a moment, or now where enough has come."""
        if not self._timed:
            self._timed = True
            asyncio.get_running_loop().call_later(DELAY, self._in_time)
        steps = self._steps
        steps.append((step, what, at))
        self._bytes += size
        if self._bytes >= MUCH or len(steps) >= MOST:
            self.catch_up()

    def _in_time(self) -> None:
        self._timed = False
        self.catch_up()

    def catch_up(self) -> None:
        """Does everything that waits."""
        steps, self._steps, self._bytes = self._steps, [], 0
        for step, what, at in steps:
            try:
                step(what, at)
            except Exception as error:  # noqa: BLE001  observers can't break traffic, nor each other
                self._say(error)

    def _say(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            # The type alone: an exception's text may hold what a peer sent.
            log.error("a step of inspection failed: %s; traffic goes on", type(error).__name__)
