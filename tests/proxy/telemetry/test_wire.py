"""What is written directly is what protobuf reads back, and an exporter that takes it is the SDK's."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from teeline.proxy.telemetry.wire import AttributeWriter, DirectSpanExporter, any_value

ATTRIBUTES = 9
"""The field of Span that holds them."""


def written(writer: AttributeWriter, attributes: dict[str, Any]) -> dict[str, Any]:
    span = Span()
    span.ParseFromString(writer.attributes(attributes))
    return {each.key: _read(each.value) for each in span.attributes}


def test_values_that_are_equal_to_python_keep_their_types() -> None:
    writer = AttributeWriter(ATTRIBUTES)
    for value in (1, True, 1.0, "1", 0, False, 0.0, "", 1, True):
        found = written(writer, {"k": value})["k"]
        assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("size", [0, 1, 100, 117, 118, 127, 128, 255, 256, 300, 20_000])
def test_every_length_is_written(size: int) -> None:
    """Lengths within lengths grow by a byte at different sizes; a header that is kept is right."""
    writer = AttributeWriter(ATTRIBUTES)
    for letter in "ab":
        attributes = {"k" * 10: letter * size, "other": size}
        assert written(writer, attributes) == attributes


def test_what_is_kept_is_bounded() -> None:
    writer = AttributeWriter(ATTRIBUTES)
    for size in range(5_000):
        writer.attributes({"k": "v" * size, "n": size})
    assert len(writer.key("k")._texts) <= 256


@pytest.mark.parametrize("value", [2**63, -(2**63), 10**30])
def test_a_number_of_more_than_64_bits_is_refused_and_not_cut(value: int) -> None:
    with pytest.raises(OverflowError):
        AttributeWriter(ATTRIBUTES).attributes({"k": value})


_VALUES = (
    st.text(st.characters(codec="utf-8"))
    | st.booleans()
    | st.integers(1 - 2**63, 2**63 - 1)
    | st.integers(-3, 2**15)
    | st.floats()
)


@given(_VALUES | st.lists(_VALUES, max_size=3))
def test_every_value_is_read_back(value: Any) -> None:
    message = AnyValue()
    message.ParseFromString(any_value(value))
    assert _same(_read(message), value)
    assert _same(written(AttributeWriter(ATTRIBUTES), {"k": value})["k"], value)


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


@pytest.mark.parametrize("value", [{"a": 1}, None, b"bytes"])
def test_what_is_no_attribute_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        any_value(value)
    with pytest.raises(TypeError):
        AttributeWriter(ATTRIBUTES).attributes({"k": value})


def test_the_sdk_in_use_takes_bytes() -> None:
    exporter = DirectSpanExporter(endpoint="http://127.0.0.1:9/v1/traces")
    assert exporter.takes_bytes, "this release is slower than it could be"
    exporter.shutdown()  # type: ignore[no-untyped-call]
    assert not exporter.send(b"")
