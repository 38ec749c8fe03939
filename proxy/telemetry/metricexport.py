"""Metrics to a collector: snapshots of plain numbers, as the SDK's exporter takes them.

What belongs here: the SDK's metric types, temporality, the exporting thread. What doesn't: the
numbers (metrics.py), what metrics there are (instruments.py), where they go (environment.py).

The SDK's own instruments would cost each exchange locks and objects; here a thread builds data
points out of the numbers once an interval. An export that fails loses nothing: totals come again
with the next one, and so do differences, which are taken against what last arrived.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.proxy.background import Background
from teeline.proxy.telemetry.attributes import nanoseconds
from teeline.proxy.telemetry.instruments import Instrument, Kind
from teeline.proxy.telemetry.metrics import Key, Readings, Series, Value, attributes_of
from teeline.proxy.telemetry.pipeline import ExportReason

log = logging.getLogger("teeline.telemetry")

INTERVAL: Final = 60.0
"""Seconds between two exports: the SDK's default."""
_QUIET = 60.0
_DELTA = frozenset({"delta", "lowmemory"})

_UNKNOWN: Final[Any] = None
"""The smallest and the largest value: optional in OTLP, and nobody could tell a difference's."""

Points = Mapping[str, Mapping[Key, Value]]


class MetricExport:
    """Exports a meter's numbers every ``interval`` seconds.

    ``temporality`` is ``cumulative``, ``delta`` or ``lowmemory`` (delta for what is recorded,
    cumulative for what is observed), as OpenTelemetry defines them.
    """

    def __init__(
        self,
        exporter: MetricExporter,
        meter: Readings,
        *,
        resource: Resource,
        scope: InstrumentationScope,
        interval: float = INTERVAL,
        temporality: str = "cumulative",
        reason: ExportReason | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._exporter = exporter
        self._meter = meter
        self._resource = resource
        self._scope = scope
        self._interval = interval
        self._temporality = temporality
        self._reason = reason or ExportReason()
        self._clock = clock
        self._before: Points = {}
        self._since = meter.started
        self._due = 0.0
        self._said_at: float | None = None
        self.exported = 0
        """Exports that the collector took."""
        self.failed = 0
        self._background: Background[None] = Background(
            "teeline-metric-export",
            lambda _: True,
            capacity=1,
            batch=1,
            interval=interval,
            tick=self._tick,
        )

    def start(self) -> None:
        self._due = time.monotonic() + self._interval
        self._background.start()

    async def flush(self, deadline: float) -> None:
        """Exports all that was seen so far; TimeoutError after ``deadline`` seconds."""
        await self._meter.settle(deadline)
        await self._background.flush(deadline)

    async def stop(self, deadline: float) -> bool:
        """Ends the thread and retries under way; False where ``deadline`` seconds weren't enough."""
        self._exporter.shutdown()
        return await self._background.stop(deadline)

    def _tick(self, flush: bool) -> None:
        now = time.monotonic()
        if flush or now >= self._due:
            self._due = now + self._interval
            self._export()

    def _export(self) -> None:
        series = self._meter.snapshot()
        if not series:
            return
        now = self._clock()
        taken = {each.instrument.name: each.values for each in series}
        try:
            result = self._exporter.export(self._data(series, now))
        except Exception as error:  # noqa: BLE001  the SDK's mistakes are no traffic's concern
            self._failed(type(error).__name__)
            return
        if result is MetricExportResult.SUCCESS:
            self._before, self._since = taken, now
            self.exported += 1
            self._said_at = None
        else:
            self._failed(self._reason.text)

    def _failed(self, reason: str) -> None:
        self.failed += 1
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _QUIET:
            self._said_at = now
            log.warning(
                "telemetry: metrics could not be exported (%s); they go out with the next export",
                reason,
            )

    def _data(self, series: Sequence[Series], now: float) -> MetricsData:
        metrics = [self._metric(each, now) for each in series]
        # OTLP takes no metric without a point.
        scope = ScopeMetrics(self._scope, [m for m in metrics if m.data.data_points], "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metric(self, series: Series, now: float) -> Metric:
        instrument = series.instrument
        delta = self._is_delta(instrument)
        before = self._before.get(instrument.name, {}) if delta else {}
        start = nanoseconds(self._since if delta else self._meter.started)
        points = list(_points(instrument, series.values, before, start, nanoseconds(now)))
        temporality = AggregationTemporality.DELTA if delta else AggregationTemporality.CUMULATIVE
        data: Sum | Histogram
        if instrument.kind is Kind.HISTOGRAM:
            data = Histogram([p for p in points if isinstance(p, HistogramDataPoint)], temporality)
        else:
            numbers = [p for p in points if isinstance(p, NumberDataPoint)]
            data = Sum(numbers, temporality, is_monotonic=instrument.kind is Kind.COUNTER)
        return Metric(instrument.name, instrument.description, instrument.unit, data)

    def _is_delta(self, instrument: Instrument) -> bool:
        """What goes up and down is told as it stands, whatever is preferred."""
        if instrument.kind is Kind.GAUGE or self._temporality not in _DELTA:
            return False
        return not (self._temporality == "lowmemory" and instrument.observed)


def _points(
    instrument: Instrument,
    values: Mapping[Key, Value],
    before: Mapping[Key, Value],
    start: int,
    now: int,
) -> Iterator[NumberDataPoint | HistogramDataPoint]:
    """A data point a series; series that nothing was added to have none in a difference."""
    for key, value in values.items():
        attributes = attributes_of(instrument, key)
        earlier = before.get(key)
        if isinstance(value, int):
            number = value - (earlier if isinstance(earlier, int) else 0)
            if number or earlier is None:
                yield NumberDataPoint(attributes, start, now, number)
            continue
        buckets, total = value
        if isinstance(earlier, tuple):
            buckets = [count - past for count, past in zip(buckets, earlier[0], strict=True)]
            total -= earlier[1]
        if count := sum(buckets):
            yield HistogramDataPoint(
                attributes, start, now, count, total, buckets, instrument.bounds, _UNKNOWN, _UNKNOWN
            )
