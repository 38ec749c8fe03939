"""Spans: one CLIENT span a closed exchange, built in the SDK's export thread.

What belongs here: the SDK's span types. What doesn't: attributes (attributes.py), spans as bytes
(spanwriter.py), log records (logs.py).

On the event loop an exchange costs a small object in the batch processor's queue. ``Builder``
stands between the processor and the real exporter. For an exporter that takes bytes it has them
written; for any other it makes the ``ReadableSpan``. Both have the ids that the exchange has carried
since it was opened.
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
from teeline.proxy.telemetry.attributes import Describer, end_of, nanoseconds
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
from teeline.proxy.telemetry.spanwriter import SpanWriter
from teeline.proxy.telemetry.wire import DirectSpanExporter
from teeline.validators.model import Exchange, Violation

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
        self._outlet: Outlet[Exchange, bytes] | Outlet[Exchange, ReadableSpan]
        if isinstance(exporter, DirectSpanExporter) and exporter.takes_bytes:
            writer = SpanWriter(describer, sampling, resource, scope, events=events)
            self._outlet = Outlet(
                tally,
                writer.span,
                lambda spans: exporter.send(writer.request(spans)),
                exporter.shutdown,
            )
        else:
            self._outlet = Outlet(tally, self.span, self._send, exporter.shutdown)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        exchanges = [span.exchange for span in spans if isinstance(span, DeferredSpan)]
        done = self._outlet.send(exchanges)
        return SpanExportResult.SUCCESS if done else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._outlet.stop()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _send(self, built: Sequence[ReadableSpan]) -> bool:
        return self._exporter.export(built) is SpanExportResult.SUCCESS

    def span(self, exchange: Exchange) -> ReadableSpan | None:
        """The span of an exchange; None where the sampler leaves it out."""
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
            end_time=nanoseconds(end_of(exchange.timing)),
            instrumentation_scope=self._scope,
        )

    def _span_events(self, violations: Sequence[Violation]) -> Sequence[Event]:
        # The SDK's bounded list, since the encoder reads the number of dropped events off it.
        kept: BoundedList[Event] = BoundedList(self._events)
        for violation in violations[: self._events]:
            found = self._describer.event(violation)
            kept.append(Event(names.VIOLATION_EVENT, found, nanoseconds(violation.at)))
        kept.dropped = len(violations) - len(kept)
        return kept


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
