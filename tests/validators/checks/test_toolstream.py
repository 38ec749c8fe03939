"""Streamed calls: any legal way to cut them into fragments is clean, and each fault has its rule."""

from __future__ import annotations

import itertools
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.checks.context import Context
from teeline.validators.checks.toolstream import ToolStream
from teeline.validators.evidence import ABSENT
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation
from tests.validators.answers import (
    STREAMED,
    TOOLS,
    chunk,
    everything,
    finding,
    ids,
    opening,
    stream,
    streamed,
)

PROPERTY = settings(max_examples=200, derandomize=True, deadline=None, database=None)
REQUEST = {**STREAMED, "tools": [*TOOLS["tools"], {"type": "custom", "custom": {"name": "c"}}]}
Entry = dict[str, Any]


class Wanted(NamedTuple):
    """A call that a model made."""

    id: str
    name: str
    custom: bool
    text: str


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('aé"\\{}[]\u2028😀', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2)
    ),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=3), VALUES, max_size=3)


@st.composite
def wanted_calls(draw: st.DrawFn) -> list[Wanted]:
    """One to four calls of the tools that were sent."""
    calls = []
    for n in range(draw(st.integers(1, 4))):
        custom = draw(st.booleans())
        text = (
            draw(st.text("abé {", max_size=12))
            if custom
            else json.dumps(draw(OBJECTS), ensure_ascii=draw(st.booleans()))
        )
        calls.append(
            Wanted(f"call_{n}", "c" if custom else draw(st.sampled_from("fgh")), custom, text)
        )
    return calls


@st.composite
def fragments(draw: st.DrawFn) -> tuple[list[Wanted], list[list[Entry]]]:
    """Calls, and the entries of each delta that bring them: heads in order, texts in any pieces."""
    calls = draw(wanted_calls())
    queues = [_entries(draw, n, call) for n, call in enumerate(calls)]
    deltas: list[list[Entry]] = []
    opened = 0
    while any(queues):
        # A call opens when those before it have; its later fragments may come among the others'.
        n = draw(st.sampled_from([n for n, queue in enumerate(queues[: opened + 1]) if queue]))
        opened = max(opened, n + 1)
        others = [entry["index"] for entry in deltas[-1]] if deltas else [n]
        if n in others or draw(st.booleans()):
            deltas.append([])
        deltas[-1].append(queues[n].pop(0))
    return calls, deltas


def _entries(draw: st.DrawFn, index: int, call: Wanted) -> list[Entry]:
    """The fragments of one call: id, type and name on the first, its text cut anywhere."""
    cuts = sorted(draw(st.sets(st.integers(0, len(call.text)), max_size=4)))
    bounds = [0, *cuts, len(call.text)]
    pieces = [call.text[a:b] for a, b in itertools.pairwise(bounds)]
    outer, member = ("custom", "input") if call.custom else ("function", "arguments")
    head: Entry = {"name": call.name, member: pieces.pop(0)}
    first: Entry = {"index": index, "id": call.id, "type": outer, outer: head}
    return [first, *({"index": index, outer: {member: piece}} for piece in pieces)]


def events_of(deltas: list[list[Entry]], finish: str = "tool_calls") -> list[Any]:
    return [opening(), *(chunk({"tool_calls": d}) for d in deltas), chunk(finish=finish)]


@PROPERTY
@given(fragments())
def test_any_legal_fragmentation_of_any_calls_is_clean(
    made: tuple[list[Wanted], list[list[Entry]]],
) -> None:
    _, deltas = made
    assert ids(streamed(*events_of(deltas), request=REQUEST)) == set()


@PROPERTY
@given(fragments())
def test_any_legal_fragmentation_gives_the_calls_that_were_made(
    made: tuple[list[Wanted], list[list[Entry]]],
) -> None:
    calls, deltas = made
    ctx = Context(Exchange(), Operation.CHAT, DEFAULT_LIMITS)
    tools = ToolStream(ctx)
    for delta in deltas:
        assert tools.feed(delta, "/choices/0/delta/tool_calls")
    joined = tools.finish("tool_calls")
    assert len(tools) == len(calls)
    assert [(c.id, c.name, c.custom, c.arguments) for c in joined] == [tuple(c) for c in calls]
    assert not any(c.judged for c in joined)


# -- each fault, put into a stream of two calls ----------------------------------------------------


def two_calls() -> list[list[Entry]]:
    """f and g, each with a head and two fragments."""
    deltas: list[list[Entry]] = []
    for index, name in enumerate("fg"):
        function = {"name": name, "arguments": ""}
        deltas.append(
            [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]
        )
        deltas += [
            [{"index": index, "function": {"arguments": piece}}] for piece in ('{"a"', ":1}")
        ]
    return deltas


def changed(at: int, change: Any) -> list[list[Entry]]:
    """Two calls with one entry changed by a function that works on it in place."""
    deltas = two_calls()
    change(deltas[at][0])
    return deltas


def member(name: str, value: Any) -> Any:
    """Sets a member of an entry, or of its function; ABSENT takes it out."""

    def change(entry: Entry) -> None:
        holder = entry["function"] if name in ("name", "arguments") else entry
        holder[name] = value
        if value is ABSENT:
            del holder[name]

    return change


@pytest.mark.parametrize(
    ("at", "change", "rules"),
    [
        (0, member("index", ABSENT), {"chatstream.tool-index-type"}),
        (0, member("index", "0"), {"chatstream.tool-index-type"}),
        (0, member("index", True), {"chatstream.tool-index-type"}),
        (1, member("index", None), {"chatstream.tool-index-type"}),
        (0, member("id", ABSENT), {"tools.id-missing"}),
        (0, member("id", None), {"tools.id-missing"}),
        (0, member("id", 5), {"tools.id-missing"}),
        (0, member("id", ""), {"tools.id-empty"}),
        (0, member("id", "call_1"), {"tools.id-duplicate"}),
        (0, member("type", ABSENT), {"chatstream.tool-type-missing"}),
        (0, member("type", None), {"chatstream.tool-type-missing"}),
        (0, member("type", "Function"), {"tools.type-case"}),
        (0, member("type", "tool"), {"tools.type-unknown"}),
        (0, member("name", ABSENT), {"tools.name-missing"}),
        (0, member("name", ""), {"tools.name-missing"}),
        (0, member("name", 5), {"tools.name-missing"}),
        (0, member("name", "f x"), {"tools.name-pattern", "cross.tool-name-unknown"}),
        (0, member("name", "other"), {"cross.tool-name-unknown"}),
        (1, member("name", "f"), {"chatstream.tool-name-repeated"}),
        (1, member("name", "g"), {"chatstream.tool-name-changed"}),
        (1, member("name", "null"), {"chatstream.tool-name-changed"}),
        (1, member("name", ""), {"chatstream.tool-id-name-empty"}),
        (1, member("name", None), set()),
        (1, member("id", "call_0"), {"chatstream.tool-id-repeated"}),
        (1, member("id", "call_9"), {"chatstream.tool-id-changed"}),
        (1, member("id", ""), {"chatstream.tool-id-name-empty"}),
        (1, member("id", None), set()),
        (1, member("type", "function"), set()),
        (1, member("arguments", {}), {"chatstream.tool-args-type"}),
        (1, member("arguments", 5), {"chatstream.tool-args-type"}),
        (1, member("arguments", None), {"tools.args-invalid-json"}),
        (1, member("arguments", ABSENT), {"tools.args-invalid-json"}),
        (
            2,
            member("function", None),
            {"chatstream.tool-function-missing", "tools.args-invalid-json"},
        ),
        (
            2,
            member("function", ABSENT),
            {"chatstream.tool-function-missing", "tools.args-invalid-json"},
        ),
        (2, member("arguments", ":1}{}"), {"chatstream.tool-args-doubled"}),
        (2, member("arguments", ':1}{"a":1}'), {"chatstream.tool-args-doubled"}),
        (2, member("arguments", ":1}x"), {"tools.args-invalid-json"}),
    ],
)
def test_each_fault_of_a_fragment_is_found_by_its_rule_alone(
    at: int, change: Any, rules: set[str]
) -> None:
    """P9."""
    assert ids(streamed(*events_of(changed(at, change)), request=REQUEST)) == rules


@pytest.mark.parametrize("indexes", [(1, 2), (0, 2), (0, -1), (5, 6)])
def test_indexes_count_from_0_without_a_gap(indexes: tuple[int, int]) -> None:
    deltas = two_calls()
    for n, delta in enumerate(deltas):
        delta[0]["index"] = indexes[n // 3]
    assert ids(streamed(*events_of(deltas), request=REQUEST)) == {"chatstream.tool-index-gap"}


def test_two_calls_on_one_index_are_two_ids_and_nothing_else() -> None:
    """P9: a second name and doubled arguments follow from it."""
    deltas = two_calls()
    for delta in deltas:
        delta[0]["index"] = 0
    assert ids(streamed(*events_of(deltas), request=REQUEST)) == {"chatstream.tool-id-changed"}


@pytest.mark.parametrize(("name", "value"), [("id", "call_0"), ("name", "f")])
def test_what_comes_late_is_late_and_not_missing(name: str, value: str) -> None:
    deltas = changed(0, member(name, ABSENT))
    member(name, value)(deltas[1][0])
    assert ids(streamed(*events_of(deltas), request=REQUEST)) == {"chatstream.tool-id-or-name-late"}


def test_fragments_of_an_earlier_call_among_a_later_ones_are_an_observation() -> None:
    deltas = two_calls()
    mixed = [deltas[0], deltas[3], deltas[1], deltas[4], deltas[2], deltas[5]]
    seen = streamed(*events_of(mixed), request=REQUEST)
    assert ids(seen) == set() and "chatstream.tool-interleaved" in everything(seen)


@pytest.mark.parametrize("more", [{}, {"arguments": "{}"}])
def test_the_flat_shape_of_the_responses_api_is_named_as_that(more: Any) -> None:
    """P9: its id is there, and what stands beside it instead of inside ``function`` is not missing."""
    entry = {"index": 0, "id": "call_0", "type": "function", "name": "f", **more}
    assert ids(streamed(*events_of([[entry]]), request=REQUEST)) == {"tools.flat-shape"}


@pytest.mark.parametrize(
    "custom",
    [
        None,
        "x",
        {},
        {"input": "x"},
        {"name": None, "input": "x"},
        {"name": 5, "input": "x"},
        {"name": "c"},
    ],
)
def test_a_custom_call_has_a_name_and_an_input(custom: Any) -> None:
    entry = {"index": 0, "id": "call_0", "type": "custom", "custom": custom}
    assert ids(streamed(*events_of([[entry]]), request=REQUEST)) == {"tools.custom-shape"}


@pytest.mark.parametrize("value", [{}, "x", 5, True, ["x"], [None], [[]]])
def test_calls_are_an_array_of_objects(value: Any) -> None:
    seen = streamed(
        opening(),
        chunk({"content": "x", "tool_calls": value}),
        chunk(finish="stop"),
        request=REQUEST,
    )
    assert ids(seen) == {"tools.calls-not-array"}


@pytest.mark.parametrize("value", [{}, "x", ["x"], [None]])
def test_calls_that_can_not_be_read_are_not_missing(value: Any) -> None:
    """P9: a finish_reason that names them is right."""
    seen = streamed(
        opening(), chunk({"tool_calls": value}), chunk(finish="tool_calls"), request=REQUEST
    )
    assert ids(seen) == {"tools.calls-not-array"}


def test_an_empty_array_of_calls_is_an_observation() -> None:
    seen = streamed(
        opening(), chunk({"content": "x", "tool_calls": []}), chunk(finish="stop"), request=REQUEST
    )
    assert ids(seen) == set() and "tools.calls-empty-array" in everything(seen)


@pytest.mark.parametrize("finish", ["length", "stop", "content_filter"])
def test_calls_that_were_cut_off_are_judged_by_how_the_choice_ended(finish: str) -> None:
    deltas = two_calls()[:2]
    found = ids(streamed(*events_of(deltas, finish), request=REQUEST))
    wanted = {"length": set(), "stop": {"tools.finish-stop-with-calls", "tools.args-invalid-json"}}
    assert found == wanted.get(finish, {"tools.args-invalid-json"})


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (member("type", ABSENT), "chatstream.tool-type-missing"),
        (member("id", ABSENT), "tools.id-missing"),
        (member("name", ABSENT), "tools.name-missing"),
        (member("name", "other"), "cross.tool-name-unknown"),
    ],
)
def test_what_is_wrong_with_a_whole_call_lies_where_the_call_began(change: Any, rule: str) -> None:
    """The second call begins with the fifth event."""
    events = events_of(changed(3, change))
    place = finding(streamed(*events, request=REQUEST), rule).place
    assert (place.index, place.byte) == (5, len(stream(*events[:4], done=False)))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (member("arguments", ":1"), "tools.args-invalid-json"),
        (member("arguments", ":1}{}"), "chatstream.tool-args-doubled"),
    ],
)
def test_so_does_what_is_wrong_with_its_arguments(change: Any, rule: str) -> None:
    events = events_of(changed(5, change))
    place = finding(streamed(*events, request=REQUEST), rule).place
    assert (place.index, place.byte) == (5, len(stream(*events[:4], done=False)))


def test_a_call_is_counted_by_the_faults_of_all_its_fragments() -> None:
    deltas = two_calls()
    for delta in (deltas[1], deltas[2], deltas[4], deltas[5]):
        delta[0]["id"] = f"call_{delta[0]['index']}"
    seen = streamed(*events_of(deltas), request=REQUEST)
    assert finding(seen, "chatstream.tool-id-repeated").count == 4


def test_each_choice_has_calls_of_its_own() -> None:
    events: list[Any] = [opening(index=n) for n in range(2)]
    for delta in two_calls()[:3]:
        events += [chunk({"tool_calls": delta}, index=n) for n in range(2)]
    events += [chunk(finish="tool_calls", index=n) for n in range(2)]
    assert ids(streamed(*events, request={**REQUEST, "n": 2})) == set()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from(["", "f", "function", "call_0", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["index", "id", "type", "function", "custom", "name", "arguments", "input"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
)


@PROPERTY
@given(st.lists(JSON, max_size=4))
def test_no_value_of_tool_calls_raises(values: list[Any]) -> None:
    ctx = Context(Exchange(), Operation.CHAT, DEFAULT_LIMITS)
    tools = ToolStream(ctx)
    for value in values:
        tools.feed(value, "/choices/0/delta/tool_calls")
    assert len(tools.finish("tool_calls")) == len(tools)
