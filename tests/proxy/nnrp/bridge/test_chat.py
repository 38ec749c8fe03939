"""Chat events become chunks: each text once, replayed byte for byte where that is right, and a whole end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.nnrp.bridge.asked import CHAT, Asked
from teeline.proxy.nnrp.bridge.chat import MOST_CALLS, MOST_CHOICES, ChatStream
from teeline.proxy.nnrp.bridge.failure import FailureError
from teeline.proxy.nnrp.bridge.told import NOTHING, document_of, event_of
from tests.proxy.nnrp.bridge.hostile import conversations

TEXT = "response.output_text.delta"
STARTED, DELTA, DONE, FAILED = (
    f"response.tool_call.{word}" for word in ("started", "delta", "completed", "error")
)


class Told:
    """A stream and all that was sent of it."""

    def __init__(self, *, usage: bool = False) -> None:
        asked = Asked(CHAT, "req_1", True, usage, "asked-model", b"{}", None, {})
        self.stream = ChatStream(asked, "chatcmpl-made", 1_790_000_000)
        self.sent = b""

    def event(self, kind: str, **members: Any) -> Told:
        data = json.dumps({"type": kind, **members}).encode()
        self.sent += self.stream.event(event_of(data))
        return self

    def raw(self, data: bytes) -> Told:
        self.sent += self.stream.event(event_of(data))
        return self

    def text(self, delta: str, index: int = 0, **more: Any) -> Told:
        return self.event(TEXT, index=index, delta=delta, **more)

    def tool(self, kind: str, call: str = "call_1", **more: Any) -> Told:
        return self.event(kind, index=0, item_id="item_1", call_id=call, **more)

    def end(self, body: Any = None) -> Told:
        data = json.dumps({"type": "response.completed", "body": body}).encode()
        self.sent += self.stream.end(document_of(data) if body is not None else NOTHING)
        return self

    @property
    def data(self) -> list[bytes]:
        events = self.sent.split(b"\n\n")
        assert events.pop() == b""
        return [event.removeprefix(b"data: ") for event in events]

    @property
    def chunks(self) -> list[Any]:
        return [json.loads(data) for data in self.data if data != b"[DONE]"]

    def joined(self, index: int = 0) -> str:
        """The text of a choice."""
        return "".join(
            choice["delta"].get("content") or ""
            for chunk in self.chunks
            for choice in chunk["choices"]
            if choice["index"] == index
        )

    @property
    def calls(self) -> dict[int, tuple[str, str, str]]:
        """Id, name and joined arguments of each tool call, as a client puts them together."""
        found: dict[int, tuple[str, str, str]] = {}
        for chunk in self.chunks:
            for choice in chunk["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    function = call["function"]
                    known = found.get(call["index"], (call.get("id"), function.get("name"), ""))
                    joined = known[2] + function.get("arguments", "")
                    found[call["index"]] = (known[0], known[1], joined)
        return found

    @property
    def finishes(self) -> dict[int, str]:
        return {
            choice["index"]: choice["finish_reason"]
            for chunk in self.chunks
            for choice in chunk["choices"]
            if choice["finish_reason"] is not None
        }


def chunk(
    *, id: str = "chatcmpl-theirs", finish: str | None = None, **delta: Any
) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": id,
        "object": "chat.completion.chunk",
        "created": 1_790_000_001,
        "model": "their-model",
        "choices": [choice],
    }


def body(content: str | None = "Hello", finish: str = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    return {"id": "chatcmpl-theirs", "object": "chat.completion", "created": 1_790_000_001,
            "model": "their-model", "choices": [choice], "usage": usage}  # fmt: skip


# -- chunks made of events -----------------------------------------------------------------------------


def test_the_role_comes_first_and_once_and_the_end_is_whole() -> None:
    told = Told().text("Hel").text("lo").end(body())
    deltas = [c["choices"][0]["delta"] for c in told.chunks]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo"},
        {},
    ]
    assert told.finishes == {0: "stop"}
    assert told.data[-1] == b"[DONE]"


def test_all_chunks_of_a_stream_have_one_identity() -> None:
    told = Told().text("a").text("b", openai_chunk=chunk(content="b")).end(body())
    assert {(c["id"], c["model"], c["object"]) for c in told.chunks} == {
        ("chatcmpl-made", "asked-model", "chat.completion.chunk")
    }


def test_a_stream_of_which_only_the_end_tells_takes_its_identity_and_text() -> None:
    told = Told().end(body("Hello", "length"))
    assert told.joined() == "Hello"
    assert {(c["id"], c["model"]) for c in told.chunks} == {("chatcmpl-theirs", "their-model")}
    assert told.finishes == {0: "length"}


def test_an_empty_success_ends_with_stop() -> None:
    told = Told().text("Hi").end()
    assert told.finishes == {0: "stop"} and told.data[-1] == b"[DONE]"


def test_an_empty_success_of_nothing_is_still_a_whole_stream() -> None:
    told = Told().end()
    assert told.finishes == {0: "stop"} and told.data[-1] == b"[DONE]"


def test_choices_are_kept_apart_and_each_has_its_finish() -> None:
    final = body()
    final["choices"] = [
        {"index": n, "message": {"content": "x"}, "finish_reason": f}
        for n, f in ((0, "stop"), (1, "length"))
    ]
    told = Told().text("b", 1).text("a", 0).end(final)
    assert (told.joined(0), told.joined(1)) == ("a", "b")
    assert told.finishes == {0: "stop", 1: "length"}
    assert told.chunks[0]["choices"][0]["index"] == 0


# -- usage ---------------------------------------------------------------------------------------------


def test_usage_comes_last_and_only_when_it_was_asked_for() -> None:
    counts = {"input_tokens": 5, "output_tokens": 6, "total_tokens": 11}
    asked = Told(usage=True).text("a").event("response.usage", usage=counts).end()
    assert asked.chunks[-1]["choices"] == []
    assert asked.chunks[-1]["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 6,
        "total_tokens": 11,
    }
    assert all(c["usage"] is None for c in asked.chunks[:-1])
    unasked = Told().text("a").event("response.usage", usage=counts).end(body())
    assert all("usage" not in c for c in unasked.chunks)


def test_the_final_body_s_own_usage_is_preferred_as_it_is() -> None:
    final = body()
    final["usage"]["prompt_tokens_details"] = {"cached_tokens": 1}
    counts = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    told = Told(usage=True).text("a").event("response.usage", usage=counts).end(final)
    assert told.chunks[-1]["usage"] == final["usage"]


# -- replaying -----------------------------------------------------------------------------------------


def test_a_chunk_is_replayed_byte_for_byte() -> None:
    raw = (
        b'{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","vendor":'
        b'12345678901234567890123, "choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},'
        b'"p":1.50,"finish_reason":null}]}'
    )
    told = Told().raw(
        b'{"type":"%s","index":0,"delta":"Hi","openai_chunk":%s}' % (TEXT.encode(), raw)
    )
    assert told.data == [raw]


def test_a_chunk_of_several_lines_is_replayed_on_one() -> None:
    text = json.dumps({"type": TEXT, "index": 0, "delta": "Hi",
                       "openai_chunk": chunk(role="assistant", content="Hi")}, indent=1)  # fmt: skip
    told = Told().raw(text.encode())
    assert told.chunks == [chunk(role="assistant", content="Hi")]
    assert b"\n" not in told.data[0]


def test_a_replayed_chunk_without_a_role_gets_one_before_it() -> None:
    told = Told().text("Hi", openai_chunk=chunk(content="Hi"))
    first, second = told.chunks
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["id"] == "chatcmpl-theirs" and second == chunk(content="Hi")


def test_one_chunk_with_several_events_is_replayed_once() -> None:
    call = {"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}  # fmt: skip
    both = chunk(role="assistant", content="Hi", tool_calls=[call])
    told = Told().text("Hi", openai_chunk=both)
    told.tool(STARTED, name="f", openai_chunk=both)
    told.tool(DELTA, arguments_delta="{}", openai_chunk=both)
    told.tool(DONE, name="f", arguments="{}", openai_chunk=both)
    assert told.chunks == [both]


def test_what_a_replayed_chunk_has_said_is_not_said_again_by_events_without_one() -> None:
    call = {"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}  # fmt: skip
    both = chunk(role="assistant", content="Hi", tool_calls=[call])
    told = Told().text("Hi", openai_chunk=both).tool(STARTED, name="f")
    told.tool(DELTA, arguments_delta="{}").tool(DONE, name="f", arguments="{}").end()
    assert told.joined() == "Hi" and told.calls == {0: ("call_1", "f", "{}")}


def test_equal_chunks_that_repeat_a_text_are_two_texts() -> None:
    """A model may well say the same word twice, and its chunks differ in nothing."""
    word = chunk(content="ha")
    told = Told().text("ha", openai_chunk=word).text("ha", openai_chunk=word).end()
    assert told.joined() == "haha"


def test_equal_argument_chunks_are_two_pieces() -> None:
    started = chunk(role="assistant", tool_calls=[
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    ])  # fmt: skip
    piece = chunk(tool_calls=[{"index": 0, "function": {"arguments": "1"}}])
    told = Told().tool(STARTED, name="f", openai_chunk=started)
    for _ in range(2):
        told.tool(DELTA, arguments_delta="1", openai_chunk=piece)
    told.tool(DONE, name="f", arguments="11")
    assert told.calls == {0: ("call_1", "f", "11")}


def test_a_finish_reason_that_was_replayed_is_not_sent_again() -> None:
    told = Told().text("Hi", openai_chunk=chunk(role="assistant", content="Hi", finish="stop"))
    told.end(body("Hi"))
    finishes = [c for c in told.chunks if c["choices"][0]["finish_reason"]]
    assert len(finishes) == 1 and told.data[-1] == b"[DONE]"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"object": "response.output_text.delta"},
        chunk(content="other"),
        {**chunk(content="Hi"), "id": 7},
        {**chunk(content="Hi"), "created": "now"},
        {**chunk(content="Hi"), "usage": {"prompt_tokens": 1}},
        {**chunk(content="Hi"), "choices": [{"index": "0", "delta": {"content": "Hi"}}]},
        {**chunk(content="Hi"), "choices": [{"index": 0, "delta": None}]},
    ],
)
def test_a_chunk_that_does_not_say_what_its_event_says_is_not_replayed(wrong: Any) -> None:
    told = Told().text("Hi", openai_chunk=wrong)
    assert told.joined() == "Hi" and len(told.chunks) == 2
    assert told.chunks[1]["id"] == "chatcmpl-made"


@pytest.mark.parametrize("wrong", [None, "chunk", 1, [chunk(content="Hi")]])
def test_a_chunk_that_is_no_object_is_not_replayed(wrong: Any) -> None:
    assert Told().text("Hi", openai_chunk=wrong).joined() == "Hi"


# -- tool calls ----------------------------------------------------------------------------------------


def test_a_tool_call_is_told_with_its_id_once_and_its_arguments_in_pieces() -> None:
    told = Told().tool(STARTED, name="f")
    told.tool(DELTA, arguments_delta='{"a":').tool(DELTA, arguments_delta="1}")
    told.tool(DONE, name="f", arguments='{"a":1}').end()
    assert told.calls == {0: ("call_1", "f", '{"a":1}')}
    assert told.finishes == {0: "tool_calls"}


def test_interleaved_calls_are_kept_apart_by_their_call_id() -> None:
    told = Told().tool(STARTED, "a", name="f").tool(STARTED, "b", name="g")
    told.tool(DELTA, "b", arguments_delta="2").tool(DELTA, "a", arguments_delta="1")
    told.tool(DONE, "a", name="f", arguments="1").tool(DONE, "b", name="g", arguments="2")
    assert told.calls == {0: ("a", "f", "1"), 1: ("b", "g", "2")}


def test_arguments_that_come_only_at_the_call_s_end_are_told() -> None:
    told = Told().tool(STARTED, name="f").tool(DONE, name="f", arguments="{}")
    assert told.calls == {0: ("call_1", "f", "{}")}
    unstarted = Told().tool(DONE, name="f", arguments="{}")
    assert unstarted.calls == {0: ("call_1", "f", "{}")}


def test_calls_that_only_the_final_body_holds_are_told() -> None:
    call = {"id": "call_9", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    told = Told().end(body(None, "tool_calls", tool_calls=[call]))
    assert told.calls == {0: ("call_9", "f", "{}")} and told.finishes == {0: "tool_calls"}


def test_a_failed_call_ends_the_stream_with_its_error() -> None:
    told = Told().tool(STARTED, name="f").tool(DELTA, arguments_delta="{")
    with pytest.raises(FailureError) as caught:
        told.tool(FAILED, error={"type": "t", "code": "c", "message": "m"})
    assert caught.value.error == {"type": "t", "code": "c", "message": "m", "param": None}


@pytest.mark.parametrize(
    "kinds",
    [
        [(DELTA, {"arguments_delta": "1"})],
        [(STARTED, {"name": "f"}), (STARTED, {"name": "f"})],
        [(STARTED, {"name": ""})],
        [
            (STARTED, {"name": "f"}),
            (DONE, {"name": "f", "arguments": ""}),
            (DELTA, {"arguments_delta": "1"}),
        ],
        [(DONE, {"arguments": "{}"})],
    ],
)
def test_a_tool_call_out_of_order_ends_the_stream(kinds: list[tuple[str, Any]]) -> None:
    told = Told()
    with pytest.raises(FailureError) as caught:
        for kind, members in kinds:
            told.tool(kind, **members)
    assert caught.value.status == 502


# -- ends and hostile servers --------------------------------------------------------------------------


def test_a_completed_body_in_an_event_counts_when_the_end_is_empty() -> None:
    told = Told().event("response.completed", body=body("Hello", "length")).end()
    assert told.joined() == "Hello" and told.finishes == {0: "length"}


@pytest.mark.parametrize("kind", ["response.error", "response.cancelled"])
def test_an_error_in_an_event_ends_the_stream(kind: str) -> None:
    with pytest.raises(FailureError):
        Told().text("a").event(kind, error={"message": "m"}, reason="r")


def test_events_of_unknown_kinds_add_nothing() -> None:
    assert Told().event("response.diagnostics", a=1).event("vendor.thing").sent == b""


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "0", [], {}])
def test_members_of_wrong_types_count_as_absent(value: Any) -> None:
    told = Told().event(TEXT, index=value, delta="a").event(TEXT, index=0, delta=value).end()
    assert told.joined() in ("a", "a0")
    assert set(told.finishes) == {0}


def test_a_server_can_t_open_choices_and_calls_without_bound() -> None:
    told = Told()
    with pytest.raises(FailureError):
        for index in range(MOST_CHOICES + 2):
            told.text("a", index)
    told = Told()
    with pytest.raises(FailureError):
        for number in range(MOST_CALLS + 1):
            told.tool(STARTED, f"call_{number}", name="f")


def test_text_that_is_no_unicode_is_still_json() -> None:
    told = Told().raw(b'{"type":"%s","index":0,"delta":"a\\ud800"}' % TEXT.encode())
    assert told.joined() == "a\ud800"
    told.sent.decode("utf-8")


def test_no_events_raise_anything_but_a_failure() -> None:
    for events, body_ in conversations(1000):
        told = Told(usage=True)
        try:
            for event in events:
                told.raw(event)
            told.end(body_)
        except FailureError:
            pass
        assert all(isinstance(chunk, dict) for chunk in told.chunks)
