"""A chat stream becomes events that say the same, and the document that it adds up to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from teeline.proxy.nnrp.adapter.chat import ChatStream, document_of, whole_as_stream
from teeline.proxy.nnrp.adapter.toolcalls import MAX_CALLS
from teeline.proxy.nnrp.documents import FailedError, Problem


def chunk(*choices: dict[str, Any], **top: Any) -> bytes:
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return json.dumps({**base, "choices": choices, **top}).encode()


def choice(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


def tool(index: int, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {
        k: v for k, v in {"name": more.pop("name", None), "arguments": arguments}.items() if v
    }
    return {"index": index, "function": function, **more}


def told(events: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
    """Each event as its type and what it says, without its chunk."""
    for event in map(json.loads, events):
        event.pop("openai_chunk", None)
        yield (event.pop("type").removeprefix("response."), *event.values())


def play(*chunks: bytes, done: bool = True) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The events of a whole stream, and the body of its end."""
    stream = ChatStream()
    events = [event for data in chunks for event in stream.feed(data)]
    if done:
        events += stream.feed(b"[DONE]")
    events += stream.finish()
    return list(told(events)), json.loads(stream.completed())["body"]


USAGE = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


def test_text_is_told_as_it_comes_and_joined_at_the_end() -> None:
    events, body = play(
        chunk(choice(role="assistant", content="")),
        chunk(choice(content="Hel"), service_tier="default"),
        chunk(choice(content="lo")),
        chunk(choice(finish="stop")),
        chunk(usage=USAGE),
    )
    assert events == [
        ("output_text.delta", 0, "Hel"),
        ("output_text.delta", 0, "lo"),
        ("usage", {"input_tokens": 2, "output_tokens": 3, "total_tokens": 5}),
    ]
    assert body == {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "service_tier": "default",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }


def test_each_chunk_goes_out_once_as_it_was_written() -> None:
    stream = ChatStream()
    data = (
        b'{"choices" :[{"index":0,"delta":{"content":"a","n":1.50}}],"big":12345678901234567890123}'
    )
    (event,) = stream.feed(data)
    assert event.endswith(b'"openai_chunk":' + data + b"}")


def test_interleaved_tool_calls_keep_their_order_each() -> None:
    events, body = play(
        chunk(choice(tool_calls=[tool(0, id="a", name="f"), tool(1, "{", id="b", name="g")])),
        chunk(choice(tool_calls=[tool(1, "}"), tool(0, '{"x":')])),
        chunk(choice(tool_calls=[tool(0, "1}")])),
        chunk(choice(finish="tool_calls")),
    )
    assert events == [
        ("tool_call.started", 0, "item_0", "a", "f"),
        ("tool_call.started", 1, "item_1", "b", "g"),
        ("tool_call.delta", 1, "item_1", "b", "{"),
        ("tool_call.delta", 1, "item_1", "b", "}"),
        ("tool_call.delta", 0, "item_0", "a", '{"x":'),
        ("tool_call.delta", 0, "item_0", "a", "1}"),
        ("tool_call.completed", 0, "item_0", "a", "f", '{"x":1}'),
        ("tool_call.completed", 1, "item_1", "b", "g", "{}"),
    ]
    message = body["choices"][0]["message"]
    assert [c["function"] for c in message["tool_calls"]] == [
        {"name": "f", "arguments": '{"x":1}'},
        {"name": "g", "arguments": "{}"},
    ]
    assert message["content"] is None


def test_tool_calls_of_two_choices_are_two_calls() -> None:
    calls = [tool(0, "{}", id="same", name="f")]
    events, body = play(
        chunk(choice(0, tool_calls=calls), choice(1, tool_calls=calls)),
        chunk(choice(0, finish="tool_calls"), choice(1, finish="tool_calls")),
    )
    keys = {event[1:4] for event in events}
    assert keys == {(0, "item_0", "same"), (1, "item_1", "call_1")}
    assert body["choices"][1]["message"]["tool_calls"][0]["id"] == "call_1"


def test_a_call_s_name_that_comes_late_holds_its_arguments_back() -> None:
    events, _ = play(
        chunk(choice(tool_calls=[tool(0, "{", id="a")])),
        chunk(choice(tool_calls=[tool(0, name="f")])),
        chunk(choice(tool_calls=[tool(0, "}")])),
        chunk(choice(finish="tool_calls")),
    )
    assert [e[0] for e in events] == [
        "tool_call.started",
        "tool_call.delta",
        "tool_call.delta",
        "tool_call.completed",
    ]


@pytest.mark.parametrize("finish", ["tool_calls", "length"])
def test_arguments_are_told_as_the_model_said_them_json_or_not(finish: str) -> None:
    events, body = play(
        chunk(choice(tool_calls=[tool(0, "{oops", id="a", name="f")])),
        chunk(choice(finish=finish)),
    )
    assert events[-1] == ("tool_call.completed", 0, "item_0", "a", "f", "{oops")
    (call,) = body["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == "{oops"


def test_what_a_server_adds_to_a_delta_is_kept() -> None:
    log = {"content": [{"token": "a"}], "refusal": None}
    _, body = play(
        chunk(choice(reasoning_content="th", content="a") | {"logprobs": log}),
        chunk(choice(reasoning_content="ink", refusal=None) | {"logprobs": log}),
        chunk(choice(finish="stop")),
    )
    (only,) = body["choices"]
    assert only["message"]["reasoning_content"] == "think"
    assert only["logprobs"]["content"] == [{"token": "a"}, {"token": "a"}]


def test_a_stream_that_ends_without_done_is_whole_if_every_choice_ended() -> None:
    events, _ = play(chunk(choice(content="a", finish="stop")), done=False)
    assert events == [("output_text.delta", 0, "a")]


@pytest.mark.parametrize("chunks", [(), (chunk(choice(content="a")),)])
def test_a_stream_that_breaks_off_is_no_answer(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(FailedError, match="backend_error"):
        play(*chunks, done=False)


def test_an_error_in_the_stream_ends_open_calls_first() -> None:
    stream = ChatStream()
    list(stream.feed(chunk(choice(tool_calls=[tool(0, id="a", name="f")]))))
    with pytest.raises(FailedError) as failed:
        list(stream.feed(b'{"error":{"message":"Out of memory","type":"server_error","code":500}}'))
    problem = failed.value.problem
    assert problem[:4] == ("server_error", "backend_error", "Out of memory", 500)
    (event,) = told(stream.fail(problem))
    assert event[:4] == ("tool_call.error", 0, "item_0", "a")
    assert list(stream.fail(problem)) == []


def test_a_call_that_was_never_told_is_not_told_as_failed() -> None:
    stream = ChatStream()
    list(stream.feed(chunk(choice(tool_calls=[tool(0, "{", id="a")]))))
    assert list(stream.fail(Problem("t", "c", "m"))) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[]",
        b"NaN",
        b'{"choices":{}}',
        b'{"choices":[1]}',
        b'{"choices":[{"index":-1}]}',
        b'{"choices":[{"index":true}]}',
        b'{"choices":[{"index":"0"}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":"0"}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[7]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":"stop"}]}',
        b'{"n":' + b"9" * 5000 + b"}",
        b'{"a":' * 5000,
        b'\xff{"choices":[]}',
    ],
)
def test_what_is_no_chunk_is_the_server_s_fault(data: bytes) -> None:
    with pytest.raises(FailedError, match="backend_error"):
        list(ChatStream().feed(data))


def test_odd_members_pass_into_the_body_unread() -> None:
    _, body = play(
        chunk(choice(content=7, tool_calls="none", role=3), usage="much"),
        chunk(choice(finish="stop")),
    )
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert "usage" not in body


def test_an_answer_of_a_server_that_does_not_stream_is_told_as_events() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer = {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hi", "tool_calls": [call]},
             "finish_reason": "tool_calls"}
        ],
        "usage": USAGE,
    }  # fmt: skip
    assert [event[0] for event in told(whole_as_stream(json.dumps(answer).encode()))] == [
        "output_text.delta",
        "tool_call.started",
        "tool_call.delta",
        "tool_call.completed",
        "usage",
    ]


def test_integers_of_any_size_are_exact() -> None:
    assert document_of(b'{"n":12345678901234567890123}') == {"n": 12345678901234567890123}


def test_tool_calls_are_bounded() -> None:
    stream = ChatStream()
    calls = [tool(n, id=str(n), name="f") for n in range(MAX_CALLS)]
    assert len(list(stream.feed(chunk(choice(tool_calls=calls))))) == MAX_CALLS
    with pytest.raises(FailedError, match="backend_error"):
        list(stream.feed(chunk(choice(tool_calls=[tool(MAX_CALLS, id="x", name="f")]))))


def test_a_number_beyond_all_bounds_is_the_server_s_fault() -> None:
    stream = ChatStream()
    list(stream.feed(b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"n":1e999}'))
    list(stream.finish())
    with pytest.raises(FailedError, match="backend_error"):
        stream.completed()
