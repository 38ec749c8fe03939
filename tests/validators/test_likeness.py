"""A likeness fits what differs in its holes alone, and there is only so much of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.validators import likeness
from teeline.validators.likeness import PLAIN, TEXT, Hole, Likenesses, Path, decoded
from tests.validators import streams

COUNT = rb"(?:0|[1-9][0-9]*)"


class Known:
    """A document of which these members may differ."""

    def __init__(self, *holes: Hole) -> None:
        self.holes: Sequence[Hole] = holes


def taught(value: Any, *holes: tuple[Path, bytes], dumps: streams.Dumps = streams.COMPACT) -> Any:
    likenesses: Likenesses[Known] = Likenesses()
    likenesses.learn(dumps(value).encode(), Known(*(Hole(*hole) for hole in holes)))
    return likenesses


def test_a_document_like_it_gives_what_its_holes_hold_in_the_order_of_their_names() -> None:
    value = {"id": "a", "list": [{"n": 1, "text": "x"}], "n": 2}
    holes = ((("n",), COUNT), (("list", 0, "text"), TEXT), (("list", 0, "n"), COUNT))
    likenesses = taught(value, *holes)
    found = likenesses.find(b'{"id":"a","list":[{"n":30,"text":"y \\"z\\""}],"n":4}')
    assert found is not None and found[1] == (b"4", b'y \\"z\\"', b"30")


@pytest.mark.parametrize(
    "other",
    [
        b'{"id":"b","n":1,"m":1}',
        b'{"id":"a","n":1,"m":1,"o":1}',
        b'{"id":"a", "n":1,"m":1}',
        b'{"n":1,"id":"a","m":1}',
        b'{"id":"a","n":1,"m":2}',
        b'{"id":"a","n":-1,"m":1}',
        b'{"id":"a","n":1.0,"m":1}',
        b'{"id":"a","n":01,"m":1}',
        b'{"id":"a","n":1,"m":1}\n',
        b'{"id":"a","n":1,"m":1',
        b"",
    ],
)
def test_whatever_differs_elsewhere_is_not_like_it(other: bytes) -> None:
    likenesses = taught({"id": "a", "n": 7, "m": 1}, (("n",), COUNT), (("id",), b"a"))
    assert likenesses.find(b'{"id":"a","n":8,"m":1}') is not None
    assert likenesses.find(other) is None


TEXTS = st.one_of(st.sampled_from(streams.TEXTS), st.text(max_size=12))


@given(TEXTS, TEXTS, st.sampled_from(streams.WRITERS), st.integers(0, 10**6))
def test_a_text_is_found_however_it_is_written(
    first: str, second: str, dumps: streams.Dumps, number: int
) -> None:
    """Unless it ends in a backslash, which could be taken for the one before a quote."""

    def value(text: str, n: int) -> dict[str, Any]:
        return {"n": n, "t": [None, {"x": "}", "text": text, "n": 3}], "text": "other"}

    likenesses = taught(value(first, 5), (("t", 1, "text"), TEXT), (("n",), COUNT), dumps=dumps)
    found = likenesses.find(dumps(value(second, number)).encode())
    if found is None:
        assert second.endswith("\\")
    else:
        assert (decoded(found[1][0]), found[1][1]) == (second, b"%d" % number)


@given(st.binary(max_size=12))
def test_a_text_is_decoded_as_json_or_not_at_all(raw: bytes) -> None:
    try:
        expected = json.loads(b'"%b"' % raw)
    except ValueError:
        expected = None
    text = decoded(raw)
    assert text == expected or (text is None and any("\ud800" <= c <= "\udfff" for c in expected))


@pytest.mark.parametrize(
    "raw", [b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\n", b"\\x", b'a"b', b"\\"]
)
def test_what_is_no_text_is_none(raw: bytes) -> None:
    assert decoded(raw) is None


def test_members_of_the_same_name_are_told_apart_by_where_they_are() -> None:
    """Also where the name or the value stands in a text, and where a name is escaped."""
    body = b'{"note":"\\"n\\":1","a":{"n":1},"b":{"\\u006e":1},"n":1}'
    likenesses: Likenesses[Known] = Likenesses()
    likenesses.learn(body, Known(Hole(("b", "n"), COUNT), Hole(("n",), COUNT)))
    found = likenesses.find(body.replace(b'e":1}', b'e":22}'))
    assert found is not None and found[1] == (b"22", b"1")
    assert likenesses.find(body.replace(b'{"n":1}', b'{"n":2}')) is None


def test_nothing_is_learnt_where_a_member_is_missing_or_the_rest_is_large() -> None:
    absent = taught({"a": 1}, (("a",), COUNT), (("b",), COUNT))
    assert absent.find(b'{"a":1}') is None
    large = {"a": 1, "b": "x" * 3 * likeness.MAX_SKELETON, "c": 1}
    assert (
        taught(large, (("a",), COUNT), (("c",), COUNT)).find(streams.COMPACT(large).encode())
        is None
    )
    small = taught(large, (("a",), COUNT), (("b",), PLAIN))
    assert small.find(streams.COMPACT(large).encode()) is not None


def test_what_never_fits_is_not_learnt_for_ever() -> None:
    likenesses: Likenesses[Known] = Likenesses()
    learnt = 0
    for n in range(200):
        body = b'{"n":1,"m":1,"vendor":%d}' % n
        if likenesses.find(body) is None and likenesses.useful:
            learnt += 1
            likenesses.learn(body, Known(Hole(("n",), COUNT), Hole(("m",), COUNT)))
    assert learnt == likeness.CREDIT


def test_the_last_few_are_kept() -> None:
    likenesses: Likenesses[Known] = Likenesses()
    bodies = [b'{"n":1,"m":1,"v":%d}' % n for n in range(likeness.MAX_LIKENESSES + 2)]
    for body in bodies:
        likenesses.learn(body, Known(Hole(("n",), COUNT), Hole(("m",), COUNT)))
    assert [likenesses.find(body) is not None for body in bodies] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
