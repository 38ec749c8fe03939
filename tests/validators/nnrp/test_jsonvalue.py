"""JSON values are the same whatever they look like, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.nnrp.jsonvalue import fingerprint, value_of


def same(one: str, other: str) -> bool:
    a, b = (fingerprint(value_of(text.encode(), 128)) for text in (one, other))
    return a == b


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[true,null]}', ' { "b" : [ true , null ] ,\n "a" : 1 } '),
        ("1", "1.0"),
        ("100", "1e2"),
        ("0.10", "1E-1"),
        ("0", "-0.0"),
        ("12345678901234567890123", "12345678901234567890123"),
        ('"\\u00e9\\/"', '"é/"'),
    ],
)
def test_one_value_in_two_spellings(one: str, other: str) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1180591620717411303424", "1180591620717411303425"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ("1e400", "1e401"),
        ("[1,2]", "[2,1]"),
        ('{"a":null}', "{}"),
        ('"1e0"', "1"),
        ("1e99999999999999999999", "1e99999999999999999998"),
        ('"\\ud800"', '"\\ud801"'),
    ],
)
def test_two_values_that_look_alike(one: str, other: str) -> None:
    assert not same(one, other)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"{}{}", b"[" * 129 + b"]" * 129])
def test_what_is_no_document_has_no_value(data: bytes) -> None:
    assert value_of(data, 128) is None


def test_a_number_of_a_million_digits_is_a_number() -> None:
    digits = "7" * 1_000_000
    assert same(digits, f"{digits}.0") and not same(digits, f"{digits[:-1]}8")
    assert same(f"1e{'9' * 5000}", f"1e{'9' * 5000}")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
JSON = st.recursive(
    SCALAR.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(value=JSON)
def test_any_value_equals_itself_in_another_dress(value: Any) -> None:
    plain = json.dumps(value)
    shuffled = json.loads(plain, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert same(plain, json.dumps(shuffled, indent=2, ensure_ascii=False))
