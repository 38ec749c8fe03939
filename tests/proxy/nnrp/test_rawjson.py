"""Members are cut out of an object as they were written, and nothing that two readers could take two ways."""

from __future__ import annotations

import json

import pytest

from teeline.proxy.nnrp.rawjson import members, object_of, written


def test_a_member_keeps_every_character() -> None:
    text = ' {"a" : {"z": 1.50, "a" : 12345678901234567890123 },"b":[1E2, "\\u00e9"] ,"c" :null}\n'
    assert members(text) == {
        "a": '{"z": 1.50, "a" : 12345678901234567890123 }',
        "b": '[1E2, "\\u00e9"]',
        "c": "null",
    }


def test_a_number_of_any_length_is_no_trouble() -> None:
    digits = "9" * 20_000
    assert members(f'{{"n":{digits}}}') == {"n": digits}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a":1 "b":2}',
        "{a:1}",
        '{"a":1}x',
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":' + "[" * 100_000,
    ],
)
def test_what_is_no_single_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        members(text)


def test_texts_come_together_unchanged() -> None:
    assert object_of(a=b"1.50", b=b'{"x" :2}') == b'{"a":1.50,"b":{"x" :2}}'


def test_half_a_surrogate_pair_is_written_as_what_stands_for_it() -> None:
    assert json.loads(written({"a": "x\ud83d"}).decode()) == {"a": "x\ufffd"}
