"""What the live page is told of the exchanges of one process: small batches of JSON, a few a second.

What belongs here: the sink, and what a batch holds. What doesn't: what becomes of batches (hub.py), how
they get there: ``publish`` is given bytes, since the hub may live in another process.

On the event loop an exchange costs two dictionary operations and three appends. A thread adds up; a
batch holds exact sums of everything and the rows of some exchanges: under load the list is a sample, in
which broken exchanges go first, and the sums still are not.

A batch is an object, or several where one would be larger than the way to the hub takes; what several
hold adds up to what one would have held:

| member | what |
|---|---|
| `v`, `worker`, `at` | 1, which process, Unix seconds |
| `tallies` | by upstream: opened, closed, failed, warned, output tokens, times to the first event by bucket |
| `open` | by upstream: exchanges under way |
| `streams` | rows of some of those, the broken and the oldest first |
| `faults` | rule, severity, upstream, model, count, last time, an exchange's id |
| `rows`, `left_out` | exchanges that closed, in this order, and how many more did |
| `records` | with ``details``: their audit records, for where no log is written |
| `lost` | exchanges and findings since the start that nothing tells of: the thread got no time to |
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.audit.record import exchange_record
from teeline.proxy.background import Background
from teeline.proxy.monitor import latency
from teeline.proxy.monitor.rows import live_row
from teeline.proxy.telemetry.metrics import reported_tokens
from teeline.proxy.text import printable
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Exchange, Severity, Verdict, Violation

VERSION: Final = 1
PERIOD: Final = 0.25
"""Seconds between two batches at least."""
ROWS: Final = 50
"""Rows of closed exchanges a batch."""
STREAMS: Final = 50
"""Rows of exchanges under way a batch."""
RECORDS: Final = 20
FAULTS: Final = 100
"""Kinds of faults a batch; beyond that models are not told apart."""
MESSAGE: Final = 60 * 1024
"""Bytes of what is published at once, at most; the link between two processes takes 64 KiB."""

_PART: Final = 24 * 1024
"""Bytes of a list that goes out by itself."""
_QUEUE = 65536
_BATCH = 1024
_CLOSING = 2.0
_NAME = 128

Publish = Callable[[bytes], None]


class FaultKey(NamedTuple):
    """What counts as the same fault."""

    rule: str
    severity: str
    upstream: str
    model: str


class Tally:
    """What happened at one upstream since the last batch."""

    __slots__ = ("closed", "failed", "first", "opened", "tokens", "warned")

    def __init__(self) -> None:
        self.opened = self.closed = self.failed = self.warned = self.tokens = 0
        self.first: dict[int, int] = {}

    def add(self, exchange: Exchange, verdict: Verdict) -> None:
        self.closed += 1
        self.failed += verdict is Verdict.FAIL
        self.warned += verdict is Verdict.WARN
        if exchange.usage:
            self.tokens += dict(reported_tokens(exchange.usage)).get("output", 0)
        timing = exchange.timing
        if timing.first_event is not None:
            number = latency.bucket(timing.first_event - timing.start)
            self.first[number] = self.first.get(number, 0) + 1

    def as_list(self) -> list[Any]:
        first = {str(number): count for number, count in self.first.items()}
        return [self.opened, self.closed, self.failed, self.warned, self.tokens, first]


class Batch:
    """What is to be told next; used by one thread."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.faults: dict[FaultKey, list[Any]] = {}
        self.broken: deque[Exchange] = deque(maxlen=ROWS)
        self.clean: deque[Exchange] = deque(maxlen=ROWS)
        self.closed = 0

    @property
    def empty(self) -> bool:
        return not self.tallies and not self.faults

    def tally(self, upstream: str) -> Tally:
        found = self.tallies.get(upstream)
        if found is None:
            found = self.tallies[upstream] = Tally()
        return found

    def close(self, exchange: Exchange) -> None:
        verdict, clean = Verdict.PASS, True
        if exchange.violations:
            verdict = exchange.verdict
            clean = verdict is Verdict.PASS and exchange.client_verdict is Verdict.PASS
        self.tally(exchange.upstream).add(exchange, verdict)
        self.closed += 1
        (self.clean if clean else self.broken).append(exchange)

    def find(self, exchange: Exchange, violation: Violation) -> None:
        model = printable(exchange.model or "", _NAME)
        key = FaultKey(violation.rule.id, violation.severity.word, exchange.upstream, model)
        if key not in self.faults and len(self.faults) >= FAULTS:
            key = key._replace(model="")
        known = self.faults.setdefault(key, [0, 0.0, ""])
        known[0] += 1
        known[1:] = [round(violation.at, 3), exchange.id]

    def listed(self) -> list[Exchange]:
        """The exchanges that have rows, by their ends: the broken ones, and as many clean ones as fit."""
        room = ROWS - len(self.broken)
        clean = list(self.clean)[-room:] if room else []
        chosen = [*self.broken, *clean]
        return sorted(chosen, key=lambda exchange: exchange.timing.end or 0.0)


class FeedSink:
    """Tells of exchanges through ``publish``, which is called on the event loop with one batch.

    ``worker`` names the process. ``details``: records go along, for where there is no audit log to read
    them from. ``clock`` gives Unix seconds.
    """

    name = "monitor"

    def __init__(
        self,
        publish: Publish,
        worker: str = "0",
        *,
        details: bool = False,
        clock: Callable[[], float] = time.time,
        period: float = PERIOD,
        queue_size: int = _QUEUE,
    ) -> None:
        self.lost = 0
        """Exchanges and findings that nothing tells of: the thread got no time to."""
        self._publish = publish
        self._worker = worker
        self._details = details
        self._clock = clock
        self._period = period
        self._open: dict[str, Exchange] = {}
        self._batch = Batch()
        self._told = 0.0
        self._idle = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: Background[tuple[Exchange, Violation | None, bool]] = Background(
            "teeline-monitor",
            self._add,
            capacity=queue_size,
            batch=_BATCH,
            interval=period,
            tick=self._tick,
        )

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._background.start()

    def opened(self, event: Opened) -> None:
        exchange = event.exchange
        # Kept here and not in the thread: what a full queue loses must not stay open for ever.
        self._open[exchange.id] = exchange
        self._offer((exchange, None, False))

    def found(self, event: Found) -> None:
        if event.violation.severity is not Severity.INFO:
            self._offer((event.exchange, event.violation, False))

    def closed(self, event: Closed) -> None:
        exchange = event.exchange
        self._open.pop(exchange.id, None)
        self._offer((exchange, None, True))

    async def drain(self, deadline: float) -> None:
        """Returns when all that happened before was given to ``publish``."""
        await self._background.flush(deadline)
        await asyncio.sleep(0)  # what the thread handed to the loop runs before this returns

    async def close(self) -> None:
        await self._background.stop(_CLOSING)

    def _offer(self, item: tuple[Exchange, Violation | None, bool]) -> None:
        if not self._background.offer(item):
            self.lost += 1

    def _add(self, items: Sequence[tuple[Exchange, Violation | None, bool]]) -> bool:
        batch = self._batch
        for exchange, violation, closed in items:
            if violation is not None:
                batch.find(exchange, violation)
            elif closed:
                batch.close(exchange)
            else:
                batch.tally(exchange.upstream).opened += 1
        return True

    def _tick(self, flush: bool) -> None:
        now = self._clock()
        waited = abs(now - self._told)
        if waited < self._period and not flush:
            return
        if self._batch.empty and self._is_quiet(waited):
            return
        self._told = now
        messages = list(self._messages(now))
        self._batch = Batch()
        try:
            for data in messages:
                self._hand_over(data)
        except RuntimeError:
            self.lost += 1  # the loop is closed: nobody is left who could be told

    def _hand_over(self, data: bytes) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._publish, data)

    def _is_quiet(self, waited: float) -> bool:
        """Whether nothing is worth telling: nothing is under way, and that was told."""
        if self._open:
            self._idle = False
            return waited < 2 * self._period  # how far it is
        was, self._idle = self._idle, True
        return was

    def _messages(self, now: float) -> Iterator[bytes]:
        """The batch, as one message where it fits in one."""
        batch = self._batch
        exchanges = batch.listed()
        # A copy: the loop goes on opening and closing.
        under_way = list(self._open.values())
        who = {"v": VERSION, "worker": self._worker, "at": round(now, 3)}
        sums = {
            "tallies": {name: tally.as_list() for name, tally in batch.tallies.items()},
            "open": Counter(exchange.upstream for exchange in under_way),
            "left_out": batch.closed - len(exchanges),
            "lost": self.lost,
        }
        first = itertools.islice(_first(under_way), STREAMS)
        lists = {
            "streams": _fitting(orjson.dumps(live_row(each)) for each in first),
            "faults": [orjson.dumps([*key, *rest]) for key, rest in batch.faults.items()],
            "rows": [orjson.dumps(live_row(each)) for each in exchanges],
            "records": _records(exchanges[-RECORDS:]) if self._details else [],
        }
        head = orjson.dumps({**who, **sums})
        if len(head) + sum(map(_size, lists.values())) < MESSAGE:
            yield orjson.dumps({**who, **sums, **{n: _joined(lists[n]) for n in lists}})
            return
        yield orjson.dumps({**who, **sums, "streams": _joined(lists.pop("streams"))})
        for name, items in lists.items():
            for part in _parts(items):
                yield orjson.dumps({**who, name: _joined(part)})


def _first(exchanges: Sequence[Exchange]) -> Iterator[Exchange]:
    """Those that have broken something, then the others; each in the order in which they began."""
    broken = [exchange for exchange in exchanges if exchange.violations]
    yield from broken
    if len(broken) < STREAMS:
        yield from (exchange for exchange in exchanges if not exchange.violations)


def _records(exchanges: Sequence[Exchange]) -> list[bytes]:
    """Records that a message has room for; one that is larger is left out."""
    made = (orjson.dumps(exchange_record(exchange)) for exchange in exchanges)
    return [record for record in made if len(record) < MESSAGE - _PART]


def _size(items: Sequence[bytes]) -> int:
    return sum(map(len, items)) + len(items) + 16


def _joined(items: Sequence[bytes]) -> list[orjson.Fragment]:
    return [orjson.Fragment(item) for item in items]


def _fitting(items: Iterable[bytes]) -> list[bytes]:
    """The first of them, as many as a part holds."""
    return next(_parts(items), [])


def _parts(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """In lists of ``_PART`` bytes, or of one item that is larger."""
    part: list[bytes] = []
    size = 0
    for item in items:
        if part and size + len(item) > _PART:
            yield part
            part, size = [], 0
        part.append(item)
        size += len(item) + 1
    if part:
        yield part
