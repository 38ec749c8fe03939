"""The profile openai-compatible/1 as data: its operations, its events, the envelope of a request.

What belongs here: members, what is right in each, and the rule that each breach carries. What doesn't:
order and relations (validators/nnrp). A member that is null is there: only one that is absent is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeGuard

from teeline.validators.operation import Operation

PROFILE: Final = "openai-compatible"
SCHEMA_VERSION: Final = "openai-compatible/1"

OPERATIONS: Final[Mapping[str, Operation]] = {
    "chat.completions.create": Operation.CHAT,
    "responses.create": Operation.RESPONSES,
    "models.list": Operation.MODELS,
    "embeddings.create": Operation.EMBEDDINGS,
}
ENVELOPE: Final = frozenset({"schema_version", "operation", "request_id", "body", "nnrp"})

TEXT: Final = "response.output_text.delta"
USAGE: Final = "response.usage"
STARTED: Final = "response.tool_call.started"
DELTA: Final = "response.tool_call.delta"
DONE: Final = "response.tool_call.completed"
FAILED: Final = "response.tool_call.error"
COMPLETED: Final = "response.completed"
ERROR: Final = "response.error"
CANCELLED: Final = "response.cancelled"
DIAGNOSTICS: Final = "response.diagnostics"

TOOL_EVENTS: Final = frozenset({STARTED, DELTA, DONE, FAILED})
TERMINALS: Final = frozenset({COMPLETED, ERROR, CANCELLED})

_EXACT: Final = 2**53


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_filled(value: Any) -> TypeGuard[str]:
    """A string that is not empty."""
    return isinstance(value, str) and value != ""


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_count(value: Any) -> TypeGuard[int | float]:
    """An integer of at least 0; one beyond 64 bits is a float by the time it comes here."""
    if isinstance(value, float):
        return value >= _EXACT and math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Member(NamedTuple):
    """A required member of an event, and the rule for a value that is not right."""

    name: str
    right: Callable[[Any], bool]
    wrong: str


_TOOL: Final = (
    Member("index", is_count, "nnrp.tool-index-invalid"),
    Member("item_id", is_filled, "nnrp.tool-item-id-invalid"),
    Member("call_id", is_filled, "nnrp.tool-call-id-invalid"),
)
_NAME: Final = Member("name", is_filled, "nnrp.tool-name-invalid")

EVENTS: Final[Mapping[str, tuple[Member, ...]]] = {
    TEXT: (
        Member("index", is_count, "nnrp.text-index-invalid"),
        Member("delta", is_text, "nnrp.text-delta-not-string"),
    ),
    USAGE: (Member("usage", is_object, "nnrp.usage-not-object"),),
    STARTED: (*_TOOL, _NAME),
    DELTA: (*_TOOL, Member("arguments_delta", is_text, "nnrp.tool-arguments-delta-not-string")),
    DONE: (*_TOOL, _NAME, Member("arguments", is_text, "nnrp.tool-arguments-not-string")),
    FAILED: (*_TOOL, Member("error", is_object, "nnrp.tool-error-shape")),
}
"""The members of stream events; those of terminal documents have rules of their own."""

KNOWN_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    **{
        kind: frozenset({"type", "openai_chunk", *(member.name for member in members)})
        for kind, members in EVENTS.items()
    },
    COMPLETED: frozenset({"type", "body"}),
    ERROR: frozenset({"type", "error"}),
    CANCELLED: frozenset({"type", "reason"}),
}

COUNTS: Final = ("input_tokens", "output_tokens", "total_tokens")
CHAT_COUNTS: Final[Mapping[str, str]] = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
}
"""What chat answers call the counts of a usage event."""
