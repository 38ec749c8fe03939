"""Structured output: where a request says that its text is to be JSON, and of which schema.

Chat nests the schema in ``response_format.json_schema``, Responses has it flat in ``text.format``.
"""

from __future__ import annotations

from dataclasses import dataclass

from teeline.validators.operation import Operation

JSON_FORMATS = frozenset({"json_object", "json_schema"})


@dataclass(frozen=True, slots=True)
class FormatPlace:
    """The path to a request's format, and to the description of its schema within the format."""

    path: tuple[str, ...]
    described: tuple[str, ...]


FORMAT_PLACES = {
    Operation.CHAT: FormatPlace(("response_format",), ("json_schema",)),
    Operation.RESPONSES: FormatPlace(("text", "format"), ()),
}

EXTRA_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties"})
"""The keywords of JSON Schema that a member breaks by being there."""

HOSTED_ITEMS = frozenset(
    {
        "reasoning",
        "message",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "compaction",
    }
)
"""Output items that leave nothing to do for the client: a turn of these alone ends with its answer."""
