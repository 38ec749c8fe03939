"""The facts of a request that answers are checked against.

What belongs here: reading a request's document once, tolerantly. A request is the client's; what is wrong
with it is not reported here and never counts against the relay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from teeline.validators.operation import Operation


@dataclass(frozen=True, slots=True)
class RequestedTool:
    """A tool of the request: its parameters schema (None for none) and whether it is strict."""

    name: str
    schema: Any
    strict: bool


@dataclass(slots=True)
class RequestFacts:
    """What a request asked for; nobody changes it. ``known`` false (P7): it was not fully read, rules that
    need it are off."""

    known: bool = False
    document: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    tools: Mapping[str, RequestedTool] = field(default_factory=dict)
    tools_sent: bool = False
    """Any tool at all, also ones without a name (hosted ones), or ``functions``."""
    offered: Sequence[Mapping[str, Any]] = ()
    """Every tool as it was sent: those in namespaces and in the input as well."""
    choices: int = 1
    """How many choices were asked for."""
    unkept: int = 0
    """Characters of texts that are no longer in the document; ``replaced``: U+FFFD was among them."""
    replaced: bool = False

    def integer(self, name: str) -> int | None:
        value = self.document.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool | None:
        value = self.document.get(name)
        return value if isinstance(value, bool) else None

    def member(self, name: str) -> Mapping[str, Any]:
        """An object member; empty where there is none."""
        value = self.document.get(name)
        return value if isinstance(value, dict) else {}

    def inputs(self, name: str) -> int | None:
        """How many inputs a member holds: texts, or lists of tokens; None where it can't be told.

        A list of integers is one input in tokens.
        """
        value = self.document.get(name)
        if isinstance(value, str):
            return 1
        if not isinstance(value, list) or not value:
            return None
        return 1 if set(map(type, value)) == {int} else len(value)

    @property
    def continues(self) -> bool:
        """Whether there is more to the request than it shows: earlier turns, or a stored prompt."""
        return any(
            self.document.get(name) for name in ("prompt", "previous_response_id", "conversation")
        )

    @property
    def include_usage(self) -> bool:
        return self.member("stream_options").get("include_usage") is True

    @property
    def named_tool(self) -> str | None:
        """The one tool that ``tool_choice`` names, in the shape of either API."""
        choice = self.member("tool_choice")
        inner = choice.get(str(choice.get("type")))
        name = inner.get("name") if isinstance(inner, dict) else choice.get("name")
        return (
            name if isinstance(name, str) and choice.get("type") in ("function", "custom") else None
        )

    @property
    def tool_choice(self) -> str:
        """``none``, ``auto``, ``required`` or empty for other forms."""
        value = self.document.get("tool_choice")
        return value if isinstance(value, str) else ""

    @property
    def allowed_tools(self) -> frozenset[str] | None:
        """The names that ``tool_choice: allowed_tools`` restricts to; None for no restriction."""
        choice = self.member("tool_choice")
        if choice.get("type") != "allowed_tools":
            return None
        inner = choice.get("allowed_tools")
        listed = inner.get("tools") if isinstance(inner, dict) else choice.get("tools")
        if not isinstance(listed, list):
            return None
        return frozenset(t.name for t in map(_tool, listed) if t is not None)


UNKNOWN_REQUEST = RequestFacts()
_STREAMED = frozenset({Operation.CHAT, Operation.RESPONSES, Operation.COMPLETIONS})
"""Elsewhere a member ``stream`` means nothing, and the answer is one document."""
_RESPONSES = Operation.RESPONSES
_TOOLS = frozenset({"tools", "functions"})


def facts_of(document: Any, operation: Operation) -> RequestFacts:
    """The facts of a request's document; unknown where it is no JSON object."""
    if not isinstance(document, dict):
        return UNKNOWN_REQUEST
    stream = operation in _STREAMED and document.get("stream") is True
    choices = _choices(document["n"]) if "n" in document else 1
    in_input = operation is _RESPONSES and type(document.get("input")) is list
    if not in_input and _TOOLS.isdisjoint(document):
        return RequestFacts(known=True, document=document, stream=stream, choices=choices)
    listed = [*_objects(document, "tools"), *_functions(document)]
    if operation is Operation.RESPONSES:
        listed += _tools_of_input(document)
    flat = [tool for entry in listed for tool in _with_members(entry)]
    return RequestFacts(
        known=True,
        document=document,
        stream=stream,
        tools={tool.name: tool for tool in map(_tool, flat) if tool is not None},
        tools_sent=bool(listed),
        offered=flat,
        choices=choices,
    )


def _choices(n: Any) -> int:
    return max(n, 1) if isinstance(n, int) and not isinstance(n, bool) else 1


def _objects(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = document.get(name)
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _functions(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{"type": "function", "function": f} for f in _objects(document, "functions")]


def _tools_of_input(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Tools inside ``additional_tools`` and ``tool_search_output`` input items count as sent."""
    items = _objects(document, "input")
    return [
        tool
        for item in items
        if item.get("type") in ("additional_tools", "tool_search_output")
        for tool in _objects(item, "tools")
    ]


def _with_members(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A namespace stands for the tools inside it."""
    return [entry, *_objects(entry, "tools")] if entry.get("type") == "namespace" else [entry]


def _tool(entry: Any) -> RequestedTool | None:
    if not isinstance(entry, dict):
        return None
    # Servers accept tools without a type; what they describe is then in ``function`` all the same.
    nested = [entry.get(member) for member in ("function", "custom")]
    described = next((inner for inner in nested if isinstance(inner, dict)), entry)
    name = described.get("name")
    if not isinstance(name, str):
        return None
    schema = described.get("parameters")
    return RequestedTool(
        name, schema if isinstance(schema, dict) else None, described.get("strict") is True
    )
