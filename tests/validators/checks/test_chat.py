"""A whole chat.completion: official answers are clean, and each fault is found alone and at its place."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.validators.answers import (
    ASKED,
    CREATED,
    TOOLS,
    USAGE,
    completion,
    dumps,
    everything,
    finding,
    ids,
    inspected,
)
from tests.validators.exchanges import NOW
from tests.validators.nnrp import connections as nnrp

DAY = 86_400
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
AUDIO = {"id": "audio_1", "expires_at": CREATED, "data": "AAAA", "transcript": "Hello"}
CITATION = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 1, "url": "u", "title": "t"},
}
TOKEN = {"token": "Hello", "logprob": -0.5, "bytes": [72], "top_logprobs": []}


def answer(said: Any = None, finish: Any = "stop", **choice: Any) -> dict[str, Any]:
    """A completion with one choice; ``said`` adds to its message."""
    body = completion(said)
    body["choices"][0] |= {"finish_reason": finish, **choice}
    return body


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (answer(), {}),
        (answer({"annotations": []}), {}),
        (answer({"annotations": [CITATION]}), {}),
        (answer({"content": None, "refusal": "No."}), {}),
        (answer({"content": None, "tool_calls": [CALL]}, "tool_calls"), TOOLS),
        (answer({"content": "Let me see", "tool_calls": [CALL]}, "tool_calls"), TOOLS),
        (
            answer(
                {"content": None, "function_call": {"name": "f", "arguments": "{}"}},
                "function_call",
            ),
            {"functions": [{"name": "f"}]},
        ),
        (answer({"content": None, "audio": AUDIO}), {"modalities": ["text", "audio"]}),
        (answer({"content": None}, "length"), {}),
        (answer({"content": ""}, "content_filter"), {}),
        (answer(logprobs={"content": [TOKEN], "refusal": None}), {"logprobs": True}),
        (
            answer(logprobs={"content": [{**TOKEN, "logprob": -9999.0, "bytes": None}]}),
            {"logprobs": True},
        ),
        (answer(logprobs={"content": [{**TOKEN, "logprob": 0}]}), {"logprobs": True}),
        (
            {
                **answer(),
                "system_fingerprint": None,
                "service_tier": None,
                "metadata": None,
                "moderation": None,
            },
            {},
        ),
        (
            {
                **answer(),
                "system_fingerprint": "fp_1",
                "service_tier": "priority",
                "metadata": {"a": "b"},
            },
            {},
        ),
        (
            answer({"tool_calls": None, "function_call": None, "audio": None, "annotations": None}),
            {},
        ),
        (
            {
                **answer(),
                "usage": {**USAGE, "prompt_tokens_details": None, "completion_tokens_details": {}},
            },
            {},
        ),
    ],
)
def test_what_official_answers_hold_is_clean(body: Any, asked: Any) -> None:
    """P4: null is absent wherever a field may be absent."""
    assert ids(inspected(dumps(body), {**ASKED, **asked})) == set()


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("reasoning_content", "Hm", "chat.reasoning-extension"),
        ("reasoning", "Hm", "chat.reasoning-extension"),
        ("reasoning_details", [{}], "chat.reasoning-extension"),
        ("reasoning_content", None, ""),
        ("extra_content", {"google": {}}, ""),
    ],
)
def test_what_vendors_add_to_a_message_is_no_more_than_an_observation(
    name: str, value: Any, rule: str
) -> None:
    seen = inspected(dumps(answer({name: value})))
    assert ids(seen) == set()
    assert {r for r in everything(seen) if r.startswith("chat.")} == ({rule} if rule else set())


def test_unknown_fields_are_listed_at_the_top_and_in_a_choice_and_never_fail() -> None:
    body = {**answer(stop_reason=None, token_ids=[1]), "timings": {}, "provider": "x"}
    seen = inspected(dumps(body))
    assert ids(seen) == set() and finding(seen, "chat.unknown-field").count == 4


@pytest.mark.parametrize(
    ("body", "rule", "pointer"),
    [
        (5, "chat.body-not-object", ""),
        (None, "chat.body-not-object", ""),
        ({**answer(), "choices": []}, "chat.choices-empty", "/choices"),
        ({**answer(), "choices": {}}, "chat.choices-not-array", "/choices"),
        ({**answer(), "choices": None}, "chat.choices-not-array", "/choices"),
        ({**answer(), "choices": ["x"]}, "chat.choice-not-object", "/choices/0"),
        (answer(index="0"), "chat.choice-index-type", "/choices/0/index"),
        (answer(index=1), "chat.choice-index-set", "/choices"),
        (answer(message=None), "chat.message-missing", "/choices/0/message"),
        (answer(message=None, delta={}), "chat.delta-instead-of-message", "/choices/0/delta"),
        (answer({"role": "user"}), "chat.role-wrong", "/choices/0/message/role"),
        (answer({"content": []}), "chat.content-not-string", "/choices/0/message/content"),
        (answer({"content": None}), "chat.empty-answer", "/choices/0/message/content"),
        (answer(finish=None), "chat.finish-missing", "/choices/0/finish_reason"),
        (answer(finish="done"), "chat.finish-unknown", "/choices/0/finish_reason"),
        (answer(finish="end_turn"), "chat.finish-foreign", "/choices/0/finish_reason"),
        (
            answer(finish="function_call"),
            "chat.finish-without-function-call",
            "/choices/0/message/function_call",
        ),
        (answer(finish="tool_calls"), "tools.finish-without-calls", "/choices/0/finish_reason"),
        ({**answer(), "usage": None}, "usage.missing", "/usage"),
        ({**answer(), "usage": []}, "usage.not-object", "/usage"),
        ({**answer(), "created": "x"}, "chat.created-type", "/created"),
        ({**answer(), "created": 5}, "chat.created-range", "/created"),
        ({**answer(), "id": ""}, "chat.id-empty", "/id"),
        (
            answer(logprobs={"content": [{**TOKEN, "logprob": 0.1}]}),
            "chat.logprob-out-of-range",
            "/choices/0/logprobs/content/0/logprob",
        ),
        (
            answer(
                logprobs={"content": [{**TOKEN, "top_logprobs": [{"token": 5, "logprob": -1}]}]}
            ),
            "chat.logprobs-shape",
            "/choices/0/logprobs/content/0/top_logprobs/0/token",
        ),
    ],
)
def test_a_fault_is_found_alone_and_at_its_place(body: Any, rule: str, pointer: str) -> None:
    """P9: the cause and none of its consequences."""
    asked = {"logprobs": True, "top_logprobs": 5} if "logprob" in rule else {}
    seen = inspected(dumps(body), {**ASKED, **asked})
    assert ids(seen) == {rule}
    assert finding(seen, rule).place.pointer == pointer


def test_the_same_fault_in_several_choices_is_one_finding_at_the_first() -> None:
    bad = answer({"role": "user"})["choices"][0]
    choices = [answer()["choices"][0], {**bad, "index": 1}, {**bad, "index": 2}]
    violation = finding(
        inspected(dumps(completion(choices=choices)), {**ASKED, "n": 3}), "chat.role-wrong"
    )
    assert (violation.count, violation.place.pointer) == (2, "/choices/1/message/role")


def test_indexes_are_0_to_n_minus_1_in_any_order() -> None:
    base = answer()["choices"][0]
    for indexes in permutations(range(4), 3):
        choices = [{**base, "index": index} for index in indexes]
        found = everything(inspected(dumps(completion(choices=choices)), {**ASKED, "n": 3}))
        wanted = set()
        if sorted(indexes) != [0, 1, 2]:
            wanted = {"chat.choice-index-set"}
        elif indexes != (0, 1, 2):
            wanted = {"chat.choice-index-order"}
        assert {r for r in found if "index" in r} == wanted


RANGE, FLOAT, TYPE = "chat.created-range", "chat.created-integral-float", "chat.created-type"


@pytest.mark.parametrize(
    ("created", "found"),
    [
        (CREATED, set()),
        (1_000_000_000, set()),
        (999_999_999, {RANGE}),
        (0, {RANGE}),
        (-1, {RANGE}),
        (CREATED * 1000, {RANGE}),
        (int(NOW) + DAY, set()),
        (int(NOW) + DAY + 1, {RANGE}),
        (float(CREATED), {FLOAT}),
        (2**70, {FLOAT, RANGE}),  # beyond 64 bits an integer is read as a float
        (CREATED + 0.5, {TYPE}),
        (True, {TYPE}),
        (str(CREATED), {TYPE}),
        (None, {TYPE}),
    ],
)
def test_created_is_a_plausible_time_in_whole_seconds(created: Any, found: set[str]) -> None:
    seen = everything(inspected(dumps(completion(created=created))))
    assert {rule for rule in seen if "created" in rule} == found


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("chatcmpl-1", set()),
        ("gen-123", {"chat.id-prefix"}),
        ("", {"chat.id-empty"}),
        (None, {"chat.id-missing"}),
        (5, {"chat.id-missing"}),
    ],
)
def test_an_id_has_one_thing_wrong_with_it(made: Any, found: set[str]) -> None:
    seen = everything(inspected(dumps(completion(id=made))))
    assert {r for r in seen if r.startswith("chat.id")} == found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("<think>Hm</think>Hello", True),
        ("\n\n<think>", True),
        ("Hello <think>", False),
        ("<thinking>", False),
    ],
)
def test_a_thought_in_the_content_shows_at_its_start(content: str, found: bool) -> None:
    seen = everything(inspected(dumps(answer({"content": content}))))
    assert ("chat.think-tags-in-content" in seen) is found


def test_content_may_be_left_out_where_something_else_is_said() -> None:
    for message, finish, rules in (
        ({"refusal": "No."}, "stop", set()),
        ({"tool_calls": [CALL]}, "tool_calls", set()),
        ({"audio": AUDIO}, "stop", set()),
        ({"function_call": {"name": "f", "arguments": "{}"}}, "function_call", set()),
        ({}, "stop", {"chat.content-key-missing"}),
        ({"tool_calls": []}, "stop", {"chat.content-key-missing"}),
    ):
        body = answer(message, finish)
        del body["choices"][0]["message"]["content"]
        asked = {**ASKED, **(TOOLS if "tool_calls" in message else {"functions": [{"name": "f"}]})}
        assert ids(inspected(dumps(body), asked)) == rules


def test_azure_annotates_choices_and_prompts_and_nothing_is_wrong_with_that() -> None:
    """P5."""
    body = answer(content_filter_results={"hate": {"filtered": False}})
    body["prompt_filter_results"] = [{"prompt_index": 0}]
    target = "/openai/deployments/d/chat/completions?api-version=2024-10-21"
    assert ids(inspected(dumps(body), {"messages": [1]}, target=target)) == set()


@pytest.mark.parametrize(
    ("on", "end", "missed"),
    [("nnrp-stream", 4, False), ("nnrp-usage", 4, True), ("nnrp-plain", 2, True)],
)
def test_what_a_stream_adds_up_to_has_usage_where_its_request_asks_for_it(
    on: str, end: int, missed: bool
) -> None:
    """A stream tells usage only with include_usage, and an NNRP adapter can't know what it was not told."""
    found = nnrp.rules({"on": on, "remove": [f"/{end}/json/body/usage"]})
    assert ("usage.missing" in found) is missed
