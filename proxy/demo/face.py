"""The demo relay's clean face: a small server that keeps to both protocols, as a function.

What belongs here: what is said to a request, and Chat Completions that say it. What doesn't: Responses
(faceresponses.py), faults (scenarios.py), sending (relay.py, which fills in ids and models). It answers what
a check asks: plain words, a tool call, JSON of a schema. Requests may hold anything; what is odd in them is
passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from teeline.proxy.demo.scenarios import ANSWER_ID, DONE, EVENT_STREAM, MODEL, Answer

CLEAN_MODEL: Final = "clean"
"""The model that answers with this face."""

CREATED: Final = 1_760_000_000
_PLAIN: Final = "All is well."
_EXACTLY: Final = re.compile(r"(?:Reply with|Repeat) exactly: (.{1,200})\Z", re.DOTALL)
_TOKEN: Final = re.compile(r"\s*\S+\s*?(?=\s|\Z)|\s+")
_DEPTH: Final = 8
_MOST_CHOICES: Final = 8
_MOST_MEMBERS: Final = 64


class Said(NamedTuple):
    """What an answer says: a text, or a call of a function (``name``) with its arguments."""

    text: str
    name: str = ""
    cut: bool = False

    @property
    def tokens(self) -> list[str]:
        return _TOKEN.findall(self.text)


def said_to(asked: Mapping[str, Any], prompt: str, schema: Any, limit: Any, called: bool) -> Said:
    """What is said to a request.

    ``schema`` is the one that the text must keep to (None: none), ``limit`` the most tokens, ``called``
    whether a tool has answered already.
    """
    tool = None if called or asked.get("tool_choice") == "none" else _first_tool(asked.get("tools"))
    if tool is not None:
        return Said(_dumps(sample(tool.get("parameters"))), str(tool.get("name")))
    if schema is not None:
        return _limited(_dumps(sample(schema)), limit)
    exactly = _EXACTLY.search(prompt)
    return _limited(exactly[1] if exactly else _PLAIN, limit)


def _limited(text: str, limit: Any) -> Said:
    tokens = _TOKEN.findall(text)
    if isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit < len(tokens):
        return Said("".join(tokens[:limit]), cut=True)
    return Said(text)


def _first_tool(tools: Any) -> Mapping[str, Any] | None:
    """The first function of the request, in either protocol's shape."""
    for tool in tools if isinstance(tools, list) else ():
        inner = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            return inner
    return None


def sample(schema: Any, depth: int = _DEPTH) -> Any:
    """A small value of a plain JSON schema: objects, arrays, scalars and enums."""
    if not isinstance(schema, dict) or depth == 0:
        return {}
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return values[0]
    kind = schema.get("type")
    if kind == "array":
        return [sample(schema.get("items"), depth - 1)]
    if isinstance(kind, str) and kind in _SCALARS:
        return _SCALARS[kind]
    members = schema.get("properties")
    named = list(members.items())[:_MOST_MEMBERS] if isinstance(members, dict) else []
    return {name: sample(member, depth - 1) for name, member in named}


_SCALARS: Final = {"string": "Tokyo", "number": 14.5, "integer": 14, "boolean": True, "null": None}


def counts(prompt: str, said: Said, times: int = 1) -> tuple[int, int]:
    """Tokens of a request's text and of what was said, counted as words."""
    return max(len(_TOKEN.findall(prompt)), 1), max(len(said.tokens), 1) * times


def text_in(value: Any, depth: int = _DEPTH) -> str:
    """The text of a conversation's last entry: a string, an array of parts, an array of messages."""
    if isinstance(value, str):
        return value
    if depth == 0:
        return ""
    if isinstance(value, list):
        return text_in(value[-1], depth - 1) if value else ""
    if isinstance(value, dict):
        return text_in(value.get("content", value.get("text")), depth - 1)
    return ""


def member(value: Any, *names: str) -> Any:
    """What lies below these names; None where an object on the way is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# -- Chat Completions -----------------------------------------------------------------------------------


def chat(asked: Mapping[str, Any]) -> Answer:
    """The answer to ``POST /chat/completions``."""
    messages = asked.get("messages")
    prompt = text_in(messages)
    last = messages[-1] if isinstance(messages, list) and messages else None
    limit = asked.get("max_completion_tokens", asked.get("max_tokens"))
    schema = member(asked, "response_format", "json_schema", "schema")
    said = said_to(asked, prompt, schema, limit, member(last, "role") == "tool")
    n = asked.get("n")
    choices = n if isinstance(n, int) and not isinstance(n, bool) and 0 < n <= _MOST_CHOICES else 1
    usage = _usage(*counts(prompt, said, choices))
    if asked.get("stream") is True:
        return Answer(tuple(_chunks(asked, said, choices, usage)), EVENT_STREAM)
    document = _envelope(
        asked, "chat.completion", [_choice(asked, said, i) for i in range(choices)]
    )
    return Answer((_dumps(document | {"usage": usage}).encode(),))


def _envelope(asked: Mapping[str, Any], kind: str, choices: Sequence[Any]) -> dict[str, Any]:
    return {
        "id": ANSWER_ID,
        "object": kind,
        "created": CREATED,
        "model": MODEL,
        "choices": choices,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _choice(asked: Mapping[str, Any], said: Said, index: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
    if said.name:
        function = {"name": said.name, "arguments": said.text}
        call = {"id": "call_clean1", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    return {
        "index": index,
        "message": message | {"annotations": []},
        "logprobs": _logprobs(asked, said.tokens),
        "finish_reason": _finish(asked, said),
    }


def _finish(asked: Mapping[str, Any], said: Said) -> str:
    if said.name:
        # A call that the client named itself ends with stop, as officially.
        return "stop" if isinstance(asked.get("tool_choice"), dict) else "tool_calls"
    return "length" if said.cut else "stop"


def _logprobs(asked: Mapping[str, Any], tokens: Sequence[str]) -> Any:
    if asked.get("logprobs") is not True:
        return None
    content = [
        {"token": t, "logprob": -0.1, "bytes": list(t.encode()), "top_logprobs": []} for t in tokens
    ]
    return {"content": content, "refusal": None}


def _chunks(
    asked: Mapping[str, Any], said: Said, choices: int, usage: Mapping[str, Any]
) -> Iterator[bytes]:
    with_usage = member(asked, "stream_options", "include_usage") is True
    extra = {"usage": None} if with_usage else {}

    def chunk(choice: Sequence[Any], **more: Any) -> bytes:
        document = _envelope(asked, "chat.completion.chunk", choice) | extra | more
        return b"data: " + _dumps(document).encode() + b"\n\n"

    for index in range(choices):
        for delta, token in _deltas(said):
            logprobs = _logprobs(asked, [token]) if token else None
            made = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
            yield chunk([made])
        finish = _finish(asked, said)
        yield chunk([{"index": index, "delta": {}, "logprobs": None, "finish_reason": finish}])
    if with_usage:
        yield chunk([], usage=usage)
    yield DONE


def _deltas(said: Said) -> Iterator[tuple[dict[str, Any], str]]:
    """The deltas of a choice, each with the token of text that it carries."""
    if not said.name:
        yield {"role": "assistant", "content": "", "refusal": None}, ""
        for token in said.tokens:
            yield {"content": token}, token
        return
    function = {"name": said.name, "arguments": ""}
    call = {"index": 0, "id": "call_clean1", "type": "function", "function": function}
    yield {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None}, ""
    for token in said.tokens:
        yield {"tool_calls": [{"index": 0, "function": {"arguments": token}}]}, ""


def _dumps(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
