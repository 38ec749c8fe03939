"""The quickest way through a paced stream: events that come one a read, each of which only carries on a text.

What belongs here: telling such a read by its bytes, and counting it. What is not done for each of them is
handed over when something else comes; place, pace and course are then what they would have been. What
doesn't: where the bytes that a read is compared with are from (fast.py), and what a text means (checks).
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from teeline.validators.fast import MAX_HOLE, Template
from teeline.validators.model import Exchange
from teeline.validators.timeline import LAST, Moment, Timeline

_TOGETHER: Final = 64
"""Texts that are handed over together."""
_is_plain: Final = re.compile(rb"[ !#-\[\]-~]").match
_LETTERS: Final = bytes(b"!a"[_is_plain(bytes((byte,))) is not None] for byte in range(256))
"""What stands for itself in a JSON string becomes a letter, everything else none: one look at a text then
tells whether it is plain and not empty."""


class Paced(Protocol):
    """Whose events are counted."""

    def passed(self, count: int, size: int, last: int) -> None:
        """Takes so many events and bytes; the last one has ``last`` bytes."""


class Pace(Protocol):
    """Who knows when they came (checks/timing.py)."""

    @property
    def started(self) -> tuple[float, float, float] | None: ...

    def passed(self, at: float, gap: float, events: int) -> None: ...


class Run:
    """Reads in a row that were taken. The exchange's counters are up to date, all else waits.

    ``at`` is the time of the last read, ``gap`` the longest wait so far that was none of an idle stream.
    ``events`` and ``bytes`` are the exchange's before the run.
    """

    __slots__ = (
        "_around",
        "_exchange",
        "_first",
        "_inner",
        "_last",
        "_longest",
        "_most",
        "_reads",
        "at",
        "bytes",
        "events",
        "gap",
        "template",
    )

    def __init__(self, exchange: Exchange, template: Template) -> None:
        self._exchange = exchange
        self.template = template
        self._first, self._inner, self._last = template.ends
        self._around = len(self._first) + len(self._last)
        self._most = self._around + MAX_HOLE
        self._reads: list[tuple[float, int]] = [(0.0, 0)] * LAST  # when, and how many bytes

    def begin(self, at: float, gap: float, longest: float) -> Run:
        """``at`` is the time of the read before; a wait beyond ``longest`` seconds ends the run."""
        self._longest = longest
        self.at = at
        self.gap = min(gap, longest)
        self.events = self._exchange.events
        self.bytes = self._exchange.response_bytes
        return self

    def take(self, data: bytes, at: float) -> bool:
        """Whether a read is one event of the run's kind, with a plain text, in time; it is then counted."""
        text = data.removeprefix(self._first).removesuffix(self._last)
        size = len(data)
        if size - len(text) != self._around:
            return False
        if self._inner:
            text, inner, padding = text.partition(self._inner)
            if not inner or (padding and not padding.translate(_LETTERS).isalpha()):
                return False
        if not text.translate(_LETTERS).isalpha() or size > self._most:
            return False
        # What ``_count`` does, without the call: nothing else is done for so many reads.
        gap = at - self.at
        if gap > self.gap:
            if gap > self._longest:
                return False
            self.gap = gap
        self.at = at
        exchange = self._exchange
        exchange.response_bytes += size
        exchange.events = events = exchange.events + 1
        self._reads[events % LAST] = (at, size)
        return True

    def _count(self, size: int, at: float) -> bool:
        """Counts a read of so many bytes that is one of the run's, as ``take`` does, if it is in time."""
        if size > self._most:
            return False
        gap = at - self.at
        if gap > self.gap:
            if gap > self._longest:
                return False
            self.gap = gap
        self.at = at
        exchange = self._exchange
        exchange.response_bytes += size
        exchange.events = events = exchange.events + 1
        self._reads[events % LAST] = (at, size)
        return True

    def close(self) -> None:
        """Nothing more is taken: whose texts they are gets to know what it has to."""

    @property
    def reads(self) -> list[Moment]:
        """The last reads that were taken, the earliest first."""
        last = self._exchange.events
        first = max(self.events + 1, last - LAST + 1)
        reads = [(event, *self._reads[event % LAST]) for event in range(first, last + 1)]
        return [(at, "read", event, size) for event, at, size in reads]

    def hand_over(self, stream: Paced, pace: Pace, timeline: Timeline) -> None:
        """Does what was put off."""
        self.close()
        reads, exchange = self.reads, self._exchange
        if reads:
            size = exchange.response_bytes - self.bytes
            stream.passed(exchange.events - self.events, size, reads[-1][3])
            pace.passed(self.at, self.gap, exchange.events)
            timeline.passed(reads)


class NumberedRun(Run):
    """The same of events with consecutive numbers, whose texts are compared with others later."""

    __slots__ = ("_ahead", "_number", "_sides", "_texts")

    def __init__(self, exchange: Exchange, template: Template) -> None:
        super().__init__(exchange, template)
        before, self._inner, behind = template.numbered_ends
        self._ahead = len(before) > 1  # the number comes before the text
        self._sides = before if self._ahead else behind  # of the number
        self._first, self._last = before[0], behind[-1]
        self._most = sum(map(len, (*before, *behind))) + MAX_HOLE
        self._texts: list[bytes] = []

    def begin(self, at: float, gap: float, longest: float) -> Run:
        self._number = int(self.template.to.expected())
        return super().begin(at, gap, longest)

    def take(self, data: bytes, at: float) -> bool:
        lead, tail = self._first, self._last
        before, behind = self._sides
        number = b"%b%d%b" % (before, self._number, behind)
        if self._ahead:
            lead = number
        else:
            tail = number
        text = data.removeprefix(lead).removesuffix(tail)
        if len(data) - len(text) != len(lead) + len(tail):
            return False
        if self._inner:
            text, inner, padding = text.partition(self._inner)
            if not inner or (padding and not padding.translate(_LETTERS).isalpha()):
                return False
        if not text.translate(_LETTERS).isalpha() or not self._count(len(data), at):
            return False
        self._number += 1
        texts = self._texts
        texts.append(text)
        if len(texts) == _TOGETHER:
            self.close()
        return True

    def close(self) -> None:
        if self._texts:
            self.template.to.add_all(self._texts)
            self._texts.clear()


def run_of(before: Run | None, exchange: Exchange, ready: Template, pace: Pace) -> Run | None:
    """The run of the next reads, which may go on with the one before; None where nothing has come yet."""
    started = pace.started
    if started is None:
        return None
    if before is None or before.template is not ready:
        before = (NumberedRun if ready.numbered else Run)(exchange, ready)
    return before.begin(*started)
