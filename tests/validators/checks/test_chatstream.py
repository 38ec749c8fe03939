"""A chat stream: what its chunks share, and what must have come by its end, exactly when it has not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validators.answers import (
    STREAMED,
    USAGE,
    WITH_USAGE,
    chunk,
    everything,
    finding,
    ids,
    opening,
    spoken,
    stream,
    streamed,
)

DONE = b"data: [DONE]\n\n"
ERROR = {"error": {"message": "Overloaded", "type": "server_error", "param": None, "code": None}}
KINDS: dict[str, Any] = {
    "R": opening(),
    "T": chunk({"content": "x"}),
    "F": chunk(finish="stop"),
    "U": chunk(choices=[], usage=USAGE),
    "D": DONE,
}


def expected(order: str) -> set[str]:
    """What the rules say of a stream of these events, from their own words (openai-rules: D and G.1)."""
    before, done, after = order.partition("D")
    choices = before.replace("U", "")
    wanted = {
        "chatstream.done-repeated": "D" in after,
        "chatstream.data-after-done": after.strip("D") != "",
        "chatstream.no-chunks": before == "",
    }
    if before:
        finished = choices.partition("F")[2]
        wanted |= {
            "chatstream.done-missing": not done,
            "chatstream.role-missing": choices[:1] not in ("", "R"),
            "chatstream.role-repeated": choices.count("R") > 1,
            "chatstream.content-after-finish": "T" in finished,
            "chatstream.finish-repeated": choices.count("F") > 1,
            "chatstream.finish-missing": choices != "" and "F" not in choices,
            "chatstream.no-content": "F" in choices and "T" not in choices,
            "chatstream.usage-missing": bool(done) and "U" not in before and after.strip("D") == "",
            "chatstream.usage-repeated": before.count("U") > 1,
            "chatstream.usage-not-last": "U" in before and before[-1] != "U",
        }
    return {rule for rule, broken in wanted.items() if broken}


def test_every_order_of_up_to_five_events_breaks_exactly_the_rules_that_say_so() -> None:
    """3,906 streams. One that says [DONE] before anything else, or has no choice, is another test's."""
    for length in range(6):
        for letters in product("RTFUD", repeat=length):
            order = "".join(letters)
            if order.startswith("D") and order.strip("D"):
                continue
            seen = streamed(*(KINDS[letter] for letter in order), request=WITH_USAGE, done=False)
            assert ids(seen) - {"cross.choices-too-few"} == expected(order), order


def test_a_stream_in_which_no_choice_came_has_too_few() -> None:
    assert ids(streamed(KINDS["U"], request=WITH_USAGE)) == {"cross.choices-too-few"}


def test_the_official_order_is_clean() -> None:
    assert expected("RTTFUD") == set()
    assert (
        ids(streamed(*(KINDS[letter] for letter in "RTTFUD"), request=WITH_USAGE, done=False))
        == set()
    )


# -- several choices -------------------------------------------------------------------------------


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[int, list[Any]]:
    """The chunks of n choices, each in its order, in any order among each other."""
    n = draw(st.integers(1, 4))
    queues = [
        [opening(index=i)]
        + [
            chunk({"content": t}, index=i)
            for t in draw(st.lists(st.sampled_from("ab é"), min_size=1, max_size=3))
        ]
        + [chunk(finish=draw(st.sampled_from(["stop", "length", "content_filter"])), index=i)]
        for i in range(n)
    ]
    events = [queues[0].pop(0)]
    while any(queues):
        events.append(draw(st.sampled_from([q for q in queues if q])).pop(0))
    return n, events


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(interleaved())
def test_choices_may_interleave_freely(made: tuple[int, list[Any]]) -> None:
    n, events = made
    seen = streamed(*events, request={**STREAMED, "n": n})
    assert ids(seen) == set() and len(seen.finish) == n


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        ([0, 1], set()),
        ([1, 0], {"chatstream.first-choice-not-zero"}),
        ([0, 2], {"chatstream.choice-index-gap"}),
        ([1, 2], {"chatstream.first-choice-not-zero", "chatstream.choice-index-gap"}),
        ([0, -1], {"chatstream.choice-index-gap"}),
        (["0", "1"], {"chatstream.choice-index-type"}),
        ([None, None], {"chatstream.choice-index-type"}),
        ([0.0, 1.0], {"chatstream.choice-index-type"}),
        ([False, True], {"chatstream.choice-index-type"}),
    ],
)
def test_the_indexes_of_a_stream_are_0_to_n_minus_1(indexes: list[Any], found: set[str]) -> None:
    """P9: what is no index is a gap in nothing."""
    both = [
        _both(indexes, delta, finish)
        for delta, finish in (
            ({"role": "assistant", "content": ""}, None),
            ({"content": "x"}, None),
            ({}, "stop"),
        )
    ]
    assert ids(streamed(*both, request={**STREAMED, "n": 2})) == found


def _both(indexes: Sequence[Any], delta: Any, finish: str | None) -> dict[str, Any]:
    """One chunk with a choice for each index."""
    return chunk(choices=[{"index": i, "delta": delta, "finish_reason": finish} for i in indexes])


def shared(*parts: Sequence[Any]) -> list[Any]:
    return [event for part in parts for event in part]


def test_two_answers_on_one_index_are_named_as_that_and_nothing_else() -> None:
    """P9: roles and finish_reasons that come again follow from it."""
    seen = streamed(*shared(spoken("a"), spoken("b")), request={**STREAMED, "n": 2})
    assert ids(seen) == {"chatstream.choice-index-shared", "chatstream.content-after-finish"}


def test_what_repeats_before_the_other_choice_comes_is_reported_at_its_own_place() -> None:
    """Held back until it is clear that the index is not shared."""
    events = [opening(), opening(), chunk({"content": "a"}), chunk(finish="stop")]
    events += [opening(index=1), chunk({"content": "b"}, "stop", index=1)]
    seen = streamed(*events, request={**STREAMED, "n": 2})
    assert ids(seen) == {"chatstream.role-repeated"}
    place = finding(seen, "chatstream.role-repeated").place
    assert (place.index, place.byte) == (2, len(stream(opening(), done=False)))


def test_fewer_choices_without_repetition_are_too_few() -> None:
    assert ids(streamed(*spoken("a"), request={**STREAMED, "n": 2})) == {"cross.choices-too-few"}


# -- what all chunks share -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "rule", "severe"),
    [
        ({"id": "chatcmpl-2"}, "chatstream.id-changes", True),
        ({"model": "gpt-4o-mini-2024-07-18"}, "chatstream.model-changes", True),
        ({"created": 1_790_000_001}, "chatstream.created-changes", False),
        ({"id": ""}, "chatstream.id-empty", True),
        ({"system_fingerprint": "fp_2"}, "", False),
        ({"service_tier": "flex"}, "", False),
        ({"obfuscation": "aaaa"}, "", False),
    ],
)
def test_id_model_and_created_stay_the_same(change: Any, rule: str, severe: bool) -> None:
    seen = streamed(
        opening(),
        chunk({"content": "x"}, **change),
        chunk({"content": "y"}, **change),
        chunk(finish="stop"),
    )
    assert ids(seen) == ({rule} if severe else set())
    if rule:
        violation = finding(seen, rule)
        assert (violation.place.index, violation.place.pointer) == (2, f"/{next(iter(change))}")
        assert violation.count == 2


def test_an_id_that_comes_late_is_missing_and_not_changed() -> None:
    """P9."""
    for value, rule in ((None, "chatstream.id-missing"), ("", "chatstream.id-empty")):
        seen = streamed({**opening(), "id": value}, chunk({"content": "x"}), chunk(finish="stop"))
        assert ids(seen) == {rule}


# -- P3: an error in the stream --------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "R", "RT", "RTF", "RTFU"])
@pytest.mark.parametrize("after", ["", "D", "T", "TFUD", "E", "ED"])
def test_behind_an_error_nothing_about_finish_done_and_usage_is_found(
    before: str, after: str
) -> None:
    """P3."""
    kinds = {**KINDS, "E": ERROR}
    seen = streamed(*(kinds[k] for k in before + "E" + after), request=WITH_USAGE, done=False)
    assert ids(seen) == (set() if before else {"chatstream.error-before-content"})
    assert "chatstream.error-object" in everything(seen) and seen.error_type == "server_error"


@pytest.mark.parametrize("after", [[DONE, DONE], [DONE, chunk({"content": "x"})]])
def test_nor_anything_about_done_that_comes_behind_it_twice_or_too_early(after: Any) -> None:
    """P3: framing and errors alone are of interest; clients have raised."""
    assert ids(streamed(opening(), ERROR, *after, done=False)) == set()


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (ERROR, set()),
        ({"error": {"message": "x"}}, {"error.type-missing"}),
        ({"error": {"message": 5, "type": "x"}}, {"error.message-missing"}),
        ({"error": {"message": "x", "type": "x", "code": 429}}, {"error.code-type"}),
        ({"error": "text"}, {"chatstream.error-malformed"}),
        ({"error": ["x"]}, {"chatstream.error-malformed"}),
        ({"error": True}, {"chatstream.error-malformed"}),
        ({"code": 500, "msg": "x"}, {"chatstream.error-malformed"}),
        ({"code": 500, "message": "x"}, {"chatstream.error-malformed"}),
        ({"type": "error", "message": "x"}, {"chatstream.error-malformed"}),
        ({"object": "error", "message": "x"}, {"chatstream.error-malformed"}),
        ({**ERROR, "choices": []}, set()),
        ({**chunk(finish="error"), **ERROR}, set()),
    ],
)
def test_an_error_is_one_in_whatever_shape_it_came(event: Any, found: set[str]) -> None:
    """P3: the chunk that carries it is no chunk; nothing is missing behind it."""
    assert ids(streamed(opening(), chunk({"content": "x"}), event, done=False)) == found


def test_an_error_by_the_name_of_its_event_is_one() -> None:
    block = b'event: error\ndata: {"message":"x"}\n\n'
    assert ids(streamed(opening(), block, done=False)) == {"chatstream.error-malformed"}


@pytest.mark.parametrize("value", [None, False, "", 0, [], {}])
def test_an_error_that_is_empty_is_none(value: Any) -> None:
    events = [
        opening(error=value),
        chunk({"content": "x"}, error=value),
        chunk(finish="stop", error=value),
    ]
    assert ids(streamed(*events)) == set()


# -- P5: the rows of Azure -------------------------------------------------------------------------

AZURE_HEAD = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0}],
}
AZURE_ROW = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [
        {
            "index": 0,
            "finish_reason": None,
            "content_filter_results": {},
            "content_filter_offsets": {"check_offset": 1},
        }
    ],
}


def test_the_rows_of_azures_filter_may_stand_anywhere_and_break_nothing() -> None:
    usage = chunk(choices=[], usage=USAGE)
    events = [opening(), chunk({"content": "x"}), chunk(finish="stop"), usage]
    events = [{**event, "usage": event.get("usage")} for event in events]
    for at in range(len(events)):
        with_row = [*events[:at], AZURE_ROW, *events[at:]]
        seen = streamed(AZURE_HEAD, *with_row, AZURE_ROW, request=WITH_USAGE)
        assert ids(seen) == set()
        assert finding(seen, "chatstream.azure-filter").count == 3


@pytest.mark.parametrize(
    "event",
    [
        {
            **AZURE_HEAD,
            "prompt_filter_results": None,
            "choices": [{"index": 0, "finish_reason": None}],
        },
        {k: v for k, v in AZURE_HEAD.items() if k != "prompt_filter_results"},
        {**AZURE_ROW, "choices": [*AZURE_ROW["choices"], {"index": 0}]},  # type: ignore[misc]
    ],
)
def test_what_merely_looks_like_such_a_row_is_a_chunk(event: Any) -> None:
    assert "chatstream.id-empty" in ids(streamed(opening(), event, chunk(finish="stop")))


# -- usage -----------------------------------------------------------------------------------------


def test_usage_beside_choices_alone_is_found_and_beside_both_is_repeated() -> None:
    last = chunk(finish="stop", usage=USAGE)
    beside = [opening(usage=None), chunk({"content": "x"}, usage=None), last]
    assert ids(streamed(*beside, request=WITH_USAGE)) == {"chatstream.usage-on-choice-chunk"}
    both = [*beside, chunk(choices=[], usage=USAGE)]
    assert ids(streamed(*both, request=WITH_USAGE)) == {"chatstream.usage-repeated"}


def test_usage_on_every_chunk_is_fine_where_it_was_asked_for() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = [{**event, "usage": USAGE} for event in spoken("x")]
    request = {**STREAMED, "stream_options": options}
    assert ids(streamed(*events, chunk(choices=[], usage=USAGE), request=request)) == set()


def test_moderation_may_follow_usage() -> None:
    events = [{**event, "usage": None} for event in spoken("x")]
    last = [chunk(choices=[], usage=USAGE), chunk(choices=[], moderation={"results": []})]
    assert ids(streamed(*events, *last, request=WITH_USAGE)) == set()


def test_usage_that_was_not_asked_for_is_no_more_than_an_observation() -> None:
    seen = streamed(*spoken("x"), chunk(choices=[], usage=USAGE))
    assert ids(seen) == set() and "chatstream.usage-unrequested" in everything(seen)


def test_the_relations_of_usage_hold_in_a_stream_too() -> None:
    low = {**USAGE, "total_tokens": 5}
    seen = streamed(*spoken("x"), chunk(choices=[], usage=low))
    violation = finding(seen, "usage.total-too-low")
    assert (violation.place.index, violation.place.pointer) == (4, "/usage/total_tokens")


# -- shapes in place of a chunk --------------------------------------------------------------------


def test_a_whole_completion_as_one_event_is_named_as_that() -> None:
    """P9: neither a missing delta nor a wrong object besides."""
    message = {"role": "assistant", "content": "x", "refusal": None}
    whole = chunk(choices=[{"index": 0, "message": message, "finish_reason": "stop"}])
    for object_, rule in (
        ("chat.completion", "chatstream.full-completion-as-chunk"),
        ("chat.completion.chunk", "chatstream.message-instead-of-delta"),
    ):
        assert ids(
            streamed(
                {**whole, "object": object_, "usage": USAGE}
                if "full" in rule
                else {**whole, "object": object_}
            )
        ) == {rule}


@pytest.mark.parametrize("value", [None, 0, "x", [], True])
def test_a_delta_is_an_object(value: Any) -> None:
    events = [opening(), chunk({"content": "x"}), chunk(finish="stop")]
    events[1]["choices"][0]["delta"] = value
    assert ids(streamed(*events)) <= {"chatstream.delta-missing", "chatstream.no-content"}
    assert finding(streamed(*events), "chatstream.delta-missing").place.index == 2


@pytest.mark.parametrize("value", [None, {}, "x", 5, [None], ["x"]])
def test_choices_are_an_array_of_objects(value: Any) -> None:
    seen = streamed(opening(), chunk({"content": "x"}), chunk(choices=value), chunk(finish="stop"))
    assert ids(seen) in ({"chatstream.choices-not-array"}, {"chatstream.choice-index-type"})


def test_a_chunk_with_nothing_in_it_is_found() -> None:
    seen = streamed(opening(), chunk({"content": "x"}), chunk(choices=[]), chunk(finish="stop"))
    assert ids(seen) == {"chatstream.choices-empty-no-usage"}
