"""The one typed payload of a body: whatever its lengths and numbers say, it is read within its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from teeline.validators.checks.context import Context
from teeline.validators.evidence import ABSENT
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.nnrp.payload import SUBMIT, TERMINAL, BodyRules, Payload, read_payload
from teeline.validators.operation import Operation
from teeline.validators.wire.nnrp import (
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    DESCRIPTOR_LAYOUT,
    PRELUDE_LAYOUT,
    STRUCTURED_EVENT,
)

DOCUMENT = b'{"a":1}'
U16, U32 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)


def descriptor(offset: int = 0, length: int = len(DOCUMENT), **fields: int) -> bytes:
    return DESCRIPTOR_LAYOUT.pack(
        fields.get("profile", 0),
        fields.get("kind", STRUCTURED_EVENT),
        fields.get("flags", 0),
        fields.get("schema", 0),
        fields.get("version", 0),
        fields.get("semantics", 1),
        fields.get("reserved", 0),
        offset,
        length,
    )


def body(payload: bytes = DOCUMENT, *descriptors: bytes, extra: bytes = b"") -> bytes:
    region = b"".join(descriptors) or descriptor(length=len(payload))
    return (
        PRELUDE_LAYOUT.pack(0, 0, len(region), len(payload), 0, len(extra), 0, 0)
        + region
        + payload
        + extra
    )


def read(
    data: bytes, bitmap: int = STRUCTURED_EVENT, count: int = 1, rules: BodyRules = SUBMIT
) -> tuple[Payload, list[str]]:
    ctx = Context(Exchange(), Operation.OTHER, DEFAULT_LIMITS)
    packet = Packet(1, 0, 1, 0, 0x10, 0, 72, len(data), 1, 1, bytes(72), data)
    payload = read_payload(ctx, packet, bitmap, count, rules)
    return payload, [violation.rule.id for violation in ctx.exchange.violations]


@pytest.mark.parametrize("rules", [SUBMIT, TERMINAL])
def test_a_right_body_is_its_document(rules: BodyRules) -> None:
    payload, found = read(body(), rules=rules)
    assert (payload, found) == (Payload({"a": 1}), [])


@pytest.mark.parametrize("size", range(1, 32))
def test_a_body_that_is_shorter_than_a_prelude_has_none(size: int) -> None:
    payload, found = read(bytes(size))
    assert (payload.value, payload.framed, found) == (ABSENT, False, [SUBMIT.prelude])


@pytest.mark.parametrize("text", [b"{}", b"[]", b" {} ", b'{"a":' + b"1" * 200 + b"}"])
def test_bare_json_is_read_and_said_to_be_bare(text: bytes) -> None:
    payload, found = read(text)
    assert found == [SUBMIT.raw] and not payload.framed
    assert payload.value == json.loads(text) or len(text) > 99


@pytest.mark.parametrize("text", [b"7", b'"x"', b"null", b"{", b"\xff", b"[" * 999])
def test_what_is_no_object_or_array_is_no_bare_json(text: bytes) -> None:
    assert read(text)[1] == [SUBMIT.prelude]


@pytest.mark.parametrize("region", range(6))
def test_a_region_of_any_length_is_no_reason_to_read_further(region: int) -> None:
    for length in (2**32 - 1, 2**31, len(DOCUMENT) + 1, 25):
        lengths = [0, 0, 24, len(DOCUMENT), 0, 0]
        lengths[region] = min(lengths[region] + length, 2**32 - 1)
        data = PRELUDE_LAYOUT.pack(*lengths, 0, 0) + descriptor() + DOCUMENT
        assert read(data)[1] == [SUBMIT.prelude]


@pytest.mark.parametrize("count", [2, 64, 65, 500])
def test_many_descriptors_are_counted_and_read_within_a_bound(count: int) -> None:
    data = body(DOCUMENT * count, *(descriptor(n * len(DOCUMENT)) for n in range(count)))
    payload, found = read(data, count=count)
    assert (found, payload.refused, payload.value) == ([SUBMIT.extra_frames], True, {"a": 1})


@pytest.mark.parametrize(
    ("offset", "length"), [(1, 6), (0, 3), (0, 8), (7, 0), (2**32 - 1, 7), (0, 2**32 - 1)]
)
def test_a_descriptor_that_does_not_cover_the_region_is_named_alone(
    offset: int, length: int
) -> None:
    payload, found = read(body(DOCUMENT, descriptor(offset, length)))
    assert (found, payload.framed) == ([SUBMIT.payload_region], False)


def test_all_that_is_bound_is_named_and_makes_the_frame_one_to_refuse() -> None:
    wrong = descriptor(profile=1, schema=2, version=3, semantics=0, flags=255, reserved=1)
    payload, found = read(body(DOCUMENT, wrong))
    assert found == [
        SUBMIT.profile,
        SUBMIT.schema,
        SUBMIT.schema_version,
        SUBMIT.snapshot,
        SUBMIT.flags,
        "nnrp.reserved-nonzero",
    ]
    assert (payload.refused, payload.framed, payload.value) == (True, True, {"a": 1})


@pytest.mark.parametrize(
    ("text", "rule", "value"),
    [
        (b"\xff", SUBMIT.json.utf8, ABSENT),
        (b'{"a":"\xc3"}', SUBMIT.json.utf8, ABSENT),
        (b"{} {}", SUBMIT.json.trailing, {}),
        (b"", SUBMIT.json.invalid, ABSENT),
        (b"[1,]", SUBMIT.json.invalid, ABSENT),
        (b"-Infinity", SUBMIT.json.invalid, ABSENT),
        (b'{"a":NaN}', SUBMIT.json.invalid, ABSENT),
        (b"\xef\xbb\xbf{}", "nnrp.json-bom", {}),
    ],
)
def test_an_encoding_breaks_one_rule(text: bytes, rule: str, value: Any) -> None:
    payload, found = read(body(text))
    assert (found, payload.value) == ([rule], value)


def test_numbers_beyond_a_double_are_json() -> None:
    assert read(body(b'{"a":1e999,"b":-1e999}'))[1] == []


@settings(max_examples=400, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 200) | U32, min_size=6, max_size=6),
    tail=st.binary(max_size=200),
    fix=st.integers(0, 5),
    bitmap=U32,
    count=U16,
)
@example(lengths=[0, 0, 24, 0, 0, 0], tail=bytes(24), fix=3, bitmap=0, count=1)
def test_any_body_is_read_without_an_error(
    lengths: list[int], tail: bytes, fix: int, bitmap: int, count: int
) -> None:
    """Often one whose lengths add up, so that what lies behind them is reached."""
    rest = len(tail) - (sum(lengths) - lengths[fix])
    if rest >= 0:
        lengths[fix] = rest
    data = PRELUDE_LAYOUT.pack(*lengths, 0, 0) + tail
    for claimed in ((bitmap, count), (STRUCTURED_EVENT, 1), (tail[2] if len(tail) > 2 else 0, 1)):
        for rules in (SUBMIT, TERMINAL):
            payload, found = read(data, *claimed, rules)
            assert found or payload.framed
