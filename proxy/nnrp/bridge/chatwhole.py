"""A whole chat completion made of events, where a server ends with an empty success.

What belongs here: what the events of a request that doesn't stream add up to. What doesn't: streams
(chat.py), bodies that the server sends itself, which are passed on as their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from teeline.proxy.nnrp.bridge.asked import Asked
from teeline.proxy.nnrp.bridge.chat import MOST_CALLS, MOST_CHOICES, chat_usage
from teeline.proxy.nnrp.bridge.failure import broken, cancelled_by_server, from_error
from teeline.proxy.nnrp.bridge.told import Event, dumped
from teeline.validators.fields.nnrp import (
    CANCELLED,
    COMPLETED,
    DONE,
    ERROR,
    FAILED,
    TEXT,
    USAGE,
)
from teeline.validators.wire.jsonraw import members_of

MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the events of one answer that are kept."""


@dataclass(slots=True)
class ChatWhole:
    """One answer. ``event`` raises FailureError."""

    asked: Asked
    made_id: str
    created: int
    _texts: dict[int, list[str]] = field(default_factory=dict)
    _calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    _usage: dict[str, Any] | None = None
    _completed: bytes = b""
    _bytes: int = 0

    def event(self, event: Event, data: bytes) -> None:
        """Takes in an event, whose bytes are ``data``."""
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            raise broken("an answer is larger than the bridge keeps.")
        if event.kind == TEXT:
            texts = self._texts.setdefault(event.count("index"), [])
            texts.append(event.text("delta"))
        elif event.kind == DONE:
            function = {"name": event.text("name"), "arguments": event.text("arguments")}
            call_id = event.text("call_id")
            self._calls[call_id] = {"id": call_id, "type": "function", "function": function}
        elif event.kind == USAGE and isinstance(event.members.get("usage"), dict):
            self._usage = event.members["usage"]
        elif event.kind == COMPLETED and isinstance(event.members.get("body"), dict):
            self._completed = members_of(data)["body"]
        elif event.kind in (ERROR, FAILED):
            raise from_error(event.members)
        elif event.kind == CANCELLED:
            raise cancelled_by_server(event.members)
        if len(self._texts) > MOST_CHOICES or len(self._calls) > MOST_CALLS:
            raise broken("an answer has too many choices or tool calls.")

    def body(self) -> bytes:
        """The completion, or the body that came in an event. Raises FailureError where nothing did."""
        if self._completed:
            return self._completed
        if not self._texts and not self._calls:
            raise broken("the operation succeeded and has no answer.")
        answer: dict[str, Any] = {
            "id": self.made_id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.asked.model,
            "choices": [self._choice(index) for index in sorted(self._texts.keys() | {0})],
        }
        usage = chat_usage(None, self._usage)
        if usage is not None:
            answer["usage"] = usage
        return dumped(answer)

    def _choice(self, index: int) -> dict[str, Any]:
        text = "".join(self._texts.get(index, ()))
        calls = list(self._calls.values()) if not index else []
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        finish = "tool_calls" if calls else "stop"
        return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
