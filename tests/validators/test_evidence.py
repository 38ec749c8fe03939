"""Evidence shows a fault and nothing of a conversation: names, numbers and words of the protocol alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.evidence import ABSENT, MAX_LENGTH, member, name, shape, word
from tests.validators.answers import completion, dumps, inspected, stream, streamed

PROPERTY = settings(max_examples=300, derandomize=True, deadline=None, database=None)
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-17, "-17"),
        (1.5, "1.5"),
        (float("nan"), "nan"),
        (2**130, "<huge integer>"),
        ("", '"<str 0>"'),
        ("Hello there", '"<str 11>"'),
        ("stop", '"<str 4>"'),
        ({}, "{}"),
        ([], "[]"),
        ({"role": "x", "n": 1}, '{"role": "<str 1>", "n": 1}'),
        ({"a": {"b": {"c": 1}}}, '{"a": {"b": {1 members}}}'),
        ({"a": {"b": {}}}, '{"a": {"b": {}}}'),
        ([1, "x"], '[1, "<str 1>"]'),
        ([1, 2, 3, 4], "[1, 2, 3, ... 4 in all]"),
        ([[[1]]], "[[[1 elements]]]"),
        (
            dict.fromkeys("abcdefg", 1),
            '{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, ...}',
        ),
        (ABSENT, "absent"),
    ],
)
def test_a_value_is_shown_by_its_shape(value: Any, text: str) -> None:
    assert shape(value) == text


@pytest.mark.parametrize(
    "text", ["stop", "tool_calls", "end_turn", "gpt-4o-mini", "response.completed", "a:b", ""]
)
def test_a_word_of_the_protocol_is_shown(text: str) -> None:
    assert word(text) == f'"{text}"' and shape(text, words=True) == f'"{text}"'


@pytest.mark.parametrize("text", ["two words", "a" * 49, "a\n", "é", "-x", "\x1b[31m", '"', "a/b"])
def test_what_looks_like_no_word_is_a_length(text: str) -> None:
    assert word(text) == f'"<str {len(text)}>"'


@pytest.mark.parametrize("shown", [word, name])
def test_a_key_is_never_shown_be_it_where_a_word_or_a_name_was_due(shown: Any) -> None:
    assert KEY not in shown(KEY)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tool_calls", "tool_calls"),
        ("$ref", "$ref"),
        ("x-order.1", "x-order.1"),
        ("a b", "<name of 3>"),
        ("1a", "<name of 2>"),
        ("", "<name of 0>"),
        ("a" * 65, "<name of 65>"),
        ("a\n", "<name of 2>"),
        ("\x1b[31m", "<name of 5>"),
    ],
)
def test_a_members_name_is_shown_if_it_is_an_identifier(text: str, shown: str) -> None:
    assert name(text) == shown


@pytest.mark.parametrize(
    ("pointer", "value", "text"),
    [
        ("/choices/0/index", "0", '"index": "<str 1>"'),
        ("/choices/0/index", ABSENT, '"index" absent'),
        ("/choices/0", [], '"choices": []'),
        ("", 5, "5"),
        ("", ABSENT, "absent"),
        ("/a~1b~0c", 1, '"<name of 5>": 1'),
    ],
)
def test_a_member_goes_by_the_last_name_of_its_pointer(pointer: str, value: Any, text: str) -> None:
    assert member(pointer, value) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=80), inner),
    max_leaves=30,
)


@PROPERTY
@given(JSON, st.booleans(), st.text(max_size=300))
def test_evidence_is_bounded_and_printable_whatever_it_shows(
    value: Any, words: bool, pointer: str
) -> None:
    text = member(f"/{pointer}", value, words=words)
    assert len(text) <= MAX_LENGTH
    assert text.isascii() and text.isprintable()


@PROPERTY
@given(JSON, st.text(alphabet="Zq9", min_size=12, max_size=20))
def test_no_string_of_a_value_is_shown(value: Any, secret: str) -> None:
    assert secret not in shape([secret, {"a": secret, "b": [secret]}, value])


ONE_WORD = "Zq9xSecretZq9x"


@pytest.mark.parametrize(
    "body",
    [
        {"code": 0, "data": {"content": ONE_WORD}},
        {"success": True, "data": {"text": ONE_WORD}},
        {"object": "response", "output_text": ONE_WORD, "output": []},
        {
            "type": "message",
            "content": [{"type": "text", "text": ONE_WORD}],
            "stop_reason": "end_turn",
        },
        {"candidates": [{"content": {"parts": [{"text": ONE_WORD}]}}]},
        {"object": "text_completion", "choices": [{"index": 0, "text": ONE_WORD}]},
        {"error": {"message": ONE_WORD}},
        {"code": 500, "message": ONE_WORD},
        completion({"content": [{"type": "text", "text": ONE_WORD}]}),
        completion({"tool_calls": [{"id": ONE_WORD, "name": ONE_WORD, "arguments": ONE_WORD}]}),
        completion(answer=ONE_WORD),
    ],
)
def test_an_answer_of_one_word_does_not_pass_for_a_word_of_the_protocol(body: Any) -> None:
    """An answer of "Paris" looks like a word, too: what stands where text stands is never shown."""
    for request in ({"stream": False}, {"stream": True}):
        seen = inspected(dumps(body), {"model": "m", "messages": [1], **request})
        assert seen.violations
        assert [v.rule.id for v in seen.violations if ONE_WORD in v.evidence] == []


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "message": ONE_WORD},
        {"error": ONE_WORD},
        {"type": "content_block_delta", "delta": {"text": ONE_WORD}},
        {"type": "response.output_text.delta", "delta": ONE_WORD},
        {"object": "chat.completion", "choices": [{"message": {"content": ONE_WORD}}]},
        {"content": ONE_WORD, "choices": []},
    ],
)
def test_nor_does_an_event_of_one_word(event: Any) -> None:
    for seen in (streamed(event), streamed(stream(), event)):
        assert [v.rule.id for v in seen.violations if ONE_WORD in v.evidence] == []
