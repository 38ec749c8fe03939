"""The clean face keeps to the protocol whatever is asked of chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from teeline.proxy.demo import face, faceresponses
from teeline.proxy.demo.relay import filled
from teeline.proxy.demo.scenarios import Answer
from teeline.validators.model import Severity
from tests.validators.exchanges import inspect

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {"enum": ["x", "y"]},
                "c": {"type": "array"},
            },
            "required": ["a", "b", "c"],
            "additionalProperties": False,
        },
    },
}
HI = [{"role": "user", "content": "Reply with exactly: pong"}]


def found(path: str, asked: Mapping[str, Any], answer: Answer) -> set[str]:
    """What is wrong with an answer, its id and its model filled in as the relay does."""
    answer = filled(answer, "resp_1" if path == "/responses" else "chatcmpl-1", asked["model"])
    seen = inspect(
        {
            "endpoint": f"/v1{path}",
            "request": dict(asked),
            "response": {
                "status": 200,
                "headers": {"content-type": answer.content_type, "x-request-id": "r"},
                "body_text": b"".join(answer.pieces).decode(),
            },
        }
    )
    worse = (v for v in seen.violations if v.severity > Severity.INFO)
    return {v.rule.id for v in worse if not v.rule.id.startswith("request.")}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n": 3},
        {"stream_options": {"include_usage": True}},
        {"logprobs": True, "top_logprobs": 2},
        {"max_tokens": 1, "messages": [{"role": "user", "content": "Count"}]},
        {"stop": ["four"]},
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tools": [TOOL], "tool_choice": "none"},
        {"tools": [TOOL], "messages": [*HI, {"role": "tool", "tool_call_id": "c", "content": "7"}]},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "s",
                    "strict": True,
                    "schema": TOOL["function"]["parameters"],  # type: ignore[index]
                },
            }
        },
    ],
    ids=lambda o: "-".join(map(str, o)) or "plain",
)
def test_chat_answers_are_clean(options: dict[str, Any], stream: bool) -> None:
    asked = {"model": "clean", "messages": HI, **options} | ({"stream": True} if stream else {})
    assert found("/chat/completions", asked, face.chat(asked)) == set()


ODD: list[Any] = [None, 1, "x", [], {}, [1], {"a": None}, [[]], True]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    "name",
    [
        *("messages", "tools", "tool_choice", "n", "max_tokens", "stream_options", "input", "text"),
        *("response_format", "stream", "logprobs", "max_output_tokens", "encoding_format"),
    ],
)
def test_requests_may_hold_anything(name: str, odd: Any) -> None:
    """The relay stays up for clients of whatever kind."""
    for answer_to in (face.chat, faceresponses.responses, faceresponses.embeddings):
        assert answer_to({"model": "m", "tools": [TOOL], name: odd}).status == 200


def test_schemas_without_end_have_small_samples() -> None:
    """A schema that nests for ever, and one with a million members."""
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(500):
        deep = {"type": "object", "properties": {"a": deep}}
    wide = {"type": "object", "properties": {f"m{n}": {} for n in range(10_000)}}
    assert len(json.dumps(face.sample(deep))) < 200
    assert len(face.sample(wide)) == 64
