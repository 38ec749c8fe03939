"""The ``response`` object of the Responses API (OpenAI API specification 2.3.0, Python SDK 3.57.0).

Output items and their parts have tables of their own (items.py, parts.py), usage as well (usage.py); what
relates members to each other is in checks/responses.py.
"""

from __future__ import annotations

from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    BOOLEAN,
    NUMBER,
    OBJECT,
    STRING,
    Field,
    JsonType,
    Table,
    optional,
    required,
)
from teeline.validators.fields.words import RESPONSE_STATUSES

INCOMPLETE_REASONS = frozenset({"max_output_tokens", "content_filter", "max_messages", "steered"})
"""Two in the specification, two more in the SDK's types."""

OFFICIAL_EXTRAS = frozenset({"store", "billing", "frequency_penalty", "presence_penalty"})
"""What official answers have beside the documented members."""

_ERROR = Table(
    "response.error",
    (
        required("code", STRING, "responses.error-shape"),
        required("message", STRING, "responses.error-shape"),
    ),
)


def _echo(name: str, kind: JsonType) -> Field:
    """What the answer repeats of the request: required, also where the request left it out."""
    return required(name, kind, "responses.echo-missing")


def _null_or(name: str, kind: JsonType, wrong: str = "") -> Field:
    """Required, with null for nothing."""
    return Field(name, kind, absent="responses.nullable-missing", wrong=wrong, nullable=True)


_OPTIONAL = (
    "top_logprobs",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "prompt_cache_diagnostics",
    "previous_response_id",
    "background",
    "max_tool_calls",
    "max_output_tokens",
    "text",
    "prompt",
    "service_tier",
    "truncation",
    "completed_at",
    "reasoning",
    "moderation",
    "conversation",
    "access_programs",
    "image",
    "input_transformations",
    "tool_usage",
    "usage",
    "output_text",
)
"""Members that may be there or not; what is checked of them is checked elsewhere."""

_STRUCTURE = (
    required("id", STRING, "responses.id-missing"),
    required(
        "object",
        STRING,
        "responses.object-wrong",
        values=frozenset({"response"}),
        outside="responses.object-wrong",
    ),
    required("created_at", NUMBER, "responses.created-at-type"),
    required("model", STRING, "responses.model-type"),
    required("output", ARRAY, "responses.output-not-array"),
    Field(
        "status",
        STRING,
        absent="responses.status-missing",
        wrong="responses.status-unknown",
        values=RESPONSE_STATUSES,
        outside="responses.status-unknown",
    ),
)

RESPONSE = Table(
    "response",
    (
        *_STRUCTURE,
        Field(
            "error",
            OBJECT,
            absent="responses.error-key-missing",
            wrong="responses.error-shape",
            nullable=True,
            table=_ERROR,
        ),
        _null_or("incomplete_details", OBJECT, "responses.incomplete-details-type"),
        _null_or("instructions", STRING | ARRAY),
        _null_or("metadata", OBJECT, "responses.metadata-type"),
        _null_or("temperature", NUMBER, "responses.temperature-type"),
        _null_or("top_p", NUMBER, "responses.top-p-type"),
        _echo("parallel_tool_calls", BOOLEAN),
        _echo("tool_choice", STRING | OBJECT),
        _echo("tools", ARRAY),
        *(optional(name, ANY) for name in _OPTIONAL),
    ),
    extensions=OFFICIAL_EXTRAS,
    unknown="responses.unknown-field",
)

BETA_RESPONSE = Table("response", _STRUCTURE)
"""What holds of the beta form, too, whose members and items are still moving."""
