"""A Responses object as far as tools and usage go; its own field and order rules are another family.

What belongs here: function calls among the output items, and the usage of a response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeline.validators.checks.chat import note_error
from teeline.validators.checks.context import Context
from teeline.validators.checks.structured import check_response_format
from teeline.validators.checks.tools import Call, against_request, check_arguments
from teeline.validators.checks.usage import check_usage, check_zeros
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.usage import RESPONSES_USAGE

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}


def check_response(ctx: Context, value: Any, pointer: str = "") -> None:
    """Checks the calls and the usage of a response: a document, or the one in a terminal event."""
    if not isinstance(value, dict):
        return
    if value.get("error") and "output" not in value:
        note_error(ctx, value)
        return
    if value.get("object") != "response":
        return
    _facts(ctx, value)
    status = value.get("status")
    output = value.get("output")
    items = output if isinstance(output, list) else []
    cut = status == "incomplete"
    calls = [
        call
        for n, item in enumerate(items)
        if isinstance(item, dict)
        and (call := _item(ctx, item, f"{pointer}/output/{n}", cut=cut)) is not None
    ]
    against_request(ctx, calls)
    check_response_format(ctx, value, pointer)
    if status == "completed":
        _usage(ctx, value.get("usage"), f"{pointer}/usage", answered=bool(items))


def _facts(ctx: Context, value: Mapping[str, Any]) -> None:
    exchange = ctx.exchange
    for name, slot in (("id", "response_id"), ("model", "response_model")):
        text = value.get(name)
        if isinstance(text, str) and text:
            setattr(exchange, slot, text[:256])
    status = value.get("status")
    if isinstance(status, str):
        exchange.finish.append(status[:32])


def _item(ctx: Context, item: Mapping[str, Any], pointer: str, *, cut: bool) -> Call | None:
    kind = item.get("type")
    if not isinstance(kind, str) or kind not in _CALLS:
        return None
    call_id = item.get("call_id", ABSENT)
    if not isinstance(call_id, str):
        ctx.report("tools.call-id-missing", f"{pointer}/call_id", call_id)
    if isinstance(item.get("function"), dict):
        ctx.report("tools.nested-shape", f"{pointer}/function", item["function"])
        return None
    call = Call(
        pointer,
        id=call_id,
        name=item.get("name", ABSENT),
        arguments=item.get(_CALLS[kind], ABSENT),
        custom=kind == "custom_tool_call",
    )
    if call.custom:
        if not (isinstance(call.name, str) and isinstance(call.arguments, str)):
            ctx.report("tools.custom-shape", pointer, item)
    else:
        if not isinstance(call.name, str) or not call.name:
            ctx.report("tools.name-missing", f"{pointer}/name", call.name)
        if item.get("status") != "in_progress":
            unfinished = cut or item.get("status") == "incomplete"
            check_arguments(ctx, call, f"{pointer}/arguments", cut=unfinished)
    return call


def _usage(ctx: Context, usage: Any, pointer: str, *, answered: bool) -> None:
    if usage is None:
        ctx.report("usage.responses-missing", pointer, usage)
        return
    counts = check_usage(ctx, usage, RESPONSES_USAGE, pointer)
    if counts is not None:
        check_zeros(ctx, counts, RESPONSES_USAGE, pointer, answered=answered)
