"""The chat completion that a stream's chunks add up to.

What belongs here: joining what comes in pieces, and keeping what a server adds. What doesn't: events
(chat.py), tool calls (toolcalls.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from teeline.proxy.nnrp.adapter.toolcalls import ToolCalls

_OWN: Final = frozenset({"object", "choices", "usage"})


class _Choice:
    """One choice: strings of its delta are joined, lists of its logprobs put together."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.members: dict[str, Any] = {}
        self.logprobs: dict[str, Any] | None = None
        self.more: dict[str, Any] = {}
        self.finish: Any = None

    def add(self, delta: Mapping[str, Any]) -> None:
        for name, value in delta.items():
            if name in ("tool_calls", "role"):
                continue
            if isinstance(value, str):
                self.texts.setdefault(name, []).append(value)
            elif value is not None or name not in self.members:
                self.members[name] = value

    def add_logprobs(self, logprobs: Any) -> None:
        if not isinstance(logprobs, dict):
            return
        kept = self.logprobs if self.logprobs is not None else {}
        for name, value in logprobs.items():
            if isinstance(value, list) and isinstance(kept.get(name), list):
                kept[name] += value
            elif value is not None or name not in kept:
                kept[name] = value
        self.logprobs = kept

    def message(self, calls: list[Mapping[str, Any]]) -> dict[str, Any]:
        whole = {"role": "assistant", "content": None, "refusal": None, **self.members}
        whole |= {name: "".join(pieces) for name, pieces in self.texts.items()}
        if calls:
            whole["tool_calls"] = calls
            whole["content"] = whole["content"] or None
        return whole


class Completion:
    """Takes chunks in, which were found to be objects; gives the answer that does not stream."""

    def __init__(self) -> None:
        self._members: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self.usage: Mapping[str, Any] | None = None

    @property
    def unfinished(self) -> list[int]:
        """The choices that have no finish_reason yet."""
        return [index for index, choice in self._choices.items() if choice.finish is None]

    @property
    def empty(self) -> bool:
        """No choice has come."""
        return not self._choices

    def add_chunk(self, chunk: Mapping[str, Any]) -> None:
        """What stands beside the choices of a chunk."""
        for name, value in chunk.items():
            if name not in _OWN and (value is not None or name not in self._members):
                self._members[name] = value
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]

    def add_choice(self, index: int, choice: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        """One choice of a chunk."""
        kept = self._choices.setdefault(index, _Choice())
        kept.add(delta)
        kept.add_logprobs(choice.get("logprobs"))
        if choice.get("finish_reason") is not None:
            kept.finish = choice["finish_reason"]

    def body(self, calls: ToolCalls) -> dict[str, Any]:
        """The whole answer."""
        choices = [
            {
                "index": index,
                "message": choice.message(calls.message(index)),
                "logprobs": choice.logprobs,
                "finish_reason": choice.finish,
            }
            for index, choice in sorted(self._choices.items())
        ]
        usage = {"usage": self.usage} if self.usage is not None else {}
        return {**self._members, "object": "chat.completion", "choices": choices, **usage}
