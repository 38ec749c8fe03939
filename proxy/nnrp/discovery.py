"""What a server can do of the profile, found by asking it, and the capability documents that say so.

What belongs here: the questions, and what their answers show. What doesn't: who is asked (an adapter in
this process, adapter/asking.py, or a server over NNRP), checking documents (validators/nnrp).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from teeline.proxy.nnrp.documents import written
from teeline.proxy.nnrp.observed import Observed
from teeline.validators.fields.nnrp import (
    CANCELLED,
    COMPLETED,
    PROFILE,
    SCHEMA_VERSION,
    STARTED,
    TEXT,
    is_filled,
)

MAX_MODELS: Final = 1000
"""Models that a document names."""
_CHAT: Final = "chat.completions.create"
_RESPONSES: Final = "responses.create"
_MODELS: Final = "models.list"
_EMBEDDINGS: Final = "embeddings.create"
_TOKENS: Final = 32
_TEXT: Final = "Reply with the word OK."
_CALL: Final = "Call the function lookup with the key OK."
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"key": {"type": "string"}},
    "required": ["key"],
}
_ENOUGH: Final = 4
"""Events after which a streamed answer has shown what it can."""


class Modes(NamedTuple):
    """What an operation was seen to do."""

    streaming: bool = False
    non_streaming: bool = False
    tool_calls: bool = False

    @property
    def any(self) -> bool:
        return self.streaming or self.non_streaming


@dataclass(slots=True)
class Discovered:
    """What a server was seen to do; ``refusals`` say of each operation that it lacks why."""

    operations: dict[str, Modes] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)

    @property
    def levels(self) -> list[int]:
        """The compatibility levels of what was seen."""
        seen = self.operations
        responses = seen.get(_RESPONSES, Modes())
        reached = {
            1: _CHAT in seen,
            2: responses.streaming and responses.tool_calls,
            3: _MODELS in seen or _EMBEDDINGS in seen,
        }
        return [level for level, there in reached.items() if there]

    def document(self, form: str, adapter: str) -> dict[str, Any]:
        """The capability document in one of its forms, ``profile`` or ``conformance``."""
        conformance = form == "conformance"
        head = {"adapter": adapter} if conformance else {}
        operations = [
            {
                "name": name,
                **modes._asdict(),
                **({"cancellation": modes.streaming} if conformance else {}),
            }
            for name, modes in self.operations.items()
        ]
        models = [{"id": name} for name in self.models]
        return {
            **head,
            "profile": PROFILE,
            "schema_version": SCHEMA_VERSION,
            "compatibility_levels": self.levels,
            "operations": operations,
            **({"models": models} if models and not conformance else {}),
        }


Ask = Callable[[bytes], Awaitable[Observed]]
"""Submits an envelope, and tells what came."""


async def discover(
    ask: Ask, *, model: str | None = None, embedding_model: str | None = None
) -> Discovered:
    """Asks a server for each operation; ``model`` None: the first one that it lists."""
    found = Discovered()
    listed = await _ask(ask, _MODELS, {})
    if body_of(listed):
        found.operations[_MODELS] = Modes(non_streaming=True)
        found.models = _listed(body_of(listed).get("data"))
    else:
        found.refusals[_MODELS] = listed.error_code()
    model = model or next(iter(found.models), "default")
    await _discover_text(ask, found, _CHAT, _chat(model))
    await _discover_text(ask, found, _RESPONSES, _responses(model))
    asked = {"model": embedding_model or model, "input": "OK"}
    embedded = await _ask(ask, _EMBEDDINGS, asked)
    if body_of(embedded):
        found.operations[_EMBEDDINGS] = Modes(non_streaming=True)
    else:
        found.refusals[_EMBEDDINGS] = embedded.error_code()
    order = (_CHAT, _RESPONSES, _MODELS, _EMBEDDINGS)
    found.operations = {name: found.operations[name] for name in order if name in found.operations}
    return found


def _listed(entries: Any) -> list[str]:
    names = (
        [e.get("id") for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    )
    return [name for name in names if is_filled(name)][:MAX_MODELS]


class _Question(NamedTuple):
    """How an operation is asked for words, and for a call. ``limits``: names of the bound on tokens."""

    words: Mapping[str, Any]
    call: Mapping[str, Any]
    limits: tuple[str, ...]


def _chat(model: str) -> _Question:
    def said(text: str) -> dict[str, Any]:
        return {"model": model, "messages": [{"role": "user", "content": text}]}

    function = {"name": "lookup", "parameters": _PARAMETERS}
    tools = [{"type": "function", "function": function}]
    limits = ("max_tokens", "max_completion_tokens")
    return _Question(said(_TEXT), said(_CALL) | {"tools": tools}, limits)


def _responses(model: str) -> _Question:
    tools = [{"type": "function", "name": "lookup", "parameters": _PARAMETERS}]
    call = {"model": model, "input": _CALL, "tools": tools}
    return _Question({"model": model, "input": _TEXT}, call, ("max_output_tokens",))


async def _discover_text(ask: Ask, found: Discovered, operation: str, question: _Question) -> None:
    whole, limit = Observed(), ""
    for limit in question.limits:
        whole = await _ask(ask, operation, {**question.words, limit: _TOKENS})
        if whole.error_code() == "unsupported_operation":
            found.refusals[operation] = whole.error_code()
            return
        if answered(whole):
            break
    bound = {limit: _TOKENS, "stream": True}
    streamed = await _ask(ask, operation, {**question.words, **bound})
    called = Observed()
    # Some servers know no "required", and some models call nothing without it.
    for choice in ("required", "auto"):
        called = await _ask(ask, operation, {**question.call, **bound, "tool_choice": choice})
        if STARTED in called.kinds():
            break
    streams = TEXT in streamed.kinds() and (answered(streamed) or CANCELLED in streamed.kinds())
    calls = STARTED in called.kinds() and answered(called)
    modes = Modes(streams, bool(body_of(whole)), calls)
    if modes.any:
        found.operations[operation] = modes
    else:
        found.refusals[operation] = whole.error_code()


def answered(observed: Observed) -> bool:
    """Whether an operation succeeded; a stream may do so without a document."""
    return bool(observed.end) and observed.terminal == "success"


def body_of(observed: Observed) -> Mapping[str, Any]:
    """The body of the completed document of a success, empty where there is none."""
    last = observed.events[-1] if answered(observed) and observed.events else {}
    body = last.get("body") if last.get("type") == COMPLETED else None
    return body if isinstance(body, dict) else {}


async def _ask(ask: Ask, operation: str, body: Mapping[str, Any]) -> Observed:
    envelope = {"schema_version": SCHEMA_VERSION, "operation": operation, "body": body}
    if body.get("stream") is True and "tools" not in body:
        envelope["nnrp"] = {"cancel_after_events": _ENOUGH}
    return await ask(written(envelope))
