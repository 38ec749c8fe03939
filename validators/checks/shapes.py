"""Whose protocol an object speaks: recognises other APIs' shapes where another answer was due (P9).

A row is a rule and a test of the object; the first row that holds names the cause, and the field rules of
the operation are silent. What belongs here: recognition by members. What doesn't: reporting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Mapping[str, Any]], bool]

_ANTHROPIC_EVENTS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    }
)
_PINGS = frozenset({"ping", "keepalive", "keep_alive", "heartbeat"})


def _no_choices(value: Mapping[str, Any]) -> bool:
    return value.get("choices") is None


def _is_response(value: Mapping[str, Any]) -> bool:
    return value.get("object") == "response" or ("output" in value and "choices" not in value)


def _is_anthropic(value: Mapping[str, Any]) -> bool:
    return (
        value.get("type") == "message"
        and isinstance(value.get("content"), list)
        and "stop_reason" in value
        and _no_choices(value)
    )


def _is_gemini(value: Mapping[str, Any]) -> bool:
    return "candidates" in value and _no_choices(value)


def _is_legacy(value: Mapping[str, Any]) -> bool:
    choices = value.get("choices")
    return (
        isinstance(choices, list)
        and bool(choices)
        and all(
            isinstance(c, dict) and "text" in c and "message" not in c and "delta" not in c
            for c in choices
        )
    )


def _is_wrapped(value: Mapping[str, Any]) -> bool:
    inner = value.get("data", value.get("result"))
    return (
        isinstance(inner, dict)
        and _no_choices(value)
        and any(k in value for k in ("code", "success"))
    )


def is_error(value: Mapping[str, Any]) -> bool:
    """An error where an answer was due: truthy ``error``, object "error", or a code with a message."""
    if not _no_choices(value):
        return False
    if value.get("error") or value.get("object") == "error":
        return True
    code = value.get("code")
    said = value.get("message", value.get("msg"))
    return isinstance(said, str) and code not in (None, 0, "0", "", 200, "200")


CHAT_SHAPES: tuple[tuple[str, Test], ...] = (
    ("chat.responses-shape", _is_response),
    ("chat.anthropic-shape", _is_anthropic),
    ("chat.gemini-shape", _is_gemini),
    ("chat.legacy-completion-shape", _is_legacy),
    ("chat.wrapped-body", _is_wrapped),
    ("chat.error-in-200", is_error),
)


def _is_chat(value: Mapping[str, Any]) -> bool:
    choices = value.get("choices")
    return (
        isinstance(choices, list)
        and bool(choices)
        and all(
            isinstance(c, dict) and ("message" in c or "delta" in c) and "text" not in c
            for c in choices
        )
    )


COMPLETION_SHAPES: tuple[tuple[str, Test], ...] = (
    ("completions.foreign-shape", _is_response),
    ("completions.foreign-shape", _is_anthropic),
    ("completions.foreign-shape", _is_gemini),
    ("completions.foreign-shape", _is_wrapped),
    ("completions.chat-shape", _is_chat),
    ("completions.error-in-200", is_error),
)


def _is_response_event(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind.startswith("response.") and "choices" not in value


def _is_anthropic_event(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind in _ANTHROPIC_EVENTS and "choices" not in value


def _is_ping(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    return (
        isinstance(kind, str)
        and kind in _PINGS
        and "choices" not in value
        and not value.get("error")
    )


CHUNK_SHAPES: tuple[tuple[str, Test], ...] = (
    ("chatstream.responses-events", _is_response_event),
    ("chatstream.anthropic-events", _is_anthropic_event),
    ("chatstream.ping-event", _is_ping),
)


def _no_output(value: Mapping[str, Any]) -> bool:
    return value.get("output") is None


def _is_chat_answer(value: Mapping[str, Any]) -> bool:
    chat = value.get("choices") is not None or value.get("object") == "chat.completion"
    return chat and _no_output(value)


def _is_anthropic_answer(value: Mapping[str, Any]) -> bool:
    return "stop_reason" in value and value.get("object") is None and _no_output(value)


def _is_bare_error(value: Mapping[str, Any]) -> bool:
    """An error that has nothing of a response beside it."""
    return (
        is_error(value)
        and value.get("object") in (None, "error")
        and value.get("id") is None
        and _no_output(value)
    )


RESPONSE_SHAPES: tuple[tuple[str, Test], ...] = (
    ("responses.chat-shape", _is_chat_answer),
    ("responses.anthropic-shape", _is_anthropic_answer),
    ("responses.error-in-200", _is_bare_error),
)


COMPLETION_CHUNK_SHAPES: tuple[tuple[str, Test], ...] = (
    ("completions.foreign-shape", _is_response_event),
    ("completions.foreign-shape", _is_anthropic_event),
    ("completions.ping-event", _is_ping),
    ("completions.chat-shape", _is_chat),
)


def shape_of(value: Mapping[str, Any], shapes: tuple[tuple[str, Test], ...]) -> str:
    """The rule of the first shape that fits; empty for none."""
    for rule, fits in shapes:
        if fits(value):
            return rule
    return ""
