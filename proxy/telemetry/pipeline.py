"""What both signals share: exact books of what went in and what was lost, trace context, sampling.

What belongs here: counting, the reason of a failed export, contexts and the sampling decision. What
doesn't: the SDK's types of one signal (spans.py, logs.py), the OTEL_* variables (environment.py).

A queue that is full drops silently (the SDK's does), so ``Tally`` refuses earlier: what was admitted
and not taken yet is never more than the queue holds.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_ON,
    DEFAULT_ON,
    Decision,
    Sampler,
    SamplingResult,
)
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from teeline.validators.model import Exchange, Severity

log = logging.getLogger("teeline.telemetry")

Source = TypeVar("Source")
Built = TypeVar("Built")

_KEPT = SamplingResult(Decision.RECORD_AND_SAMPLE)
REQUEST: Final = 2 * 1024 * 1024
"""Bytes of a request, about: gRPC receivers take 4 MiB unless told otherwise."""
_QUIET = 60.0
"""Seconds between two lines about the same dead collector."""
_SDK_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
)


class ExportReason(logging.Filter):
    """Learns why an export failed, and keeps the exporters' own lines back.

    The SDK's exporters return success or failure only; the reason stands in what they log, per
    batch and retry, with the exception's text in it, which may quote an endpoint's query and so a
    key. What is kept is the status code (of HTTP or gRPC) or the exception's type.
    """

    def __init__(self) -> None:
        super().__init__()
        self.text = "no answer"

    def install(self) -> None:
        for name in _SDK_LOGGERS:
            logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        for name in _SDK_LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        for value in record.args if isinstance(record.args, tuple) else ():
            if isinstance(value, int) and not isinstance(value, bool):
                self.text = f"HTTP {value}"
            elif isinstance(value, enum.Enum):
                self.text = f"gRPC {value.name}"
            elif isinstance(value, Exception):
                self.text = type(value).__name__
        return False


class Tally:
    """The books of one signal; the event loop calls ``admit``, the exporting thread the rest."""

    def __init__(
        self,
        signal: str,
        capacity: int,
        reason: ExportReason,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.signal = signal
        self._capacity = capacity
        self._reason = reason
        self._clock = clock
        self._admitted = 0
        self._refused = 0
        self._taken = 0
        self._failed = 0
        self._said_at: float | None = None
        self.exported = 0

    @property
    def dropped(self) -> int:
        """Records that will never arrive: refused by a full queue, or failed to export."""
        return self._refused + self._failed

    def admit(self) -> bool:
        """Whether the queue has room for one more; counts it either way."""
        if self._admitted - self._taken >= self._capacity:
            self._refused += 1
            return False
        self._admitted += 1
        return True

    def take(self, count: int) -> None:
        self._taken += count

    def sent(self, count: int) -> None:
        self.exported += count
        if self._said_at is not None:
            self._said_at = None
            log.info("telemetry: the collector takes %s again", self.signal)

    def lost(self, count: int, reason: str | None = None) -> None:
        """Counts records that could not be exported; says so at most once a minute."""
        self._failed += count
        now = self._clock()
        if count and (self._said_at is None or now - self._said_at >= _QUIET):
            self._said_at = now
            log.warning(
                "telemetry: %s could not be exported (%s); %d lost so far; traffic goes on",
                self.signal,
                reason or self._reason.text,
                self.dropped,
            )


class Outlet(Generic[Source, Built]):
    """Between a queue and an exporter: builds what was deferred, exports it, keeps the
    books.

    ``build`` returns None for what the sampler leaves out, which is no loss. ``export`` is True
    where the collector took the batch. Neither may be trusted not to raise. ``weigh`` gives about the
    bytes of what was built: a batch beyond what receivers take is sent in several requests.
    """

    def __init__(
        self,
        tally: Tally,
        build: Callable[[Source], Built | None],
        export: Callable[[Sequence[Built]], bool],
        shutdown: Callable[[], None],
        weigh: Callable[[Built], int] | None = None,
    ) -> None:
        self._weigh = weigh
        self._tally = tally
        self._build = build
        self._export = export
        self._shutdown = shutdown
        self._stopped = False
        self._built: list[Built] = []
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Records that were added and not sent yet, those that the sampler left out among them."""
        return self._waiting

    def send(self, batch: Sequence[Source]) -> bool:
        """As ``add``, then ``release``."""
        self.add(batch)
        return self.release()

    def add(self, batch: Sequence[Source]) -> None:
        """Builds records, which wait to be sent; in the books they still wait in the queue."""
        self._waiting += len(batch)
        for source in batch:
            try:
                item = self._build(source)
            except Exception as error:  # noqa: BLE001  one bad record must not take its batch along
                self._tally.lost(1, f"{type(error).__name__} while building")
                continue
            if item is not None:
                self._built.append(item)

    def release(self) -> bool:
        """Sends what was added. Never raises: the SDK would log a traceback. After ``stop`` all of it
        counts as lost.
        """
        built, self._built = self._built, []
        self._tally.take(self._waiting)
        self._waiting = 0
        done = True
        for part in self._parts(built):
            done = self._sent(part) and done
        return done

    def _sent(self, built: Sequence[Built]) -> bool:
        if self._stopped:
            self._tally.lost(len(built), "shut down before they were sent")
            return False
        try:
            done = self._export(built)
        except Exception as error:  # noqa: BLE001  see above
            self._tally.lost(len(built), type(error).__name__)
            return False
        if done:
            self._tally.sent(len(built))
        else:
            self._tally.lost(len(built))
        return done

    def _parts(self, built: Sequence[Built]) -> Iterator[Sequence[Built]]:
        """What is built, in requests of a size that is taken."""
        if self._weigh is None:
            if built:
                yield built
            return
        part: list[Built] = []
        weight = 0
        for item in built:
            more = self._weigh(item)
            if part and weight + more > REQUEST:
                yield part
                part, weight = [], 0
            part.append(item)
            weight += more
        if part:
            yield part

    def stop(self) -> None:
        """Ends the exporter's retries at once; idempotent."""
        if not self._stopped:
            self._stopped = True
            self._shutdown()


class Sampling:
    """The sampler's decision for an exchange, and the contexts that follow from its ids."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        # What these decide needs no asking, which costs more than the rest of a span's context.
        self._always = sampler is ALWAYS_ON
        self._by_parent = sampler is DEFAULT_ON
        self.roots = self._always or self._by_parent
        """Whether each exchange that has no parent is sampled, whatever it is."""

    def decide(self, exchange: Exchange, name: str, *, keep: bool) -> SamplingResult:
        """``keep`` overrules the sampler, which decides on clean traffic alone.

        ValueError where the exchange's ids are no hexadecimal numbers.
        """
        sampled = exchange.parent_sampled or not exchange.parent_span_id
        if keep or self._always or (self._by_parent and sampled):
            return _KEPT
        parent = parent_context(exchange)
        context = Context() if parent is None else _context_of(parent)
        return self._sampler.should_sample(
            context, int(exchange.trace_id, 16), name, SpanKind.CLIENT, None, None
        )

    def context(self, exchange: Exchange, name: str, *, keep: bool) -> Context:
        """The context that a log record of this exchange belongs to."""
        return _context_of(span_context(exchange, self.decide(exchange, name, keep=keep)))


def is_kept(exchange: Exchange) -> bool:
    """Whether a closed exchange is told of whatever a sampler or its client says: it broke a rule.

    An info finding is an observation, not a breach.
    """
    violations = exchange.violations
    return bool(violations) and any(found.severity >= Severity.WARN for found in violations)


def is_sampled(decision: SamplingResult) -> bool:
    return decision.decision is Decision.RECORD_AND_SAMPLE


def span_context(exchange: Exchange, decision: SamplingResult) -> SpanContext:
    """The exchange's own span, under the ids that it was given when it was opened."""
    sampled = is_sampled(decision)
    return SpanContext(
        trace_id=int(exchange.trace_id, 16),
        span_id=int(exchange.span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT),
        trace_state=decision.trace_state or TraceState(),
    )


def parent_context(exchange: Exchange) -> SpanContext | None:
    """The client's span, where the request carried a traceparent."""
    if not exchange.parent_span_id:
        return None
    flags = TraceFlags.SAMPLED if exchange.parent_sampled else TraceFlags.DEFAULT
    return SpanContext(
        trace_id=int(exchange.trace_id, 16),
        span_id=int(exchange.parent_span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(flags),
    )


def _context_of(context: SpanContext) -> Context:
    return set_span_in_context(NonRecordingSpan(context), Context())
