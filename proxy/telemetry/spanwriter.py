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
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import SamplingResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from teeline.proxy.telemetry import names
from teeline.proxy.telemetry.attributes import Describer, end_of, nanoseconds, shape
from teeline.proxy.telemetry.pipeline import Sampling, is_kept, is_sampled
from teeline.proxy.telemetry.wire import AttributeWriter, fixed64, message, number, text
from teeline.validators.model import Exchange, Violation

_KEPT: Final = 1024
_LONGEST: Final = 4096
"""Bytes of attributes that are kept, at most."""

_HEAD: Final = struct.Struct(">BB16sBB8s")  # trace_id and span_id, each behind its tag and length
_TIMES: Final = struct.Struct("<BBBQBQ")  # kind, start, end
_CLIENT: Final = 3
_STATUS_UNSET: Final = message(15, b"")
_STATUS_ERROR: Final = message(15, number(3, 2))
# Bit 8: it is known whether the parent is remote; bit 9: it is. A fixed32 in field 16.
_LOCAL: Final = b"\x85\x01" + struct.pack("<I", 0x100)
_REMOTE: Final = b"\x85\x01" + struct.pack("<I", 0x300)


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
        self._shared: dict[Hashable, bytes] = {}
        self._frame = _framed(resource, scope)

    def request(self, spans: Sequence[bytes]) -> bytes:
        """An ExportTraceServiceRequest with these spans."""
        resource, scope, schema = self._frame
        written = b"".join([message(2, span) for span in spans])
        return message(1, resource + message(2, scope + written) + schema)

    def span(self, exchange: Exchange) -> bytes | None:
        """One Span; None where the sampler leaves it out. ValueError for ids that are no numbers."""
        name = self._describer.span_name(exchange)
        decision = self._sampling.decide(exchange, name, keep=is_kept(exchange))
        if not is_sampled(decision):
            return None
        error = self._describer.error_type(exchange)
        timing = exchange.timing
        return b"".join(
            (
                _HEAD.pack(
                    *(0x0A, 16, int(exchange.trace_id, 16).to_bytes(16, "big")),
                    *(0x12, 8, int(exchange.span_id, 16).to_bytes(8, "big")),
                ),
                _state(decision) if decision.trace_state else b"",
                _parent(exchange) if exchange.parent_span_id else b"",
                text(5, name),
                _TIMES.pack(
                    *(0x30, _CLIENT),
                    *(0x39, nanoseconds(timing.start)),
                    *(0x41, nanoseconds(end_of(timing))),
                ),
                self._of_span.attributes(self._describer.own(exchange)),
                self._shared_of(exchange, error),
                self._violations(exchange.violations) if exchange.violations else b"",
                # A description would have to be the relay's words; error.type says enough.
                _STATUS_UNSET if error is None else _STATUS_ERROR,
                _REMOTE if exchange.parent_span_id else _LOCAL,
            )
        )

    def _shared_of(self, exchange: Exchange, error: str | None) -> bytes:
        key = shape(exchange, error)
        written = self._shared.get(key)
        if written is None:
            written = self._of_span.attributes(self._describer.shared(exchange, error))
            if len(written) <= _LONGEST:
                if len(self._shared) >= _KEPT:
                    self._shared.clear()
                self._shared[key] = written
        return written

    def _violations(self, violations: Sequence[Violation]) -> bytes:
        kept = violations[: self._events]
        events = [message(11, self._event(violation)) for violation in kept]
        return b"".join(events) + number(12, len(violations) - len(kept))

    def _event(self, violation: Violation) -> bytes:
        attributes = self._of_event.attributes(self._describer.event(violation))
        at = fixed64(1, nanoseconds(violation.at))
        return at + text(2, names.VIOLATION_EVENT) + attributes


def _state(decision: SamplingResult) -> bytes:
    state = decision.trace_state.items() if decision.trace_state else ()
    return text(3, ",".join(f"{key}={value}" for key, value in state))


def _parent(exchange: Exchange) -> bytes:
    return message(4, int(exchange.parent_span_id, 16).to_bytes(8, "big"))


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
