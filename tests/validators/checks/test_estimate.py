"""A prompt's tokens against its size: far off only, and only where all of the prompt was seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import inspect

LONG = "word " * 20_000


def implausible(tokens: int, request: dict[str, Any], on: str = "chat", **more: Any) -> bool:
    names = (
        ("prompt_tokens", "completion_tokens")
        if on == "chat"
        else ("input_tokens", "output_tokens")
    )
    usage: dict[str, Any] = {names[0]: tokens, names[1]: 15, "total_tokens": tokens + 15}
    if on == "responses":
        usage["input_tokens_details"] = {"cached_tokens": 0, "cache_write_tokens": 0}
        usage["output_tokens_details"] = {"reasoning_tokens": 0}
    usage |= more.pop("usage", {})
    document = exchange(
        {
            "on": on,
            "request": {"": json.dumps({"model": "gpt-4o-mini", **request})},
            "set": {"/usage": json.dumps(usage)},
            **more,
        }
    )
    seen = inspect(document)
    return "cross.prompt-tokens-implausible" in {v.rule.id for v in seen.violations}


def chat(content: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **more}


@pytest.mark.parametrize("tokens", [1, 9, 300, 500])
def test_a_small_request_may_have_any_small_count(tokens: int) -> None:
    """Templates and short system texts of servers are a part of the prompt."""
    assert not implausible(tokens, chat("Hi"))


def test_a_prompt_that_was_cut() -> None:
    assert implausible(4096, chat(LONG))
    assert implausible(4096, {"input": LONG}, on="responses")


@pytest.mark.parametrize("tokens", [9_000, 20_000, 60_000])
def test_a_long_prompt_may_have_few_or_many_tokens_a_word(tokens: int) -> None:
    assert not implausible(tokens, chat(LONG))


def test_a_prompt_to_which_much_was_added() -> None:
    assert implausible(5_000, chat("Hi"))


def test_tokens_beside_the_prompt_that_came_from_a_cache_count() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 20_000}}
    assert not implausible(100, chat(LONG), usage=details)


@pytest.mark.parametrize(
    "request_",
    [
        chat([{"type": "image_url", "image_url": {"url": "https://x"}}]),
        chat([7]),
        chat("Hi", web_search_options={}, tools=[{"type": "web_search"}]),
        {"messages": [{"role": "assistant", "content": "Hi", "reasoning_content": "Hm."}]},
        {"messages": [7]},
        {"messages": [{"role": "assistant", "content": None, "audio": {"id": "a"}}]},
    ],
)
def test_what_is_not_all_text_is_not_estimated(request_: dict[str, Any]) -> None:
    assert not implausible(5_000, request_)


@pytest.mark.parametrize(
    "request_",
    [
        {"input": "Hi", "previous_response_id": "resp_0"},
        {"input": [{"type": "item_reference", "id": "x"}]},
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_file"}]}]},
        {"input": "Hi", "tools": [{"type": "file_search"}]},
        {"input": [{"type": ["odd"]}]},
    ],
)
def test_what_a_response_goes_on_from_is_not_in_its_request(request_: dict[str, Any]) -> None:
    assert not implausible(5_000, request_, on="responses")


def test_without_the_request_nothing_is_estimated() -> None:
    usage = '{"prompt_tokens":5000,"completion_tokens":3,"total_tokens":5003}'
    document = exchange({"on": "chat", "set": {"/usage": usage}})
    rule = "cross.prompt-tokens-implausible"
    assert rule in {v.rule.id for v in inspect(document).violations}
    unread = {**document, "request": None}
    assert rule not in {v.rule.id for v in inspect(unread).violations}
