"""Tool calls: the life of each ``call_id`` from started to completed or error (``nnrp.tool-*``).

What belongs here: what one call's events must be to each other, and calls among each other. What
doesn't: the members of one event (events.py), the calls of the final body (completed.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import DELTA, DONE, FAILED, STARTED, is_count, is_filled
from teeline.validators.nnrp.operation import MOST_UNPARSED, Call, Operation
from teeline.validators.operation import Operation as Api
from teeline.validators.wire.json import decode

_NOT_STARTED: Final[Mapping[str, str]] = {
    DELTA: "nnrp.tool-delta-before-started",
    DONE: "nnrp.tool-completed-before-started",
    FAILED: "nnrp.tool-error-before-started",
}


def check_tool_event(op: Operation, kind: str, event: Mapping[str, Any]) -> None:
    """Follows one event of a tool call."""
    if not op.tool_events:
        op.tool_events = True
        _check_wanted(op)
    call_id = event.get("call_id")
    if not is_filled(call_id):
        return
    call = op.calls.get(call_id)
    if call is None:
        call = _new_call(op, kind, event, call_id)
        if call is None:
            return
    elif kind == STARTED:
        if call.started:
            op.report("nnrp.tool-started-twice", "/call_id", detail="the call was started before")
        call.started = True
        return
    else:
        _check_same(op, call, event)
    if kind == DELTA:
        _delta(op, call, event)
    elif kind in (DONE, FAILED):
        _ended(op, call, kind, event)


def _check_wanted(op: Operation) -> None:
    """Whether tool events may come at all, seen at the first one."""
    report, declared = op.report, op.declared
    if declared is not None and declared.tool_calls is False:
        report("nnrp.tool-events-undeclared", detail="tool_calls is declared false")
    elif op.known and op.ctx.operation is Api.CHAT and not op.ctx.request.tools_sent:
        report("nnrp.tool-events-unrequested", detail="the request offered no tools")


def _new_call(op: Operation, kind: str, event: Mapping[str, Any], call_id: str) -> Call | None:
    """The first event of a call; None where there are too many calls to follow."""
    if len(op.calls) >= op.limits.tool_calls:
        op.ctx.partial("tool-call-limit")
        return None
    report = op.report
    index, item = event.get("index", ABSENT), event.get("item_id", ABSENT)
    if is_filled(item) and any(other.item == item for other in op.calls.values()):
        report("nnrp.tool-item-id-shared", "/item_id", detail="another call has it")
    if is_count(index) and any(other.index == index for other in op.calls.values()):
        report("nnrp.tool-index-shared", "/index", index)
    call = Call(event.get("name"), item, index, op.text("deltas"), op.text("arguments"))
    op.calls[call_id] = call
    if kind == STARTED:
        _check_offered(op, call.name)
    else:
        report(_NOT_STARTED[kind], "/call_id", detail="the call was not started")
        call.started = False  # named once; it is no open call either
    return call


def _check_offered(op: Operation, name: Any) -> None:
    request = op.ctx.request
    all_named = len(request.tools) == len(request.offered) > 0
    if is_filled(name) and all_named and name not in request.tools:
        detail = f"none of {len(request.tools)} offered tools has this name"
        op.report("nnrp.tool-name-not-offered", "/name", detail=detail)


def _check_same(op: Operation, call: Call, event: Mapping[str, Any]) -> None:
    """``call_id`` alone is stable by contract; what else changes loses clients that key by it."""
    report = op.report
    item, index, name = event.get("item_id"), event.get("index"), event.get("name")
    if is_filled(item) and is_filled(call.item) and item != call.item:
        report("nnrp.tool-item-id-changed", "/item_id", detail="the call had another item_id")
    if is_count(index) and is_count(call.index) and index != call.index:
        report("nnrp.tool-index-changed", "/index", index)
    if is_filled(name) and is_filled(call.name) and name != call.name:
        report("nnrp.tool-name-changed", "/name", detail="the call was started by another name")


def _delta(op: Operation, call: Call, event: Mapping[str, Any]) -> None:
    if call.ended:
        detail = f"the call has {'completed' if call.ended == DONE else 'failed'}"
        op.report("nnrp.tool-delta-after-termination", "/call_id", detail=detail)
        return
    delta = event.get("arguments_delta")
    call.deltas += 1
    if isinstance(delta, str):
        if delta:  # an empty one says nothing of the arguments
            call.arguments.add(delta)
    else:
        call.arguments.partial = True


def _ended(op: Operation, call: Call, kind: str, event: Mapping[str, Any]) -> None:
    if call.ended:
        op.report("nnrp.tool-terminated-twice", "/call_id", detail="the call has ended before")
        return
    call.ended = kind
    call.named = event.get("name")
    arguments = event.get("arguments")
    if kind == DONE and isinstance(arguments, str):
        _arguments(op, call, arguments)


def _arguments(op: Operation, call: Call, arguments: str) -> None:
    report = op.report
    pointer, detail = "/arguments", f"{len(arguments)} characters"
    if not arguments:
        report("nnrp.tool-arguments-empty", pointer, arguments)
    if call.arguments.deltas:
        if not call.arguments.agrees(arguments):
            count = call.arguments.deltas
            words = f"{detail}, other than {count} deltas joined"
            report("nnrp.tool-arguments-mismatch", pointer, detail=words)
    elif arguments and not call.deltas and call.started:
        report("nnrp.tool-arguments-without-delta", pointer, detail=detail)
    call.whole.agrees(arguments)
    valid = not arguments or decode(arguments.encode("utf-8", "surrogatepass")).ok
    if not valid and len(op.unparsed) < MOST_UNPARSED:
        op.unparsed.append((report.index, report.byte, len(arguments)))


def close_tools(op: Operation, *, cut: bool) -> None:
    """The end of the operation is known: were arguments that are no JSON cut by a length?"""
    report = op.report
    kept = (report.index, report.byte)
    rule = "nnrp.tool-arguments-truncated" if cut else "nnrp.tool-arguments-not-json"
    for report.index, report.byte, length in op.unparsed:
        report(rule, "/arguments", detail=f"{length} characters that are no JSON")
    report.index, report.byte = kept
    op.unparsed.clear()


def check_unterminated(op: Operation, rule: str) -> None:
    """Calls that were started and never ended."""
    count = len(op.open_calls)
    if count:
        op.report(rule, detail=f"{count} started tool calls are open")
