"""The bytes that are measured: one request of about 1 KB, one answer of about 1 KB, one clean stream.

What belongs here: requests and answers as bytes, the same for every target. What doesn't: sending
them (mock.py, load.py).
"""

from __future__ import annotations

import json
from typing import Any, Final

CHUNKS: Final = 100
"""Events of a stream with data, [DONE] not counted."""
PACE: Final = 0.005
"""Seconds between two events of a paced stream."""

_CREATED: Final = 1_760_000_000
_ID: Final = "chatcmpl-BxYz0123456789AbCdEf0123"
_MODEL: Final = "mock-model"
_WORDS: Final = ("the ", "quick ", "brown ", "fox ", "jumps ", "over ", "a ", "lazy ", "dog. ")

PACED: Final = b"paced"
"""Where it stands in a request, the stream comes with ``PACE``; otherwise as fast as it goes."""


def _dumps(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _text(size: int) -> str:
    return ("".join(_WORDS) * (size // 30))[:size]


def request(*, stream: bool = False, paced: bool = False) -> bytes:
    """A whole request with its head."""
    body: dict[str, Any] = {
        "model": _MODEL,
        "messages": [
            {"role": "system", "content": "You are " + ("paced." if paced else "fast.")},
            {"role": "user", "content": _text(850)},
        ],
        "temperature": 0.5,
    }
    data = _dumps(body | ({"stream": True} if stream else {}))
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        "Host: bench\r\n"
        "Accept: application/json\r\n"
        "Authorization: Bearer sk-bench-0000\r\n"
        "Content-Type: application/json\r\n"
        "User-Agent: bench\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def answer() -> bytes:
    """The body of an answer that does not stream."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _text(500),
        "refusal": None,
        "annotations": [],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {
        "prompt_tokens": 190,
        "completion_tokens": 150,
        "total_tokens": 340,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    return _dumps(_envelope("chat.completion", [choice]) | {"usage": usage})


def events() -> list[bytes]:
    """The events of a clean stream, ``CHUNKS`` with data and then [DONE]."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": _WORDS[n % len(_WORDS)]} for n in range(CHUNKS - 2)]
    chunks = [_chunk(delta) for delta in deltas] + [_chunk({}, "stop")]
    return [b"data: %b\n\n" % chunk for chunk in chunks] + [b"data: [DONE]\n\n"]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _dumps(_envelope("chat.completion.chunk", [choice]))


def _envelope(kind: str, choices: list[Any]) -> dict[str, Any]:
    top = {"id": _ID, "object": kind, "created": _CREATED, "model": _MODEL}
    return top | {
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
        "choices": choices,
    }


FIELDS: Final = (
    ("x-request-id", "req_bench"),
    ("openai-processing-ms", "1"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-reset-requests", "6ms"),
)
"""What the API itself sends with every answer, so that nothing is to be said of them."""

_COMMON: Final = b"HTTP/1.1 200 OK\r\n" + b"".join(
    f"{name}: {value}\r\n".encode() for name, value in FIELDS
)
STREAM_HEAD: Final = _COMMON + (
    b"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def whole_answer() -> bytes:
    """An answer with its head."""
    body = answer()
    fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return _COMMON + fields + body


def chunked(piece: bytes) -> bytes:
    """A piece in transfer coding; the empty piece is the end."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)
