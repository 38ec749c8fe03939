"""The telemetry sink: exchanges become spans, violations become log records.

What belongs here: the life of the two pipelines. What doesn't: what a span says (attributes.py,
spans.py, logs.py), where it goes (environment.py), metrics.

On the event loop ``found`` and ``closed`` only queue. Everything else, building included, happens
in the SDK's batch threads. A collector that is slow or gone costs records, which are counted
(``dropped``, for the metric teeline.export.dropped) and told of once a minute; it never blocks and
nothing grows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.proxy.background import detached
from teeline.proxy.telemetry import environment, names, queues
from teeline.proxy.telemetry.attributes import Describer, Server
from teeline.proxy.telemetry.logs import (
    LogBuilder,
    LogPipeline,
    LogRecordExporter,
    otlp_log_exporter,
)
from teeline.proxy.telemetry.pipeline import ExportReason, Sampling, Tally
from teeline.proxy.telemetry.queues import Queueing
from teeline.proxy.telemetry.spans import Builder, SpanPipeline
from teeline.proxy.text import SHOWN
from teeline.validators.events import Closed, Found, Opened

log = logging.getLogger("teeline.telemetry")

_CLOSING = 2.0
"""Seconds that close waits for a request to the collector that is under way."""


class TelemetrySink:
    """Exports by the exporters given; one that is None leaves its signal out.

    ``span_events`` False leaves the violations' copies on the spans out; ``max_span_events`` bounds
    them a span. ``servers`` gives host and port of upstreams by name. ``value_length`` is in
    characters.
    """

    name = "telemetry"

    def __init__(
        self,
        span_exporter: SpanExporter | None,
        log_exporter: LogRecordExporter | None,
        *,
        resource: Resource,
        sampler: Sampler = DEFAULT_ON,
        version: str = "",
        servers: Mapping[str, Server] | None = None,
        span_events: bool = True,
        max_span_events: int = 128,
        value_length: int = SHOWN,
        span_queueing: Queueing = queues.SPANS,
        log_queueing: Queueing = queues.LOGS,
    ) -> None:
        self._span_exporter = span_exporter
        self._log_exporter = log_exporter
        self._resource = resource
        self._scope = InstrumentationScope(names.SCOPE, version)
        self._sampling = Sampling(sampler)
        self._describer = Describer(servers, value_length)
        self._events = max_span_events if span_events else 0
        self._span_queueing = span_queueing
        self._log_queueing = log_queueing
        self._reason = ExportReason()
        self._span_tally = Tally("spans", span_queueing.capacity, self._reason)
        self._log_tally = Tally("log records", log_queueing.capacity, self._reason)
        self._spans: SpanPipeline | None = None
        self._logs: LogPipeline | None = None

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        version: str = "",
        servers: Mapping[str, Server] | None = None,
        span_events: bool = True,
    ) -> TelemetrySink | None:
        """The sink that the OTEL_* variables ask for, if they do; SinkError for bad values."""
        settings = environment.read(environ, version)
        if settings is None:
            return None
        traces, logs = settings.traces, settings.logs
        return cls(
            None if traces is None else OTLPSpanExporter(**traces.options),
            None if logs is None else otlp_log_exporter(**logs.options),
            resource=settings.resource,
            sampler=settings.sampler,
            version=version,
            servers=servers,
            span_events=span_events,
            max_span_events=settings.span_events,
            value_length=settings.value_length,
            span_queueing=queues.SPANS if traces is None else traces.queueing,
            log_queueing=queues.LOGS if logs is None else logs.queueing,
        )

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records lost so far, by signal: the metric teeline.export.dropped."""
        return {"traces": self._span_tally.dropped, "logs": self._log_tally.dropped}

    @property
    def exported(self) -> Mapping[str, int]:
        """Records that the collector took, by signal."""
        return {"traces": self._span_tally.exported, "logs": self._log_tally.exported}

    async def start(self) -> None:
        # Not in __init__: the processors start threads, which don't outlive a fork.
        self._reason.install()
        if self._span_exporter is not None:
            builder = Builder(
                self._span_exporter,
                self._span_tally,
                self._describer,
                self._sampling,
                self._resource,
                self._scope,
                events=self._events,
            )
            self._spans = SpanPipeline(builder, self._span_tally, self._span_queueing)
        if self._log_exporter is not None:
            log_builder = LogBuilder(
                self._log_exporter,
                self._log_tally,
                self._describer,
                self._sampling,
                self._resource,
                self._scope,
            )
            self._logs = LogPipeline(log_builder, self._log_tally, self._log_queueing)

    def opened(self, event: Opened) -> None: ...

    def found(self, event: Found) -> None:
        if self._logs is not None:
            self._logs.add(event.exchange, event.violation)

    def closed(self, event: Closed) -> None:
        if self._spans is not None:
            self._spans.add(event.exchange)

    async def drain(self, deadline: float) -> None:
        """TimeoutError where the collector needs longer; what is left is counted at close."""
        await asyncio.gather(
            *(
                detached(pipeline.flush, "teeline-telemetry-flush", deadline)
                for pipeline in (self._spans, self._logs)
                if pipeline is not None
            )
        )

    async def close(self) -> None:
        pipelines = [p for p in (self._spans, self._logs) if p is not None]
        self._spans = self._logs = None
        for pipeline in pipelines:
            try:
                await detached(pipeline.shutdown, "teeline-telemetry-shutdown", _CLOSING)
            except TimeoutError:
                log.warning("telemetry: a request to the collector was still under way at shutdown")
        self._reason.remove()
