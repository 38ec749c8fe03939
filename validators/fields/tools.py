"""Tool calls of a chat message, and function calls among Responses output items."""

from __future__ import annotations

from teeline.validators.fields.table import STRING, Table, required

CUSTOM_CALL = Table(
    "message.tool_calls[].custom",
    (
        required("name", STRING, "tools.custom-shape"),
        required("input", STRING, "tools.custom-shape"),
    ),
)
CALL_MARKERS = ("<tool_call>", "[TOOL_CALLS]", "<function=", "<|python_tag|>")
"""What models write when the server's tool parser is missing."""
