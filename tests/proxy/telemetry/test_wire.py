"""What is written directly is what the SDK's own encoder would have written, field for field."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.proxy.telemetry.attributes import Describer
from teeline.proxy.telemetry.pipeline import ExportReason, Sampling, Tally
from teeline.proxy.telemetry.spans import Builder, DeferredSpan
from teeline.proxy.telemetry.wire import DirectSpanExporter, SpanEncoder, any_value
from teeline.validators.model import Ended, Exchange, Marks, Severity
from tests.proxy.samples import exchange, violation
from tests.proxy.telemetry.collector import collecting


def built(*made: Exchange, events: int = 2) -> list[ReadableSpan]:
    builder = Builder(
        SpanExporter(),
        Tally("spans", 10, ExportReason()),
        Describer({"my-relay": ("relay.example", 443)}),
        Sampling(DEFAULT_ON),
        Resource({"service.name": "teeline", "n": 1}, "https://schema.example"),
        InstrumentationScope("teeline", "1.2.3"),
        events=events,
    )
    spans = [builder._build(DeferredSpan(each)) for each in made]
    return [span for span in spans if span is not None]


def parsed(data: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    request.ParseFromString(data)
    return request


EXCHANGES: Sequence[dict[str, Any]] = (
    {},
    {"parent_span_id": "ab" * 8},
    {"stream": False, "status": 500, "usage": {}, "finish": []},
    {"ended": Ended.UPSTREAM_ABORTED, "model": "m" * 300, "finish": ["stop", "é\u6f22", "length"]},
    {"settings": {"temperature": 0, "seed": -5, "choices": 2**40, "encoding_format": "float"}},
    {"usage": {"prompt_tokens": 10**30, "completion_tokens": 0}, "marks": Marks(fingerprint="fp")},
    {"violations": [violation(), violation("usage.x", Severity.WARN), violation()]},
)


@pytest.mark.parametrize("changes", EXCHANGES)
def test_a_span_is_written_as_the_sdk_writes_it(changes: dict[str, Any]) -> None:
    spans = built(exchange(**changes))
    assert parsed(SpanEncoder().encode(spans)) == encode_spans(spans)


def test_a_batch_is_and_so_is_the_next_one() -> None:
    """What an encoder keeps of one batch is right in another."""
    encoder = SpanEncoder()
    for _ in range(3):
        spans = built(*[exchange(**changes) for changes in EXCHANGES])
        assert parsed(encoder.encode(spans)) == encode_spans(spans)


def test_values_that_are_equal_to_python_keep_their_types() -> None:
    encoder = SpanEncoder()
    attributes: list[dict[str, Any]]
    attributes = [{"k": 1}, {"k": True}, {"k": 1.0}, {"k": "1"}, {"k": 0}, {"k": False}]
    written = [encoder.attributes(9, each) for each in attributes]
    assert len(set(written)) == len(attributes)
    assert [encoder.attributes(9, each) for each in attributes] == written


def test_what_is_kept_is_bounded() -> None:
    encoder = SpanEncoder()
    for number in range(20_000):
        encoder.attributes(9, {"k": f"value-{number}"})
    assert len(encoder._attributes) <= 4096


_VALUES = (
    st.text(st.characters(codec="utf-8"))
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
)


@given(_VALUES | st.lists(_VALUES, max_size=3))
def test_every_value_is_read_back(value: Any) -> None:
    message = AnyValue()
    message.ParseFromString(any_value(value))
    assert _same(_read(message), value)


def _read(message: AnyValue) -> Any:
    kind = message.WhichOneof("value")
    if kind == "array_value":
        return [_read(each) for each in message.array_value.values]
    return getattr(message, kind or "")


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(other, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    return type(one) is type(other) and bool(one == other)


def test_what_is_no_attribute_is_refused() -> None:
    with pytest.raises(TypeError):
        any_value({"a": 1})


def test_where_the_sdk_takes_no_bytes_its_own_encoder_is_used() -> None:
    with collecting() as collector:
        exporter = DirectSpanExporter(endpoint=f"{collector.url}/v1/traces")
        assert exporter._sender is not None, "this release is slower than it could be"
        exporter._sender = None
        exporter.export(built(exchange()))
        exporter.shutdown()  # type: ignore[no-untyped-call]
    assert len(collector.spans) == 1
