"""Texts told several times: equal in whatever pieces they come, and bounded in number."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.validators.checks.context import Context
from teeline.validators.checks.joined import Joined, Texts
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation

ANY_TEXT = st.text(st.characters())
"""Lone surrogates, too: JSON escapes can write them."""


def texts(most: int = 100) -> Texts:
    limits = dataclasses.replace(DEFAULT_LIMITS, texts=most)
    return Texts(Context(Exchange(id="test"), Operation.RESPONSES, limits))


def joined(pieces: Iterable[str], *, among: Texts | None = None, partial: bool = False) -> Joined:
    made = (among or texts()).open({}, 0, "text", partial=partial)
    for piece in pieces:
        made.add(piece)
    return made


@given(st.lists(ANY_TEXT))
def test_fragments_agree_with_what_they_make_up(pieces: list[str]) -> None:
    assert joined(pieces).agrees("".join(pieces))


@given(st.lists(st.text(max_size=400), min_size=1, max_size=20), st.lists(st.booleans()))
def test_it_does_not_matter_which_fragments_come_encoded(
    pieces: list[str], encoded: list[bool]
) -> None:
    """Long ones are hashed together, and the fast path of streams hands bytes over."""
    one = texts().open({}, 0, "text")
    for n, piece in enumerate(pieces):
        if encoded[n % len(encoded)] if encoded else False:
            one.add_utf8(piece.encode())
        else:
            one.add(piece)
    whole = "".join(pieces)
    assert one.deltas == len(pieces)
    assert one.agrees(whole) and not one.agrees(whole + "x") and one.agrees(whole)


@given(st.lists(ANY_TEXT, min_size=1), ANY_TEXT)
def test_fragments_agree_with_nothing_else(pieces: list[str], other: str) -> None:
    said = "".join(pieces).encode("utf-16-le", "surrogatepass")
    assert joined(pieces).agrees(other) == (other.encode("utf-16-le", "surrogatepass") == said)


def test_a_character_may_be_cut_between_its_surrogates() -> None:
    """As JavaScript joins strings; the halves themselves have a rule (http.json-surrogate)."""
    assert joined(["a\ud83d", "\ude00b"]).agrees("a\U0001f600b")
    assert joined(["a\ud83d", "", "\ude00"]).agrees("a\U0001f600")
    assert not joined(["a\ud83d", "b\ude00"]).agrees("a\U0001f600b")
    assert joined(["a\ud83d"]).agrees("a\ud83d") and not joined(["a\ud83d"]).agrees("a")
    one = joined(["\ud83d"])
    one.add_utf8(b"b")
    assert one.agrees("\ud83db")


def test_without_fragments_the_first_whole_text_is_the_one_that_is_known() -> None:
    one = joined([])
    assert one.agrees("a") and one.agrees("a") and not one.agrees("b") and one.agrees("a")


def test_a_text_that_disagreed_does_not_become_the_known_one() -> None:
    one = joined(["a", "b"])
    assert not one.agrees("a") and not one.agrees("a") and one.agrees("ab")


def test_fragments_that_come_after_the_whole_change_nothing() -> None:
    one = joined(["a"])
    assert one.agrees("a")
    one.add("b")
    assert one.agrees("a") and not one.agrees("ab")


def test_of_a_partial_text_only_whole_ones_are_compared() -> None:
    one = joined(["b"], partial=True)
    assert one.agrees("ab") and not one.agrees("b")


def test_an_event_that_was_lost_makes_every_open_text_partial() -> None:
    every = texts()
    told = joined(["a"], among=every)
    assert told.agrees("a")
    open_ = joined(["a"], among=every)
    every.losses += 1
    assert told.agrees("a") and not told.agrees("ab")
    assert open_.agrees("ab") and not open_.agrees("a")
    assert not joined(["a"], among=every).agrees("ab")


@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_stream_holds_no_more_texts_than_its_limit(most: int) -> None:
    ctx = Context(
        Exchange(id="test"),
        Operation.RESPONSES,
        dataclasses.replace(DEFAULT_LIMITS, texts=most),
    )
    every = Texts(ctx)
    stores: list[dict[int, Joined]] = [{}, {}]
    for n in range(most):
        every.open(stores[n % 2], n, "text")
    assert ctx.exchange.inspection == "full" and every.losses == 0
    extra = every.open(stores[0], most, "text")
    assert ctx.exchange.inspection == "partial (part-limit)" and every.losses == 1
    assert sum(map(len, stores)) == most
    extra.add("a")
    assert extra.agrees("b")
