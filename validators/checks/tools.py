"""Tool calls once they are whole: of a message, of a stream after its last fragment, of a Responses item.

What belongs here: a call's members, its arguments, and calls against the request. What doesn't: putting a
call together from deltas (toolstream.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teeline.validators import evidence
from teeline.validators.checks.context import Context
from teeline.validators.events import SchemaResult
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.table import walk
from teeline.validators.fields.tools import CALL_MARKERS, CUSTOM_CALL
from teeline.validators.fields.words import TOOL_TYPES
from teeline.validators.model import Unit
from teeline.validators.wire.json import JsonFaultKind, decode

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


@dataclass(slots=True)
class Call:
    """One whole call. ``arguments`` is what stood there, a string or not; ABSENT for nothing."""

    pointer: str
    id: Any = ABSENT
    name: Any = ABSENT
    type: Any = ABSENT
    arguments: Any = ABSENT
    custom: bool = False
    inside: str = "/function"
    """Where name and arguments lie below ``pointer``."""
    scripted: bool = False
    """A program that the model wrote makes it, not the model itself."""
    event: tuple[int, int] | None = None
    """Number and offset of the event that opened it; None outside of streams."""
    judged: bool = False
    """A rule that names the fault has fired: what follows from it is not reported again."""


# -- the calls of a message -----------------------------------------------------------------------


def message_calls(ctx: Context, value: Any, pointer: str) -> list[Call] | None:
    """The calls of ``message.tool_calls``, each with its members checked; None where they can't be read."""
    if value is None:
        return []
    if not isinstance(value, list):
        ctx.report("tools.calls-not-array", pointer, value)
        return None
    if not value:
        ctx.report("tools.calls-empty-array", pointer, value)
    calls = [_message_call(ctx, entry, f"{pointer}/{n}") for n, entry in enumerate(value)]
    read = [call for call in calls if call is not None]
    return read if len(read) == len(calls) else None


def _message_call(ctx: Context, entry: Any, pointer: str) -> Call | None:
    if not isinstance(entry, dict):
        ctx.report("tools.calls-not-array", pointer, entry)
        return None
    if "index" in entry:
        ctx.report("tools.nonstream-index", f"{pointer}/index", entry["index"])
    call = Call(pointer, id=entry.get("id", ABSENT), type=entry.get("type", ABSENT))
    if call.type is ABSENT or not isinstance(call.type, str):
        ctx.report("tools.type-missing", f"{pointer}/type", call.type)
    else:
        check_type(ctx, call.type, f"{pointer}/type")
    _described(ctx, call, entry)
    return call


def _described(ctx: Context, call: Call, entry: Mapping[str, Any]) -> None:
    """Fills in name and arguments from ``function`` or ``custom``."""
    function = entry.get("function")
    if entry.get("type") == "custom" and not isinstance(function, dict):
        call.custom = True
        call.inside = "/custom"
        custom = entry.get("custom")
        if isinstance(custom, dict):
            walk(CUSTOM_CALL, custom, f"{call.pointer}/custom", ctx.report)
            call.name = custom.get("name", ABSENT)
        else:
            ctx.report("tools.custom-shape", f"{call.pointer}/custom", custom)
            call.judged = True
    elif isinstance(function, dict):
        call.name = function.get("name", ABSENT)
        call.arguments = function.get("arguments", ABSENT)
    elif "name" in entry or "arguments" in entry:
        ctx.report("tools.flat-shape", call.pointer, entry)
        call.judged = True


def check_type(ctx: Context, value: str, pointer: str) -> None:
    """A call's ``type`` that is there."""
    if value not in TOOL_TYPES:
        rule = "tools.type-case" if value.lower() in TOOL_TYPES else "tools.type-unknown"
        ctx.report(rule, pointer, value, words=True)


# -- what holds for every whole call ----------------------------------------------------------------


def check_calls(ctx: Context, calls: Sequence[Call], *, cut: bool) -> None:
    """Ids, names and arguments of one choice's calls, and the calls against the request.

    ``cut``: the answer was ended by a length limit, arguments may be unfinished.
    """
    seen: set[str] = set()
    for call in calls:
        if call.event is not None:
            ctx.report.place(Unit.EVENT, *call.event)
        _check_id(ctx, call, seen)
        if call.judged:
            continue
        at = f"{call.pointer}{call.inside}"
        _check_name(ctx, call, f"{at}/name")
        if not call.custom:
            check_arguments(ctx, call, f"{at}/arguments", cut=cut)
    against_request(ctx, calls)


def _check_id(ctx: Context, call: Call, seen: set[str]) -> None:
    pointer = f"{call.pointer}/id"
    if not isinstance(call.id, str):
        ctx.report("tools.id-missing", pointer, call.id)
        return
    if call.id == "":
        ctx.report("tools.id-empty", pointer, call.id)
    elif not call.id.startswith("call_"):
        ctx.report("tools.id-prefix", pointer, call.id)
    if call.id in seen:
        ctx.report("tools.id-duplicate", pointer, call.id)
    seen.add(call.id)


def _check_name(ctx: Context, call: Call, pointer: str) -> None:
    if not isinstance(call.name, str) or not call.name:
        if not call.custom:
            ctx.report("tools.name-missing", pointer, call.name)
    elif not _NAME.match(call.name):
        ctx.report("tools.name-pattern", pointer, call.name)


def check_arguments(ctx: Context, call: Call, pointer: str, *, cut: bool) -> None:
    """The arguments of a function call: a string that holds one JSON object."""
    text = call.arguments
    if not isinstance(text, str):
        ctx.report("tools.args-type", pointer, text)
        return
    if text == "":
        ctx.report("tools.args-truncated" if cut else "tools.args-empty", pointer, text)
        return
    document = decode(text.encode("utf-8", "surrogatepass"), ctx.limits.depth)
    broken = not document.ok or any(f.kind is JsonFaultKind.TRAILING for f in document.faults)
    if any(f.kind is JsonFaultKind.DEPTH for f in document.faults):
        ctx.partial("depth-limit")
    elif broken:
        ctx.report("tools.args-truncated" if cut else "tools.args-invalid-json", pointer, text)
    elif not isinstance(document.value, dict):
        ctx.report("tools.args-not-object", pointer, document.value)
    else:
        _check_schema(ctx, call, document.value, pointer)


def _check_schema(ctx: Context, call: Call, arguments: Mapping[str, Any], pointer: str) -> None:
    tool = ctx.request.tools.get(str(call.name))
    if tool is None or tool.schema is None:
        return
    rule = "tools.args-strict-schema-mismatch" if tool.strict else "tools.args-schema-mismatch"

    def done(result: SchemaResult) -> None:
        if result.errors:
            first = result.errors[0]
            ctx.report(
                rule,
                pointer,
                detail=f"{first.keyword} at {evidence.path(first.pointer)} of the arguments",
            )

    ctx.check_schema(tool.schema, arguments, pointer, done)


# -- calls against the request -------------------------------------------------------------------------


def against_request(ctx: Context, calls: Sequence[Call]) -> None:
    """Called tools against those that were sent, and against tool_choice."""
    request = ctx.request
    if not request.known or not calls:
        return
    pointer = calls[0].pointer
    if not request.tools_sent:
        if not request.continues:
            ctx.report(
                "cross.tools-unrequested", pointer, detail=f"{len(calls)} calls, no tools sent"
            )
        return
    if request.tool_choice == "none":
        ctx.report("cross.tool-choice-none", pointer, detail='"tool_choice": "none"')
    direct = sum(not call.scripted for call in calls)
    if request.flag("parallel_tool_calls") is False and direct > 1:
        ctx.report("cross.parallel-tool-calls", pointer, detail=f"{direct} calls")
    _check_names(ctx, calls)


def _check_names(ctx: Context, calls: Sequence[Call]) -> None:
    request = ctx.request
    allowed = request.allowed_tools
    named = request.named_tool
    for call in calls:
        if not isinstance(call.name, str) or not call.name or call.judged:
            continue
        pointer = f"{call.pointer}{call.inside}/name"
        # What came before in a continued conversation may have brought tools of its own.
        offered = call.name in request.tools or request.continues
        if not offered or (allowed is not None and call.name not in allowed):
            ctx.report("cross.tool-name-unknown", pointer, call.name)
        elif named is not None and call.name != named:
            ctx.report("cross.tool-choice-named", pointer, call.name)


def check_finish(
    ctx: Context, calls: int, finish: str | None, pointer: str, *, refused: bool
) -> None:
    """finish_reason against the calls of its choice.

    ``refused``: there is a refusal, which takes the place of a demanded call.
    """
    request = ctx.request
    if finish == "tool_calls" and calls == 0:
        ctx.report("tools.finish-without-calls", pointer, finish, words=True)
    elif finish == "stop" and calls and request.named_tool is None:
        ctx.report("tools.finish-stop-with-calls", pointer, finish, words=True)
    demanded = request.tool_choice == "required" or request.named_tool is not None
    if finish == "stop" and not calls and demanded and not refused:
        ctx.report("cross.tool-choice-required", pointer, finish, words=True)


def check_call_as_text(ctx: Context, text: str, pointer: str) -> bool:
    """Whether tool call markup stands in the text of an answer to a request with tools."""
    if not ctx.request.tools_sent:
        return False
    marker = next((m for m in CALL_MARKERS if m in text), "")
    if marker:
        ctx.report("tools.call-as-text", pointer, detail=f'"content" holds {marker}')
    return bool(marker)
