"""The output items of a response, one row a type (OpenAI API specification 2.3.0, Python SDK 3.57.0).

What belongs here: the members of each type, and the words that its status may have. What doesn't: parts
and annotations inside items (parts.py), calls (checks/tools.py), relations to the response (checks/).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    BOOLEAN,
    INTEGER,
    OBJECT,
    STRING,
    Field,
    JsonType,
    Table,
    optional,
    required,
)

_MISSING = "responses.item-field-missing"
_STATUS = "responses.item-status-unknown"

UNFINISHED = frozenset({"in_progress", "searching", "interpreting", "generating", "calling"})
"""Words of a status that say that the item is still being made."""


@dataclass(frozen=True, slots=True)
class ItemKind:
    """One type of item.

    ``state``   what it has from its first event on: id, status, role
    ``payload`` what it has once it is over; official items in progress have less than this
    ``early``   the payload is owed while it is in progress, too: clients read it without a look at the status
    """

    state: Table
    payload: Table
    early: bool = False


def _needs(name: str, kind: JsonType = STRING) -> Field:
    return required(name, kind, _MISSING)


def _nullable(name: str, kind: JsonType) -> Field:
    """Required, and null or absent where there is nothing: only another type is a breach."""
    return optional(name, kind, _MISSING)


def _status(words: str, absent: str = _MISSING) -> Field:
    """The status: required unless ``absent`` is empty."""
    return Field(
        "status",
        STRING,
        absent=absent,
        wrong=_STATUS,
        values=frozenset(words.split()),
        outside=_STATUS,
    )


_ID = required("id", STRING, "responses.item-id-missing")
_CALL_ID = _needs("call_id")
_PLAIN = "in_progress completed incomplete"


def _kind(
    name: str, *payload: Field, state: tuple[Field, ...] = (), early: bool = False
) -> tuple[str, ItemKind]:
    return name, ItemKind(Table(name, state), Table(name, payload), early)


ITEMS: Mapping[str, ItemKind] = dict(
    (
        _kind(
            "message",
            required("content", ARRAY, "responses.content-not-array"),
            optional(
                "phase",
                STRING,
                "responses.phase-unknown",
                values=frozenset({"commentary", "final_answer"}),
                outside="responses.phase-unknown",
            ),
            state=(
                _ID,
                required(
                    "role",
                    STRING,
                    "responses.message-role-wrong",
                    values=frozenset({"assistant"}),
                    outside="responses.message-role-wrong",
                ),
                _status(_PLAIN, absent="responses.message-status-missing"),
            ),
            early=True,
        ),
        _kind(
            "reasoning",
            required("summary", ARRAY, "responses.reasoning-summary-missing"),
            state=(_ID, _status(_PLAIN, absent="")),
            early=True,
        ),
        # The members of function and custom calls have the rules of tools.*: checks/items.py.
        _kind("function_call", state=(_status(_PLAIN, absent=""),)),
        _kind("custom_tool_call"),
        _kind(
            "function_call_output",
            _needs("output", STRING | ARRAY),
            state=(_ID, _status(_PLAIN)),
        ),
        _kind(
            "custom_tool_call_output",
            _CALL_ID,
            _needs("output", STRING | ARRAY),
            state=(_ID, _status(_PLAIN)),
        ),
        # incomplete: in the SDK's types, not in the specification
        _kind(
            "web_search_call",
            _needs("action", OBJECT),
            state=(_ID, _status("in_progress searching completed failed incomplete")),
        ),
        _kind(
            "file_search_call",
            _needs("queries", ARRAY),
            state=(_ID, _status("in_progress searching completed incomplete failed")),
        ),
        _kind(
            "computer_call",
            _CALL_ID,
            _needs("pending_safety_checks", ARRAY),
            state=(_ID, _status(_PLAIN)),
        ),
        # in_progress: in the SDK's types, not in the specification
        _kind(
            "computer_call_output",
            _CALL_ID,
            _needs("output", OBJECT),
            state=(_ID, _status("completed incomplete failed in_progress")),
        ),
        _kind(
            "image_generation_call",
            _nullable("result", STRING),
            state=(_ID, _status("in_progress completed generating failed")),
        ),
        _kind(
            "code_interpreter_call",
            _needs("container_id"),
            _nullable("code", STRING),
            _nullable("outputs", ARRAY),
            state=(_ID, _status("in_progress completed incomplete interpreting failed")),
        ),
        _kind(
            "mcp_call",
            _needs("server_label"),
            _needs("name"),
            _needs("arguments"),
            state=(_ID, _status("in_progress completed incomplete calling failed", absent="")),
        ),
        _kind("mcp_list_tools", _needs("server_label"), _needs("tools", ARRAY), state=(_ID,)),
        _kind(
            "mcp_approval_request",
            _needs("server_label"),
            _needs("name"),
            _needs("arguments"),
            state=(_ID,),
        ),
        _kind(
            "mcp_approval_response",
            _needs("approval_request_id"),
            _needs("approve", BOOLEAN),
            state=(_ID,),
        ),
        _kind(
            "local_shell_call",
            _CALL_ID,
            _needs("action", OBJECT),
            state=(_ID, _status(_PLAIN)),
        ),
        _kind(
            "local_shell_call_output",
            _needs("output"),
            state=(_ID, _status(_PLAIN, absent="")),
        ),
        # environment came in 2026: official answers of 2025 have none
        _kind(
            "shell_call",
            _CALL_ID,
            _needs("action", OBJECT),
            _nullable("environment", OBJECT),
            state=(_ID, _status(_PLAIN)),
        ),
        _kind(
            "shell_call_output",
            _CALL_ID,
            _needs("output", ARRAY),
            _nullable("max_output_length", INTEGER),
            state=(_ID, _status(_PLAIN)),
        ),
        _kind(
            "apply_patch_call",
            _CALL_ID,
            _needs("operation", OBJECT),
            state=(_ID, _status("in_progress completed")),
        ),
        _kind("apply_patch_call_output", _CALL_ID, state=(_ID, _status("completed failed"))),
        _kind(
            "tool_search_call",
            _nullable("call_id", STRING),
            _needs("execution"),
            Field("arguments", ANY, absent=_MISSING, nullable=True),
            state=(_ID, _status(_PLAIN)),
        ),
        _kind(
            "tool_search_output",
            _nullable("call_id", STRING),
            _needs("execution"),
            _needs("tools", ARRAY),
            state=(_ID, _status(_PLAIN)),
        ),
        _kind(
            "additional_tools",
            _needs("role"),
            _needs("tools", ARRAY),
            state=(_ID,),
        ),
        _kind("compaction", _needs("encrypted_content"), state=(_ID,)),
        _kind("program", _CALL_ID, _needs("code"), _needs("fingerprint"), state=(_ID,)),
        _kind(
            "program_output",
            _CALL_ID,
            _needs("result"),
            state=(_ID, _status("completed incomplete")),
        ),
    )
)
"""The 28 known types by ``type``."""

CALLS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""The calls that the client has to answer, and the member that holds what the tool gets."""
