"""Spans: one CLIENT span a closed exchange, built in a thread of their own.

What belongs here: the SDK's span types. What doesn't: attributes (attributes.py), spans as bytes
(spanwriter.py), log records (logs.py).

On the event loop an exchange costs a place in a queue. Behind it, for an exporter that takes bytes
``Builder`` has them written; for any other it makes the ``ReadableSpan``. Both have the ids that the
exchange has carried since it was opened. The queue is not the SDK's, whose processor wants an object
of its own for each; size, batch and delay are those of the SDK's settings.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, Status, StatusCode

from teeline.proxy.background import Background, detached
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
from teeline.proxy.telemetry.wire import ByteExporter
from teeline.validators.model import Exchange, Violation

_BUILT: Final = 64
"""Spans that are built at once, at most."""


class Builder:
    """Builds the spans of exchanges and hands them to ``exporter``; all are lost after ``stop``."""

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
        if isinstance(exporter, ByteExporter) and exporter.takes_bytes:
            writer = SpanWriter(describer, sampling, resource, scope, events=events)
            self._outlet = Outlet(
                tally,
                writer.span,
                lambda spans: exporter.send(writer.request(spans)),
                exporter.shutdown,
                len,
            )
        else:
            self._outlet = Outlet(tally, self.span, self._send, exporter.shutdown)

    @property
    def waiting(self) -> int:
        """Exchanges whose spans are not sent yet."""
        return self._outlet.waiting

    def add(self, exchanges: Sequence[Exchange]) -> None:
        """Builds the spans of these exchanges, which wait to be sent."""
        self._outlet.add(exchanges)

    def export(self) -> bool:
        """Whether the collector took all spans that waited; blocks until that is known."""
        return self._outlet.release()

    def stop(self) -> None:
        """Ends retries that are under way."""
        self._outlet.stop()

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
    """The queue, thread and exporter of spans. ``add`` is all that the event loop pays.

    Spans are built a few at a time, soon after their exchanges ended, and sent in batches: as bytes
    they take a tenth of the memory, and an exchange is read while the processor's caches have it.
    """

    def __init__(self, builder: Builder, tally: Tally, queueing: Queueing) -> None:
        self._builder = builder
        self._tally = tally
        self._batch = queueing.batch
        self._at_once = queueing.batch // math.ceil(queueing.batch / _BUILT)
        # Four rounds, two of which what was built waits: nothing waits longer than it may.
        delay = queueing.delay_ms / 1000
        self._delay = delay / 2
        self._since = 0.0
        self._background: Background[Exchange] = Background(
            "teeline-spans",
            self._build,
            capacity=queueing.capacity,
            batch=self._at_once,
            interval=delay / 4,
            tick=self._tick,
            finish=self._export,
        )

    def start(self) -> None:
        self._background.start()

    def add(self, exchange: Exchange) -> None:
        # What was admitted always finds room: the books refuse earlier than the queue.
        if self._tally.admit():
            self._background.offer(exchange)

    async def flush(self, deadline: float) -> None:
        """Waits until the queue is empty, or each batch in it has failed; TimeoutError."""
        await self._background.flush(deadline)

    async def stop(self, deadline: float) -> bool:
        """Ends the thread; what is left in the queue is lost and counted. False where ``deadline``
        seconds were not enough.
        """
        try:
            # In a thread, for it may wait for whatever the exporter is doing.
            await detached(self._builder.stop, "teeline-span-shutdown", deadline)
        except TimeoutError:
            return False
        return await self._background.stop(deadline)

    def _build(self, exchanges: list[Exchange]) -> bool:
        if not self._builder.waiting:
            self._since = time.monotonic()
        self._builder.add(exchanges)
        if self._builder.waiting + self._at_once > self._batch:
            self._export()
        return True  # what the collector doesn't take is lost, and counted

    def _tick(self, flush: bool) -> None:
        if flush or time.monotonic() - self._since >= self._delay:
            self._export()

    def _export(self) -> None:
        if self._builder.waiting:
            self._builder.export()
