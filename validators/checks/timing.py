"""The pace of an answer: the only observations that depend on when bytes were read.

What belongs here: waits and gaps between the times that the caller gave. Where everything has one time, as
in a file that holds none, there is nothing to observe. What doesn't: what was read.
"""

from __future__ import annotations

from collections.abc import Mapping

from teeline.validators.checks.context import Context
from teeline.validators.model import Ended, Unit
from teeline.validators.operation import Operation

_AT_ONCE = 0.005
"""Seconds: a long answer that lay ready takes several reads, one right after the other."""
_PIECES = 5
_AROUND: Mapping[Operation, int] = {
    Operation.CHAT: 3,  # role, finish_reason, usage
    Operation.COMPLETIONS: 2,
    Operation.RESPONSES: 8,  # created, in_progress, and what opens and closes an item and its part
}
"""Events of a stream that say nothing of its content."""


class Pace:
    """Follows one exchange. Times never step back."""

    asked = 0.0
    """When the request, or the last part of it, was with the upstream."""
    _last: float | None = None
    _gap = 0.0
    """The largest that was not reported."""
    _first_event = 0.0
    _last_event = 0.0
    _events = 0

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._timing = ctx.exchange.timing
        self._longest = ctx.limits.idle_gap

    def head(self, at: float) -> None:
        """The answer has begun."""
        self._last = at
        wait, limit = at - self.asked, self._ctx.limits.slow_first_byte
        if wait > limit:
            self._ctx.report.place(Unit.HEAD)
            self._ctx.report("timing.slow-first-byte", detail=f"{wait:.1f} s, above {limit:g} s")

    def read(self, at: float, events: int, *, streaming: bool) -> None:
        """A piece of the body was read and looked at; ``events`` have come with it and before."""
        timing, last = self._timing, self._last
        self._last = at
        if last is not None and at - last > self._gap:
            self._gap = at - last
        last = timing.last_byte
        timing.last_byte = at
        if last is not None and at - last > timing.largest_gap:
            timing.largest_gap = at - last
        if not streaming:
            return  # not an event stream, or not yet known to be one: the gap is kept
        if self._gap > self._longest:
            self._idle()
        if events > self._events:
            self._advanced(at, events)

    def streamed(self, at: float, events: int) -> None:
        """The same for a further piece of what was known to be an event stream before it."""
        timing = self._timing
        gap = at - self._last  # type: ignore[operator]  # there was a piece before
        self._last = timing.last_byte = at
        if gap > timing.largest_gap:
            timing.largest_gap = gap
        if gap > self._longest:
            self._gap = gap
            self._idle()
        if events > self._events:
            if self._events:
                self._last_event = at
                self._events = events
            else:
                self._advanced(at, events)

    @property
    def started(self) -> tuple[float, float, float] | None:
        """Once events have come: the time of the last read, the largest gap, and the longest that is none of
        an idle stream's."""
        if self._last is None or not self._events:
            return None
        return self._last, self._timing.largest_gap, self._longest

    def passed(self, at: float, gap: float, events: int) -> None:
        """Several such pieces, without an idle gap: the time of the last one, and the largest gap of them or
        those before."""
        timing = self._timing
        self._last = timing.last_byte = self._last_event = at
        timing.largest_gap = max(timing.largest_gap, gap)
        self._events = events

    def _advanced(self, at: float, events: int) -> None:
        """Further events have come."""
        if not self._events:
            self._first_event = at
            if self._timing.first_event is None:
                self._timing.first_event = at
        self._last_event = at
        self._events = events

    def _idle(self) -> None:
        gap, self._gap = self._gap, 0.0
        report = self._ctx.report
        report.place(Unit.EVENT, self._ctx.exchange.events, report.byte)
        report("timing.idle-gap", detail=f"{gap:.1f} s, above {self._longest:g} s")

    def end(self, at: float, ended: Ended) -> None:
        """Nothing more comes of an event stream."""
        if self._last is not None:
            self._gap = max(self._gap, at - self._last)
        if self._gap > self._longest:
            self._idle()
        if ended is Ended.COMPLETE:
            self._burst()

    def _burst(self) -> None:
        """Everything at once after a long wait: the stream was held back and let go at its end."""
        ctx = self._ctx
        wait, spread = self._first_event - self.asked, self._last_event - self._first_event
        fewest = _PIECES + _AROUND.get(ctx.operation, 0)
        if self._events >= fewest and spread <= _AT_ONCE and wait >= ctx.limits.burst_wait:
            ctx.report.place(Unit.EVENT, self._events, ctx.report.byte)
            ctx.report(
                "timing.burst",
                detail=f"{self._events} events within {spread * 1000:.0f} ms, after {wait:.1f} s",
            )
