"""Metrics arrive at a collector as OpenTelemetry has them, and an export that fails loses nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.metrics import MetricsSink
from teeline.proxy.telemetry.sink import TelemetrySink
from teeline.validators.events import Closed, Found, Opened
from tests.proxy.samples import START, exchange, violation
from tests.proxy.telemetry.collector import Collector, attributes, collecting

LONG = 60.0
TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
Use = Callable[[MetricsSink, TelemetrySink], Awaitable[None]]


@pytest.fixture(name="collector")
def running_collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def run(collector: Collector, use: Use, **environ: str) -> None:
    async def go() -> None:
        numbers = MetricsSink({"my-relay": ("relay.example", 443)}, clock=lambda: START + 2)
        sink = TelemetrySink.from_environment(
            collector.environ | environ, version="1.2.3", meter=numbers.meter
        )
        assert sink is not None
        await numbers.start()
        await sink.start()
        try:
            await use(numbers, sink)
        finally:
            await sink.close()
            await numbers.close()

    asyncio.run(go())


async def close(numbers: MetricsSink, sink: TelemetrySink, count: int = 1) -> None:
    """Exchanges that close, and an export."""
    for _ in range(count):
        made = exchange(violation())
        numbers.opened(Opened(made))
        numbers.found(Found(made, made.violations[0]))
        numbers.closed(Closed(made))
    # Side by side, as at a shutdown: the export waits for the numbers.
    await asyncio.gather(sink.drain(LONG), numbers.drain(LONG))


def test_a_histogram_arrives_field_by_field(collector: Collector) -> None:
    async def use(numbers: MetricsSink, sink: TelemetrySink) -> None:
        await close(numbers, sink)
        started = round(numbers.meter.started * 1e9)
        (point,) = collector.points("gen_ai.client.operation.duration", 0)
        assert abs(point.start_time_unix_nano - started) < 1000
        assert point.time_unix_nano >= point.start_time_unix_nano
        assert (point.count, point.sum) == (1, 1.5)
        assert list(point.explicit_bounds) == list(instruments.OPERATION_DURATION.bounds)
        assert list(point.bucket_counts) == [0] * 8 + [1] + [0] * 6
        assert not point.HasField("min") and not point.HasField("max")
        assert attributes(point) == {
            "teeline.upstream": "my-relay",
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
            "server.address": "relay.example",
            "server.port": 443,
        }

    run(collector, use)


def test_a_metric_says_what_it_is_and_who_sends_it(collector: Collector) -> None:
    async def use(numbers: MetricsSink, sink: TelemetrySink) -> None:
        await close(numbers, sink)

    run(collector, use)
    (resource,) = collector.metrics[0].resource_metrics
    assert attributes(resource.resource)["service.name"] == "teeline"
    (scope,) = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("teeline", "1.2.3")
    by_name: dict[str, Any] = {metric.name: metric for metric in scope.metrics}
    usage = by_name["gen_ai.client.token.usage"]
    assert usage.unit == "{token}"
    assert usage.histogram.aggregation_temporality == 2
    exchanges = by_name["teeline.exchanges"]
    assert exchanges.description == instruments.EXCHANGES.description
    assert exchanges.sum.is_monotonic
    assert not by_name["teeline.open_streams"].sum.is_monotonic
    assert {instrument.name for instrument in instruments.INSTRUMENTS} >= set(by_name)


def test_totals_grow_from_export_to_export(collector: Collector) -> None:
    async def use(numbers: MetricsSink, sink: TelemetrySink) -> None:
        await close(numbers, sink, 2)
        await close(numbers, sink, 3)

    run(collector, use)
    assert [collector.points("teeline.exchanges", n)[0].as_int for n in (0, 1)] == [2, 5]
    assert collector.points("teeline.violations", 1)[0].as_int == 5


def test_differences_hold_what_came_since_the_last_export(collector: Collector) -> None:
    async def use(numbers: MetricsSink, sink: TelemetrySink) -> None:
        await close(numbers, sink, 2)
        await close(numbers, sink, 3)
        await sink.drain(LONG)

    run(collector, use, **{TEMPORALITY: "delta"})
    first, second = (collector.points("teeline.exchanges", n)[0] for n in (0, 1))
    assert (first.as_int, second.as_int) == (2, 3)
    assert second.start_time_unix_nano == first.time_unix_nano
    assert collector.points("gen_ai.client.operation.duration", 1)[0].count == 3
    # Nothing came: no points, but for what is told as it stands.
    assert collector.points("teeline.exchanges", 2) == []
    assert collector.points("teeline.open_streams", 2)[0].as_int == 0


def test_a_collector_that_refuses_gets_all_with_the_next_export(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def use(numbers: MetricsSink, sink: TelemetrySink) -> None:
        collector.status = 403
        await close(numbers, sink, 2)
        await close(numbers, sink, 2)
        collector.status = 200
        await close(numbers, sink, 3)

    environ = {TEMPORALITY: "delta", "OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    run(collector, use, **environ)
    assert collector.points("teeline.exchanges", 0)[0].as_int == 7
    assert caplog.messages == [
        "telemetry: metrics could not be exported (HTTP 403); they go out with the next export"
    ]


def test_metrics_go_out_by_themselves_once_an_interval_and_at_the_end(collector: Collector) -> None:
    async def use(numbers: MetricsSink, sink: TelemetrySink) -> None:
        numbers.closed(Closed(exchange()))
        await numbers.drain(LONG)
        while not collector.metrics:
            await asyncio.sleep(0.01)

    run(collector, use, OTEL_METRIC_EXPORT_INTERVAL="50")
    assert collector.points("teeline.exchanges", 0)[0].as_int == 1
