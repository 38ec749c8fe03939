"""The events of a Responses stream: which members each carries, and which items it belongs to.

OpenAI API specification 2.3.0 and the official Python SDK 3.57.0: 59 types. One row a type; what follows
from the order of events is in checks/respstream.py and checks/respitems.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from teeline.validators.fields.table import ARRAY, INTEGER, OBJECT, STRING, Field, JsonType


class Act(enum.Enum):
    """What an event does to the state of its stream."""

    LIFECYCLE = "lifecycle"
    ITEM_ADDED = "item added"
    ITEM_DONE = "item done"
    PART_ADDED = "part added"
    PART_DONE = "part done"
    SUMMARY_ADDED = "summary part added"
    SUMMARY_DONE = "summary part done"
    DELTA = "delta"
    FINAL = "final"
    PHASE = "phase"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event type.

    ``kind`` names the text that a delta or final event carries (a key of checks/respitems.py's rules);
    ``member`` is the member with the whole text in a final event. ``items`` are the types of item it may
    belong to, empty for any. ``phase`` is its position among its item's phases.
    """

    act: Act
    fields: tuple[Field, ...]
    kind: str = ""
    member: str = ""
    items: frozenset[str] = frozenset()
    phase: int = 0


def _field(name: str, kind: JsonType) -> Field:
    return Field(name, kind, absent="respstream.field-missing", wrong="respstream.field-missing")


_ITEM_ID = _field("item_id", STRING)
_OUTPUT = _field("output_index", INTEGER)
_CONTENT = _field("content_index", INTEGER)
_SUMMARY = _field("summary_index", INTEGER)
_COMMAND = _field("command_index", INTEGER)
_INNER = (_ITEM_ID, _OUTPUT)
_IN_PART = (*_INNER, _CONTENT)
_IN_SUMMARY = (*_INNER, _SUMMARY)
_IN_COMMAND = (_OUTPUT, _COMMAND)
_PART = _field("part", OBJECT)

_MESSAGE = frozenset({"message"})
_TEXT_ITEMS = frozenset({"message", "reasoning"})
_REASONING = frozenset({"reasoning"})
_SHELL = frozenset({"shell_call"})
_SHELL_OUTPUT = frozenset({"shell_call", "shell_call_output"})


def _delta(fields: tuple[Field, ...], kind: str, items: frozenset[str]) -> EventRow:
    """``delta`` itself has a rule of its own."""
    return EventRow(Act.DELTA, fields, kind=kind, items=items)


def _final(fields: tuple[Field, ...], kind: str, member: str, items: frozenset[str]) -> EventRow:
    return EventRow(Act.FINAL, (*fields, _field(member, STRING)), kind, member, items)


def _phases(prefix: str, item: str, *names: tuple[str, int]) -> dict[str, EventRow]:
    items = frozenset({item})
    return {
        f"response.{prefix}.{name}": EventRow(Act.PHASE, _INNER, items=items, phase=phase)
        for name, phase in names
    }


def _texts(
    prefix: str, kind: str, member: str, item: str, wrong: str = "respstream.field-missing"
) -> dict[str, EventRow]:
    items = frozenset({item})
    whole = Field(member, STRING, absent="respstream.field-missing", wrong=wrong)
    return {
        f"response.{prefix}.delta": _delta(_INNER, kind, items),
        f"response.{prefix}.done": EventRow(Act.FINAL, (*_INNER, whole), kind, member, items),
    }


EVENTS: dict[str, EventRow] = {
    **{
        f"response.{name}": EventRow(Act.LIFECYCLE, ())
        for name in ("created", "queued", "in_progress", "completed", "incomplete", "failed")
    },
    "response.output_item.added": EventRow(Act.ITEM_ADDED, (_OUTPUT,)),
    "response.output_item.done": EventRow(Act.ITEM_DONE, (_OUTPUT,)),
    "response.content_part.added": EventRow(Act.PART_ADDED, (*_IN_PART, _PART), items=_TEXT_ITEMS),
    "response.content_part.done": EventRow(Act.PART_DONE, (*_IN_PART, _PART), items=_TEXT_ITEMS),
    "response.output_text.delta": _delta(_IN_PART, "text", _MESSAGE),
    "response.output_text.done": _final(_IN_PART, "text", "text", _MESSAGE),
    "response.output_text.annotation.added": EventRow(
        Act.OTHER,
        (*_IN_PART, _field("annotation_index", INTEGER), _field("annotation", OBJECT)),
        items=_MESSAGE,
    ),
    "response.refusal.delta": _delta(_IN_PART, "refusal", _MESSAGE),
    "response.refusal.done": _final(_IN_PART, "refusal", "refusal", _MESSAGE),
    "response.reasoning_text.delta": _delta(_IN_PART, "reasoning", _REASONING),
    "response.reasoning_text.done": _final(_IN_PART, "reasoning", "text", _REASONING),
    "response.reasoning_summary_part.added": EventRow(
        Act.SUMMARY_ADDED, (*_IN_SUMMARY, _PART), items=_REASONING
    ),
    "response.reasoning_summary_part.done": EventRow(
        Act.SUMMARY_DONE, (*_IN_SUMMARY, _PART), items=_REASONING
    ),
    "response.reasoning_summary_text.delta": _delta(_IN_SUMMARY, "summary", _REASONING),
    "response.reasoning_summary_text.done": _final(_IN_SUMMARY, "summary", "text", _REASONING),
    **_texts(
        "function_call_arguments", "args", "arguments", "function_call", wrong="tools.args-type"
    ),
    **_texts("custom_tool_call_input", "custom", "input", "custom_tool_call"),
    **_texts("mcp_call_arguments", "mcp", "arguments", "mcp_call"),
    **_texts("code_interpreter_call_code", "code", "code", "code_interpreter_call"),
    **_phases("mcp_call", "mcp_call", ("in_progress", 0), ("completed", 2), ("failed", 2)),
    **_phases(
        "mcp_list_tools", "mcp_list_tools", ("in_progress", 0), ("completed", 2), ("failed", 2)
    ),
    **_phases(
        "code_interpreter_call",
        "code_interpreter_call",
        ("in_progress", 0),
        ("interpreting", 1),
        ("completed", 2),
    ),
    **_phases(
        "file_search_call",
        "file_search_call",
        ("in_progress", 0),
        ("searching", 1),
        ("completed", 2),
    ),
    **_phases(
        "web_search_call", "web_search_call", ("in_progress", 0), ("searching", 1), ("completed", 2)
    ),
    **_phases(
        "image_generation_call",
        "image_generation_call",
        ("in_progress", 0),
        ("generating", 1),
        ("completed", 3),
    ),
    "response.image_generation_call.partial_image": EventRow(
        Act.PHASE,
        (*_INNER, _field("partial_image_index", INTEGER), _field("partial_image_b64", STRING)),
        items=frozenset({"image_generation_call"}),
        phase=2,
    ),
    "response.compaction.compacting": EventRow(Act.OTHER, _INNER, items=frozenset({"compaction"})),
    "response.shell_call_command.added": EventRow(
        Act.OTHER, (*_IN_COMMAND, _field("command", STRING)), items=_SHELL
    ),
    "response.shell_call_command.delta": EventRow(
        Act.OTHER, _IN_COMMAND, items=_SHELL, kind="command"
    ),
    "response.shell_call_command.done": EventRow(
        Act.OTHER, (*_IN_COMMAND, _field("command", STRING)), items=_SHELL
    ),
    "response.shell_call_output_content.delta": EventRow(
        Act.OTHER, (*_INNER, _COMMAND), items=_SHELL_OUTPUT, kind="output"
    ),
    "response.shell_call_output_content.done": EventRow(
        Act.OTHER, (*_INNER, _COMMAND, _field("output", ARRAY)), items=_SHELL_OUTPUT
    ),
    "response.audio.delta": EventRow(Act.OTHER, (), kind="audio"),
    "response.audio.done": EventRow(Act.OTHER, ()),
    "response.audio.transcript.delta": EventRow(Act.OTHER, (), kind="transcript"),
    "response.audio.transcript.done": EventRow(Act.OTHER, ()),
}
"""All event types but ``error``, which comes in two shapes and ends what can be checked."""

DELTA_EVENTS = frozenset(name for name in EVENTS if name.endswith(".delta"))
OBJECT_DELTAS = frozenset({"response.shell_call_output_content.delta"})
LOGPROBS_EVENTS = frozenset({"response.output_text.delta", "response.output_text.done"})

STATUSES: dict[str, frozenset[str]] = {
    "response.created": frozenset({"in_progress", "queued"}),
    "response.queued": frozenset({"queued"}),
    "response.in_progress": frozenset({"in_progress"}),
    "response.completed": frozenset({"completed"}),
    "response.incomplete": frozenset({"incomplete"}),
    "response.failed": frozenset({"failed"}),
}
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})

FORMER_EVENTS = frozenset(
    {
        "response.reasoning_summary.delta",
        "response.reasoning_summary.done",
        "response.reasoning.delta",
        "response.reasoning.done",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
    }
)
"""Sent by older or by official servers, in neither the specification nor the SDK: unknown, and harmless."""


KEEPALIVES = frozenset({"keepalive", "response.keep_alive"})
STEERING = "response.steer."
"""Answers to a client's frame that steers a response: on a WebSocket alone."""
_VENDOR_PREFIXES = ("codex.", "vendor:")


def is_vendors(kind: str) -> bool:
    """Whether an event is known to be a vendor's own."""
    return kind.startswith(_VENDOR_PREFIXES) or kind.endswith(".rate_limits")


def is_aside(kind: str) -> bool:
    """Whether an event says nothing of a response, and may come on a WebSocket at any time."""
    return kind in KEEPALIVES or kind.startswith(STEERING) or is_vendors(kind)
