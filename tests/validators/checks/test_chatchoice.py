"""One choice of a stream: what its deltas may hold, in which order, and what may follow its finish."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validators.answers import (
    STREAMED,
    TOOLS,
    chunk,
    everything,
    finding,
    ids,
    opening,
    spoken,
    stream,
    streamed,
)

CALL = [
    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
]
DELTAS: dict[str, tuple[Any, bool]] = {
    # what a delta holds, and whether a client would lose anything with it
    "nothing": ({}, False),
    "empty content": ({"content": ""}, False),
    "null content": ({"content": None, "refusal": None, "tool_calls": None}, False),
    "content": ({"content": "x"}, True),
    "refusal": ({"refusal": "x"}, True),
    "calls": ({"tool_calls": CALL}, True),
    "function call": ({"function_call": {"name": "f", "arguments": "{}"}}, True),
}
AFTER, REPEATED, CHANGES = (
    "chatstream.content-after-finish",
    "chatstream.finish-repeated",
    "chatstream.finish-changes",
)


@pytest.mark.parametrize(("name", "finish"), [*product(DELTAS, [None, "stop", "length"])])
def test_what_may_follow_the_finish_of_a_choice(name: str, finish: str | None) -> None:
    """An empty delta is tolerated; what is lost and what contradicts is not."""
    delta, payload = DELTAS[name]
    wanted = {AFTER} if payload else set()
    if finish is not None:
        wanted.add(REPEATED if finish == "stop" else CHANGES)
    seen = streamed(*spoken("Hello"), chunk(delta, finish), request={**STREAMED, **TOOLS})
    assert {r for r in ids(seen) if r in (AFTER, REPEATED, CHANGES)} == wanted
    for rule in wanted:
        assert finding(seen, rule).place.index == 4


@pytest.mark.parametrize(
    ("finish", "rule"),
    [
        *((word, "") for word in ("stop", "length", "content_filter")),
        ("", "chatstream.finish-empty-string"),
        ("done", "chatstream.finish-unknown"),
        (5, "chatstream.finish-unknown"),
        (True, "chatstream.finish-unknown"),
        ([], "chatstream.finish-unknown"),
        ({}, "chatstream.finish-unknown"),
        *((word, "chatstream.finish-foreign") for word in ("end_turn", "STOP", "eos", "tool_use")),
    ],
)
def test_a_finish_that_is_no_known_word_ends_the_choice_all_the_same(
    finish: Any, rule: str
) -> None:
    """P9: it is wrong, not missing."""
    events = [opening(), chunk({"content": "x"}), chunk(finish=finish)]
    assert ids(streamed(*events)) == ({rule} if rule else set())


def test_each_interim_chunk_has_the_key_of_its_finish() -> None:
    events = spoken("a", "b")
    for event in events[:3]:
        del event["choices"][0]["finish_reason"]
    violation = finding(streamed(*events), "chatstream.finish-key-missing")
    assert (violation.count, violation.place.index) == (3, 1)


def test_the_last_text_may_come_with_the_finish() -> None:
    seen = streamed(opening(), chunk({"content": "x"}, "stop"))
    assert ids(seen) == set() and "chatstream.finish-with-content" in everything(seen)


# -- the role --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "found"),
    [
        ("assistant", set()),
        ("user", {"chatstream.role-not-assistant"}),
        ("tool", {"chatstream.role-not-assistant"}),
        ("developer", {"chatstream.role-not-assistant"}),
        ("Assistant", {"chatstream.role-wrong"}),
        ("", {"chatstream.role-wrong"}),
        ("model", {"chatstream.role-wrong"}),
        (5, {"chatstream.role-wrong"}),
        (None, {"chatstream.role-missing"}),
    ],
)
def test_the_first_delta_has_a_role_and_one_thing_wrong_with_it_at_most(
    role: Any, found: set[str]
) -> None:
    first = chunk({"role": role, "content": ""})
    assert ids(streamed(first, chunk({"content": "x"}), chunk(finish="stop"))) == found


def test_a_role_that_comes_late_is_missing_in_the_first_delta_alone() -> None:
    events = [chunk({"content": "x"}), chunk({"role": "assistant"}), chunk(finish="stop")]
    assert ids(streamed(*events)) == {"chatstream.role-missing"}


def test_a_role_in_every_chunk_is_counted() -> None:
    events = [chunk({"role": "assistant", "content": "x"}) for _ in range(5)]
    violation = finding(streamed(*events, chunk(finish="stop")), "chatstream.role-repeated")
    assert (violation.count, violation.place.index) == (4, 2)


def test_null_members_are_absent_ones() -> None:
    """P4; SGLang sends them all."""
    nulls = {
        "role": None,
        "content": None,
        "tool_calls": None,
        "refusal": None,
        "function_call": None,
        "audio": None,
    }
    events = [opening(), chunk({**nulls, "content": "x"}), chunk(nulls, "stop")]
    assert ids(streamed(*events)) == set()


# -- the content -----------------------------------------------------------------------------------


def cumulative(contents: list[str]) -> bool:
    """Each content starts with the whole one before it: three at least, the first of four characters."""
    texts = [c for c in contents if c]
    if len(texts) < 3 or len(texts[0]) < 4:
        return False
    pairs = list(pairwise(texts))
    return all(b.startswith(a) for a, b in pairs) and sum(len(b) > len(a) for a, b in pairs) >= 2


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(st.lists(st.text("ab", max_size=5), max_size=6), st.booleans())
def test_content_that_is_sent_from_its_start_again_is_cumulative(
    pieces: list[str], grown: bool
) -> None:
    contents = ["".join(pieces[: n + 1]) for n in range(len(pieces))] if grown else pieces
    events = [opening(), *(chunk({"content": c}) for c in contents), chunk(finish="length")]
    assert ids(streamed(*events)) == (
        {"chatstream.content-cumulative"} if cumulative(contents) else set()
    )


@pytest.mark.parametrize(
    "contents",
    [
        ["----"] * 5,
        ["Ha", "Haha", "Hahaha"],
        ["Good", "Good bye", "Bye"],
        ["Good", "Good bye"],
        ["x" * 10, "x" * 5, "x" * 20],
    ],
)
def test_text_that_merely_repeats_itself_is_none(contents: list[str]) -> None:
    assert ids(streamed(*spoken(*contents))) == set()


@pytest.mark.parametrize(
    ("delta", "finish", "found"),
    [
        ({"content": ""}, "stop", True),
        ({"content": ""}, "length", False),
        ({"content": ""}, "content_filter", False),
        ({"reasoning_content": "Hm"}, "stop", False),
        ({"reasoning": "Hm"}, "stop", False),
        ({"refusal": "No"}, "stop", False),
        ({"audio": {"id": "a"}}, "stop", False),
        ({"content": 5}, "stop", False),
    ],
)
def test_an_answer_that_says_nothing_is_found_where_it_should_have_said_something(
    delta: Any, finish: str, found: bool
) -> None:
    seen = streamed(opening(), chunk(delta), chunk(finish=finish))
    assert ("chatstream.no-content" in ids(seen)) is found


def test_one_choice_that_speaks_is_enough() -> None:
    events = [opening(index=n) for n in range(2)]
    events += [chunk({"content": "x"}, "stop", index=0), chunk(finish="stop", index=1)]
    assert ids(streamed(*events, request={**STREAMED, "n": 2})) == set()


def test_audio_ends_with_a_delta_that_owes_no_finish() -> None:
    expiry = chunk({"audio": {"id": "a", "expires_at": 1}})
    del expiry["choices"][0]["finish_reason"]
    events = [opening(), chunk({"audio": {"id": "a", "data": "AA"}}), expiry, chunk(finish="stop")]
    assert ids(streamed(*events)) == set()


def test_a_legacy_function_call_is_put_together() -> None:
    deltas = [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
    ]
    events = [opening(), *map(chunk, deltas), chunk(finish="function_call")]
    request = {**STREAMED, "functions": [{"name": "f"}]}
    assert ids(streamed(*events, request=request)) == set()
    assert ids(streamed(*events, request={**STREAMED, **TOOLS})) == {
        "cross.function-call-for-tools"
    }


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"name": 5}, True),
        ({"arguments": {}}, True),
        ("f", True),
        ([], True),
        ({}, False),
        ({"name": None}, False),
        (None, False),
    ],
)
def test_a_legacy_function_call_has_strings(value: Any, found: bool) -> None:
    seen = streamed(
        opening(), chunk({"function_call": value}), chunk({"content": "x"}), chunk(finish="stop")
    )
    assert ids(seen) == ({"chatstream.function-call-shape"} if found else set())


def test_the_place_of_what_the_end_shows_is_the_choices_last_chunk() -> None:
    body = [opening(), chunk({"content": "\ufffd"}), chunk(finish="stop")]
    place = finding(streamed(*body), "cross.replacement-characters").place
    assert (place.index, place.byte) == (3, len(stream(*body[:2], done=False)))
