"""Violations by kind: counted where they are seen, told where there is a terminal.

What belongs here: what counts as the same violation seen again, what is said of the first one, and the
sink of a worker process, which sends both to the one process that writes. What doesn't: wording,
damping and the terminal (console.py), the way between processes (link.py).

A kind is a rule, a severity, an upstream and an operation. So what crosses is bounded by kinds, not by
traffic: of each one text, and a count some times a second while it grows.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Container
from typing import Any, Final, NamedTuple

from teeline.proxy.text import printable
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Exchange, Place, Severity, Side, Unit, Verdict, Violation

KINDS: Final = 1000
"""Kinds that are counted apart; more go into one sum."""
NAME: Final = 64
"""Characters shown of a model's or an upstream's name."""
_TEXT: Final = 500
_INTERVAL: Final = 0.2
"""Seconds that what was seen waits for more."""


class Kind(NamedTuple):
    """What counts as the same violation seen again."""

    rule: str
    severity: Severity
    upstream: str
    operation: str


OTHERS: Final = Kind("(other kinds)", Severity.INFO, "", "")


class Sighting(NamedTuple):
    """One violation as it can be shown: every text is escaped and bounded. ``at`` is Unix seconds."""

    at: float
    model: str
    where: str
    message: str
    evidence: str
    why: str
    note: str


class Seen(NamedTuple):
    """So many more exchanges with a violation of a kind, the last one at ``at``.

    ``sighting`` is the first one, where nothing was told of the kind before.
    """

    kind: Kind
    more: int
    at: float
    sighting: Sighting | None


class News(NamedTuple):
    """What a process saw since it told last."""

    seen: tuple[Seen, ...]
    exchanges: int
    verdicts: Counter[Verdict]


def kind_of(exchange: Exchange, violation: Violation, known: Container[Kind], count: int) -> Kind:
    """The kind of a violation, OTHERS where ``count`` kinds are known already and it is none of them."""
    kind = Kind(
        violation.rule.id,
        violation.severity,
        exchange.upstream,
        exchange.operation or "other",
    )
    return kind if kind in known or count < KINDS else OTHERS


def sighting_of(exchange: Exchange, violation: Violation) -> Sighting:
    """What can be shown of a violation."""
    return Sighting(
        violation.at,
        printable(exchange.model, NAME) if exchange.model else "",
        where(violation.place),
        printable(violation.message, _TEXT),
        printable(violation.evidence) if violation.evidence else "",
        printable(violation.rule.why, _TEXT),
        printable(violation.note, _TEXT) if violation.note else "",
    )


def where(place: Place) -> str:
    """A place in words: ``event 12 byte 2345 /choices/0/delta``, escaped."""
    words = ["request"] if place.side is Side.REQUEST else []
    words.append(f"{place.unit} {place.index}" if place.index else str(place.unit))
    if place.unit is not Unit.HEAD:
        words.append(f"byte {place.byte}")
    if place.pointer:
        words.append(printable(place.pointer))
    return " ".join(words)


class SightingSink:
    """Counts violations of at least ``min_severity`` by kind and hands the news on.

    ``tell`` takes news as bytes, and is False where it takes none now: they are kept and told with
    the next ones. It is called on the event loop.
    """

    name = "console"

    def __init__(
        self, tell: Callable[[bytes], bool], min_severity: Severity = Severity.WARN
    ) -> None:
        self._tell = tell
        self._min = min_severity
        self._known: set[Kind] = set()
        self._seen: dict[Kind, Seen] = {}
        self._exchanges = 0
        self._verdicts: Counter[Verdict] = Counter()
        self._due: asyncio.TimerHandle | None = None

    async def start(self) -> None: ...

    def opened(self, event: Opened) -> None: ...

    def found(self, event: Found) -> None:
        exchange, violation = event.exchange, event.violation
        if violation.severity < self._min:
            return
        kind = kind_of(exchange, violation, self._known, len(self._known))
        seen = self._seen.get(kind)
        if seen is not None:
            self._seen[kind] = seen._replace(more=seen.more + 1, at=violation.at)
            return
        sighting = None
        if kind not in self._known:
            self._known.add(kind)
            sighting = None if kind is OTHERS else sighting_of(exchange, violation)
        self._seen[kind] = Seen(kind, 1, violation.at, sighting)
        self._later()

    def closed(self, event: Closed) -> None:
        self._exchanges += 1
        if event.exchange.violations:
            self._verdicts[event.exchange.verdict] += 1
        self._later()

    async def drain(self, deadline: float) -> None:
        self.tell()

    async def close(self) -> None:
        self.tell()

    def tell(self) -> bool:
        """Hands on what was seen since the last time; False where it was not taken."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if not (self._seen or self._exchanges):
            return True
        news = News(tuple(self._seen.values()), self._exchanges, self._verdicts)
        if not self._tell(encode(news)):
            self._later()
            return False
        self._seen, self._exchanges, self._verdicts = {}, 0, Counter()
        return True

    def _later(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_INTERVAL, self.tell)


def encode(news: News) -> bytes:
    """News as JSON."""
    seen = [
        (kind.rule, kind.severity.word, kind.upstream, kind.operation, more, at, sighting)
        for kind, more, at, sighting in news.seen
    ]
    verdicts = {verdict.value: count for verdict, count in news.verdicts.items()}
    return json.dumps((seen, news.exchanges, verdicts)).encode("ascii")


def decode(data: bytes) -> News:
    """News out of JSON; ValueError where they are none."""
    try:
        seen, exchanges, verdicts = json.loads(data)
        return News(
            tuple(_seen(*each) for each in seen),
            int(exchanges),
            Counter({Verdict(word): int(count) for word, count in verdicts.items()}),
        )
    except (TypeError, AttributeError) as error:
        raise ValueError("no news") from error


def _seen(
    rule: str, severity: str, upstream: str, operation: str, more: int, at: float, sighting: Any
) -> Seen:
    kind = Kind(rule, Severity.parse(severity), upstream, operation)
    return Seen(kind, int(more), float(at), None if sighting is None else Sighting(*sighting))
