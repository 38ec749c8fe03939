"""Structure without values: what counts as a difference, and what doesn't."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.structure import (
    Difference,
    StreamStructure,
    Structure,
    differences,
    kind_of,
    stream_differences,
)


def of(value: Any) -> Structure:
    made = Structure()
    made.add(value)
    return made


def told(first: Any, second: Any) -> list[Difference]:
    return list(differences(of(first), of(second)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"id": "a1", "created": 1}, {"id": "b2", "created": 2}),
        ({"n": 1}, {"n": 1.5}),
        ({"data": [{"a": 1}]}, {"data": [{"a": 1}, {"a": 2}]}),
        ({"annotations": []}, {"annotations": [{"type": "url_citation"}]}),
        ({"a": {"b": [[{"c": 1}]]}}, {"a": {"b": [[]]}}),
        ({"text": "stop"}, {"text": "length"}),
        ({"finish_reason": "x" * 80}, {"finish_reason": "y" * 80}),
    ],
)
def test_what_differs_from_call_to_call_is_no_difference(first: Any, second: Any) -> None:
    assert told(first, second) == []
    assert told(second, first) == []


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ({"a": 1}, {}, Difference("field", "/a", "number", "absent")),
        ({}, {"a": {"b": 1}}, Difference("field", "/a", "absent", "object")),
        ({"a": 1}, {"a": "1"}, Difference("type", "/a", "number", "string")),
        ({"a": {}}, {"a": None}, Difference("type", "/a", "object", "null")),
        ({"a": True}, {"a": 1}, Difference("type", "/a", "boolean", "number")),
        ({"object": "x"}, {"object": "y"}, Difference("word", "/object", "x", "y")),
        ([{"a": 1}], [{"a": 1}, {}], None),
        (
            [{"a": 1}, {"a": "x"}],
            [{"a": 1}],
            Difference("type", "[]/a", "number or string", "number"),
        ),
    ],
)
def test_members_types_and_words_are_differences(
    first: Any, second: Any, difference: Difference | None
) -> None:
    assert told(first, second) == ([difference] if difference else [])


def test_a_difference_is_told_at_its_top_alone() -> None:
    """A usage object that is gone is one difference, not one a member."""
    assert [d.path for d in told({"usage": {"a": {"b": 1}, "c": 2}}, {})] == ["/usage"]


def chunk(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": None, **choice}]}


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (chunk(delta={"role": "assistant", "content": ""}), "role"),
        (chunk(delta={"content": "x"}), "text"),
        (chunk(delta={"tool_calls": [1]}), "tool call"),
        (chunk(delta={}, finish_reason="stop"), "finish"),
        (chunk(), "(no delta)"),
        ({"choices": [], "usage": {"a": 1}}, "usage"),
        (chunk(delta={}) | {"usage": {"a": 1}}, "usage beside a choice"),
        (chunk(delta={"content": "x"}) | {"usage": {"a": 1}}, "text"),
        ({"choices": []}, "(empty)"),
        ({"error": {}}, "error"),
        ({"type": "response.created"}, "response.created"),
        ({"type": "a b\n"}, "(type)"),
        ({"choices": [None]}, "(no delta)"),
        ({}, "(no choices)"),
        ("[DONE]", "[DONE]"),
        ("garbage", "(no JSON)"),
        (7, "(no object)"),
        (None, "(no object)"),
    ],
)
def test_events_are_told_apart_by_what_they_carry(event: Any, kind: str) -> None:
    assert kind_of(event) == kind


def test_the_number_of_deltas_is_no_difference_and_their_order_is() -> None:
    text, role = chunk(delta={"content": "x"}), chunk(delta={"role": "assistant"})
    finish = chunk(delta={}, finish_reason="stop")

    def between(*pair: list[Any]) -> list[str]:
        one, other = map(StreamStructure.of, pair)
        return [d.kind for d in stream_differences(one, other)]

    assert between([role, text, finish], [role, text, text, text, finish]) == []
    assert between([role, text, finish], [text, role, finish]) == ["events"]
    assert between([role, text, "[DONE]"], [role, text]) == ["events"]


def test_structures_are_bounded() -> None:
    """A document of a million members costs a bounded memory."""
    wide = of({f"m{n}": n for n in range(10_000)})
    assert len(wide.types) <= 4096
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    assert max(path.count("/") for path in of(deep).types) <= 33
