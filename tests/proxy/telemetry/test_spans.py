"""Spans are built as exchanges end and sent in batches, none of them later than was asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.proxy.telemetry.attributes import Describer
from teeline.proxy.telemetry.pipeline import ExportReason, Sampling, Tally
from teeline.proxy.telemetry.queues import Queueing
from teeline.proxy.telemetry.spans import Builder, SpanPipeline
from tests.proxy.samples import exchange

LONG = 60.0
"""Seconds that no machine needs."""


class Collector(SpanExporter):
    """Remembers how many spans each request had; ``enough`` is set once it has ``awaited`` spans."""

    def __init__(self, awaited: int) -> None:
        self.sizes: list[int] = []
        self.enough = threading.Event()
        self._awaited = awaited

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.sizes.append(len(spans))
        if sum(self.sizes) >= self._awaited:
            self.enough.set()
        return SpanExportResult.SUCCESS


def run(
    collector: Collector,
    queueing: Queueing,
    ended: int,
    use: Callable[[SpanPipeline], Awaitable[None]],
) -> Tally:
    """Uses a pipeline that has so many exchanges when it starts; its books afterwards."""
    tally = Tally("spans", queueing.capacity, ExportReason())
    builder = Builder(
        collector,
        tally,
        Describer(),
        Sampling(DEFAULT_ON),
        Resource.get_empty(),
        InstrumentationScope("test"),
        events=1,
    )

    async def go() -> None:
        pipeline = SpanPipeline(builder, tally, queueing)
        for _ in range(ended):
            pipeline.add(exchange())
        pipeline.start()
        await use(pipeline)
        assert await pipeline.stop(LONG)

    asyncio.run(go())
    return tally


@pytest.mark.parametrize(
    ("batch", "sent"), [(1, 10), (2, 10), (64, 640), (65, 64), (100, 200), (512, 1024)]
)
def test_what_fills_a_batch_is_sent_at_once_and_no_request_has_more(batch: int, sent: int) -> None:
    collector = Collector(sent)

    async def use(pipeline: SpanPipeline) -> None:
        assert await asyncio.to_thread(collector.enough.wait, LONG)

    tally = run(collector, Queueing(2048, batch, LONG * 1000), sent, use)
    assert max(collector.sizes) <= batch
    assert (sum(collector.sizes), tally.exported, tally.dropped) == (sent, sent, 0)


def test_what_fills_no_batch_is_sent_once_its_time_is_over() -> None:
    collector = Collector(3)

    async def use(pipeline: SpanPipeline) -> None:
        assert await asyncio.to_thread(collector.enough.wait, LONG)

    run(collector, Queueing(delay_ms=1.0), 3, use)
    assert sum(collector.sizes) == 3


def test_a_flush_sends_what_was_built_and_what_was_not() -> None:
    collector = Collector(70)

    async def use(pipeline: SpanPipeline) -> None:
        await pipeline.flush(LONG)
        assert collector.sizes == [70]
        pipeline.add(exchange())
        await pipeline.flush(LONG)
        assert collector.sizes == [70, 1]

    run(collector, Queueing(delay_ms=LONG * 1000), 70, use)


def test_what_is_left_at_the_end_is_lost_and_counted() -> None:
    """Nothing asked for it to be sent: a collector that is late must not hold the end up."""
    collector = Collector(1)

    async def use(pipeline: SpanPipeline) -> None: ...

    tally = run(collector, Queueing(100, 100, LONG * 1000), 30, use)
    assert (collector.sizes, tally.exported, tally.dropped) == ([], 0, 30)
