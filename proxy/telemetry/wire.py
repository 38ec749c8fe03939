"""Spans as OTLP's bytes, written directly: encoding is most of what telemetry costs.

What belongs here: the wire format of the messages that a span is made of (opentelemetry-proto's
trace.proto and common.proto), and an exporter that sends them. What doesn't: what a span says
(attributes.py), and how it is sent: that stays the SDK's (retries, compression, TLS).

The SDK makes a Python object of each attribute first, which takes ten times as long. Most attributes
are the same from span to span (names, models, verdicts), so their bytes are kept. The tests hold every
field against what the SDK's encoder writes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, TraceState

from teeline.proxy.telemetry import names

_KEPT = 4096
"""Encoded attributes that are kept; few values come back, and those come back soon."""
_LONGEST_KEPT = 128
_UNIQUE: Final = frozenset({names.EXCHANGE_ID, names.RESPONSE_ID})
"""Attributes that never come back."""

# Field numbers with their wire types, as one byte each: number << 3 | type.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLAGS: Final = bytes((16 << 3 & 0x7F | _FIXED32 | 0x80, 16 << 3 >> 7))
_LOCAL: Final = struct.pack("<I", 0x100)
_REMOTE: Final = struct.pack("<I", 0x300)


_SHORT: Final = tuple(bytes((number,)) for number in range(0x80))
_TAGS: Final = tuple(bytes((field << 3 | _BYTES,)) for field in range(16))


def varint(number: int) -> bytes:
    """A whole number; negative ones as the 64 bits of their two's complement."""
    if 0 <= number < 0x80:
        return _SHORT[number]
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(field: int, content: bytes) -> bytes:
    """A field that holds bytes, text or a message."""
    length = len(content)
    return _TAGS[field] + (_SHORT[length] if length < 0x80 else varint(length)) + content


def number(field: int, value: int) -> bytes:
    """A field that holds a whole number; 0 is the default and not written."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def fixed64(field: int, value: int) -> bytes:
    return varint(field << 3 | _FIXED64) + struct.pack("<Q", value) if value else b""


def any_value(value: Any) -> bytes:
    """An AnyValue of what attributes may be; TypeError for anything else."""
    if isinstance(value, str):
        return message(1, value.encode())
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"  # a oneof is written even where it is 0
    if isinstance(value, int):
        return b"\x18" + varint(value)
    if isinstance(value, float):
        return b"\x21" + struct.pack("<d", value)
    if isinstance(value, list | tuple):
        return message(5, b"".join(message(1, any_value(each)) for each in value))
    raise TypeError(f"no attribute: {type(value).__name__}")


class SpanEncoder:
    """Encodes batches of spans of one resource and scope; used by one thread at a time."""

    def __init__(self) -> None:
        self._attributes: dict[tuple[int, str, type, Any], bytes] = {}
        self._keys: dict[str, bytes] = {}
        self._frame: tuple[bytes, bytes, bytes] | None = None

    def encode(self, spans: Sequence[ReadableSpan]) -> bytes:
        """The bytes of an ExportTraceServiceRequest; all spans have the first one's resource."""
        resource, scope, schema = self._framed(spans)
        written = b"".join(message(2, self.span(span)) for span in spans)
        return message(1, resource + message(2, scope + written) + schema)

    def span(self, span: ReadableSpan) -> bytes:
        """One Span; links, which teeline never makes, are not written."""
        context, parent = span.context, span.parent
        assert isinstance(context, SpanContext)
        remote = parent is not None and parent.is_remote
        parts = [
            message(1, context.trace_id.to_bytes(16, "big")),
            message(2, context.span_id.to_bytes(8, "big")),
            _text(3, _state(context.trace_state)),
            b"" if parent is None else message(4, parent.span_id.to_bytes(8, "big")),
            _text(5, span.name),
            number(6, span.kind.value + 1),  # the protocol's enumeration begins with UNSPECIFIED
            fixed64(7, span.start_time or 0),
            fixed64(8, span.end_time or 0),
            self.attributes(9, span.attributes or {}),
            *(message(11, self._event(event)) for event in span.events),
            number(12, span.dropped_events),
            message(15, number(3, span.status.status_code.value)),
            _FLAGS + (_REMOTE if remote else _LOCAL),
        ]
        return b"".join(parts)

    def attributes(self, field: int, attributes: Mapping[str, Any]) -> bytes:
        """KeyValue messages, one an attribute, under a field of the message they stand in."""
        parts = []
        known = self._attributes
        for key, value in attributes.items():
            kind = type(value)
            if key in _UNIQUE or not (kind is str or kind is bool or kind is int):
                parts.append(message(field, self._key(key) + message(2, any_value(value))))
                continue
            # The type belongs to it: 1 and True are the same key otherwise.
            index = (field, key, kind, value)
            encoded = known.get(index)
            if encoded is None:
                encoded = message(field, self._key(key) + message(2, any_value(value)))
                self._keep(index, encoded)
            parts.append(encoded)
        return b"".join(parts)

    def _keep(self, index: tuple[int, str, type, Any], encoded: bytes) -> None:
        if len(encoded) <= _LONGEST_KEPT:
            if len(self._attributes) >= _KEPT:
                self._attributes.clear()
            self._attributes[index] = encoded

    def _key(self, key: str) -> bytes:
        encoded = self._keys.get(key)
        if encoded is None:
            # Keys are names of ours: there are few.
            encoded = self._keys[key] = message(1, key.encode())
        return encoded

    def _event(self, event: Event) -> bytes:
        return b"".join(
            (
                fixed64(1, event.timestamp),
                _text(2, event.name),
                self.attributes(3, event.attributes or {}),
            )
        )

    def _framed(self, spans: Sequence[ReadableSpan]) -> tuple[bytes, bytes, bytes]:
        """Resource, scope and the resource's schema as the SDK writes them, once."""
        if self._frame is None:
            made = encode_spans(spans[:1]).resource_spans[0]
            resource = message(1, made.resource.SerializeToString())
            scope = message(1, made.scope_spans[0].scope.SerializeToString())
            self._frame = (resource, scope, _text(3, made.schema_url))
        return self._frame


def _state(state: TraceState) -> str:
    return ",".join(f"{key}={value}" for key, value in state.items()) if state else ""


def _text(field: int, text: str) -> bytes:
    return message(field, text.encode()) if text else b""


class DirectSpanExporter(OTLPSpanExporter):
    """The SDK's exporter with the encoding above in place of its own.

    The SDK has no way to hand it bytes: what sends them is private in name. Where a release has it
    no longer, its own encoding is used again, which costs time and nothing else.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._encoder = SpanEncoder()
        self._sender = getattr(getattr(self, "_client", None), "export", None)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._sender is None or getattr(self, "_shutdown", True):
            return super().export(spans)
        sent = self._sender(self._encoder.encode(spans))
        done = getattr(sent, "success", False)
        return SpanExportResult.SUCCESS if done else SpanExportResult.FAILURE
