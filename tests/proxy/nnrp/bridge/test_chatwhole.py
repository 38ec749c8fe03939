"""A completion made of events says what they said, within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.nnrp.bridge import chatwhole
from teeline.proxy.nnrp.bridge.asked import CHAT, Asked
from teeline.proxy.nnrp.bridge.chatwhole import ChatWhole
from teeline.proxy.nnrp.bridge.failure import FailureError
from teeline.proxy.nnrp.bridge.told import event_of
from tests.proxy.nnrp.bridge.hostile import conversations


def whole(*events: dict[str, Any]) -> ChatWhole:
    asked = Asked(CHAT, "req_1", False, False, "m", b"{}", None, {})
    made = ChatWhole(asked, "chatcmpl-made", 1_790_000_000)
    for event in events:
        data = json.dumps(event).encode()
        made.event(event_of(data), data)
    return made


def text(delta: str, index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "index": index, "delta": delta}


def test_texts_usage_and_identity() -> None:
    counts = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    usage = {"type": "response.usage", "usage": counts}
    body = json.loads(whole(text("Hel"), text("x", 1), text("lo"), usage).body())
    assert [c["message"]["content"] for c in body["choices"]] == ["Hello", "x"]
    assert [c["finish_reason"] for c in body["choices"]] == ["stop", "stop"]
    assert (body["id"], body["model"], body["object"]) == ("chatcmpl-made", "m", "chat.completion")
    assert body["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def test_tool_calls() -> None:
    done = {"type": "response.tool_call.completed", "index": 0, "item_id": "i", "call_id": "c",
            "name": "f", "arguments": "{}"}  # fmt: skip
    (choice,) = json.loads(whole(done).body())["choices"]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert choice["message"]["tool_calls"] == [call]
    assert choice["message"]["content"] is None and choice["finish_reason"] == "tool_calls"


def test_a_completed_body_in_an_event_is_the_answer_as_its_bytes() -> None:
    made = whole(text("a"))
    data = b'{"type":"response.completed","body":{"x":1.10}}'
    made.event(event_of(data), data)
    assert made.body() == b'{"x":1.10}'


def test_nothing_is_no_answer() -> None:
    with pytest.raises(FailureError):
        whole().body()


@pytest.mark.parametrize(
    "kind", ["response.error", "response.cancelled", "response.tool_call.error"]
)
def test_an_error_event_ends_it(kind: str) -> None:
    with pytest.raises(FailureError):
        whole({"type": kind, "error": {"message": "m"}})


def test_a_server_can_t_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chatwhole, "MOST_BYTES", 1000)
    with pytest.raises(FailureError):
        whole(*(text("x" * 100) for _ in range(10)))
    monkeypatch.undo()
    with pytest.raises(FailureError):
        whole(*(text("x", index) for index in range(200)))


def test_no_events_raise_anything_but_a_failure() -> None:
    for events, _ in conversations(1000):
        try:
            json.loads(whole(*map(json.loads, events)).body())
        except FailureError:
            continue
