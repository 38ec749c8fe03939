"""A closed exchange's span as OTLP's bytes, without the SDK's objects in between.

What belongs here: the messages of trace.proto (opentelemetry-proto). What doesn't: fields and
attributes as bytes (wire.py), what a span says (attributes.py), sending (wire.py).

Nearly all attributes are the same from span to span: names, models, verdicts. Their bytes are kept by
the values that they follow from (``attributes.shape``). The tests hold every field against what the
SDK's encoder writes of the SDK's span.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import SamplingResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from teeline.proxy.telemetry import names
from teeline.proxy.telemetry.attributes import (
    OTHER_ERROR,
    Describer,
    counter,
    end_of,
    nanoseconds,
    shape,
)
from teeline.proxy.telemetry.pipeline import Sampling, is_kept, is_sampled
from teeline.proxy.telemetry.wire import (
    AttributeWriter,
    KeyWriter,
    fixed64,
    message,
    number,
    opening,
    text,
)
from teeline.validators.model import Exchange, Violation

_KEPT: Final = 1024
_LONGEST: Final = 4096
"""Bytes of attributes that are kept, at most."""
_COUNTERS: Final = 64
"""Counters of an exchange whose attributes are kept, at most."""

_TIMES: Final = struct.Struct("<BQBQ")  # start and end, each behind its tag
_CLIENT: Final = number(6, 3)
_STATUS_UNSET: Final = message(15, b"")
_STATUS_ERROR: Final = message(15, number(3, 2))
# Bit 8: it is known whether the parent is remote; bit 9: it is. A fixed32 in field 16.
_LOCAL: Final = b"\x85\x01" + struct.pack("<I", 0x100)
_REMOTE: Final = b"\x85\x01" + struct.pack("<I", 0x300)


class _Shared(NamedTuple):
    """What is the same in all spans of a shape: the fields before the times, and those behind what is
    an exchange's own."""

    name: bytes
    rest: bytes


class SpanWriter:
    """Writes the spans of one resource and scope; used by one thread at a time."""

    def __init__(
        self,
        describer: Describer,
        sampling: Sampling,
        resource: Resource,
        scope: InstrumentationScope,
        *,
        events: int,
    ) -> None:
        self._describer = describer
        self._sampling = sampling
        self._events = events
        self._of_span = AttributeWriter(9)
        self._of_event = AttributeWriter(3)
        self._id = self._of_span.key(names.EXCHANGE_ID)
        self._response_id = self._of_span.key(names.RESPONSE_ID)
        self._first_chunk = self._of_span.key(names.RESPONSE_TIME_TO_FIRST_CHUNK)
        self._counters: dict[tuple[str, ...], Sequence[tuple[KeyWriter, int]]] = {}
        self._shared: dict[Hashable, _Shared] = {}
        self._frame = _framed(resource, scope)

    def request(self, spans: Sequence[bytes]) -> bytes:
        """An ExportTraceServiceRequest with these spans."""
        resource, scope, schema = self._frame
        # Half a megabyte: put together once.
        parts = [scope]
        for span in spans:
            parts += opening(2, len(span)), span
        within = opening(2, sum(map(len, parts)))
        parts = [resource, within, *parts, schema]
        return b"".join((opening(1, sum(map(len, parts))), *parts))

    def span(self, exchange: Exchange) -> bytes | None:
        """One Span; None where the sampler leaves it out. ValueError for ids that are none."""
        state, parent = b"", exchange.parent_span_id
        if parent or not self._sampling.roots:
            name = self._describer.span_name(exchange)
            decision = self._sampling.decide(exchange, name, keep=is_kept(exchange))
            if not is_sampled(decision):
                return None
            state = _state(decision)
        shared, violations = self._shared_of(exchange), exchange.violations
        timing = exchange.timing
        return b"".join(
            (
                _ids(exchange.trace_id, exchange.span_id),
                state,
                _parent(parent) if parent else b"",
                shared.name,
                _TIMES.pack(0x39, nanoseconds(timing.start), 0x41, nanoseconds(end_of(timing))),
                self._own(exchange),
                shared.rest,
                self._violations(violations) if violations else b"",
                _REMOTE if parent else _LOCAL,
            )
        )

    def _shared_of(self, exchange: Exchange) -> _Shared:
        key = shape(exchange)
        shared = self._shared.get(key)
        if shared is None:
            describer = self._describer
            error = describer.error_type(exchange)
            # A description would have to be the relay's words; error.type says enough.
            status = _STATUS_UNSET if error is None else _STATUS_ERROR
            shared = _Shared(
                text(5, describer.span_name(exchange)) + _CLIENT,
                self._of_span.attributes(describer.shared(exchange, error)) + status,
            )
            # Names that fold now may be admitted later.
            folds = describer.model(exchange, exchange.model) == names.OTHER or error == OTHER_ERROR
            if not folds and len(shared.rest) <= _LONGEST:
                if len(self._shared) >= _KEPT:
                    self._shared.clear()
                self._shared[key] = shared
        return shared

    def _own(self, exchange: Exchange) -> bytes:
        """``Describer.own``, without a dictionary of it where no counter has to be bounded."""
        parts = [self._id.text(exchange.id)]
        if exchange.response_id:
            parts.append(self._response_id.text(self._describer.text(exchange.response_id)))
        first = exchange.timing.first_event
        if exchange.stream and first is not None:
            parts.append(self._first_chunk.double(max(0.0, first - exchange.timing.start)))
        if usage := exchange.usage:
            counts = list(usage.values())
            try:
                parts += [key.whole(counts[at]) for key, at in self._counters_of(tuple(usage))]
            except OverflowError:
                return self._of_span.attributes(self._describer.own(exchange))
        return b"".join(parts)

    def _counters_of(self, usage: tuple[str, ...]) -> Sequence[tuple[KeyWriter, int]]:
        """The attributes that counters are told by, each with the place of its counter."""
        counters = self._counters.get(usage)
        if counters is None:
            # Where two counters are told by one attribute, the latter is.
            places = {name: at for at, name in enumerate(map(counter, usage)) if name is not None}
            counters = [(self._of_span.key(name), at) for name, at in places.items()]
            if len(usage) <= _COUNTERS:
                if len(self._counters) >= _KEPT:
                    self._counters.clear()
                self._counters[usage] = counters
        return counters

    def _violations(self, violations: Sequence[Violation]) -> bytes:
        kept = violations[: self._events]
        events = [message(11, self._event(violation)) for violation in kept]
        return b"".join(events) + number(12, len(violations) - len(kept))

    def _event(self, violation: Violation) -> bytes:
        attributes = self._of_event.attributes(self._describer.event(violation))
        at = fixed64(1, nanoseconds(violation.at))
        return at + text(2, names.VIOLATION_EVENT) + attributes


def _ids(trace: str, span: str) -> bytes:
    """trace_id and span_id, each behind its tag and length; ValueError unless they are hexadecimal
    digits, as many as there have to be."""
    head = bytes.fromhex(f"0a10{trace}1208{span}")
    if len(trace) != 32 or len(span) != 16 or len(head) != 28:  # fromhex skips blanks
        raise ValueError("ids of another length")
    return head


def _state(decision: SamplingResult) -> bytes:
    state = decision.trace_state.items() if decision.trace_state else ()
    return text(3, ",".join(f"{key}={value}" for key, value in state))


def _parent(span: str) -> bytes:
    return message(4, int(span, 16).to_bytes(8, "big"))


def _framed(resource: Resource, scope: InstrumentationScope) -> tuple[bytes, bytes, bytes]:
    """Resource, scope and the resource's schema as the SDK writes them, once."""
    context = SpanContext(1, 1, is_remote=False)
    span = ReadableSpan("", context, resource=resource, instrumentation_scope=scope)
    made = encode_spans([span]).resource_spans[0]
    return (
        message(1, made.resource.SerializeToString()),
        message(1, made.scope_spans[0].scope.SerializeToString()),
        text(3, made.schema_url),
    )
