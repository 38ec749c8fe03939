"""The console: one line a violation, as it happens, for people who watch a terminal.

What belongs here: wording, colour and damping of those lines. What doesn't: what is shown of a
violation (sightings.py), escaping (text.py), the reports of ``check`` and ``probe`` (reports/), the
live page.

Damping: a kind is a rule, an upstream and an operation. Its first violation is written in full
(with why it hurts, once a rule); after that only the 10th, 100th, 1000th ... exchange with it is
told of, as a count. What stood behind the counts is summed up when the sink closes. So the volume
grows with the logarithm of the traffic, and no clock takes part in it.
"""

from __future__ import annotations

import io
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from teeline.proxy.background import Background
from teeline.proxy.sightings import (
    KINDS,
    NAME,
    OTHERS,
    Kind,
    News,
    Seen,
    Sighting,
    kind_of,
    sighting_of,
)
from teeline.proxy.sinks import ignored
from teeline.proxy.text import printable
from teeline.validators.events import Closed, Found
from teeline.validators.model import Severity, Verdict

log = logging.getLogger("teeline.console")

_CAPACITY = 1000
"""Lines that wait for a stuck terminal or pipe; more are counted and dropped."""
_LISTED = 20
"""Kinds that the summary lists."""
_CLOSING = 2.0
"""Seconds that close waits for the stream."""

_COLOURS = {Severity.FAIL: "\x1b[1;31m", Severity.WARN: "\x1b[33m", Severity.INFO: "\x1b[36m"}
_DIM = "\x1b[2m"
_RESET = "\x1b[0m"


def wants_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether escape sequences are welcome: a terminal, not a dumb one, and no NO_COLOR
    (no-color.org).
    """
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Console:
    """Tells of violations on a text stream, from a thread of its own.

    A stream that blocks (a stopped terminal, a full pipe) or fails loses lines, which are counted
    in ``lost``; it never holds up traffic. ``color`` None asks the stream and ``environ``.
    ``localtime`` turns a violation's Unix time into the wall-clock time that is shown.
    """

    def __init__(
        self,
        stream: TextIO,
        color: bool | None = None,
        localtime: Callable[[float], time.struct_time] = time.localtime,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._stream = stream
        self._color = wants_color(stream, environ) if color is None else color
        self._localtime = localtime
        self._counts: Counter[Kind] = Counter()
        self._explained: set[str] = set()
        self._verdicts: Counter[Verdict] = Counter()
        self._exchanges = 0
        self._closed = False
        self._broken = False
        self.lost = 0
        self._writer: Background[str] = Background(
            "teeline-console",
            self._write,
            capacity=_CAPACITY,
            batch=100,
            interval=1.0,
            prompt=True,
        )

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """In how many exchanges each kind was seen."""
        return self._counts

    def start(self) -> None:
        self._writer.start()

    def see(self, seen: Seen) -> None:
        """Tells of a kind's first violation, or of a count that has passed a power of ten."""
        kind, more, at, sighting = seen
        if kind not in self._counts and len(self._counts) >= KINDS:
            kind = OTHERS
        before = self._counts[kind]
        self._counts[kind] = count = before + more
        if not before and sighting is not None and kind is not OTHERS:
            self._say_all(self._in_full(kind, sighting))
        if _passes_power_of_ten(before, count):
            self._say(f"{self._stamp(at, kind)}  {count} exchanges with it so far")

    def closed(self, verdict: Verdict | None) -> None:
        """One more exchange is closed; without a violation no verdict is needed."""
        self._exchanges += 1
        if verdict is not None:
            self._verdicts[verdict] += 1

    def take(self, news: News) -> None:
        """What another process saw."""
        for seen in news.seen:
            self.see(seen)
        self._exchanges += news.exchanges
        self._verdicts.update(news.verdicts)

    async def drain(self, deadline: float) -> None:
        await self._writer.flush(deadline)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._say_all(self._summary())
        if not await self._writer.stop(_CLOSING):
            self.lost += self._writer.waiting

    def _stamp(self, at: float, kind: Kind) -> str:
        return f"{time.strftime('%H:%M:%S', self._localtime(at))} {self._headline(kind)}"

    def _headline(self, kind: Kind) -> str:
        word = self._painted(kind.severity.name, _COLOURS[kind.severity])
        names = (printable(kind.upstream, NAME), printable(kind.operation, NAME))
        return f"{word} {kind.rule}  {' '.join(name for name in names if name)}"

    def _in_full(self, kind: Kind, sighting: Sighting) -> Iterator[str]:
        model = f" {sighting.model}" if sighting.model else ""
        line = f"{self._stamp(sighting.at, kind)}{model}  {sighting.where}: {sighting.message}"
        yield f"{line}  {sighting.evidence}" if sighting.evidence else line
        if kind.rule not in self._explained:
            self._explained.add(kind.rule)
            yield self._painted(f"         why: {sighting.why}", _DIM)
        if sighting.note:
            yield self._painted(f"         note: {sighting.note}", _DIM)

    def _summary(self) -> Iterator[str]:
        if not (self._exchanges or self._counts):
            return
        warn, fail = self._verdicts[Verdict.WARN], self._verdicts[Verdict.FAIL]
        passed = self._exchanges - warn - fail
        yield f"teeline: {self._exchanges} exchanges: {passed} pass, {warn} warn, {fail} fail"
        listed = self._counts.most_common(_LISTED)
        width = max((len(str(count)) for _, count in listed), default=0)
        for kind, count in listed:
            yield f"  {count:>{width}}  {self._headline(kind)}"
        if len(self._counts) > len(listed):
            yield f"  and {len(self._counts) - len(listed)} kinds more"
        if self.lost:
            yield f"  {self.lost} lines were not shown: the terminal took none"

    def _painted(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_RESET}" if self._color else text

    def _say_all(self, lines: Iterator[str]) -> None:
        for line in lines:
            self._say(line)

    def _say(self, line: str) -> None:
        if not self._writer.offer(line):
            self.lost += 1

    def _write(self, lines: list[str]) -> bool:
        """In the writer's thread. A stream that failed once is left alone: it won't come back."""
        if self._broken:
            self.lost += len(lines)
            return True
        text = "".join(f"{line}\n" for line in lines)
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            # A terminal in an 8-bit locale can't show every printable character.
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError, io.UnsupportedOperation) as error:
            self._broken = True
            self.lost += len(lines)
            log.error("the console can't be written (%s); lines are lost", type(error).__name__)
        return True


def _passes_power_of_ten(before: int, count: int) -> bool:
    """Whether 10, 100, 1000 ... is above ``before`` and not above ``count``."""
    return count >= 10 and len(str(count)) > len(str(before))


class ConsoleSink:
    """Tells of this process's own violations of at least ``min_severity``; options are a Console's."""

    name = "console"

    def __init__(
        self, stream: TextIO, min_severity: Severity = Severity.WARN, **options: Any
    ) -> None:
        self._console = Console(stream, **options)
        self._min = min_severity

    @property
    def lost(self) -> int:
        """Lines that were not shown."""
        return self._console.lost

    async def start(self) -> None:
        self._console.start()

    opened = ignored

    def found(self, event: Found) -> None:
        exchange, violation = event.exchange, event.violation
        if violation.severity < self._min:
            return
        kinds = self._console.kinds
        kind = kind_of(exchange, violation, kinds, len(kinds))
        sighting = None if kind in kinds else sighting_of(exchange, violation)
        self._console.see(Seen(kind, 1, violation.at, sighting))

    def closed(self, event: Closed) -> None:
        exchange = event.exchange
        self._console.closed(exchange.verdict if exchange.violations else None)

    async def drain(self, deadline: float) -> None:
        await self._console.drain(deadline)

    async def close(self) -> None:
        await self._console.close()
