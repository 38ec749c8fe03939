"""The console sink: one line a violation, as it happens, for people who watch a terminal.

What belongs here: wording, colour and damping of those lines. What doesn't: escaping (text.py), the
reports of ``check`` and ``probe`` (reports/), the live page.

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
from typing import NamedTuple, TextIO

from teeline.proxy.background import Background
from teeline.proxy.text import printable
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Exchange, Place, Severity, Side, Unit, Verdict, Violation

log = logging.getLogger("teeline.console")

_CAPACITY = 1000
"""Lines that wait for a stuck terminal or pipe; more are counted and dropped."""
_KINDS = 1000
"""Kinds that are counted apart; more go into one sum."""
_LISTED = 20
"""Kinds that the summary lists."""
_NAME = 64
"""Characters shown of a model's or an upstream's name."""
_CLOSING = 2.0
"""Seconds that close waits for the stream."""

_COLOURS = {Severity.FAIL: "\x1b[1;31m", Severity.WARN: "\x1b[33m", Severity.INFO: "\x1b[36m"}
_DIM = "\x1b[2m"
_RESET = "\x1b[0m"


class Kind(NamedTuple):
    """What counts as the same violation seen again."""

    rule: str
    severity: Severity
    upstream: str
    operation: str


_OTHERS = Kind("(other kinds)", Severity.INFO, "", "")


def wants_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether escape sequences are welcome: a terminal, not a dumb one, and no NO_COLOR
    (no-color.org).
    """
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def where(place: Place) -> str:
    """A place in words: ``event 12 byte 2345 /choices/0/delta``, escaped."""
    words = ["request"] if place.side is Side.REQUEST else []
    words.append(f"{place.unit} {place.index}" if place.index else str(place.unit))
    if place.unit is not Unit.HEAD:
        words.append(f"byte {place.byte}")
    if place.pointer:
        words.append(printable(place.pointer))
    return " ".join(words)


class ConsoleSink:
    """Writes violations of at least ``min_severity`` to a text stream, from a thread of its own.

    A stream that blocks (a stopped terminal, a full pipe) or fails loses lines, which are counted
    in ``lost``; it never holds up traffic. ``color`` None asks the stream and ``environ``.
    ``localtime`` turns a violation's Unix time into the wall-clock time that is shown.
    """

    name = "console"

    def __init__(
        self,
        stream: TextIO,
        min_severity: Severity = Severity.WARN,
        color: bool | None = None,
        localtime: Callable[[float], time.struct_time] = time.localtime,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._stream = stream
        self._min = min_severity
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

    async def start(self) -> None:
        self._writer.start()

    def opened(self, event: Opened) -> None: ...

    def found(self, event: Found) -> None:
        violation = event.violation
        if violation.severity < self._min:
            return
        kind = self._kind(event.exchange, violation)
        self._counts[kind] += 1
        count = self._counts[kind]
        if count == 1 and kind is not _OTHERS:
            self._say_all(self._in_full(kind, event.exchange, violation))
        elif _power_of_ten(count):
            self._say(f"{self._stamp(violation, kind)}  {count} exchanges with it so far")

    def closed(self, event: Closed) -> None:
        self._exchanges += 1
        if event.exchange.violations:
            self._verdicts[event.exchange.verdict] += 1

    async def drain(self, deadline: float) -> None:
        await self._writer.flush(deadline)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._say_all(self._summary())
        if not await self._writer.stop(_CLOSING):
            self.lost += self._writer.waiting

    def _kind(self, exchange: Exchange, violation: Violation) -> Kind:
        kind = Kind(
            violation.rule.id,
            violation.severity,
            exchange.upstream,
            exchange.operation or "other",
        )
        return kind if kind in self._counts or len(self._counts) < _KINDS else _OTHERS

    def _stamp(self, violation: Violation, kind: Kind) -> str:
        at = time.strftime("%H:%M:%S", self._localtime(violation.at))
        return f"{at} {self._headline(kind)}"

    def _headline(self, kind: Kind) -> str:
        word = self._painted(kind.severity.name, _COLOURS[kind.severity])
        names = (printable(kind.upstream, _NAME), printable(kind.operation, _NAME))
        return f"{word} {kind.rule}  {' '.join(name for name in names if name)}"

    def _in_full(self, kind: Kind, exchange: Exchange, violation: Violation) -> Iterator[str]:
        model = f" {printable(exchange.model, _NAME)}" if exchange.model else ""
        line = f"{self._stamp(violation, kind)}{model}  {where(violation.place)}: "
        line += printable(violation.message, 500)
        if violation.evidence:
            line += f"  {printable(violation.evidence)}"
        yield line
        if kind.rule not in self._explained:
            self._explained.add(kind.rule)
            yield self._painted(f"         why: {printable(violation.rule.why, 500)}", _DIM)
        if violation.note:
            yield self._painted(f"         note: {printable(violation.note, 500)}", _DIM)

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


def _power_of_ten(count: int) -> bool:
    return count >= 10 and str(count).strip("0") == "1"
