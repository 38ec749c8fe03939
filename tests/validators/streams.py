"""Event streams as servers write them: texts in many pieces, in the shapes that vendors give to them.

What belongs here: streams for tests and measurements. What doesn't: what is found in them.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

Dumps = Callable[[Any], str]

COMPACT: Dumps = lambda value: json.dumps(value, separators=(",", ":"))  # noqa: E731
SPACED: Dumps = json.dumps
UNESCAPED: Dumps = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)  # noqa: E731
WRITERS = (COMPACT, SPACED, UNESCAPED)

TEXTS = (
    "Hello", " world", ",", "\n", " \"quoted\"", "\\", "a: b", "é", "日本", "🙂", "\u2028", "\x7f",
    "</think>",
    '"},"finish_reason":null}]', "{}", " ", "0", "\ufffd", "STOP", "<tool_call>", "null", "x" * 300,
)  # fmt: skip
ITEM = "msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654"


def chunk(delta: Any, index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of one choice; ``logprobs`` stands in the choice, everything else beside it."""
    choice = {
        "index": index,
        "delta": delta,
        "logprobs": more.pop("logprobs", None),
        "finish_reason": finish,
    }
    return {
        "id": "chatcmpl-BxYz0123456789AbCdEf0123",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
        "choices": [choice],
        **more,
    }


def logprobs(text: str) -> dict[str, Any]:
    token = {"token": text, "logprob": -0.25, "bytes": list(text.encode()), "top_logprobs": []}
    return {"content": [token], "refusal": None}


def chat(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The chunks of a clean stream, as the official server sends them."""
    return [
        chunk({"role": "assistant", "content": "", "refusal": None}, obfuscation="a1"),
        *(chunk({"content": text}, obfuscation="Zz9" * (n % 5)) for n, text in enumerate(texts)),
        chunk({}, finish="stop", obfuscation="q"),
    ]


def responses(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The events of a clean Responses stream with one message."""
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    item = {
        "id": ITEM,
        "type": "message",
        "status": "in_progress",
        "content": [],
        "role": "assistant",
    }
    inner = {"item_id": ITEM, "output_index": 0, "content_index": 0}
    text = "".join(texts)
    whole = {**part, "text": text}
    done = {**item, "status": "completed", "content": [whole]}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.in_progress", "response": response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **inner, "part": part},
        *(
            {"type": "response.output_text.delta", **inner, "delta": t, "logprobs": [], "obfuscation": "x9"}
            for t in texts
        ),
        {"type": "response.output_text.done", **inner, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **inner, "part": whole},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": response("completed", output=[done])},
    ]  # fmt: skip
    return [{"type": e["type"], "sequence_number": n, **e} for n, e in enumerate(events)]


def response(status: str, **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 14,
    }
    return {
        "id": "resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "gpt-4o-2024-08-06",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        "user": None,
        **more,
    }


def framed(events: Sequence[dict[str, Any]], dumps: Dumps = COMPACT) -> list[bytes]:
    """Each event's block, with the name that a Responses event has."""
    return [
        (f"event: {e['type']}\n" if "type" in e else "").encode()
        + b"data: "
        + dumps(e).encode("utf-8", "surrogatepass")
        + b"\n\n"
        for e in events
    ]


DONE = b"data: [DONE]\n\n"


def exchange(blocks: Sequence[bytes], path: str, **request: Any) -> dict[str, Any]:
    """The exchange file of a stream."""
    headers = {
        "content-type": "text/event-stream; charset=utf-8",
        "x-request-id": "req_1",
        "openai-processing-ms": "5",
        "openai-version": "2020-10-01",
        "x-ratelimit-limit-requests": "10",
    }
    body = {"model": "gpt-4o", "stream": True, **request}
    return {
        "endpoint": path,
        "request": body,
        "response": {
            "status": 200,
            "headers": headers,
            "body_base64": base64.b64encode(b"".join(blocks)).decode("ascii"),
        },
    }


class Disordered:
    """Chat streams with long runs of texts and everything that can come between, by a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def exchange(self) -> dict[str, Any]:
        chance = self._chance
        dumps = chance.choice(WRITERS)
        blocks: list[bytes] = framed([chunk({"role": "assistant", "content": ""})], dumps)
        for _ in range(chance.randint(1, 6)):
            blocks += self._run(dumps)
            if chance.random() < 0.6:
                blocks.append(self._between(dumps))
        if chance.random() < 0.9:
            blocks += framed([chunk({}, finish="stop")], dumps)
        if chance.random() < 0.3:
            blocks += self._run(dumps)
        if chance.random() < 0.9:
            blocks.append(DONE)
        request = chance.choice(
            ({}, {"stop": ["STOP"]}, {"n": 2}, {"logprobs": True}, {"tools": [self._tool()]})
        )
        return exchange(blocks, "/v1/chat/completions", **request)

    def _tool(self) -> dict[str, Any]:
        return {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}

    def _run(self, dumps: Dumps) -> list[bytes]:
        chance = self._chance
        member = chance.choice(("content", "content", "content", "reasoning_content", "reasoning"))
        index = chance.choice((0, 0, 0, 1))
        more = chance.choice(({}, {}, {"usage": None}, {"obfuscation": ""}, {"p": ""}))
        with_logprobs = chance.random() < 0.2
        events = []
        for _ in range(chance.randint(1, 9)):
            text = chance.choice(TEXTS)
            padded: dict[str, Any] = {
                name: v if v is None else text[:2] for name, v in more.items()
            }
            if with_logprobs:
                padded["logprobs"] = logprobs(text)
            events.append(chunk({member: text}, index, **padded))
        return framed(events, dumps)

    def _between(self, dumps: Dumps) -> bytes:
        chance = self._chance
        call = {"index": 0, "id": "call_1", "type": "function"}
        odd: list[Any] = [
            chunk({"content": "x"}, usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
            chunk({"content": "x"}, model="other"),
            chunk({"content": "x", "role": "assistant"}),
            chunk({"role": "assistant", "content": ""}, 1),
            chunk({"content": 5}),
            chunk({"content": ""}),
            chunk({"refusal": "no"}),
            chunk({"tool_calls": [{**call, "function": {"name": "f", "arguments": "{}"}}]}),
            chunk({}, finish="stop"),
            chunk({}, finish=None),
            {**chunk({}), "choices": []},
            {"error": {"message": "m", "type": "server_error", "param": None, "code": None}},
            [],
        ]  # fmt: skip
        raw = (
            b": ping\n\n",
            b"\n",
            DONE,
            b"data: {\n\n",
            b"event: x\n",
            b"data:{}\r\n\r\n",
            b"id: 4\n",
        )
        if chance.random() < 0.25:
            return chance.choice(raw)
        return b"data: " + dumps(chance.choice(odd)).encode() + b"\n\n"


DISORDERED = [Disordered(seed).exchange() for seed in range(60)]
"""Enough of them for whoever makes variants."""
