"""The tools of a request, how the model is told to use them, and schemas that are to be kept strictly.

What belongs here: ``tools``, ``tool_choice`` and the formats of structured output, in the shape of either
API. What doesn't: calls of tools (tools.py for an answer's, requestmessages.py for those in a history).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from teeline.validators import evidence
from teeline.validators.checks.context import Context
from teeline.validators.fields.request import FOREIGN_CHOICES, INHERITED, TOOL_MEMBERS
from teeline.validators.operation import Operation

_SUBSCHEMAS = ("properties", "$defs", "definitions")
"""Members of a schema whose own members are schemas."""
_SUBSCHEMA_LISTS = ("anyOf", "prefixItems")
TOOLS_MEMBERS = frozenset({"tools", "tool_choice"})
"""Without them ``check_tools`` has nothing to look at."""
_SHOWN = 8
"""Steps of a pointer into a schema that are kept."""

# -- tools --------------------------------------------------------------------------------------------


def check_tools(ctx: Context) -> None:
    """Checks ``tools`` and ``tool_choice`` of a chat or Responses request."""
    tools = ctx.request.document.get("tools")
    is_chat = ctx.operation is Operation.CHAT
    for n, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, dict):
            continue
        pointer = f"/tools/{n}"
        if is_chat and _is_flat(tool):
            ctx.report("request.tools-shape-chat", pointer, tool)
        elif not is_chat and _is_nested(tool):
            ctx.report("request.tools-shape-responses", pointer, tool)
        elif is_chat and isinstance(tool.get("function"), dict):
            _check_strict(ctx, tool["function"], "parameters", f"{pointer}/function")
        elif not is_chat and tool.get("type") == "function":
            _check_strict(ctx, tool, "parameters", pointer)
    _check_choice(ctx)


def _is_flat(tool: Mapping[str, Any]) -> bool:
    """The shape of the Responses API: the name beside the type."""
    kind = tool.get("type")
    return (
        (kind is None or kind in TOOL_MEMBERS)
        and isinstance(tool.get("name"), str)
        and not any(isinstance(tool.get(member), dict) for member in TOOL_MEMBERS)
    )


def _is_nested(tool: Mapping[str, Any]) -> bool:
    """The shape of chat: what describes the tool is an object of its own."""
    return "name" not in tool and any(isinstance(tool.get(m), dict) for m in TOOL_MEMBERS)


# -- tool_choice --------------------------------------------------------------------------------------


def _check_choice(ctx: Context) -> None:
    request = ctx.request
    choice = request.document.get("tool_choice")
    if choice is None or choice == "none":
        return
    if not request.tools_sent:
        inherited = ctx.operation is Operation.RESPONSES and any(
            request.document.get(name) for name in INHERITED
        )
        if not inherited:
            ctx.report("request.tool-choice-without-tools", "/tool_choice", choice, words=True)
    elif isinstance(choice, dict):
        _check_choice_object(ctx, choice)


def _check_choice_object(ctx: Context, choice: Mapping[str, Any]) -> None:
    kind = choice.get("type")
    if isinstance(kind, str) and (kind in FOREIGN_CHOICES or _is_swapped(ctx, choice, kind)):
        detail = f'"type": {evidence.word(kind)} in the shape of another API'
        ctx.report("request.tool-choice-shape", "/tool_choice", detail=detail)
        return
    if ctx.request.document.get("prompt"):
        return  # a stored prompt may bring tools of its own
    if any(name not in ctx.request.tools for name in _named(choice)):
        ctx.report(
            "request.tool-choice-shape", "/tool_choice", detail="names a tool that was not sent"
        )


def _is_swapped(ctx: Context, choice: Mapping[str, Any], kind: str) -> bool:
    """The form of the other API: chat nests what Responses has beside the type."""
    if kind not in (*TOOL_MEMBERS, "allowed_tools"):
        return False
    nested = isinstance(choice.get(kind), dict)
    flat = "tools" in choice if kind == "allowed_tools" else "name" in choice
    return flat and not nested if ctx.operation is Operation.CHAT else nested and not flat


def _named(choice: Mapping[str, Any]) -> Iterator[str]:
    """The functions and custom tools that a ``tool_choice`` names, in the shape of either API."""
    listed = choice.get("tools")
    inner = choice.get("allowed_tools")
    if isinstance(inner, dict):
        listed = inner.get("tools")
    for entry in listed if isinstance(listed, list) else (choice,):
        kind = entry.get("type") if isinstance(entry, dict) else None
        if isinstance(kind, str) and kind in TOOL_MEMBERS:
            described = entry.get(kind)
            name = (described if isinstance(described, dict) else entry).get("name")
            if isinstance(name, str):
                yield name


# -- strict schemas -----------------------------------------------------------------------------------


class _Format(NamedTuple):
    """Where an API has the schema of structured output."""

    operation: Operation
    outer: str
    inner: str


_FORMATS = (
    _Format(Operation.CHAT, "response_format", "json_schema"),
    _Format(Operation.RESPONSES, "text", "format"),
)


FORMATS_MEMBERS = frozenset(row.outer for row in _FORMATS)
"""Without them ``check_formats`` has nothing to look at."""


def check_formats(ctx: Context) -> None:
    """Checks the schema that the answer's text is to follow."""
    for row in _FORMATS:
        if row.operation is ctx.operation:
            described = ctx.request.member(row.outer).get(row.inner)
            if isinstance(described, dict):
                _check_strict(ctx, described, "schema", f"/{row.outer}/{row.inner}")


def _check_strict(ctx: Context, holder: Mapping[str, Any], member: str, pointer: str) -> None:
    """A schema that is to be kept strictly allows no member more and none less, at any depth."""
    schema = holder.get(member)
    if holder.get("strict") is not True or not isinstance(schema, dict):
        return
    for path, part in _schemas(schema):
        fault = _loose(part)
        if fault:
            detail = f"{fault} at {evidence.path(path)} of the schema"
            ctx.report("request.strict-schema", f"{pointer}/{member}", detail=detail)
            return


def _schemas(root: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A schema and all schemas in it, each with its pointer, which is cut where evidence would cut it."""
    path = [""]
    waiting = [iter([("", root)])]
    while waiting:
        token, schema = next(waiting[-1], (None, None))
        if token is None:
            waiting.pop()
            path.pop()
        elif isinstance(schema, dict):
            path[-1] = token
            yield "".join(path[:_SHOWN]), schema
            waiting.append(_parts(schema))
            path.append("")


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas that a schema is made of, with the way to each."""
    yield "/items", schema.get("items")
    for name in _SUBSCHEMA_LISTS:
        listed = schema.get(name)
        for n, part in enumerate(listed if isinstance(listed, list) else ()):
            yield f"/{name}/{n}", part
    for name in _SUBSCHEMAS:
        members = schema.get(name)
        for key, part in members.items() if isinstance(members, dict) else ():
            yield f"/{name}/{_escaped(key)}", part


def _escaped(name: str) -> str:
    # As much as evidence can show: a peer's names may be of any length.
    return name[:65].replace("~", "~0").replace("/", "~1")


def _loose(schema: Mapping[str, Any]) -> str:
    """What an object's schema lacks to be strict; empty for nothing, and for other schemas."""
    members = schema.get("properties")
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if not isinstance(members, dict) and "object" not in kinds:
        return ""
    if schema.get("additionalProperties") is not False:
        return "no additionalProperties: false"
    listed = schema.get("required")
    names = {n for n in listed if isinstance(n, str)} if isinstance(listed, list) else set[str]()
    missing = sum(name not in names for name in members) if isinstance(members, dict) else 0
    return f"{missing} properties not required" if missing else ""
