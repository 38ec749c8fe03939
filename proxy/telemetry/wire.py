"""OTLP's bytes, written directly: encoding is most of what telemetry costs.

What belongs here: the wire format of fields and attributes (protobuf, and common.proto of
opentelemetry-proto), and an exporter that takes bytes. What doesn't: what a span says (attributes.py),
its message (spanwriter.py), and how it is sent: that stays the SDK's (retries, compression, TLS).

The SDK makes a Python object of each attribute first, which takes ten times as long.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from teeline.proxy.text import int64

_LONGEST: Final = 0x100
"""Content of this many bytes is begun anew each time."""

# Field numbers with their wire types, as one byte each: number << 3 | type.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_STRING_VALUE: Final = 1
_INT_VALUE: Final = 3
_DOUBLE_VALUE: Final = 4
_DOUBLE: Final = struct.Struct("<d")

_SHORT: Final = tuple(bytes((number,)) for number in range(0x80))
_TAGS: Final = tuple(bytes((field << 3 | _BYTES,)) for field in range(16))


def varint(number: int) -> bytes:
    """A whole number; negative ones as the 64 bits of their two's complement."""
    if 0 <= number < 0x80:
        return _SHORT[number]
    if 0 <= number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(field: int, content: bytes) -> bytes:
    """A field that holds bytes, text or a message."""
    return opening(field, len(content)) + content


def opening(field: int, length: int) -> bytes:
    """What stands before a field's content of so many bytes."""
    return _TAGS[field] + (_SHORT[length] if length < 0x80 else varint(length))


def number(field: int, value: int) -> bytes:
    """A field that holds a whole number; 0 is the default and not written."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def text(field: int, content: str) -> bytes:
    """A field that holds text; the empty one is the default and not written."""
    return message(field, content.encode()) if content else b""


def fixed64(field: int, value: int) -> bytes:
    """A field that holds a whole number in 64 bits; as ``number``."""
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
        return b"\x21" + _DOUBLE.pack(value)
    if isinstance(value, list | tuple):
        return message(5, b"".join(message(1, any_value(each)) for each in value))
    raise TypeError(f"no attribute: {type(value).__name__}")


class KeyWriter:
    """Writes KeyValue messages of one key, under one field of the message that they stand in."""

    __slots__ = ("_before", "_doubles", "_numbers", "_texts")

    def __init__(self, field: int, key: str) -> None:
        # What stands before the content of a value, all lengths and tags, follows from its type and size.
        self._before = _TAGS[field], message(1, key.encode()) + _TAGS[2]
        self._texts: dict[int, bytes] = {}
        self._numbers = tuple(self._header(_INT_VALUE << 3 | _VARINT, b"", n) for n in range(11))
        self._doubles = self._header(_DOUBLE_VALUE << 3 | _FIXED64, b"", _DOUBLE.size)

    def text(self, value: str) -> bytes:
        content = value.encode()
        size = len(content)
        header = self._texts.get(size)
        if header is None:
            header = self._header(_STRING_VALUE << 3 | _BYTES, varint(size), size)
            if size < _LONGEST:
                self._texts[size] = header
        return header + content

    def whole(self, value: int) -> bytes:
        """OverflowError for a number that ``int64`` changes."""
        if 0 <= value < 0x80:
            return self._numbers[1] + _SHORT[value]
        if 0x80 <= value < 0x4000:
            content = (value & 0x7F | 0x80 | value >> 7 << 8).to_bytes(2, "little")
            return self._numbers[2] + content
        if int64(value) != value:
            raise OverflowError("no attribute: a number of more than 64 bits")
        content = varint(value)
        return self._numbers[len(content)] + content

    def double(self, value: float) -> bytes:
        return self._doubles + _DOUBLE.pack(value)

    def other(self, value: Any) -> bytes:
        """As ``any_value``."""
        content = any_value(value)
        field, key = self._before
        inner = key + varint(len(content)) + content
        return field + varint(len(inner)) + inner

    def _header(self, kind: int, length: bytes, size: int) -> bytes:
        field, key = self._before
        value = bytes((kind,)) + length
        inner = key + varint(len(value) + size) + value
        return field + varint(len(inner) + size) + inner


class AttributeWriter:
    """Writes attributes under one field of the message that they stand in."""

    def __init__(self, field: int) -> None:
        self._field = field
        self._keys: dict[str, KeyWriter] = {}

    def key(self, name: str) -> KeyWriter:
        """Names are of ours, so there are few of these."""
        known = self._keys.get(name)
        if known is None:
            known = self._keys[name] = KeyWriter(self._field, name)
        return known

    def attributes(self, attributes: Mapping[str, Any]) -> bytes:
        """One message an attribute; TypeError where a value is none."""
        parts = []
        for name, value in attributes.items():
            key, kind = self.key(name), type(value)
            if kind is str:
                parts.append(key.text(value))
            elif kind is int:
                parts.append(key.whole(value))
            elif kind is float:
                parts.append(key.double(value))
            else:
                parts.append(key.other(value))
        return b"".join(parts)


@runtime_checkable
class ByteExporter(Protocol):
    """An exporter of spans that takes requests as bytes."""

    @property
    def takes_bytes(self) -> bool:
        """Whether ``send`` may be called."""

    def send(self, request: bytes) -> bool:
        """Sends an ExportTraceServiceRequest; whether the collector took it."""


class DirectSpanExporter(OTLPSpanExporter):
    """The SDK's exporter, which takes requests as bytes, too.

    The SDK has no way to hand it bytes: what sends them is private in name. Where a release has it
    no longer, ``takes_bytes`` is false; spans are then exported the SDK's way, which costs time and
    nothing else.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._sender = getattr(getattr(self, "_client", None), "export", None)

    @property
    def takes_bytes(self) -> bool:
        """Whether ``send`` may be called."""
        return self._sender is not None

    def send(self, request: bytes) -> bool:
        """Sends an ExportTraceServiceRequest; whether the collector took it."""
        if self._sender is None or getattr(self, "_shutdown", False):
            return False
        return bool(getattr(self._sender(request), "success", False))
