"""One output item of a response, wherever it stands: in a response, or in an event of a stream.

What belongs here: an item's members, its parts, and the call that it may be. What doesn't: how items
relate to their response (responses.py), and the calls of a response against its request (tools.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.tools import Call, check_arguments, check_call_as_text
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.items import CALLS, ITEMS, UNFINISHED, ItemKind
from teeline.validators.fields.parts import ANNOTATIONS, FOREIGN_PARTS, MESSAGE_PARTS
from teeline.validators.fields.table import walk


def check_item(
    ctx: Context,
    item: Any,
    pointer: str,
    *,
    final: bool,
    cut: bool = False,
    arguments: bool = True,
) -> Call | None:
    """Checks one output item; the call for the client that it is, None for everything else.

    ``final``: nothing more of it comes, as in ``response.output_item.done`` or in a response that is over;
    otherwise it owes its type, its id and its status only. ``cut``: its response ended before its time.
    ``arguments`` false: what those of a call say was checked before.
    """
    if not isinstance(item, dict):
        ctx.report("responses.item-not-object", pointer, item)
        return None
    name = item.get("type", ABSENT)
    if not isinstance(name, str) or not name:
        ctx.report("responses.item-type-missing", f"{pointer}/type", name)
        return None
    if ctx.beta:
        return None
    kind = ITEMS.get(name)
    if kind is None:
        _unknown(ctx, name, item, pointer)
        return None
    walk(kind.state, item, pointer, ctx.report)
    if not final:
        return None
    if name in CALLS:
        return _call(ctx, name, item, pointer, cut=cut, arguments=arguments)
    if name == "message":
        _message(ctx, kind, item, pointer)
    elif kind.early or not is_unfinished(item):
        walk(kind.payload, item, pointer, ctx.report)
    return None


def is_unfinished(item: Mapping[str, Any]) -> bool:
    """Whether an item says of itself that it is still being made."""
    status = item.get("status")
    return isinstance(status, str) and status in UNFINISHED


def is_scripted(item: Mapping[str, Any]) -> bool:
    """Whether a program that the model wrote makes the call; official ones stay in_progress."""
    caller = item.get("caller")
    return isinstance(caller, dict) and caller.get("type") == "program"


def _unknown(ctx: Context, name: str, item: Mapping[str, Any], pointer: str) -> None:
    if name == "function" and isinstance(item.get("function"), dict):
        ctx.report("tools.nested-shape", f"{pointer}/function", item["function"])
    else:
        ctx.report("responses.item-type-unknown", f"{pointer}/type", name, words=True)


# -- calls -----------------------------------------------------------------------------------------


def _call(
    ctx: Context, kind: str, item: Mapping[str, Any], pointer: str, *, cut: bool, arguments: bool
) -> Call | None:
    """A call that the client has to answer: flat, with ``call_id``, name and what the tool gets."""
    if isinstance(item.get("function"), dict):
        ctx.report("tools.nested-shape", f"{pointer}/function", item["function"])
        return None
    call = Call(
        pointer,
        id=item.get("call_id", ABSENT),
        name=item.get("name", ABSENT),
        arguments=item.get(CALLS[kind], ABSENT),
        custom=kind == "custom_tool_call",
        inside="",
        scripted=is_scripted(item),
    )
    if not isinstance(call.id, str):
        ctx.report("tools.call-id-missing", f"{pointer}/call_id", call.id)
    elif not call.id:
        ctx.report("tools.id-empty", f"{pointer}/call_id", call.id)
    if call.custom:
        if not (isinstance(call.name, str) and call.name and isinstance(call.arguments, str)):
            ctx.report("tools.custom-shape", pointer, item)
        return call
    if not isinstance(call.name, str) or not call.name:
        ctx.report("tools.name-missing", f"{pointer}/name", call.name)
    if (arguments or not isinstance(call.arguments, str)) and not is_unfinished(item):
        unfinished = cut or item.get("status") == "incomplete"
        check_arguments(ctx, call, f"{pointer}/arguments", cut=unfinished)
    return call


# -- messages --------------------------------------------------------------------------------------


def _message(ctx: Context, kind: ItemKind, item: Mapping[str, Any], pointer: str) -> None:
    if item.get("tool_calls"):
        ctx.report("responses.chat-calls-in-message", f"{pointer}/tool_calls", item["tool_calls"])
        return
    walk(kind.payload, item, pointer, ctx.report)
    content = item.get("content")
    for n, part in enumerate(content if isinstance(content, list) else ()):
        check_part(ctx, part, f"{pointer}/content/{n}")


def check_part(ctx: Context, part: Any, pointer: str) -> None:
    """Checks one part of a message, in its item or in an event of its own."""
    name = part.get("type", ABSENT) if isinstance(part, dict) else ABSENT
    if not isinstance(name, str) or name in FOREIGN_PARTS:
        ctx.report("responses.content-part-type", f"{pointer}/type", name, words=True)
        return
    table = MESSAGE_PARTS.get(name)
    if table is None:
        ctx.report("responses.content-part-unknown", f"{pointer}/type", name, words=True)
        return
    walk(table, part, pointer, ctx.report)
    if name == "output_text":
        _annotations(ctx, part.get("annotations"), f"{pointer}/annotations")
        text = part.get("text")
        if isinstance(text, str):
            check_call_as_text(ctx, text, f"{pointer}/text")


def _annotations(ctx: Context, annotations: Any, pointer: str) -> None:
    for n, annotation in enumerate(annotations if isinstance(annotations, list) else ()):
        at = f"{pointer}/{n}"
        name = annotation.get("type", ABSENT) if isinstance(annotation, dict) else ABSENT
        if not isinstance(name, str):
            ctx.report("responses.annotation-shape", f"{at}/type", name)
        elif name in ANNOTATIONS:
            walk(ANNOTATIONS[name], annotation, at, ctx.report)


def message_parts(output: list[Any]) -> Iterator[Mapping[str, Any]]:
    """The parts of all messages among the items, in order; broken ones are passed over."""
    for item in output:
        if isinstance(item, dict) and item.get("type") == "message":
            content = item.get("content")
            yield from (
                p for p in (content if isinstance(content, list) else ()) if isinstance(p, dict)
            )
