"""What was the case where a rule was broken is noted place by place, whatever stands there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.checks.circumstances import TESTS, WATCHED, circumstances, joined
from teeline.validators.model import NO_CIRCUMSTANCES, OTHER_WORD, Circumstances, Exchange
from teeline.validators.profiles import CONDITIONS
from teeline.validators.rules import register
from tests.validators.exchanges import inspect

CALL = {"id": "", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


def seen(
    rule: str, value: Any = None, *, pointer: str = "", subject: Any = None, **facts: Any
) -> Circumstances:
    return circumstances(rule, pointer, value, subject=subject, exchange=Exchange(**facts))


def test_every_condition_has_a_test_and_every_test_is_a_condition_with_a_meaning() -> None:
    assert {name for tests in TESTS.values() for name in tests} == set(CONDITIONS)


def test_only_rules_that_exist_are_watched() -> None:
    assert set(register()) >= WATCHED


def test_nothing_is_noted_of_a_rule_that_nobody_asks_for() -> None:
    assert seen("chat.id-missing", 5) is NO_CIRCUMSTANCES


@pytest.mark.parametrize(
    ("finish", "held"),
    [
        ("length", {"finish-length"}),
        ("content_filter", {"finish-content-filter"}),
        ("stop", set()),
        (None, set()),
        ({}, set()),
        ([], set()),
    ],
)
def test_a_missing_message_is_seen_with_the_end_of_its_own_choice(
    finish: Any, held: set[str]
) -> None:
    subject = {"index": 0, "finish_reason": finish}
    assert seen("chat.message-missing", subject=subject).held == held


@pytest.mark.parametrize("subject", [None, [], "x", 5])
def test_a_subject_of_any_type_breaks_nothing(subject: Any) -> None:
    for rule in WATCHED:
        seen(rule, {"a": []}, subject=subject)
        seen(rule, ["x", {}], subject={"function": subject, "finish_reason": subject})


def test_a_missing_counter_is_excused_by_a_length_limit_in_all_choices_alone() -> None:
    at = "/usage/completion_tokens"
    rule = "usage.keys-missing"
    both = seen(rule, pointer=at, finish=["length", "length"]).held
    assert both == {"finish-length", "only-completion-tokens"}
    assert seen(rule, pointer=at, finish=["length", "stop"]).held == {"only-completion-tokens"}
    assert seen(rule, pointer="/usage/prompt_tokens", finish=[]).held == set()


@pytest.mark.parametrize(
    ("content", "typed"),
    [
        ([{"type": "thinking", "thinking": []}, {"type": "text", "text": "x"}], True),
        ([], False),
        ([{"type": "text"}, "x"], False),
        ([{"type": ["text"]}], False),
        ([{"type": "image"}], False),
        ({"type": "text"}, False),
        (5, False),
    ],
)
def test_typed_parts_are_arrays_of_text_and_thinking(content: Any, typed: bool) -> None:
    for rule in ("chat.content-not-string", "chatstream.content-not-string"):
        assert (seen(rule, content).held == {"typed-parts"}) is typed


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        ({}, True),
        ({"name": ""}, False),
        ({"name": None}, False),
        ({"arguments": '{"a":'}, False),
        ({"arguments": ""}, False),
        ({"arguments": "5"}, False),
        ({"arguments": "{}{}"}, False),
        ({"arguments": {"a": 1}}, False),
        ({"arguments": "\ud800"}, False),
    ],
)
def test_an_entry_is_whole_with_a_name_and_arguments_that_are_one_object(
    change: dict[str, Any], whole: bool
) -> None:
    entry = {**CALL, "function": {**CALL["function"], **change}}  # type: ignore[dict-item]
    held = seen("chatstream.tool-index-type", subject=entry).held
    assert held == ({"whole-entry"} if whole else set())


def test_words_are_the_values_that_stood_there_where_they_can_be_words() -> None:
    for value, word in (("odd", "odd"), ("", ""), ("a b", OTHER_WORD), (5, OTHER_WORD)):
        assert seen("chat.finish-unknown", value).words == {word}
        assert seen("chatstream.finish-unknown", value).words == {word}


def test_a_key_is_no_word() -> None:
    for value in ("sk-abcdefghijklmnopqrstuvwxyz0123456789", "k3" * 20):
        assert seen("chat.finish-unknown", value).words == {OTHER_WORD}
        assert seen("usage.vendor-fields", {value: 1}).words == {OTHER_WORD}


def test_words_of_unknown_members_are_their_names() -> None:
    assert seen("chat.unknown-field", 1, pointer="/x_groq").words == {"x_groq"}
    assert seen("usage.vendor-fields", {"cost": 1, "queue_time": 2}).words == {"cost", "queue_time"}
    assert seen("usage.vendor-fields", 5).words == {OTHER_WORD}


def test_a_condition_holds_where_it_held_at_each_place_and_words_add_up() -> None:
    a = Circumstances(frozenset({"x", "y"}), frozenset({"a"}))
    b = Circumstances(frozenset({"y"}), frozenset({"b"}))
    assert joined(a, b) == Circumstances(frozenset({"y"}), frozenset({"a", "b"}))
    assert joined(a, NO_CIRCUMSTANCES).held == set()


def test_more_words_than_a_vendor_has_are_no_list_of_words_any_more() -> None:
    many = NO_CIRCUMSTANCES
    for n in range(100):
        many = joined(many, Circumstances(words=frozenset({f"w{n}"})))
    assert len(many.words) <= 18
    assert OTHER_WORD in many.words


def test_an_inspection_adds_the_places_of_a_rule_up() -> None:
    """The second place has another word, which the first violation alone would not show."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "x", "refusal": None}}
    choices = [
        {**choice, "finish_reason": "model_length"},
        {**choice, "index": 1, "finish_reason": 5},
    ]
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "m"}
    exchange = inspect(
        {
            "endpoint": "/v1/chat/completions",
            "request": {"model": "m", "n": 2},
            "response": {"status": 200, "body_text": json.dumps({**body, "choices": choices})},
        }
    )
    (found,) = (v for v in exchange.violations if v.rule.id == "chat.finish-unknown")
    assert found.count == 2
    assert found.circumstances.words == {"model_length", OTHER_WORD}
