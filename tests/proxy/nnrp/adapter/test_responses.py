"""A stream of Responses becomes events that say the same, and its own response at the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.nnrp.adapter.responses import ResponsesStream, whole_as_stream
from teeline.proxy.nnrp.documents import FailedError
from tests.proxy.nnrp.adapter.test_chat import told

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
RESPONSE = {"id": "resp_1", "output": [], "usage": {"input_tokens": 1, "output_tokens": 2}}


def event(kind: str, **members: Any) -> bytes:
    return json.dumps({"type": f"response.{kind}", **members}).encode()


def play(*events: bytes) -> tuple[list[tuple[Any, ...]], bytes]:
    stream = ResponsesStream()
    came = [made for data in events for made in stream.feed(data)]
    came += stream.finish()
    return list(told(came)), stream.completed()


def test_text_calls_usage_and_the_response_itself() -> None:
    events, document = play(
        event("created", response={"id": "resp_1"}),
        event("output_text.delta", output_index=0, delta="Hi"),
        event("output_item.added", output_index=1, item={**CALL, "arguments": ""}),
        event("function_call_arguments.delta", item_id="fc_1", delta='{"x"'),
        event("function_call_arguments.delta", item_id="fc_1", delta=":1}"),
        event("output_item.done", output_index=1, item={**CALL, "arguments": '{"x":1}'}),
        event("completed", response=RESPONSE),
        b"[DONE]",
    )
    assert events == [
        ("output_text.delta", 0, "Hi"),
        ("tool_call.started", 0, "fc_1", "call_1", "f"),
        ("tool_call.delta", 0, "fc_1", "call_1", '{"x"'),
        ("tool_call.delta", 0, "fc_1", "call_1", ":1}"),
        ("tool_call.completed", 0, "fc_1", "call_1", "f", '{"x":1}'),
        ("usage", {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ]
    assert json.loads(document) == {"type": "response.completed", "body": RESPONSE}


def test_the_response_is_passed_on_as_it_was_written() -> None:
    text = '{"id":"r" ,"n": 12345678901234567890123,"f":1.50}'
    stream = ResponsesStream()
    list(stream.feed(f'{{"type":"response.completed","response": {text}}}'.encode()))
    assert stream.done
    assert stream.completed().endswith(f'"body":{text}}}'.encode())


def test_a_call_that_is_told_whole_has_its_life_all_the_same() -> None:
    events, _ = play(
        event("output_item.done", item={**CALL, "arguments": "{}"}),
        event("incomplete", response=RESPONSE),
    )
    assert [e[0] for e in events[:3]] == [
        "tool_call.started",
        "tool_call.delta",
        "tool_call.completed",
    ]


@pytest.mark.parametrize(
    "data",
    [
        event("failed", response={"error": {"code": "server_error", "message": "Gone."}}),
        b'{"type":"error","error":{"message":"Gone."}}',
        b'{"type":"error","message":"Gone.","code":"x"}',
    ],
)
def test_a_failure_is_told_in_the_server_s_words(data: bytes) -> None:
    with pytest.raises(FailedError) as failed:
        play(data)
    assert failed.value.problem[1:3] == ("backend_error", "Gone.")


def test_a_stream_without_its_response_is_no_answer() -> None:
    with pytest.raises(FailedError, match="backend_error"):
        play(event("output_text.delta", delta="Hi"))


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        event("completed"),
        event("output_item.added", item={"type": "function_call", "id": 7}),
        event("function_call_arguments.delta", item_id=None, delta="x"),
    ],
)
def test_what_can_t_be_is_the_server_s_fault(data: bytes) -> None:
    with pytest.raises(FailedError, match="backend_error"):
        list(ResponsesStream().feed(data))


def test_odd_members_are_passed_over() -> None:
    events, _ = play(
        event("output_text.delta", output_index="x", delta="a"),
        event("output_text.delta", delta=7),
        event("output_item.added", item=[]),
        b'{"type":[]}',
        event("completed", response={"usage": "much"}),
    )
    assert events == [("output_text.delta", 0, "a")]


def test_an_answer_of_a_server_that_does_not_stream_is_told_as_events() -> None:
    text = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    answer = RESPONSE | {"output": [text, {**CALL, "arguments": "{}"}]}
    kinds = [e[0] for e in told(whole_as_stream(json.dumps(answer).encode()))]
    assert kinds == [
        "output_text.delta",
        "tool_call.started",
        "tool_call.delta",
        "tool_call.completed",
        "usage",
    ]
