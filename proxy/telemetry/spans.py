"""Spans: one CLIENT span a closed exchange, built in the SDK's export thread.

What belongs here: the SDK's span types. What doesn't: attributes (attributes.py), log records
(logs.py).

On the event loop an exchange costs a small object in the batch processor's queue. ``Builder``
stands between the processor and the real exporter and makes the ``ReadableSpan`` there, with the
ids that the exchange has carried since it was opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from teeline.proxy.telemetry import names
from teeline.proxy.telemetry.attributes import Describer, nanoseconds
from teeline.proxy.telemetry.pipeline import (
    Outlet,
    Sampling,
    Tally,
    is_kept,
    is_sampled,
    parent_context,
    span_context,
)
from teeline.proxy.telemetry.queues import Queueing
from teeline.proxy.text import int64
from teeline.validators.model import Exchange, Timing, Violation

_QUEUED: Final = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
"""What the processor looks at to see whether a span is wanted; the sampler decides when it is
built.
"""


class DeferredSpan(ReadableSpan):
    """A closed exchange on its way to becoming a span."""

    def __init__(self, exchange: Exchange) -> None:  # the base's fields are never read
        self.exchange = exchange

    @property
    def context(self) -> SpanContext:
        return _QUEUED


class Builder(SpanExporter):
    """Builds deferred spans and hands them to ``exporter``; all are lost after ``shutdown``."""

    def __init__(
        self,
        exporter: SpanExporter,
        tally: Tally,
        describer: Describer,
        sampling: Sampling,
        resource: Resource,
        scope: InstrumentationScope,
        *,
        events: int,
    ) -> None:
        self._exporter = exporter
        self._describer = describer
        self._sampling = sampling
        self._resource = resource
        self._scope = scope
        self._events = events
        self._outlet = Outlet(tally, self._build, self._send, exporter.shutdown)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS if self._outlet.send(spans) else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._outlet.stop()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _send(self, built: Sequence[ReadableSpan]) -> bool:
        return self._exporter.export(built) is SpanExportResult.SUCCESS

    def _build(self, span: ReadableSpan) -> ReadableSpan | None:
        assert isinstance(span, DeferredSpan)
        exchange = span.exchange
        name = self._describer.span_name(exchange)
        decision = self._sampling.decide(exchange, name, keep=is_kept(exchange))
        if not is_sampled(decision):
            return None
        failed = self._describer.error_type(exchange) is not None
        return ReadableSpan(
            name=name,
            context=span_context(exchange, decision),
            parent=parent_context(exchange),
            resource=self._resource,
            attributes=self._describer.span(exchange),
            events=self._span_events(exchange.violations),
            kind=SpanKind.CLIENT,
            # A description would have to be the relay's words; error.type says enough.
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=nanoseconds(exchange.timing.start),
            end_time=nanoseconds(_end(exchange.timing)),
            instrumentation_scope=self._scope,
        )

    def _span_events(self, violations: Sequence[Violation]) -> Sequence[Event]:
        # The SDK's bounded list, since the encoder reads the number of dropped events off it.
        kept: BoundedList[Event] = BoundedList(self._events)
        for violation in violations[: self._events]:
            found = self._describer.violation(violation)
            found[names.COUNT] = int64(violation.count)
            found[names.MESSAGE] = self._describer.text(violation.message)
            kept.append(Event(names.VIOLATION_EVENT, found, nanoseconds(violation.at)))
        kept.dropped = len(violations) - len(kept)
        return kept


def _end(timing: Timing) -> float:
    end = timing.end if timing.end is not None else timing.last_byte
    return timing.start if end is None else max(end, timing.start)


class SpanPipeline:
    """The queue, thread and exporter of spans. ``add`` is all that the event loop pays."""

    def __init__(self, builder: Builder, tally: Tally, queueing: Queueing) -> None:
        self._builder = builder
        self._tally = tally
        self._processor = BatchSpanProcessor(
            builder,
            max_queue_size=queueing.capacity,
            schedule_delay_millis=queueing.delay_ms,
            max_export_batch_size=queueing.batch,
        )

    def add(self, exchange: Exchange) -> None:
        if self._tally.admit():
            self._processor.on_end(DeferredSpan(exchange))

    def flush(self) -> None:
        """Blocks until the queue is empty, or each batch in it has failed."""
        self._processor.force_flush()

    def shutdown(self) -> None:
        """Blocks until the thread has ended; what is left in the queue is lost and counted."""
        self._builder.shutdown()
        self._processor.shutdown()  # type: ignore[no-untyped-call]
