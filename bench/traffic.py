"""The bytes that are measured: one request of about 1 KB, one answer of about 1 KB, clean streams.

What belongs here: requests and answers as bytes, the same for every target, and how a request says
what stream it wants. What doesn't: sending them (mock.py, load.py).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

CHUNKS: Final = 100
"""Events of a stream with data, [DONE] not counted."""
PACE: Final = 0.005
"""Seconds between two events of a paced stream."""

_CREATED: Final = 1_760_000_000
_UNNUMBERED: Final = "bench" + "0" * 18
"""What stands in the ids of an answer, of its body and its head, until it gets a number."""
_ID: Final = f"chatcmpl-{_UNNUMBERED}"
_MODEL: Final = "mock-model"
_WORDS: Final = ("the ", "quick ", "brown ", "fox ", "jumps ", "over ", "a ", "lazy ", "dog. ")


class Shape(NamedTuple):
    """What stream a request asks for, in its system message.

    ``pace``: seconds between two events, 0 for as fast as it goes. ``chunks``: events with data,
    at least 3. ``stamped``: each text is the time it was sent at. ``held``: the stream stops before its last
    chunk and stays open until the client leaves.
    """

    pace: float = 0.0
    chunks: int = CHUNKS
    stamped: bool = False
    held: bool = False

    def words(self) -> str:
        return f"pace {self.pace} chunks {self.chunks} stamped {self.stamped:d} held {self.held:d}"

    @classmethod
    def asked(cls, body: bytes) -> Shape | None:
        """The shape that a request's body asks for; None where it asks for no stream."""
        match = _ASKED.search(body)
        if match is None or b'"stream":true' not in body:
            return None
        return cls(float(match[1]), int(match[2]), match[3] == b"1", match[4] == b"1")


EXACT: Final = "bench-exact"
"""The User-Agent of a client that compares every byte."""
_SAME: Final = "Idempotency-Key: bench\r\n"
_ASKED: Final = re.compile(rb"pace ([\d.]+) chunks (\d+) stamped ([01]) held ([01])")

STAMP_SIZE: Final = 20
"""Digits of a time in nanoseconds, of the clock that all processes of a machine share."""
_NO_STAMP: Final = b"0" * STAMP_SIZE
_NUMBERED: Final = re.compile(rb"bench\d{18}")


def _dumps(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _text(size: int) -> str:
    return ("".join(_WORDS) * (size // 30))[:size]


def request(
    shape: Shape | None = None, *, size: int = 850, path: str = "/v1", exact: bool = False
) -> bytes:
    """A whole request with its head, for a stream where ``shape`` is given.

    ``size``: characters of the user's message. ``path``: what stands before the operation's own.
    ``exact``: the answer is not to be numbered.
    """
    body: dict[str, Any] = {
        "model": _MODEL,
        "messages": [
            {"role": "system", "content": shape.words() if shape else "You are fast."},
            {"role": "user", "content": _text(size)},
        ],
        "temperature": 0.5,
    }
    data = _dumps(body | ({"stream": True} if shape else {}))
    head = (
        f"POST {path}/chat/completions HTTP/1.1\r\n"
        "Host: bench\r\n"
        "Accept: application/json\r\n"
        "Authorization: Bearer sk-bench-0000\r\n"
        "Content-Type: application/json\r\n"
        f"User-Agent: {EXACT if exact else 'bench'}\r\n"
        # Under one key an answer may come again with the id that it had.
        f"{_SAME if exact else ''}"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def answer(size: int = 500) -> bytes:
    """The body of an answer that does not stream, with a text of ``size`` characters."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _text(size),
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


def events(chunks: int = CHUNKS, *, stamped: bool = False) -> list[bytes]:
    """The events of a clean stream, ``chunks`` with data and then [DONE]."""
    words = (_NO_STAMP.decode(),) if stamped else _WORDS
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": words[n % len(words)]} for n in range(chunks - 2)]
    made = [_chunk(delta) for delta in deltas] + [_chunk({}, "stop")]
    return [b"data: %b\n\n" % chunk for chunk in made] + [b"data: [DONE]\n\n"]


def numbered(answer: bytes, number: int) -> bytes:
    """An answer with ids of its own, as every relay gives them: the same ids again are a fault."""
    return answer.replace(_UNNUMBERED.encode(), b"bench%018d" % number)


def unnumbered(answer: bytes) -> bytes:
    """An answer as it was before it got its number."""
    return _NUMBERED.sub(_UNNUMBERED.encode(), answer)


def stamp(event: bytes, nanoseconds: int) -> bytes:
    """A stamped stream's event with the time in it; others as they are."""
    return event.replace(_NO_STAMP, b"%0*d" % (STAMP_SIZE, nanoseconds))


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
    ("x-request-id", f"req_{_UNNUMBERED}"),
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


def whole_answer(size: int = 500) -> bytes:
    """An answer with its head."""
    body = answer(size)
    fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return _COMMON + fields + body


def chunked(piece: bytes) -> bytes:
    """A piece in transfer coding; the empty piece is the end."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


@lru_cache(maxsize=16)
def pieces(shape: Shape) -> tuple[bytes, ...]:
    """A stream as it is written: its events in transfer coding, the end with the last of them."""
    made = [chunked(event) for event in events(shape.chunks, stamped=shape.stamped)]
    if shape.held:
        return tuple(made[:-2])  # neither the chunk that finishes nor [DONE]
    made[-1] += chunked(b"")
    return tuple(made)
