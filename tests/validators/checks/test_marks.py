"""Marks are read off the first and last objects of an answer, bounded, whatever a peer sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.checks.marks import note_object, note_target
from teeline.validators.model import Exchange
from tests.validators.exchanges import inspect

CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 1_790_000_000,
    "model": "m",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "x"}}],
}


def streamed(*chunks: dict[str, Any], **head: Any) -> Exchange:
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    response = {"status": 200, "headers": {"content-type": "text/event-stream"}, "body_text": text}
    request = {"model": "m", "stream": True}
    return inspect(
        {"endpoint": "/v1/chat/completions", "request": request, "response": response, **head}
    )


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("/v1/chat/completions", ""),
        ("https://API.Mistral.ai/v1/chat/completions", "api.mistral.ai"),
        ("http://127.0.0.1:8787/v1", "127.0.0.1"),
        ("https://key@x.example/v1", "x.example"),
        ("<BASE>/v1", ""),
        ("http://[::1/v1", ""),
        ("://", ""),
    ],
)
def test_the_host_is_the_target_s_where_it_has_one(target: str, host: str) -> None:
    exchange = Exchange()
    note_target(exchange, target)
    assert exchange.marks.host == host


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"id": [], "system_fingerprint": {}}])
def test_an_object_without_marks_leaves_none(value: Any) -> None:
    exchange = Exchange()
    note_object(exchange, value)
    assert (exchange.marks.id, exchange.marks.fingerprint) == ("", "")


def test_what_is_kept_of_a_hostile_object_is_bounded() -> None:
    exchange = Exchange()
    note_object(exchange, {"x" * 1000: 1, **{f"m{n}": n for n in range(1000)}, "id": "i" * 1000})
    assert len(exchange.marks.members) <= 64
    assert max(map(len, exchange.marks.members)) <= 128
    assert len(exchange.marks.id) <= 128


def test_the_first_chunks_and_the_last_one_are_looked_at() -> None:
    """vLLM names itself in its last chunk, Groq in its first."""
    middle = {**CHUNK, "middle": 1}
    last = {**CHUNK, "system_fingerprint": "vllm-1"}
    marks = streamed({**CHUNK, "x_groq": {}}, *[CHUNK] * 5, middle, last).marks
    assert marks.fingerprint == "vllm-1"
    assert "x_groq" in marks.members
    assert "middle" not in marks.members


def test_a_whole_answer_and_its_head_are_looked_at() -> None:
    response = {
        "status": 200,
        "headers": {"X-Ds-Trace-Id": "1"},
        "body_text": '{"id": "gen-1", "provider": "x"}',
    }
    exchange = inspect({"endpoint": "https://x.example/v1/chat/completions", "response": response})
    assert exchange.marks.headers == (("X-Ds-Trace-Id", "1"),)
    assert exchange.marks.id == "gen-1"
    assert exchange.marks.host == "x.example"
    assert exchange.path == "/v1/chat/completions"
