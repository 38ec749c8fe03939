"""What a peer wrote can be shown: on one line, bounded, with nothing hidden in it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.text import are_int64, int64, printable


def test_printable_text_is_left_as_it_is() -> None:
    assert printable('"content": "<str 12>" \\ é 漢 ü') == '"content": "<str 12>" \\ é 漢 ü'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\r\nb\tc\x00", "a\\x0d\\x0ab\\x09c\\x00"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u202eb\u2066c\u200f", "a\\u202eb\\u2066c\\u200f"),
        ("a\u2028b\u2029\ufeff\u200b", "a\\u2028b\\u2029\\ufeff\\u200b"),
        ("\ud800x", "\\ud800x"),
        ("\U000e0041", "\\U000e0041"),
    ],
    ids=["ansi", "controls", "c1", "bidi", "separators", "surrogate", "tags"],
)
def test_what_hides_or_moves_text_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_every_character_of_unicode_comes_out_printable() -> None:
    for start in range(0, sys.maxunicode + 1, 4096):
        text = "".join(map(chr, range(start, min(start + 4096, sys.maxunicode + 1))))
        assert printable(text, 10**6).isprintable()


@given(st.text(), st.integers(4, 60))
def test_the_bound_holds_whatever_the_text(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    shown.encode()


def test_a_cut_is_shown_as_one() -> None:
    assert printable("a" * 11, 10) == "aaaaaaa..."
    assert printable("a" * 10, 10) == "aaaaaaaaaa"
    assert printable("\x1b" * 3, 10) == "\\x1b\\x1..."


def test_numbers_end_at_64_bits() -> None:
    assert int64(5) == 5
    assert int64(10**30) == 2**63 - 1
    assert int64(-(10**30)) == -(2**63 - 1)


@given(st.lists(st.integers(-(2**64), 2**64)))
def test_numbers_of_64_bits_are_told_of_all_at_once(numbers: list[int]) -> None:
    assert are_int64(numbers) == ([int64(number) for number in numbers] == numbers)
