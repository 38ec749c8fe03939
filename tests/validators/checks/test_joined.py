"""Texts told in pieces agree with the same text told whole, whatever the pieces."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.checks.joined import Joined


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(st.lists(st.text(max_size=400), min_size=1, max_size=20), st.booleans())
def test_pieces_agree_with_their_text_and_with_no_other(pieces: list[str], encoded: bool) -> None:
    joined = Joined()
    for piece in pieces:
        if encoded:
            joined.add_utf8(piece.encode())
        else:
            joined.add(piece)
    text = "".join(pieces)
    assert joined.deltas == len(pieces)
    assert joined.agrees(text) and not joined.agrees(text + "x")
    assert joined.agrees(text)


def test_without_pieces_the_first_text_counts() -> None:
    joined = Joined()
    assert joined.agrees("a") and joined.agrees("a") and not joined.agrees("b")


def test_what_could_not_be_read_is_not_compared() -> None:
    joined = Joined()
    joined.add("a")
    joined.broken = True
    assert joined.agrees("b")
