"""The numbers behind the metrics: plain ints in dicts, recorded away from the event loop.

What belongs here: keeping numbers, and what an exchange adds to which. What doesn't: what metrics
there are (instruments.py), how they leave (metricexport.py, prometheus.py).

On the event loop an exchange costs an append to a queue; a thread that never waits for a network
adds up. A snapshot is read without a lock from any thread: a histogram's count is the sum of its
buckets, so a value that is being recorded can't tear the two apart.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from teeline.proxy.background import Background
from teeline.proxy.telemetry import instruments, names
from teeline.proxy.telemetry.attributes import (
    OTHER_ERROR,
    Describer,
    Folding,
    Server,
    operation_name,
)
from teeline.proxy.telemetry.instruments import INSTRUMENTS, Instrument, Kind
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Exchange, Violation

Part = str | int | None
Key = tuple[Part, ...]
Value = int | tuple[list[int], float]
"""A counter's number, or a histogram's buckets and the sum of what fell into them."""
Settle = Callable[[float], Awaitable[None]]
_Shape = tuple[Hashable, ...]
Observe = Callable[[], Mapping[Key, int]]

SERIES: Final = 2000
"""Series a metric at most; what comes beyond goes into one that says so."""
OVERFLOW: Final[Key] = ("\0overflow",)  # no upstream and no other part can be named so
_REASONS = 32
_KEPT = 1024
_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_UNSETTLED: Final = frozenset({names.OTHER, OTHER_ERROR})
_QUEUE = 65536
_BATCH = (
    64  # as the others' batches, so that exchanges are read while the processor's caches have them
)
_INTERVAL = 0.2
_CLOSING = 2.0


class Series(NamedTuple):
    """A metric's numbers at one moment."""

    instrument: Instrument
    values: Mapping[Key, Value]


class _Histogram:
    __slots__ = ("buckets", "sum")

    def __init__(self, buckets: int) -> None:
        self.buckets = [0] * buckets
        self.sum = 0.0


class Numbers:
    """The numbers of one metric. One thread records; any may take a snapshot."""

    def __init__(self, instrument: Instrument, limit: int = SERIES) -> None:
        self.instrument = instrument
        self._limit = limit
        self._bounds = instrument.bounds
        self._counts: dict[Key, int] = {}
        self._histograms: dict[Key, _Histogram] = {}

    def add(self, key: Key, count: int = 1) -> None:
        counts = self._counts
        if key not in counts and len(counts) >= self._limit:
            key = OVERFLOW
        counts[key] = counts.get(key, 0) + count

    def record(self, key: Key, values: Sequence[float]) -> None:
        """Values of a histogram; a bucket takes values up to its bound, bound included."""
        if not values:
            return
        histogram = self._histograms.get(key)
        if histogram is None:
            if len(self._histograms) >= self._limit:
                key = OVERFLOW
            histogram = self._histograms.setdefault(key, _Histogram(len(self._bounds) + 1))
        buckets, bounds = histogram.buckets, self._bounds
        for value in values:
            buckets[bisect_left(bounds, value)] += 1
        histogram.sum += sum(values)

    def snapshot(self) -> Series:
        if self.instrument.kind is not Kind.HISTOGRAM:
            return Series(self.instrument, dict(self._counts))
        taken: dict[Key, Value] = {
            key: (list(each.buckets), each.sum) for key, each in list(self._histograms.items())
        }
        return Series(self.instrument, taken)


def attributes_of(instrument: Instrument, key: Key) -> dict[str, str | int | bool]:
    """A key's parts by their names; parts that are None are left out."""
    if key == OVERFLOW:
        return {names.OVERFLOW: True}
    pairs = zip(instrument.attributes, key, strict=True)
    return {name: part for name, part in pairs if part is not None}


async def _settled(deadline: float) -> None: ...


class Readings(Protocol):
    """Numbers to be read, of one process or of several."""

    @property
    def started(self) -> float:
        """Since when they are counted, in Unix seconds."""

    @property
    def settle(self) -> Settle:
        """Waits until all that was handed over for recording is in the numbers."""

    def values(self, instrument: Instrument) -> Mapping[Key, Value]:
        """The numbers of one metric; any thread may ask."""

    def snapshot(self) -> list[Series]:
        """All numbers as they are now; metrics without any are left out."""


class Meter:
    """All metrics of one process."""

    def __init__(self) -> None:
        self._numbers = {i.name: Numbers(i) for i in INSTRUMENTS if not i.observed}
        self._observed: dict[str, Observe] = {}
        self.started = time.time()
        self.settle: Settle = _settled
        """Waits until all that was handed over for recording is in the numbers."""

    def __getitem__(self, instrument: Instrument) -> Numbers:
        return self._numbers[instrument.name]

    def observe(self, instrument: Instrument, read: Observe) -> None:
        """Has ``read`` asked for an observed metric's numbers; it may run in any thread."""
        self._observed[instrument.name] = read

    def values(self, instrument: Instrument) -> Mapping[Key, Value]:
        """The numbers of one metric; any thread may ask."""
        if not instrument.observed:
            return self._numbers[instrument.name].snapshot().values
        read = self._observed.get(instrument.name)
        return dict(read()) if read is not None else {}

    def snapshot(self) -> list[Series]:
        """All numbers as they are now; metrics without any are left out."""
        taken = (Series(instrument, self.values(instrument)) for instrument in INSTRUMENTS)
        return [series for series in taken if series.values]


class _Keys(NamedTuple):
    """The series that an exchange adds to: the part of their keys that follows from ``_shape``."""

    exchanges: Key
    skipped: Key | None
    client: Key | None
    """Of the GenAI histograms; only operations that the conventions know have them."""
    duration: Key
    input: Key
    output: Key
    settled: bool
    """They will be the same whatever else is seen: no name folded that may be admitted later."""


class Recorder:
    """What closed exchanges and violations add; used by one thread at a time.

    Exchanges that have the same names, status and outcome, as most do, add to the same series: these
    are found once for all of them in a batch, and their keys are kept.
    """

    def __init__(self, meter: Meter, servers: Mapping[str, Server]) -> None:
        self._servers = servers
        self._describer = Describer(servers)
        self._reasons = Folding(_REASONS)
        self._duration = meter[instruments.OPERATION_DURATION]
        self._first = meter[instruments.TIME_TO_FIRST_CHUNK]
        self._between = meter[instruments.TIME_PER_OUTPUT_CHUNK]
        self._tokens = meter[instruments.TOKEN_USAGE]
        self._exchanges = meter[instruments.EXCHANGES]
        self._violations = meter[instruments.VIOLATIONS]
        self._skipped = meter[instruments.INSPECTION_SKIPPED]
        self._lag = meter[instruments.INSPECTION_LAG]
        self._known: dict[_Shape, _Keys] = {}

    def violation(self, exchange: Exchange, violation: Violation) -> None:
        rule = violation.rule
        severity, side = violation.severity.word, rule.side.value
        self._violations.add((exchange.upstream, rule.id, severity, side))

    def exchanges(self, closed: Iterable[tuple[Exchange, float]]) -> None:
        """Each with the time at which its verdict stood."""
        alike: dict[_Shape, list[Exchange]] = {}
        lags: dict[str, list[float]] = {}
        for exchange, at in closed:
            shape = _shape(exchange)
            group = alike.get(shape)
            if group is None:
                group = alike[shape] = []
            group.append(exchange)
            end = exchange.timing.end
            if end is not None:
                lags.setdefault(exchange.upstream, []).append(at - end if at > end else 0.0)
        for shape, group in alike.items():
            self._record(self._keys(shape, group[0]), group)
        for upstream, values in lags.items():
            self._lag.record((upstream,), values)

    def _record(self, keys: _Keys, alike: Sequence[Exchange]) -> None:
        self._exchanges.add(keys.exchanges, len(alike))
        if keys.skipped is not None:
            self._skipped.add(keys.skipped, len(alike))
        if keys.client is None:
            return
        self._duration.record(keys.duration, list(_durations(alike)))
        streams = [e for e in alike if e.stream and e.timing.first_event is not None]
        if streams:
            self._first.record(keys.client, list(_first_chunks(streams)))
            between = map(time_per_chunk, streams)
            self._between.record(keys.client, [each for each in between if each is not None])
        usages = [exchange.usage for exchange in alike]
        self._tokens.record(keys.input, list(_reported(usages, _INPUT)))
        self._tokens.record(keys.output, list(_reported(usages, _OUTPUT)))

    def _keys(self, shape: _Shape, exchange: Exchange) -> _Keys:
        keys = self._known.get(shape)
        if keys is None:
            keys = self._new_keys(exchange)
            if keys.settled:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[shape] = keys
        return keys

    def _new_keys(self, exchange: Exchange) -> _Keys:
        upstream, operation = exchange.upstream, operation_name(exchange)
        model = self._describer.model(exchange, exchange.model)
        response = self._describer.model(exchange, exchange.response_model)
        error = self._describer.error_type(exchange)
        ended = None if exchange.ended is None else exchange.ended.value
        verdicts = (exchange.verdict.value, exchange.client_verdict.value)
        whole = exchange.inspection == "full"
        reason = None if whole else self._reason(exchange.inspection)
        server = self._servers.get(upstream, (None, None))
        who = (upstream, operation, names.PROVIDER_OPENAI, model, response, *server)
        return _Keys(
            exchanges=(upstream, operation, model, *verdicts, ended),
            skipped=None if whole else (upstream, reason),
            client=who if exchange.operation in names.OPERATIONS else None,
            duration=(*who, error),
            input=(*who, "input"),
            output=(*who, "output"),
            settled=not {model, response, error, reason} & _UNSETTLED,
        )

    def _reason(self, inspection: str) -> str:
        """``body-limit`` of ``partial (body-limit)``."""
        _, bracket, reason = inspection.partition("(")
        word = reason.partition(",")[0].rstrip(")").strip() if bracket else inspection
        return word if self._reasons.admit(word) else names.OTHER


def _shape(exchange: Exchange) -> _Shape:
    """All values that the keys of an exchange's series follow from."""
    violations = exchange.violations
    return (
        exchange.upstream,
        exchange.operation,
        exchange.model,
        exchange.response_model,
        exchange.status,
        exchange.error_type,
        exchange.ended,
        exchange.inspection,
        (exchange.verdict, exchange.client_verdict) if violations else None,
    )


def _durations(exchanges: Iterable[Exchange]) -> Iterator[float]:
    """Seconds from each one's start to its end."""
    for exchange in exchanges:
        timing = exchange.timing
        if timing.end is not None:
            yield timing.end - timing.start if timing.end > timing.start else 0.0


def _first_chunks(streams: Iterable[Exchange]) -> Iterator[float]:
    """Seconds from each one's start to its first event."""
    for exchange in streams:
        first = exchange.timing.first_event
        if first is not None:
            yield max(0.0, first - exchange.timing.start)


def time_per_chunk(exchange: Exchange) -> float | None:
    """Seconds between two events of a stream, on the average; None for fewer than two."""
    timing = exchange.timing
    if exchange.events < 2 or timing.first_event is None or timing.last_byte is None:
        return None
    return max(0.0, timing.last_byte - timing.first_event) / (exchange.events - 1)


def reported_tokens(usage: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Tokens by ``input`` and ``output``, where a relay reported them."""
    for kind, called in (("input", _INPUT), ("output", _OUTPUT)):
        for count in _reported((usage,), called):
            yield kind, count


def _reported(usages: Iterable[Mapping[str, int]], called: tuple[str, str]) -> Iterator[int]:
    """Counts of tokens, under the first of two names that a usage has."""
    one, other = called
    for usage in usages:
        count = usage.get(one)
        if count is None:
            count = usage.get(other)
        if count is not None and 0 <= count < 2**63:
            yield count


class MetricsSink:
    """Records what inspectors find. ``clock`` gives Unix seconds.

    Numbers come into being whether or not anybody asks for them: ``meter`` is read by the admin
    port and by the OTLP export.
    """

    name = "metrics"

    def __init__(
        self,
        servers: Mapping[str, Server] | None = None,
        *,
        clock: Callable[[], float] = time.time,
        queue_size: int = _QUEUE,
    ) -> None:
        self.meter = Meter()
        self.dropped = 0
        """Exchanges and violations that were not counted: the thread got no time to."""
        self._clock = clock
        self._open: dict[str, Exchange] = {}
        self._servers = servers or {}
        self._recorder = Recorder(self.meter, self._servers)
        self._background: Background[tuple[Exchange, Violation | None, float]] = Background(
            "teeline-metrics",
            self._record,
            capacity=queue_size,
            batch=_BATCH,
            interval=_INTERVAL,
        )
        self.meter.observe(instruments.OPEN_STREAMS, self._streams)
        self.meter.settle = self.drain

    @property
    def open(self) -> int:
        """Exchanges under way."""
        return len(self._open)

    async def start(self) -> None:
        self._background.start()

    def opened(self, event: Opened) -> None:
        self._open[event.exchange.id] = event.exchange

    def found(self, event: Found) -> None:
        if not self._background.offer((event.exchange, event.violation, 0.0)):
            self.dropped += 1

    def closed(self, event: Closed) -> None:
        exchange = event.exchange
        self._open.pop(exchange.id, None)
        if not self._background.offer((exchange, None, self._clock())):
            self.dropped += 1

    async def drain(self, deadline: float) -> None:
        await self._background.flush(deadline)

    async def close(self) -> None:
        await self._background.stop(_CLOSING)

    def _streams(self) -> Mapping[Key, int]:
        """Open event streams by upstream; those that have none, too."""
        counts = dict.fromkeys(self._servers, 0)
        for exchange in list(self._open.values()):
            if exchange.event_stream:
                counts[exchange.upstream] = counts.get(exchange.upstream, 0) + 1
        return {(upstream,): count for upstream, count in counts.items()}

    def _record(self, batch: Sequence[tuple[Exchange, Violation | None, float]]) -> bool:
        for exchange, violation, _ in batch:
            if violation is not None:
                self._recorder.violation(exchange, violation)
        self._recorder.exchanges((each, at) for each, violation, at in batch if violation is None)
        return True
