"""What a response repeats of its request: a relay that rewrites requests shows itself here.

What belongs here: members that the Responses API sends back as they came. What doesn't: whether the answer
does what was asked for (cross.py, tools.py). All of it is off where the request was not read (P7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.fields.words import RESPONSE_STATUSES

_VARIANT = re.compile(r"(_use)?(_preview)?(_\d{4}_\d\d_\d\d)?\Z")
_CLIENT_TOOLS = ("function", "custom")


def check_echo(ctx: Context, value: Mapping[str, Any], pointer: str) -> None:
    """Compares a response with its request. A member that is absent or null repeats nothing."""
    if not ctx.request.known:
        return
    _texts(ctx, value, pointer)
    _metadata(ctx, value.get("metadata"), pointer)
    _max_output(ctx, value.get("max_output_tokens"), pointer)
    _tools(ctx, value.get("tools"), f"{pointer}/tools")
    _background(ctx, value.get("status"), f"{pointer}/status")


_TEXTS = (
    ("previous_response_id", "cross.echo-previous-response"),
    ("instructions", "cross.echo-instructions"),
)
"""Strings that come back unchanged; instructions of another type are those of a stored prompt."""


def _texts(ctx: Context, value: Mapping[str, Any], pointer: str) -> None:
    for name, rule in _TEXTS:
        sent, echoed = ctx.request.document.get(name), value.get(name)
        if isinstance(sent, str) and isinstance(echoed, str) and sent != echoed:
            detail = f'"{name}" of {len(echoed)} characters, {len(sent)} were sent'
            ctx.report(rule, f"{pointer}/{name}", detail=detail)


def _metadata(ctx: Context, echoed: Any, pointer: str) -> None:
    sent = ctx.request.document.get("metadata")
    if isinstance(sent, dict) and isinstance(echoed, dict) and sent != echoed:
        detail = f'"metadata" of {len(echoed)} members, {len(sent)} were sent'
        ctx.report("cross.echo-metadata", f"{pointer}/metadata", detail=detail)


def _max_output(ctx: Context, echoed: Any, pointer: str) -> None:
    sent = ctx.request.integer("max_output_tokens")
    if sent is not None and isinstance(echoed, int) and echoed != sent:
        detail = f'"max_output_tokens": {echoed}, {sent} was sent'
        ctx.report("cross.echo-max-output", f"{pointer}/max_output_tokens", detail=detail)


def _background(ctx: Context, status: Any, pointer: str) -> None:
    """The client polls while the status is queued or in_progress: any other word ends its wait."""
    known = isinstance(status, str) and status in RESPONSE_STATUSES
    if ctx.request.flag("background") is True and not known:
        ctx.report("cross.background-status", pointer, status, words=True)


# -- tools -----------------------------------------------------------------------------------------


def _tools(ctx: Context, echoed: Any, pointer: str) -> None:
    """Tools that nobody sent. A stored prompt and earlier turns bring tools of their own."""
    if not isinstance(echoed, list) or ctx.request.continues:
        return
    sent = set(_identities(ctx.request.offered))
    for n, tool in enumerate(echoed):
        for identity in _identities([tool]):
            if identity not in sent:
                kind = identity[0]
                ctx.report("cross.echo-tools", f"{pointer}/{n}", {"type": kind}, words=True)


def _identities(tools: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """What tells tools apart: a name where the client gave one, otherwise the type alone.

    The server adds ``strict`` and defaults, and writes dated or final types for preview ones; namespaces
    are its own way to write tools that it loads later.
    """
    for tool in tools:
        kind = tool.get("type", "function") if isinstance(tool, dict) else None
        if not isinstance(kind, str) or kind == "namespace":
            continue
        inner = tool.get(kind)
        described = inner if isinstance(inner, dict) else tool
        name = described.get("server_label" if kind == "mcp" else "name")
        named = kind in _CLIENT_TOOLS or kind == "mcp"
        yield _VARIANT.sub("", kind), name if named and isinstance(name, str) else ""
