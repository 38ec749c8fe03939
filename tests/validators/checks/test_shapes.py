"""Another protocol's object is told by its members, and a chat object is never taken for one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.checks.shapes import CHAT_SHAPES, CHUNK_SHAPES, is_error, shape_of
from teeline.validators.rules import register
from tests.validators.answers import chunk, completion, dumps, ids, inspected, opening, streamed

ANTHROPIC = {"type": "message", "content": [{"type": "text"}], "stop_reason": "end_turn"}
RESPONSE = {"object": "response", "output": []}


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (RESPONSE, "chat.responses-shape"),
        ({"output": []}, "chat.responses-shape"),
        (ANTHROPIC, "chat.anthropic-shape"),
        ({"candidates": []}, "chat.gemini-shape"),
        ({"choices": [{"text": "x"}]}, "chat.legacy-completion-shape"),
        ({"code": 0, "data": {}}, "chat.wrapped-body"),
        ({"success": True, "result": {}}, "chat.wrapped-body"),
        ({"error": {"message": "x"}}, "chat.error-in-200"),
        ({"error": "x"}, "chat.error-in-200"),
        ({"object": "error", "message": "x"}, "chat.error-in-200"),
        ({"code": 500, "msg": "x"}, "chat.error-in-200"),
        ({"code": "bad", "message": "x"}, "chat.error-in-200"),
        ({}, ""),
        ({"error": None}, ""),
        ({"error": {}}, ""),
        ({"code": 0, "message": "ok"}, ""),
        ({"code": 200, "message": "ok"}, ""),
        ({"code": "0", "msg": "ok"}, ""),
        ({"choices": []}, ""),
        ({"choices": [{"text": "x", "message": {}}]}, ""),
        ({"choices": [{"text": "x"}, {"message": {}}]}, ""),
        ({"choices": [{"text": "x", "delta": {}}]}, ""),
        ({"candidates": [], "choices": []}, ""),
        ({"data": {}}, ""),
    ],
)
def test_the_cause_is_named_by_the_members_of_the_object(value: Any, rule: str) -> None:
    assert shape_of(value, CHAT_SHAPES) == rule


@pytest.mark.parametrize(
    "more",
    [
        {"output": []},
        {"error": {"message": "x"}},
        {"error": None},
        {"code": 500, "message": "x"},
        {"data": {}, "code": 0},
        {"type": "message", "content": [], "stop_reason": None},
        {"candidates": []},
        {"metadata": {"output": 1}},
    ],
)
def test_an_object_with_choices_is_a_chat_answer_whatever_else_it_holds(more: Any) -> None:
    assert shape_of({**completion(), **more}, CHAT_SHAPES) == ""


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({"type": "response.created"}, "chatstream.responses-events"),
        ({"type": "message_start"}, "chatstream.anthropic-events"),
        ({"type": "content_block_delta", "index": 0}, "chatstream.anthropic-events"),
        ({"type": "ping"}, "chatstream.ping-event"),
        ({"type": "keepalive", "error": None}, "chatstream.ping-event"),
        ({"type": "heartbeat"}, "chatstream.ping-event"),
        ({"type": "ping", "error": {"message": "x"}}, ""),
        ({"type": "ping", "choices": []}, ""),
        ({"type": "response.created", "choices": []}, ""),
        ({"type": "responses"}, ""),
        ({"type": 5}, ""),
        ({"type": []}, ""),
        ({"type": None}, ""),
        ({}, ""),
    ],
)
def test_events_of_other_protocols_are_told_by_their_type(value: Any, rule: str) -> None:
    assert shape_of(value, CHUNK_SHAPES) == rule


def test_every_shape_has_a_declared_rule() -> None:
    assert {rule for rule, _ in CHAT_SHAPES + CHUNK_SHAPES} <= set(register())


@pytest.mark.parametrize(
    "body",
    [
        RESPONSE,
        ANTHROPIC,
        {"candidates": [1]},
        {"choices": [{"text": 5}]},
        {"code": 0, "data": {"choices": 5}},
        {"error": {"message": 5}},
    ],
)
def test_the_fields_of_another_protocols_object_are_not_looked_at(body: Any) -> None:
    """P9: one cause, one finding."""
    assert len(ids(inspected(dumps(body)))) == 1


def test_a_stream_of_another_protocol_breaks_one_rule_however_long_it_is() -> None:
    """P9: neither chunks nor their end are missed."""
    events = [
        {"type": "message_start"},
        {"type": "ping"},
        {"type": "message_delta"},
        {"type": "message_stop"},
    ]
    seen = streamed(*events, done=False)
    assert ids(seen) == {"chatstream.anthropic-events"}


def test_a_ping_stands_between_chunks_and_changes_nothing_about_them() -> None:
    seen = streamed(opening(), {"type": "ping"}, chunk(finish="stop"), done=False)
    assert ids(seen) == {
        "chatstream.ping-event",
        "chatstream.done-missing",
        "chatstream.no-content",
    }


NAMES = [
    "object",
    "output",
    "choices",
    "type",
    "content",
    "stop_reason",
    "candidates",
    "data",
    "code",
    "success",
    "error",
    "message",
    "msg",
    "text",
    "delta",
]
WORDS = ["response", "message", "ping", "error", "", "0", "message_start"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_no_object_raises_and_none_has_two_shapes_reported(value: Any) -> None:
    for shapes in (CHAT_SHAPES, CHUNK_SHAPES):
        rule = shape_of(value, shapes)
        fitting = [name for name, fits in shapes if fits(value)]
        assert rule == (fitting[0] if fitting else "")
    assert is_error(value) in (True, False)
