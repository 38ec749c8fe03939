"""A ``response`` object: the whole answer, or what an event of a stream carries.

What belongs here: its shape, its members, and what must hold between them. What doesn't: one output item
(items.py), what it repeats of the request (echo.py), and the order of a stream's events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeline.validators.checks import cross
from teeline.validators.checks.chat import note_error
from teeline.validators.checks.context import Context
from teeline.validators.checks.echo import check_echo
from teeline.validators.checks.items import (
    check_item,
    is_scripted,
    is_unfinished,
    message_parts,
)
from teeline.validators.checks.shapes import RESPONSE_SHAPES, shape_of
from teeline.validators.checks.structured import check_response_format
from teeline.validators.checks.tools import Call, against_request
from teeline.validators.checks.usage import check_usage, check_zeros
from teeline.validators.fields.items import CALLS
from teeline.validators.fields.responses import BETA_RESPONSE, INCOMPLETE_REASONS, RESPONSE
from teeline.validators.fields.table import walk
from teeline.validators.fields.usage import RESPONSES_USAGE

_RUNNING = frozenset({"queued", "in_progress"})
_CUT_SHORT = frozenset({"incomplete", "failed", "cancelled"})
_OUTPUT = frozenset({"output"})
_ALL = frozenset[str]()
_ANSWERING = frozenset({"message", "reasoning"})
"""Items that are no call of anything."""
_OWN = _ANSWERING | CALLS.keys()
"""Items that hold nothing from elsewhere: no page, file or tool result that the client did not send."""


# -- answers ---------------------------------------------------------------------------------------


def check_response(ctx: Context, value: Any) -> None:
    """Checks the document of a 2xx answer: of a request, of a poll, or of a cancellation."""
    if not isinstance(value, dict):
        ctx.report("responses.body-not-object", "", value)
        return
    if not _is_foreign(ctx, value):
        check_response_object(ctx, value, "", final=True)


def check_light(ctx: Context, value: Any) -> None:
    """Checks the document of a 2xx answer around responses: nothing but an error in its place."""
    if isinstance(value, dict) and shape_of(value, RESPONSE_SHAPES) == "responses.error-in-200":
        _is_foreign(ctx, value)


def _is_foreign(ctx: Context, value: Mapping[str, Any]) -> bool:
    """Whether the document is another protocol's or an error, which then is reported."""
    foreign = shape_of(value, RESPONSE_SHAPES)
    if foreign:
        note_error(ctx, value)
        ctx.report(foreign, "", value, words=True)
    return bool(foreign)


# -- the object ------------------------------------------------------------------------------------


def check_response_object(
    ctx: Context, value: Any, pointer: str, *, final: bool, streamed: int | None = None
) -> None:
    """Checks a response that lies at ``pointer``; what is no object is its event's fault.

    ``final``: it is the last word, as in a document or a terminal event; in the events before there are
    no items yet and nothing of the outcome. ``streamed``: how many items the stream gave whole before,
    each checked by ``check_item`` on its own; None outside of streams. In a stream the rules of the
    stream say what becomes of a missing ``output``, or of an empty one behind items.
    """
    if not isinstance(value, dict):
        return
    table = BETA_RESPONSE if ctx.beta else RESPONSE
    walk(table, value, pointer, ctx.report, _ALL if streamed is None else _OUTPUT)
    made = value.get("id")
    if isinstance(made, str) and not made.startswith("resp_"):
        ctx.report("responses.id-prefix", f"{pointer}/id", made)
    if not ctx.beta:
        _members(ctx, value, pointer)
        check_echo(ctx, value, pointer)
    if final:
        _facts(ctx, value)
        _outcome(ctx, value, pointer, streamed)


def _members(ctx: Context, value: Mapping[str, Any], pointer: str) -> None:
    """What a table can't say of the members."""
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and not all(isinstance(v, str) for v in metadata.values()):
        detail = '"metadata" holds a value that is no string'
        ctx.report("responses.metadata-type", f"{pointer}/metadata", detail=detail)
    cross.check_model(ctx, value.get("model"), f"{pointer}/model")
    _status(ctx, value, pointer)


def _status(ctx: Context, value: Mapping[str, Any], pointer: str) -> None:
    """The status against ``error`` and ``incomplete_details``."""
    status, error = value.get("status"), value.get("error")
    if status == "failed" and error is None:
        ctx.report("responses.failed-without-error", f"{pointer}/error", error)
    elif status == "completed" and error:
        ctx.report("responses.completed-with-error", f"{pointer}/error", error)
    elif status == "incomplete":
        details = value.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        readable = details is None or isinstance(details, dict)
        if readable and not (isinstance(reason, str) and reason in INCOMPLETE_REASONS):
            at = f"{pointer}/incomplete_details/reason"
            ctx.report("responses.incomplete-reason-unknown", at, reason, words=True)


def _facts(ctx: Context, value: Mapping[str, Any]) -> None:
    exchange = ctx.exchange
    for name, slot in (("id", "response_id"), ("model", "response_model")):
        text = value.get(name)
        if isinstance(text, str) and text:
            setattr(exchange, slot, text[:256])
    status, error = value.get("status"), value.get("error")
    if isinstance(status, str):
        ctx.finished(status)
    if status == "failed":
        code = error.get("code") if isinstance(error, dict) else None
        exchange.error_type = code[:64] if isinstance(code, str) and code else "error"


# -- the outcome -----------------------------------------------------------------------------------


def _outcome(ctx: Context, value: Mapping[str, Any], pointer: str, streamed: int | None) -> None:
    """The items, and what must hold between them, the status, the usage and the request."""
    output = value.get("output")
    items = output if isinstance(output, list) else []
    calls = _items(ctx, items, value.get("status"), pointer, checked=bool(streamed))
    if ctx.beta:
        return
    status = value.get("status")
    if status == "completed":
        if output == [] and not streamed and not _may_be_empty(ctx, value):
            ctx.report("responses.output-empty", f"{pointer}/output", output)
        _unfinished(ctx, items, pointer)
        _demanded(ctx, items, pointer)
    against_request(ctx, calls)
    check_response_format(ctx, value, pointer)
    _texts(ctx, value, items, pointer)
    _usage(ctx, value, pointer, answered=bool(items or streamed))


def _items(
    ctx: Context, items: list[Any], status: Any, pointer: str, *, checked: bool
) -> list[Call]:
    """Checks every item; the calls for the client."""
    running = isinstance(status, str) and status in _RUNNING
    calls: list[Call] = []
    for n, item in enumerate(items):
        if len(calls) >= ctx.limits.tool_calls:
            ctx.partial("tool-call-limit")
            break
        call = check_item(
            ctx,
            item,
            f"{pointer}/output/{n}",
            final=not running,
            cut=isinstance(status, str) and status in _CUT_SHORT,
            arguments=not checked,
        )
        if call is not None:
            calls.append(call)
    _duplicates(ctx, calls)
    return calls


def _duplicates(ctx: Context, calls: list[Call]) -> None:
    seen: set[str] = set()
    for call in calls:
        if isinstance(call.id, str):
            if call.id in seen:
                ctx.report("tools.id-duplicate", f"{call.pointer}/call_id", call.id)
            seen.add(call.id)


def _may_be_empty(ctx: Context, value: Mapping[str, Any]) -> bool:
    """Whether no output may be meant: a warm-up generates nothing on purpose.

    Where the request is not known, tokens that were generated tell that it was none.
    """
    if ctx.request.known:
        return ctx.request.flag("generate") is False
    usage = value.get("usage")
    generated = usage.get("output_tokens") if isinstance(usage, dict) else None
    return not (isinstance(generated, int) and generated > 0)


def _unfinished(ctx: Context, items: list[Any], pointer: str) -> None:
    for n, item in enumerate(items):
        if isinstance(item, dict) and is_unfinished(item) and not is_scripted(item):
            at = f"{pointer}/output/{n}/status"
            ctx.report("responses.item-unfinished", at, item["status"], words=True)


def _only(items: list[Any], kinds: frozenset[str]) -> bool:
    """Whether every item is of one of these types."""
    names = (item.get("type") if isinstance(item, dict) else None for item in items)
    return all(isinstance(name, str) and name in kinds for name in names)


def _demanded(ctx: Context, items: list[Any], pointer: str) -> None:
    """A call that the request demands; a call of anything is one, also of a type not known here."""
    request = ctx.request
    if not items or not (request.tool_choice == "required" or request.named_tool is not None):
        return
    refused = any(part.get("type") == "refusal" for part in message_parts(items))
    if _only(items, _ANSWERING) and not refused:
        at = f"{pointer}/output"
        ctx.report("cross.tool-choice-required", at, detail=f"{len(items)} items, no call")


def _texts(ctx: Context, value: Mapping[str, Any], items: list[Any], pointer: str) -> None:
    """The texts of all messages: against ``output_text``, and as a whole."""
    texts = [p.get("text") for p in message_parts(items) if p.get("type") == "output_text"]
    read = [text for text in texts if isinstance(text, str)]
    said = value.get("output_text")
    if said is not None and len(read) == len(texts):
        same = said == "".join(read)
        rule = "responses.output-text-extra" if same else "responses.output-text-differs"
        ctx.report(rule, f"{pointer}/output_text", said)
    if _only(items, _OWN) and not ctx.request.continues:
        cross.check_replaced(
            ctx,
            replaced=any(cross.REPLACEMENT in text for text in read),
            finish="length" if value.get("status") == "incomplete" else None,
            pointer=f"{pointer}/output",
        )


def _usage(ctx: Context, value: Mapping[str, Any], pointer: str, *, answered: bool) -> None:
    usage, status = value.get("usage"), value.get("status")
    at = f"{pointer}/usage"
    if usage is None:
        if status == "completed":
            ctx.report("usage.responses-missing", at, usage)
        return
    counts = check_usage(ctx, usage, RESPONSES_USAGE, at)
    if counts is None or not any(counts.values()):
        return  # all zeros, as official usage is at times, count nothing
    if status == "completed":
        check_zeros(ctx, counts, RESPONSES_USAGE, at, answered=answered)
    cross.check_limit(
        ctx,
        ctx.request.integer("max_output_tokens"),
        counts[RESPONSES_USAGE.completion],
        f"{at}/{RESPONSES_USAGE.completion}",
        cut=_is_cut(value),
    )


def _is_cut(value: Mapping[str, Any]) -> bool:
    details = value.get("incomplete_details")
    return isinstance(details, dict) and details.get("reason") == "max_output_tokens"
