"""Log records: violations as they are found, summaries of damped ones, audit records and heads.

The only module that imports ``opentelemetry._logs``, ``opentelemetry.sdk._logs`` and the OTLP
exporter for them (over gRPC: grpcexport.py): they are private in name and still change. What
doesn't belong here: attributes (attributes.py), spans (spans.py).

As with spans, the event loop only queues; the record is built in the SDK's export thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LogRecordLimits, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.proxy.audit.chain import parse
from teeline.proxy.audit.record import exchange_record
from teeline.proxy.audit.writer import Written
from teeline.proxy.background import detached
from teeline.proxy.telemetry import names
from teeline.proxy.telemetry.attributes import Attributes, Describer, nanoseconds
from teeline.proxy.telemetry.pipeline import Outlet, Sampling, Tally, is_kept
from teeline.proxy.telemetry.queues import Queueing
from teeline.validators.model import Exchange, Severity, Violation

__all__ = [
    "LogBuilder",
    "LogPipeline",
    "LogRecordExporter",
    "Note",
    "Recorded",
    "Told",
    "otlp_log_exporter",
]

_SEVERITIES = {
    Severity.INFO: (SeverityNumber.INFO, "INFO"),
    Severity.WARN: (SeverityNumber.WARN, "WARN"),
    Severity.FAIL: (SeverityNumber.ERROR, "ERROR"),
}


_ATTRIBUTES = 1024
"""Bytes that a record takes beside its body, about."""
_UNUSED = LogRecordLimits(0, 0, 0, 0)


def otlp_log_exporter(**options: Any) -> LogRecordExporter:
    """An OTLP/HTTP exporter; ``options`` as OTLPSpanExporter takes them."""
    return OTLPLogExporter(**options)


class Note(NamedTuple):
    """A log record that belongs to no exchange: what it says, and when it was so."""

    event: str
    at: float
    severity: Severity
    body: str
    attributes: Attributes


class Told(NamedTuple):
    """A violation that is told; ``left_out`` of its kind were not, since the one before."""

    exchange: Exchange
    violation: Violation
    left_out: int = 0


class Recorded(NamedTuple):
    """An exchange whose audit record is told though no log is written."""

    exchange: Exchange


Item = Told | Note | Recorded | Written


class DeferredRecord(LogRecord):
    """What is on its way to becoming a log record."""

    def __init__(self, item: Item) -> None:
        self.item = item


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
        self._outlet = Outlet(tally, self._build, self._send, exporter.shutdown, _weight)

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
        item = deferred.item
        if isinstance(item, Told):
            record = self._told(item)
        elif isinstance(item, Recorded):
            record = self._recorded(item.exchange)
        elif isinstance(item, Written):
            record = self._written(item)
        else:
            record = self._record(*item)
        return ReadableLogRecord(record, self._resource, self._scope)

    def _told(self, told: Told) -> LogRecord:
        exchange, violation, left_out = told
        attributes = self._describer.log(exchange, violation)
        if left_out:
            attributes[names.LEFT_OUT] = left_out
        # A violation of warn and above has its span sampled, so the record may say so before.
        sampled = violation.severity >= Severity.WARN
        return self._record(
            names.VIOLATION_EVENT,
            violation.at,
            violation.severity,
            self._describer.text(violation.message),
            attributes,
            self._sampling.context(exchange, names.SCOPE, keep=sampled),
        )

    def _recorded(self, exchange: Exchange) -> LogRecord:
        """What the audit log would say, had one been written."""
        timing = exchange.timing
        return self._record(
            names.AUDIT_EVENT,
            timing.start if timing.end is None else timing.end,
            Severity.INFO,
            orjson.dumps(exchange_record(exchange)).decode(),
            self._describer.audit(exchange),
            self._context(exchange),
        )

    def _written(self, written: Written) -> LogRecord:
        """A line of the audit log byte by byte, so that its hash can be checked wherever it lies."""
        exchange = written.exchange
        attributes = {} if exchange is None else self._describer.audit(exchange)
        attributes.update(_place_in_chain(written))
        context = None if exchange is None else self._context(exchange)
        body = written.line.decode()
        return self._record(names.AUDIT_EVENT, written.at, Severity.INFO, body, attributes, context)

    def _context(self, exchange: Exchange) -> Context:
        return self._sampling.context(exchange, names.SCOPE, keep=is_kept(exchange))

    def _record(
        self,
        event: str,
        at: float,
        severity: Severity,
        body: str,
        attributes: Attributes,
        context: Context | None = None,
    ) -> LogRecord:
        number, word = _SEVERITIES[severity]
        time = nanoseconds(at)
        return LogRecord(
            timestamp=time,
            observed_timestamp=time,
            context=Context() if context is None else context,
            severity_number=number,
            severity_text=word,
            body=body,
            attributes=attributes,
            event_name=event,
        )


def _weight(built: ReadableLogRecord) -> int:
    """Bodies differ most: an audit record may be of a hundred violations."""
    body = built.log_record.body
    return _ATTRIBUTES + (len(body) if isinstance(body, str) else 0)


def _place_in_chain(written: Written) -> Attributes:
    """What shows, wherever the records are stored, that one is missing or isn't what it was."""
    record = parse(written.line)
    found: Attributes = {
        names.AUDIT_CHAIN: record.chain,
        names.AUDIT_SEQ: record.seq,
        names.AUDIT_PREV: record.prev,
        names.AUDIT_HASH: record.hash,
    }
    if record.kind:
        found[names.AUDIT_KIND] = record.kind
    return found


class LogPipeline:
    """The queue, thread and exporter of log records. ``add`` is all that the event loop pays.

    Heads of the audit log come from the thread that writes it, so adding takes a lock.
    """

    def __init__(self, builder: LogBuilder, tally: Tally, queueing: Queueing) -> None:
        self._builder = builder
        self._tally = tally
        self._empty = Resource.get_empty()
        self._lock = threading.Lock()
        self._processor = BatchLogRecordProcessor(
            builder,
            max_queue_size=queueing.capacity,
            schedule_delay_millis=queueing.delay_ms,
            max_export_batch_size=queueing.batch,
        )

    def add(self, item: Item) -> None:
        with self._lock:
            admitted = self._tally.admit()
        if admitted:
            record = DeferredRecord(item)
            # Limits and resource that nobody reads: the defaults are made anew for each record.
            self._processor.on_emit(QueuedRecord(record, self._empty, None, _UNUSED))

    async def flush(self, deadline: float) -> None:
        """Waits until the queue is empty, or each batch in it has failed; TimeoutError."""
        await detached(self._processor.force_flush, "teeline-log-flush", deadline)

    async def stop(self, deadline: float) -> bool:
        """Ends the thread; what is left in the queue is lost and counted. False where ``deadline``
        seconds were not enough.
        """
        try:
            await detached(self._shut_down, "teeline-log-shutdown", deadline)
        except TimeoutError:
            return False
        return True

    def _shut_down(self) -> None:
        self._builder.shutdown()
        self._processor.shutdown()  # type: ignore[no-untyped-call]
