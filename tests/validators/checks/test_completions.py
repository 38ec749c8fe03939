"""Legacy completions: how many answers are due, and texts that hold the prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import inspect

WORTH = ("warn", "fail")


def rules(**change: Any) -> set[str]:
    document = exchange({"on": "completions", **change})
    return {v.rule.id for v in inspect(document).violations if v.severity.word in WORTH}


def choices(count: int) -> dict[str, str]:
    made = [
        {"text": "Hello", "index": n, "logprobs": None, "finish_reason": "stop"}
        for n in range(count)
    ]
    return {"/choices": json.dumps(made)}


@pytest.mark.parametrize(
    ("request_members", "count"),
    [
        ({"/prompt": '["a","b"]'}, 2),
        ({"/prompt": '["a","b"]', "/n": "3"}, 6),
        ({"/prompt": "[1,2,3]"}, 1),
        ({"/prompt": "[[1,2],[3]]", "/n": "2"}, 4),
        ({"/n": "2", "/best_of": "5"}, 2),
    ],
)
def test_each_prompt_is_answered_n_times(request_members: dict[str, str], count: int) -> None:
    assert rules(request=request_members, set=choices(count)) == set()
    assert rules(request=request_members, set=choices(count + 1)) == {"cross.choices-too-many"}


def test_without_a_prompt_choices_are_not_counted() -> None:
    assert rules(request_remove=["/prompt"], set=choices(3)) == set()


def test_tokens_of_all_candidates_are_counted() -> None:
    """With best_of the answer's usage is that of the candidates, too."""
    usage = {"/usage": '{"prompt_tokens":1,"completion_tokens":20,"total_tokens":21}'}
    asked = {"/max_tokens": "5"}
    assert rules(request={**asked, "/best_of": "4"}, set=usage) == set()
    assert rules(request={**asked, "/best_of": "3"}, set=usage) == {"cross.max-tokens-exceeded"}


def test_usage_of_an_empty_text_may_lack_what_was_not_generated() -> None:
    empty = {"/choices/0/text": '""', "/usage": '{"prompt_tokens":1,"total_tokens":1}'}
    assert rules(set=empty) == set()
    assert rules(set={**empty, "/choices/0/text": '"Hi"'}) == {"usage.keys-missing"}
    wrong = {**empty, "/usage": '{"prompt_tokens":1,"total_tokens":2}'}
    assert rules(set=wrong) == {"usage.total-too-high"}


def test_an_echoed_prompt_is_not_the_models_text() -> None:
    """It may hold stop strings and odd characters, and counts no tokens."""
    asked = {"/echo": "true", "/max_tokens": "0", "/stop": '"Hi"'}
    answer = {
        "/choices/0/text": '"Hi \ufffd"',
        "/usage": '{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3}',
    }
    assert rules(request=asked, set=answer) == set()
    without = {**asked, "/echo": "false"}
    assert "cross.stop-sequence" in rules(request=without, set=answer)


@pytest.mark.parametrize(
    ("asked", "came", "found"),
    [
        ("null", True, set()),
        ("2", True, set()),
        ("2", False, {"cross.logprobs-missing"}),
        ("0", True, set()),
        ("0", False, set()),
    ],
)
def test_logprobs_are_asked_for_by_a_number(asked: str, came: bool, found: set[str]) -> None:
    logprobs = (
        '{"tokens":["Hello"],"token_logprobs":[-0.1],"top_logprobs":null,"text_offset":[0]}'
        if came
        else "null"
    )
    change = {"/choices/0/logprobs": logprobs}
    assert rules(request={"/logprobs": asked}, set=change) == found


@pytest.mark.parametrize(
    "logprobs",
    ['{"tokens":["a","b"],"token_logprobs":[-0.1]}', '{"content":[]}', '{"tokens":"a"}', "[]"],
)
def test_logprobs_of_another_shape_are_reported_once(logprobs: str) -> None:
    change = {"/choices/0/logprobs": logprobs}
    assert rules(request={"/logprobs": "1"}, set=change) == {"completions.logprobs-shape"}


@pytest.mark.parametrize(
    "body",
    [
        '{"code":0,"success":true,"data":{"id":"cmpl-1"}}',
        '{"candidates":[]}',
        '{"id":"resp_1","object":"response","output":[]}',
    ],
)
def test_another_apis_object_is_named_and_its_fields_are_not(body: str) -> None:
    assert rules(set={"": body}) == {"completions.foreign-shape"}
