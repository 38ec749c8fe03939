"""Responses events become a stream of the Responses API that teeline's own rules find clean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.nnrp.bridge import responses
from teeline.proxy.nnrp.bridge.asked import RESPONSES, Asked
from teeline.proxy.nnrp.bridge.failure import FailureError, refused
from teeline.proxy.nnrp.bridge.responses import ResponsesStream
from teeline.proxy.nnrp.bridge.told import NOTHING, document_of, event_of
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.inspector import Inspector
from teeline.validators.model import Ended, Exchange, Severity
from tests.proxy.nnrp.bridge.hostile import conversations

ASKED: dict[str, Any] = {"model": "m", "input": "Hi", "stream": True}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}


class Told:
    """A stream and all that was sent of it."""

    def __init__(self, **asked: Any) -> None:
        body = {**ASKED, **asked}
        self.asked = body
        wanted = Asked(RESPONSES, "req_1", True, False, "m", b"{}", None, body)
        self.stream = ResponsesStream(wanted, "resp_made", 1_790_000_000)
        self.sent = b""

    def event(self, kind: str, **members: Any) -> Told:
        data = json.dumps({"type": f"response.{kind}", **members}).encode()
        self.sent += self.stream.event(event_of(data))
        return self

    def text(self, delta: str, index: int = 0, **more: Any) -> Told:
        return self.event("output_text.delta", index=index, delta=delta, **more)

    def tool(self, kind: str, call: str = "call_1", **more: Any) -> Told:
        return self.event(f"tool_call.{kind}", index=0, item_id=f"fc_{call}", call_id=call, **more)

    def usage(self) -> Told:
        counts = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        return self.event("usage", usage=counts)

    def end(self, body: Any = None) -> Told:
        data = json.dumps({"type": "response.completed", "body": body}).encode()
        self.sent += self.stream.end(document_of(data) if body is not None else NOTHING)
        return self

    @property
    def events(self) -> list[Any]:
        lines = self.sent.decode().splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    @property
    def kinds(self) -> list[str]:
        return [event["type"].removeprefix("response.") for event in self.events]

    @property
    def final(self) -> Any:
        return self.events[-1]["response"]

    def breaches(self) -> set[str]:
        """What teeline's rules say of the stream, informational ones left out."""
        inspector = Inspector(Exchange())
        now = 1_790_000_000.0
        fields = (("content-type", "application/json"), ("authorization", "Bearer sk-x"))
        inspector.request_head(RequestHead("POST", "/v1/responses", fields), now)
        inspector.request_body(json.dumps(self.asked).encode(), now)
        inspector.request_end(now)
        head = (("content-type", "text/event-stream; charset=utf-8"), ("x-request-id", "r"))
        inspector.response_head(ResponseHead(200, head), now)
        inspector.response_body(self.sent, now)
        inspector.end(Ended.COMPLETE, now)
        found = inspector.exchange.violations
        return {v.rule.id for v in found if v.severity >= Severity.WARN}


def message(text: str = "Hello", id: str = "msg_theirs") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": id, "type": "message", "status": "completed", "role": "assistant",
            "content": [part]}  # fmt: skip


def call(call_id: str = "call_1", arguments: str = '{"a":1}') -> dict[str, Any]:
    return {"id": f"fc_{call_id}", "type": "function_call", "status": "completed",
            "call_id": call_id, "name": "f", "arguments": arguments}  # fmt: skip


def body(*output: Any, **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 3,
    }
    return {"id": "resp_theirs", "object": "response", "created_at": 1_790_000_001,
            "status": "completed", "model": "m", "output": list(output), "usage": usage,
            **more}  # fmt: skip


def test_a_text_has_its_whole_frame() -> None:
    told = Told().text("Hel").text("lo").usage().end(body(message()))
    assert told.kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in told.events] == list(range(10))
    assert told.breaches() == set()


def test_the_final_response_has_the_id_that_was_told_and_all_else_of_the_server() -> None:
    told = Told().text("Hello").end(body(message(), vendor={"a": 1}))
    assert told.final["id"] == "resp_made" == told.events[0]["response"]["id"]
    assert told.final["output"][0]["id"] == told.events[2]["item"]["id"]
    assert told.final["vendor"] == {"a": 1} and told.final["created_at"] == 1_790_000_001


def test_an_empty_success_ends_with_a_response_of_what_was_told() -> None:
    told = Told().text("Hello").usage().end()
    assert told.final["output"][0]["content"][0]["text"] == "Hello"
    assert told.final["usage"]["total_tokens"] == 3
    assert told.breaches() == set()


def test_tool_calls_are_items_with_their_call_id() -> None:
    told = Told(tools=[TOOL]).tool("started", name="f")
    told.tool("delta", arguments_delta='{"a":').tool("delta", arguments_delta="1}")
    told.tool("completed", name="f", arguments='{"a":1}').usage().end(body(call()))
    assert told.kinds[2:-1] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert told.final["output"] == [call()]
    assert told.breaches() == set()


def test_text_and_interleaved_calls_keep_their_places() -> None:
    told = Told(tools=[TOOL]).text("Hello")
    told.tool("started", "a", name="f").tool("started", "b", name="f")
    told.tool("delta", "b", arguments_delta="{}").tool("delta", "a", arguments_delta="{}")
    told.tool("completed", "a", name="f", arguments="{}")
    told.tool("completed", "b", name="f", arguments="{}")
    told.end(body(call("b", "{}"), message(), call("a", "{}")))
    assert [item["type"] for item in told.final["output"]] == [
        "message",
        "function_call",
        "function_call",
    ]
    assert [item.get("call_id") for item in told.final["output"]] == [None, "a", "b"]
    assert told.breaches() == set()


def test_what_only_the_end_tells_is_streamed_before_it() -> None:
    told = Told(tools=[TOOL]).end(body(message("Hello", "msg_9"), call("c", "{}")))
    assert "output_text.delta" in told.kinds and "function_call_arguments.done" in told.kinds
    assert told.breaches() == set()


def test_an_unfinished_response_ends_as_what_it_is() -> None:
    cut = {"reason": "max_output_tokens"}
    told = Told().text("Hel").end(body(message("Hel"), status="incomplete", incomplete_details=cut))
    assert told.kinds[-1] == "incomplete"


def test_a_chunk_tells_a_message_its_id() -> None:
    chunk = {"type": "response.output_text.delta", "item_id": "msg_theirs", "delta": "Hello"}
    told = Told().text("Hello", openai_chunk=chunk).end(body(message()))
    assert told.final["output"][0]["id"] == "msg_theirs"
    assert told.breaches() == set()


def test_settings_of_the_request_are_repeated() -> None:
    told = Told(temperature=0.5, instructions="Be brief", tools=[TOOL]).text("a")
    first = told.events[0]["response"]
    assert (first["temperature"], first["instructions"]) == (0.5, "Be brief")
    assert first["tools"] == [TOOL]


def test_an_error_is_one_event_and_the_last() -> None:
    told = Told().text("Hel")
    told.sent += told.stream.error(refused(504, "timeout", "m"))
    assert told.events[-1]["type"] == "error"
    assert (told.events[-1]["code"], told.events[-1]["message"]) == ("timeout", "m")
    assert told.breaches() == set()


@pytest.mark.parametrize(
    "kinds",
    [
        [("delta", {"arguments_delta": "1"})],
        [("started", {"name": "f"}), ("started", {"name": "f"})],
        [("completed", {"arguments": "{}"})],
        [("started", {"name": "f"}), ("error", {"error": {"message": "m"}})],
    ],
)
def test_a_tool_call_out_of_order_or_in_error_ends_the_stream(kinds: Any) -> None:
    told = Told()
    with pytest.raises(FailureError):
        for kind, members in kinds:
            told.tool(kind, **members)


def test_a_server_can_t_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_TEXT", 1000)
    told = Told()
    with pytest.raises(FailureError):
        for _ in range(11):
            told.text("x" * 100)
    monkeypatch.setattr(responses, "MOST_ITEMS", 5)
    told = Told()
    with pytest.raises(FailureError):
        for number in range(6):
            told.tool("started", f"call_{number}", name="f")


def test_no_events_raise_anything_but_a_failure() -> None:
    for events, body_ in conversations(1000):
        told = Told()
        try:
            for event in events:
                told.sent += told.stream.event(event_of(event))
            told.end(body_)
        except FailureError:
            pass
        numbers = [event["sequence_number"] for event in told.events]
        assert numbers == list(range(len(numbers)))
