"""Hand-made answers to put before an inspector, and short ways to read what it said of them.

What belongs here: valid objects that a test changes in one place, and the call that has them
inspected. What doesn't: exchanges that are made up at random (generate.py), recorded ones
(exchanges.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from teeline.validators.events import Output, RequestHead, ResponseHead
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Headers, Severity, Side, Violation
from tests.validators.exchanges import NOW, Cut, whole
from tests.validators.schemas import answer_schema_checks

CREATED = 1_790_000_000
MODEL = "gpt-4o-mini"
ASKED: Mapping[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
STREAMED: Mapping[str, Any] = {**ASKED, "stream": True}
WITH_USAGE: Mapping[str, Any] = {**STREAMED, "stream_options": {"include_usage": True}}
TOOLS: Mapping[str, Any] = {
    "tools": [{"type": "function", "function": {"name": name}} for name in ("f", "g", "h")]
}
USAGE: Mapping[str, Any] = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
JSON_HEADERS: Headers = (("content-type", "application/json"), ("x-request-id", "req_1"))
SSE_HEADERS: Headers = (("content-type", "text/event-stream"), ("x-request-id", "req_1"))


def dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def completion(message: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A valid chat.completion; ``message`` adds to its message, a change of None removes nothing."""
    said = {"role": "assistant", "content": "Hello", "refusal": None, **(message or {})}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [choice],
        "usage": dict(USAGE),
        **changes,
    }


def chunk(
    delta: Mapping[str, Any] | None = None,
    finish: str | None = None,
    index: int = 0,
    **changes: Any,
) -> dict[str, Any]:
    """A valid chunk with one choice."""
    choice = {"index": index, "delta": dict(delta or {}), "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
        "choices": [choice],
        **changes,
    }


def opening(index: int = 0, **more: Any) -> dict[str, Any]:
    """The first chunk of a choice."""
    return chunk({"role": "assistant", "content": ""}, index=index, **more)


def spoken(*texts: str) -> list[dict[str, Any]]:
    """The chunks of one whole choice that says these texts."""
    return [opening(), *(chunk({"content": text}) for text in texts), chunk(finish="stop")]


def stream(*events: Any, done: bool = True) -> bytes:
    """Events as an event stream; bytes stand for themselves."""
    parts = [e if isinstance(e, bytes) else b"data: " + dumps(e) + b"\n\n" for e in events]
    return b"".join(parts) + (b"data: [DONE]\n\n" if done else b"")


def inspected(
    body: bytes,
    request: Any = ASKED,
    *,
    method: str = "POST",
    target: str = "/v1/chat/completions",
    status: int = 200,
    headers: Headers | None = None,
    request_headers: Headers = (),
    request_body: bytes | None = None,
    ended: Ended = Ended.COMPLETE,
    cut: Cut = whole,
    limits: Limits = DEFAULT_LIMITS,
    at: float = NOW,
) -> Exchange:
    """What an inspector says of one answer.

    ``request`` None and no ``request_body``: the request was not recorded. ``headers`` None: those of
    a JSON answer, or of an event stream where one was asked for.
    """
    inspector = Inspector(Exchange(id="test"), limits)
    if headers is None:
        streamed = isinstance(request, Mapping) and request.get("stream") is True
        headers = SSE_HEADERS if streamed and status < 400 else JSON_HEADERS
    outputs: list[Output] = list(
        inspector.request_head(RequestHead(method, target, request_headers), at)
    )
    sent = dumps(request) if request_body is None and request is not None else request_body
    if sent is not None:
        outputs += inspector.request_body(sent, at)
        outputs += inspector.request_end(at)
    outputs += inspector.response_head(ResponseHead(status, headers), at)
    for piece in cut(body):
        outputs += inspector.response_body(piece, at)
    outputs += inspector.end(ended, at)
    answer_schema_checks(inspector, outputs, at)
    return inspector.exchange


def streamed(*events: Any, request: Any = STREAMED, done: bool = True, **more: Any) -> Exchange:
    """What an inspector says of these events."""
    return inspected(stream(*events, done=done), request, **more)


def ids(exchange: Exchange, least: Severity = Severity.WARN) -> set[str]:
    """The relay's rules found, of this severity or worse; the client's side has tests of its own."""
    relay = (v for v in exchange.violations if v.rule.side is Side.RESPONSE)
    return {v.rule.id for v in relay if v.severity >= least}


def everything(exchange: Exchange) -> set[str]:
    return ids(exchange, Severity.INFO)


def finding(exchange: Exchange, rule: str) -> Violation:
    """The one violation of a rule; fails where there is none."""
    return next(v for v in exchange.violations if v.rule.id == rule)
