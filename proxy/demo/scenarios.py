"""What the demo's relay answers, as data: one scenario an entry, clean answers beside known
faults.

What belongs here: the answers, the requests that ask for them, and the rules that have to find
each fault. What doesn't: how an answer is sent (relay.py) and how the outcome is judged
(findings.py).

A scenario's name is also the model name that asks for it. Every answer names the model that was
asked for, so that nothing is found but the fault that the entry describes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MODEL = "@model@"
"""Stands in an answer's pieces for the model that the request named."""
ANSWER_ID = "@id@"
"""Stands in an answer's pieces for its id, which no other answer has."""

# In the past on every clock that a user may have, so that the answers never depend on the day.
_CREATED = 1_760_000_000

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the relay.

    ``pieces`` are body bytes before content coding, each of a stream's sent on its own.
    ``coding`` is ``""`` or ``"gzip"``. ``cut`` closes the connection behind the last piece,
    without the end that the framing asks for (RFC 9112 section 8: an incomplete message).
    """

    pieces: tuple[bytes, ...]
    content_type: str = JSON
    status: int = 200
    coding: str = ""
    cut: bool = False

    @property
    def stream(self) -> bool:
        return self.content_type == EVENT_STREAM


@dataclass(frozen=True, slots=True)
class Scenario:
    """One request of the demo, its answer, and what has to be found.

    ``expected`` are the rules from warn up that must be reported, and the only ones that may;
    empty means a clean answer. ``twin`` is the answer to a request of the other kind (``stream``
    the other way round); None: a clean one.
    """

    name: str
    does: str
    answer: Answer
    expected: tuple[str, ...] = ()
    stream: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    twin: Answer | None = None

    @property
    def request(self) -> dict[str, Any]:
        """The body that the demo's client sends."""
        asked = {"model": self.name, "messages": [{"role": "user", "content": "Weather in Paris?"}]}
        return asked | ({"stream": True} if self.stream else {}) | dict(self.options)

    def answer_to(self, stream: bool) -> Answer | None:
        """The answer to a request with this value of ``stream``; None where a clean one is due."""
        return self.answer if stream is self.stream else self.twin


def _dumps(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _event(document: Any) -> bytes:
    return b"data: " + _dumps(document) + b"\n\n"


def _chunk(delta: Any, finish: str | None = None, index: int = 0, **top: Any) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event(_envelope("chat.completion.chunk", [choice]) | top)


def _envelope(kind: str, choices: Sequence[Any]) -> dict[str, Any]:
    return {
        "id": ANSWER_ID,
        "object": kind,
        "created": _CREATED,
        "model": MODEL,
        "choices": choices,
    }


def _stream(*pieces: bytes, done: bool = True, cut: bool = False) -> Answer:
    return Answer((*pieces, DONE) if done else pieces, EVENT_STREAM, cut=cut)


def _usage(prompt: int = 12, completion: int = 7, total: int = 19) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def usage_chunk(**counts: int) -> bytes:
    """The event that ends a stream for which ``include_usage`` was asked."""
    return _event(_envelope("chat.completion.chunk", []) | {"usage": _usage(**counts)})


def _choice(finish: str = "stop", index: int = 0, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "It is 21 °C in Paris.", "refusal": None} | message
    return {"index": index, "message": said, "logprobs": None, "finish_reason": finish}


def _json(*choices: Any, usage: dict[str, Any] | None = None, coding: str = "") -> Answer:
    document = _envelope("chat.completion", choices) | {"usage": usage or _usage()}
    return Answer((_dumps(document),), coding=coding)


def _call(index: int, call: str, name: str = "get_weather", arguments: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": call, "type": "function", "function": function}


def _fragment(index: int, arguments: str, **function: str) -> dict[str, Any]:
    return {"index": index, "function": {**function, "arguments": arguments}}


def _calls(*entries: Mapping[str, Any], first: bool = False) -> bytes:
    opening = {"role": "assistant", "content": None} if first else {}
    return _chunk(opening | {"tool_calls": list(entries)})


def _without_index(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "index"}


_OPEN = _chunk({"role": "assistant", "content": "", "refusal": None})
_IT_IS = _chunk({"content": "It is 21 "})
_DEGREES = _chunk({"content": "°C in Paris."})
_STOP = _chunk({}, "stop")
_CALLED = _chunk({}, "tool_calls")


def _split_character(event: bytes) -> tuple[bytes, bytes]:
    """The event in two pieces that part in the middle of its degree sign."""
    inside = event.index("°".encode()) + 1
    return event[:inside], event[inside:]


def _tool(name: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


_TOOLS = {"tools": [_tool("get_weather"), _tool("get_time")]}

CLEAN_JSON = _json(_choice())
CLEAN_STREAM = _stream(_OPEN, _IT_IS, _DEGREES, _STOP)

_HTML = Answer(
    (b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>...</body></html>\n",),
    "text/html; charset=utf-8",
)
_STRING_ERROR = Answer((_dumps({"error": "upstream unavailable"}),), status=500)

_CLEAN = (
    Scenario("clean-json", "answers in JSON as documented", CLEAN_JSON, stream=False),
    Scenario(
        "clean-stream",
        "streams; a comment between events, a character in two pieces",
        _stream(_OPEN, _IT_IS, b": keep-alive\n\n", *_split_character(_DEGREES), _STOP),
    ),
    Scenario(
        "clean-tools",
        "streams two tool calls in fragments, each on its own index",
        _stream(
            _calls(_call(0, "call_a1"), first=True),
            _calls(_fragment(0, '{"city":')),
            _calls(_fragment(0, '"Paris"}')),
            _calls(_call(1, "call_b2", "get_time")),
            _calls(_fragment(1, '{"city":"Paris"}')),
            _CALLED,
        ),
        options=_TOOLS,
    ),
    Scenario(
        "clean-usage",
        "streams, with the usage that was asked for before [DONE]",
        _stream(
            _chunk({"role": "assistant", "content": ""}, usage=None),
            _chunk({"content": "It is 21 °C in Paris."}, usage=None),
            _chunk({}, "stop", usage=None),
            usage_chunk(),
        ),
        options={"stream_options": {"include_usage": True}},
    ),
    Scenario(
        "clean-gzip",
        "answers in JSON, compressed with gzip",
        _json(_choice(), coding="gzip"),
        stream=False,
    ),
)

_TEXT = (
    Scenario(
        "no-done",
        "ends the stream without [DONE]",
        _stream(_OPEN, _IT_IS, _DEGREES, _STOP, done=False),
        ("chatstream.done-missing",),
    ),
    Scenario(
        "cut-mid-event",
        "drops the connection inside an event",
        _stream(_OPEN, _IT_IS, _split_character(_DEGREES)[0], done=False, cut=True),
        ("http.truncated",),
    ),
    Scenario(
        "finish-empty",
        'sends finish_reason "" where null is due',
        _stream(
            _chunk({"role": "assistant", "content": ""}, ""),
            _chunk({"content": "It is 21 "}, ""),
            _chunk({"content": "°C in Paris."}, ""),
            _STOP,
        ),
        ("chatstream.finish-empty-string",),
    ),
    Scenario(
        "finish-end-turn",
        "leaves another API's finish_reason untranslated: end_turn",
        _stream(_OPEN, _IT_IS, _DEGREES, _chunk({}, "end_turn")),
        ("chatstream.finish-foreign",),
        twin=_json(_choice("end_turn")),
    ),
    Scenario(
        "text-after-finish",
        "goes on with text after finish_reason",
        _stream(_OPEN, _IT_IS, _STOP, _DEGREES),
        ("chatstream.content-after-finish",),
    ),
    Scenario(
        "text-cumulative",
        "repeats all the text so far in every chunk",
        _stream(
            _OPEN,
            _chunk({"content": "It is"}),
            _chunk({"content": "It is 21 °C"}),
            _chunk({"content": "It is 21 °C in Paris."}),
            _STOP,
        ),
        ("chatstream.content-cumulative",),
    ),
    Scenario(
        "no-blank-lines",
        "leaves out the blank line between events",
        _stream(*(event.removesuffix(b"\n") for event in (_OPEN, _IT_IS, _DEGREES, _STOP))),
        ("sse.separator-missing",),
    ),
    Scenario(
        "choices-merged",
        "weaves two answers into one: both on choice index 0",
        _stream(_OPEN, _OPEN, _IT_IS, _chunk({"content": "Sunny, "}), _DEGREES, _STOP, _STOP),
        ("chatstream.choice-index-shared",),
        options={"n": 2},
        twin=_json(_choice(), _choice()),
    ),
)

_TOOL_CALLS = (
    Scenario(
        "tool-args-broken",
        "sends tool arguments that are not JSON",
        _stream(
            _calls(_call(0, "call_a1"), first=True),
            _calls(_fragment(0, '{"city":')),
            _calls(_fragment(0, '"Paris"')),
            _CALLED,
        ),
        ("tools.args-invalid-json",),
        options=_TOOLS,
    ),
    Scenario(
        "tool-calls-merged",
        "puts two tool calls on one index",
        _stream(
            _calls(_call(0, "call_a1", arguments='{"city":"Paris"}'), first=True),
            _calls(_call(0, "call_b2", "get_time", '{"city":"Paris"}')),
            _CALLED,
        ),
        ("chatstream.tool-id-changed",),
        options=_TOOLS,
    ),
    Scenario(
        "tool-index-missing",
        "streams a tool call without its index",
        _stream(
            _calls(
                _without_index(_call(0, "call_a1", arguments='{"city":"Paris"}')),
                first=True,
            ),
            _CALLED,
        ),
        ("chatstream.tool-index-type",),
        options=_TOOLS,
    ),
    Scenario(
        "tool-name-repeated",
        "repeats the tool's name with every fragment",
        _stream(
            _calls(_call(0, "call_a1"), first=True),
            _calls(_fragment(0, '{"city":', name="get_weather")),
            _calls(_fragment(0, '"Paris"}', name="get_weather")),
            _CALLED,
        ),
        ("chatstream.tool-name-repeated",),
        options=_TOOLS,
    ),
)

_WRONG_KIND = (
    Scenario(
        "json-for-stream",
        "answers a streaming request with one JSON document",
        CLEAN_JSON,
        ("cross.stream-answered-with-json",),
    ),
    Scenario(
        "html-at-200", "answers 200 with a sign-in page", _HTML, ("http.html-200",), twin=_HTML
    ),
    Scenario(
        "error-swallowed",
        'reports a failure inside a 200 stream as {"code":500,"msg":...}',
        _stream(_OPEN, _IT_IS, _event({"code": 500, "msg": "upstream timeout"})),
        ("chatstream.error-malformed",),
    ),
    Scenario(
        "error-string",
        "answers 500 with a bare string for the error",
        _STRING_ERROR,
        ("error.string",),
        stream=False,
        twin=_STRING_ERROR,
    ),
    Scenario(
        "usage-sum-low",
        "bills fewer tokens in total than the parts add up to",
        _json(_choice(), usage=_usage(total=7)),
        ("usage.total-too-low",),
        stream=False,
        twin=_stream(_OPEN, _IT_IS, _DEGREES, _STOP, usage_chunk(total=7)),
    ),
)

SCENARIOS: tuple[Scenario, ...] = (*_CLEAN, *_TEXT, *_TOOL_CALLS, *_WRONG_KIND)
"""All scenarios, in the order in which the demo sends them; names are unique."""
