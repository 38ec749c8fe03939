"""Log records: one event ``teeline.violation`` a violation, sent as soon as it is found.

The only module that imports ``opentelemetry._logs``, ``opentelemetry.sdk._logs`` and the OTLP
exporter for them: they are private in name and still change. What doesn't belong here: attributes
(attributes.py), spans (spans.py).

As with spans, the event loop only queues; the record is built in the SDK's export thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LogRecordLimits, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.proxy.telemetry import names
from teeline.proxy.telemetry.attributes import Describer, nanoseconds
from teeline.proxy.telemetry.pipeline import Outlet, Sampling, Tally
from teeline.proxy.telemetry.queues import Queueing
from teeline.validators.model import Exchange, Severity, Violation

__all__ = ["LogBuilder", "LogPipeline", "LogRecordExporter", "otlp_log_exporter"]

_SEVERITIES = {
    Severity.INFO: (SeverityNumber.INFO, "INFO"),
    Severity.WARN: (SeverityNumber.WARN, "WARN"),
    Severity.FAIL: (SeverityNumber.ERROR, "ERROR"),
}


_UNUSED = LogRecordLimits(0, 0, 0, 0)


def otlp_log_exporter(**options: Any) -> LogRecordExporter:
    """An OTLP/HTTP exporter; ``options`` as OTLPSpanExporter takes them."""
    return OTLPLogExporter(**options)


class DeferredRecord(LogRecord):
    """A violation on its way to becoming a log record."""

    def __init__(self, exchange: Exchange, violation: Violation) -> None:
        self.exchange = exchange
        self.violation = violation


class QueuedRecord(ReadWriteLogRecord):
    """What the processor's queue takes; the base would bound attributes that aren't there."""

    def __post_init__(self) -> None: ...


class LogBuilder(LogRecordExporter):
    """Builds deferred records and hands them to ``exporter``; all are lost after ``shutdown``."""

    def __init__(
        self,
        exporter: LogRecordExporter,
        tally: Tally,
        describer: Describer,
        sampling: Sampling,
        resource: Resource,
        scope: InstrumentationScope,
    ) -> None:
        self._exporter = exporter
        self._describer = describer
        self._sampling = sampling
        self._resource = resource
        self._scope = scope
        self._outlet = Outlet(tally, self._build, self._send, exporter.shutdown)

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        done = self._outlet.send(batch)
        return LogRecordExportResult.SUCCESS if done else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        self._outlet.stop()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _send(self, built: Sequence[ReadableLogRecord]) -> bool:
        return self._exporter.export(built) is LogRecordExportResult.SUCCESS

    def _build(self, queued: ReadableLogRecord) -> ReadableLogRecord:
        deferred = queued.log_record
        assert isinstance(deferred, DeferredRecord)
        exchange, violation = deferred.exchange, deferred.violation
        number, word = _SEVERITIES[violation.severity]
        at = nanoseconds(violation.at)
        record = LogRecord(
            timestamp=at,
            observed_timestamp=at,
            context=self._sampling.context(exchange, names.SCOPE),
            severity_number=number,
            severity_text=word,
            body=self._describer.text(violation.message),
            attributes=self._describer.log(exchange, violation),
            event_name=names.VIOLATION_EVENT,
        )
        return ReadableLogRecord(record, self._resource, self._scope)


class LogPipeline:
    """The queue, thread and exporter of log records. ``add`` is all that the event loop pays."""

    def __init__(self, builder: LogBuilder, tally: Tally, queueing: Queueing) -> None:
        self._builder = builder
        self._tally = tally
        self._empty = Resource.get_empty()
        self._processor = BatchLogRecordProcessor(
            builder,
            max_queue_size=queueing.capacity,
            schedule_delay_millis=queueing.delay_ms,
            max_export_batch_size=queueing.batch,
        )

    def add(self, exchange: Exchange, violation: Violation) -> None:
        if self._tally.admit():
            record = DeferredRecord(exchange, violation)
            # Limits and resource that nobody reads: the defaults are made anew for each record.
            self._processor.on_emit(QueuedRecord(record, self._empty, None, _UNUSED))

    def flush(self) -> None:
        """Blocks until the queue is empty, or each batch in it has failed."""
        self._processor.force_flush()

    def shutdown(self) -> None:
        """Blocks until the thread has ended; what is left in the queue is lost and counted."""
        self._builder.shutdown()
        self._processor.shutdown()  # type: ignore[no-untyped-call]
