"""Members come out as the bytes that they came as, of any object that is JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.validators.wire.jsonraw import members_of, on_one_line

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_numbers_and_order_stay_as_they_were() -> None:
    data = b' {"n" : 12345678901234567890123 , "x":1.10,"o":{"b":1, "a":-0.0} }\n'
    assert members_of(data) == {
        "n": b"12345678901234567890123",
        "x": b"1.10",
        "o": b'{"b":1, "a":-0.0}',
    }


def test_an_integer_of_more_digits_than_python_reads_is_kept() -> None:
    digits = b"9" * 10_000
    assert members_of(b'{"n":' + digits + b"}") == {"n": digits}


def test_of_a_repeated_name_the_last_value_counts_as_in_decoding() -> None:
    assert members_of(b'{"a":1,"a":[2]}') == {"a": b"[2]"}


@given(st.dictionaries(st.text(), JSON, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_each_raw_value_decodes_to_the_value(
    value: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    data = text.encode("utf-8", "surrogatepass" if ascii_only else "replace")
    expected = json.loads(data)
    found = members_of(data)
    assert {name: json.loads(raw) for name, raw in found.items()} == expected
    assert json.loads(on_one_line(data)) == expected
    assert b"\n" not in on_one_line(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"1", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1 "b":2}', b'{1:2}', b"\xff",
     b'{"a":' + b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_object_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        members_of(data)
