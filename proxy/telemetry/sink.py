"""The telemetry sink: exchanges become spans, violations and audit records become log records.

What belongs here: the life of the pipelines. What doesn't: what a span says (attributes.py,
spans.py, logs.py), where it goes (environment.py), what is left out (damping.py), the numbers
behind the metrics (metrics.py).

On the event loop ``found`` and ``closed`` only queue. Everything else, building included, happens
in threads of the pipelines. A collector that is slow or gone costs records, which are counted
(``dropped``, for the metric teeline.export.dropped) and told of once a minute; it never blocks and
nothing grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.proxy.audit.chain import timestamp
from teeline.proxy.audit.writer import Written
from teeline.proxy.sinks import ignored
from teeline.proxy.telemetry import damping, environment, exporters, names, queues
from teeline.proxy.telemetry.attributes import Attributes, Describer, Server
from teeline.proxy.telemetry.damping import Damper, Summary
from teeline.proxy.telemetry.logs import (
    LogBuilder,
    LogPipeline,
    LogRecordExporter,
    Note,
    Recorded,
    Told,
)
from teeline.proxy.telemetry.metricexport import INTERVAL, MetricExport
from teeline.proxy.telemetry.metrics import Readings
from teeline.proxy.telemetry.pipeline import ExportReason, Sampling, Tally
from teeline.proxy.telemetry.queues import Queueing
from teeline.proxy.telemetry.spans import Builder, SpanPipeline
from teeline.proxy.text import SHOWN
from teeline.validators.events import Closed, Found
from teeline.validators.model import Severity

log = logging.getLogger("teeline.telemetry")

_CLOSING = 2.0
"""Seconds that close waits for a request to the collector that is under way."""


_LAST = 1.0
"""Seconds that close gives what came behind the drain: heads of the audit log, last numbers."""
_SWEEP = 60.0
"""Seconds between two looks for windows of damping that are over."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the configuration leaves open: which records there are beside warnings and failures.

    ``span_events``: violations stand on their exchange's span, too. ``info_records``: observations
    are log records, too. ``audit_records``: so are audit records and the heads of their chain.
    ``chained``: an audit log is written, and gives its records to ``written``; without one, what
    would have been recorded goes out.
    ``share``: how many processes tell of the same traffic; what is told in full before damping sets
    in is divided among them.
    """

    span_events: bool = True
    info_records: bool = False
    audit_records: bool = False
    chained: bool = False
    share: int = 1


DEFAULT_CHOICES: Final = Choices()


class TelemetrySink:
    """Exports by the exporters given; one that is None leaves its signal out.

    ``choices`` are the configuration's; ``max_span_events`` bounds the copies of violations a span.
    ``servers`` gives host and port of upstreams by name. ``value_length`` is in characters.
    ``meter`` holds the numbers that ``metric_exporter`` sends, every ``metric_interval`` seconds.
    """

    name = "telemetry"

    def __init__(
        self,
        span_exporter: SpanExporter | None,
        log_exporter: LogRecordExporter | None,
        metric_exporter: MetricExporter | None = None,
        *,
        resource: Resource,
        choices: Choices = DEFAULT_CHOICES,
        meter: Readings | None = None,
        metric_interval: float = INTERVAL,
        temporality: str = "cumulative",
        sampler: Sampler = DEFAULT_ON,
        version: str = "",
        servers: Mapping[str, Server] | None = None,
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
        self._choices = choices
        self._events = max_span_events if choices.span_events else 0
        self._damper = Damper(first=max(1, damping.FIRST // choices.share))
        self._sweep: asyncio.TimerHandle | None = None
        self._unsent = False  # the audit log, which has written something since the last drain
        self._in_time = True  # the last drain was; close waits for no collector that is late
        self._span_queueing = span_queueing
        self._log_queueing = log_queueing
        self._reason = ExportReason()
        self._span_tally = Tally("spans", span_queueing.capacity, self._reason)
        self._log_tally = Tally("log records", log_queueing.capacity, self._reason)
        self._spans: SpanPipeline | None = None
        self._logs: LogPipeline | None = None
        self._metrics: MetricExport | None = None
        if metric_exporter is not None and meter is not None:
            self._metrics = MetricExport(
                metric_exporter,
                meter,
                resource=resource,
                scope=self._scope,
                interval=metric_interval,
                temporality=temporality,
                reason=self._reason,
            )

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        version: str = "",
        servers: Mapping[str, Server] | None = None,
        choices: Choices = DEFAULT_CHOICES,
        meter: Readings | None = None,
        metrics_alone: bool = False,
    ) -> TelemetrySink | None:
        """The sink that the OTEL_* variables ask for, if they do; SinkError for bad values.

        Without a ``meter`` it sends no metrics; ``metrics_alone`` sends nothing else.
        """
        settings = environment.read(environ, version)
        if settings is None:
            return None
        traces, logs, metrics = settings.traces, settings.logs, settings.metrics
        if metrics_alone:
            traces = logs = None
        return cls(
            exporters.span_exporter(traces),
            exporters.log_exporter(logs),
            exporters.metric_exporter(metrics),
            resource=settings.resource,
            choices=choices,
            meter=meter,
            metric_interval=INTERVAL if metrics is None else metrics.interval,
            temporality="cumulative" if metrics is None else metrics.temporality,
            sampler=settings.sampler,
            version=version,
            servers=servers,
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
            self._spans.start()
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

        if self._metrics is not None:
            self._metrics.start()
        if self._logs is not None:
            self._later()

    opened = ignored

    def found(self, event: Found) -> None:
        if self._logs is None:
            return
        exchange, violation = event.exchange, event.violation
        if violation.severity is Severity.INFO and not self._choices.info_records:
            return
        left_out = self._damper.decide(exchange, violation)
        if left_out is not None:
            self._logs.add(Told(exchange, violation, left_out))

    def closed(self, event: Closed) -> None:
        if self._spans is not None:
            self._spans.add(event.exchange)
        choices = self._choices
        if choices.audit_records and not choices.chained and self._logs is not None:
            self._logs.add(Recorded(event.exchange))

    def written(self, lines: Sequence[Written]) -> None:
        """Lines of the audit log as they stand in its chain; called in the thread that writes it."""
        logs = self._logs
        if logs is not None and self._choices.audit_records:
            self._unsent = True
            for line in lines:
                logs.add(line)

    def witnessed(self, at: float, chain: str, seq: int, head: str) -> None:
        """A head of the audit log's chain, which shows later that nothing before it is missing.

        Called in the thread that writes the chain.
        """
        logs = self._logs
        if logs is None or not self._choices.audit_records:
            return
        attributes: Attributes = {
            names.AUDIT_CHAIN: chain,
            names.AUDIT_SEQ: seq,
            names.AUDIT_HASH: head,
        }
        text = f"audit head: chain {chain} seq {seq}"
        self._unsent = True
        logs.add(Note(names.AUDIT_HEAD_EVENT, at, Severity.INFO, text, attributes))

    def summarize(self, now: float, *, last: bool = False) -> None:
        """Sends what stood behind the records that were left out, where a window is over."""
        if self._logs is not None:
            for summary in self._damper.ended(now, all_of_them=last):
                self._logs.add(_note_of(summary))

    def _later(self) -> None:
        self.summarize(time.time())
        self._sweep = asyncio.get_running_loop().call_later(_SWEEP, self._later)

    async def drain(self, deadline: float) -> None:
        """Ends all windows of damping, since nothing may come behind them; sends everything.

        TimeoutError where the collector needs longer; what is left is counted at close."""
        self.summarize(time.time(), last=True)
        self._unsent = False
        flushes: list[Awaitable[None]] = [
            pipeline.flush(deadline)
            for pipeline in (self._spans, self._logs)
            if pipeline is not None
        ]
        if self._metrics is not None:
            flushes.append(self._metrics.flush(deadline))
        self._in_time = False
        await asyncio.gather(*flushes)
        self._in_time = True

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        if self._in_time:
            await self._send_last()
        if self._metrics is not None:
            await self._metrics.stop(_CLOSING)
            self._metrics = None
        pipelines = [p for p in (self._spans, self._logs) if p is not None]
        self._spans = self._logs = None
        for in_time in await asyncio.gather(*(each.stop(_CLOSING) for each in pipelines)):
            if not in_time:
                log.warning("telemetry: a request to the collector was still under way at shutdown")
        self._reason.remove()

    async def _send_last(self) -> None:
        """What came behind the drain: the sinks before this one did something as they ended.

        The head of a closed chain is worth a moment: it shows that nothing was cut off it.
        """
        with contextlib.suppress(TimeoutError):
            if self._metrics is not None:
                await self._metrics.flush(_LAST)
            if self._unsent and self._logs is not None:
                await self._logs.flush(_LAST)


def _note_of(summary: Summary) -> Note:
    attributes: Attributes = {
        names.RULE: summary.rule,
        names.UPSTREAM: summary.upstream,
        names.SEVERITY: summary.severity.word,
        names.SINCE: timestamp(summary.since),
        names.COUNT: summary.found,
        names.LEFT_OUT: summary.left_out,
    }
    text = (
        f"{summary.rule} in {summary.found} exchanges of {summary.upstream} "
        f"within {summary.until - summary.since:.0f} s; {summary.left_out} were not told one by one"
    )
    return Note(names.SUMMARY_EVENT, summary.until, summary.severity, text, attributes)
