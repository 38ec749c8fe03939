"""The requests of the relay check, as data.

What belongs here: what is asked and in which probe set. What doesn't: the model, the key and the base URL
(proxy/probe), what an answer must be like (rules/, observations.py). Requests name no temperature and, but
where that is the question, no limit of tokens: models that reason refuse the one and spend the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from teeline.validators import detectors as d
from teeline.validators.detectors.model import Expect, Probe, ProbeSet, ProtocolFamily

CHAT: Final = ProtocolFamily.CHAT_COMPLETIONS
RESPONSES: Final = ProtocolFamily.RESPONSES
_PATHS: Final = {CHAT: "/chat/completions", RESPONSES: "/responses"}
_BODY_KEY: Final = {CHAT: "messages", RESPONSES: "input"}

PONG: Final = "Reply with exactly: pong"
_SENTENCE: Final = "Reply with a short sentence."
_WEATHER: Final = "What is the weather in Boston in celsius?"
_CITY: Final = "Return an object for a city named Tokyo with country and population_millions."
_LONG: Final = "Count from one to one hundred in words, separated by commas."
_UNICODE: Final = "Repeat exactly: Zürich, 東京, Ελλάδα, 👩‍🚀"

TOOL: Final = "get_current_weather"
_TOOL_BODY: Final[Mapping[str, Any]] = {
    "name": TOOL,
    "description": "Get the current weather in a given location",
    "parameters": {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["location", "unit"],
        "additionalProperties": False,
    },
    "strict": True,
}
_FORMAT: Final = {
    "name": "city",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "country": {"type": "string"},
            "population_millions": {"type": "number"},
        },
        "required": ["city", "country", "population_millions"],
        "additionalProperties": False,
    },
}
_CALL_ID: Final = "call_teeline1"
_CALL_ARGUMENTS: Final = '{"location":"Boston","unit":"celsius"}'
_CALL_RESULT: Final = '{"temperature":7}'
_USAGE: Final = {"stream": True, "stream_options": {"include_usage": True}}
BAD_MODEL: Final = "teeline-no-such-model"


def _asked(family: ProtocolFamily, text: str) -> dict[str, Any]:
    if family is CHAT:
        return {"messages": [{"role": "user", "content": text}]}
    return {"input": text}


def _tools(family: ProtocolFamily, choice: Any = "auto") -> dict[str, Any]:
    tool: dict[str, Any] = {"type": "function", "function": _TOOL_BODY}
    if family is RESPONSES:
        tool = {"type": "function", **_TOOL_BODY}
    return {"tools": [tool], "tool_choice": choice}


def _named(family: ProtocolFamily) -> dict[str, Any]:
    if family is CHAT:
        return {"type": "function", "function": {"name": TOOL}}
    return {"type": "function", "name": TOOL}


def _format(family: ProtocolFamily) -> dict[str, Any]:
    if family is CHAT:
        return {"response_format": {"type": "json_schema", "json_schema": _FORMAT}}
    return {"text": {"format": {"type": "json_schema", **_FORMAT}}}


def _round_trip(family: ProtocolFamily) -> dict[str, Any]:
    """A conversation in which the tool has answered already."""
    if family is CHAT:
        call = {
            "id": _CALL_ID,
            "type": "function",
            "function": {"name": TOOL, "arguments": _CALL_ARGUMENTS},
        }
        history: list[dict[str, Any]] = [
            {"role": "user", "content": _WEATHER},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": _CALL_ID, "content": _CALL_RESULT},
        ]
    else:
        call = {
            "type": "function_call",
            "call_id": _CALL_ID,
            "name": TOOL,
            "arguments": _CALL_ARGUMENTS,
        }
        history = [
            {"role": "user", "content": _WEATHER},
            call,
            {"type": "function_call_output", "call_id": _CALL_ID, "output": _CALL_RESULT},
        ]
    return {_BODY_KEY[family]: history, **_tools(family)}


def _probe(
    family: ProtocolFamily,
    name: str,
    detector: str,
    body: Mapping[str, Any] | None,
    tier: ProbeSet = ProbeSet.SMOKE,
    expect: Expect = Expect.ANSWER,
    **more: Any,
) -> Probe:
    prefix = "chat" if family is CHAT else "responses"
    again = more.pop("again", "")
    return Probe(
        f"{prefix}-{name}",
        family,
        detector,
        _PATHS[family],
        body,
        tier=tier,
        expect=expect,
        again=f"{prefix}-{again}" if again else "",
        **more,
    )


def _common(family: ProtocolFamily) -> tuple[Probe, ...]:
    """What is asked of both protocols alike."""
    chat = family is CHAT
    create = _asked(family, _SENTENCE)
    if not chat:
        # What a response must repeat of its request.
        create |= {"instructions": "Answer in English.", "metadata": {"check": "teeline"}}
    full, extended = ProbeSet.FULL, ProbeSet.EXTENDED
    stream = _asked(family, _SENTENCE) | (_USAGE if chat else {"stream": True})
    asked = _asked(family, _WEATHER)
    return (
        _probe(family, "basic", d.BASIC, _asked(family, PONG), expect=Expect.PONG),
        _probe(family, "create", d.CHAT if chat else d.RESPONSES, create),
        _probe(family, "stream", d.CHAT_STREAM if chat else d.RESPONSES_STREAM, stream),
        _probe(
            *(family, "tools", d.TOOLS, asked | _tools(family), full, Expect.CALL),
            again="tools-named",
        ),
        _probe(
            family,
            "structured",
            d.STRUCTURED,
            _asked(family, _CITY) | _format(family),
            full,
            Expect.JSON,
        ),
        _probe(
            *(family, "tools-stream", d.EXTENDED, {**asked, **_tools(family), "stream": True}),
            *(extended, Expect.OPTION),
        ),
        _probe(family, "tool-result", d.EXTENDED, _round_trip(family), extended, Expect.OPTION),
        _probe(
            *(family, "max-tokens", d.EXTENDED),
            {**_asked(family, _LONG), ("max_tokens" if chat else "max_output_tokens"): 16},
            *(extended, Expect.OPTION),
        ),
        _probe(
            *(
                family,
                "unicode",
                d.EXTENDED,
                {**_asked(family, _UNICODE), "stream": True},
                extended,
            ),
        ),
        _probe(
            *(
                family,
                "long-stream",
                d.EXTENDED,
                {**_asked(family, _LONG), "stream": True},
                extended,
            ),
        ),
        _probe(
            *(family, "bad-key", d.EXTENDED, _asked(family, PONG), extended, Expect.REFUSAL),
            bad_key=True,
        ),
        _probe(
            *(family, "bad-model", d.EXTENDED, _asked(family, PONG), extended, Expect.REFUSAL),
            bad_model=True,
        ),
        _probe(
            *(family, "bad-json", d.EXTENDED, None, extended, Expect.REFUSAL), raw=b'{"model": "x",'
        ),
    )


def _chat_options() -> tuple[Probe, ...]:
    asked = _asked(CHAT, _SENTENCE)
    options: dict[str, dict[str, Any]] = {
        "n": {**asked, "n": 2},
        "stop": {**_asked(CHAT, _LONG), "stop": ["four"]},
        "logprobs": {**asked, "logprobs": True, "top_logprobs": 2},
        "parallel-tools": {
            **_asked(CHAT, "What is the weather in Boston and in Oslo, in celsius?"),
            **_tools(CHAT),
            "parallel_tool_calls": True,
        },
    }
    return tuple(
        _probe(CHAT, name, d.EXTENDED, body, ProbeSet.EXTENDED, Expect.OPTION)
        for name, body in options.items()
    )


def _embeddings(form: str) -> Probe:
    return Probe(
        f"embeddings-{form}",
        None,
        d.EXTENDED,
        "/embeddings",
        {"input": ["pong", "ping"], "encoding_format": form},
        expect=Expect.OPTION,
        tier=ProbeSet.EXTENDED,
    )


MODELS: Final = Probe("models", None, d.MODELS, "/models", method="GET")

PROBES: Final = (
    MODELS,
    *_common(RESPONSES),
    *_common(CHAT),
    *_chat_options(),
    _embeddings("float"),
    _embeddings("base64"),
)
"""All requests, in the order in which they are sent."""

FOLLOW_UPS: Final = {
    probe.name: probe
    for probe in (
        _probe(
            *(family, "tools-named", d.TOOLS),
            {**_asked(family, _WEATHER), **_tools(family, _named(family))},
            *(ProbeSet.FULL, Expect.CALL),
        )
        for family in (RESPONSES, CHAT)
    )
}
"""Requests that are sent only where another one's question stayed open (``Probe.again``)."""


def chosen(probe_set: ProbeSet, families: frozenset[ProtocolFamily]) -> tuple[Probe, ...]:
    """The probes of a set for the protocols that are checked."""
    return tuple(
        p for p in PROBES if p.tier <= probe_set and (p.family is None or p.family in families)
    )


def sent_document(probe: Probe, model: str) -> dict[str, Any] | None:
    """The request's document as it goes out."""
    return probe.document(BAD_MODEL if probe.bad_model else model)
