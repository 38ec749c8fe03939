"""A request as such: what a client did wrong, on its own side (``request.*``), never the relay's fault.

What belongs here: the head, the size, the body as JSON, single members and their relations, most of them
rows of fields/request.py. What doesn't: messages (requestmessages.py), tools (requesttools.py), the facts
that answers are checked against (request.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from teeline.validators.checks.context import Context
from teeline.validators.checks.requestmessages import check_input_items, check_messages
from teeline.validators.checks.requesttools import (
    FORMATS_MEMBERS,
    TOOLS_MEMBERS,
    check_formats,
    check_tools,
)
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.request import BOUNDS, CLASHES, COUNTED, MOST_STOPS
from teeline.validators.heads import FieldNames, content_type
from teeline.validators.model import Headers, Unit
from teeline.validators.operation import Operation
from teeline.validators.wire.json import Document, JsonFault, JsonFaultKind

_NOT_JSON = frozenset(
    {
        JsonFaultKind.INVALID,
        JsonFaultKind.TRAILING,
        JsonFaultKind.EMPTY,
        JsonFaultKind.UTF8,
    }
)
_QUERY_KEY = re.compile(r"[?&](api[-_]?key|key|subscription-key|access_token)=[^&#]")
_NO_KEY = re.compile(r"\s*(bearer\s*)?\Z", re.I)
_NAN = re.compile(rb"-?[NI]")
_MODEL_IN_PATH = re.compile(r"/(deployments|models)/[^/]+/")


def check_request(ctx: Context, target: str, body: bytes, document: Document | None) -> None:
    """Checks a request that was read to its end.

    ``target`` is as it stood on the request line; ``document`` is what ``body`` holds, None where the
    body was not kept or can't be decoded. ``ctx.request`` has the facts by now (P7).
    """
    with ctx.report.on_request():
        if ctx.exchange.request_bytes > ctx.limits.large_request:
            _large(ctx)
        if ctx.request_headers:  # P8
            _check_head(ctx, target)
        if document is not None and (document.faults or not isinstance(document.value, dict)):
            _check_body(ctx, body, document)
        if not ctx.request.known:
            return
        usual, rare, members = _CHECKS.get(ctx.operation, _NO_CHECKS)
        for check in usual if members.isdisjoint(ctx.request.document) else rare:
            check(ctx)


def _large(ctx: Context) -> None:
    size, limit = ctx.exchange.request_bytes, ctx.limits.large_request
    ctx.report("request.large", detail=f"{size} bytes, above {limit}")


# -- the head -----------------------------------------------------------------------------------------


def _check_head(ctx: Context, target: str) -> None:
    headers, names = ctx.request_headers, ctx.request_names
    kind = content_type(headers[names.type][1] if names.type >= 0 else "").media
    typed = kind == "application/json" or kind.endswith("+json")
    if typed and _has_credential(headers, names):
        return
    ctx.report.place(Unit.HEAD)
    if not typed:
        detail = f"content-type {kind[:64]!r}" if kind else "no content-type"
        ctx.report("request.content-type", detail=detail)
    if not _has_credential(headers, names) and not _QUERY_KEY.search(target):
        ctx.report("request.auth-missing", detail="no authorization or api-key field")
    ctx.report.place(Unit.BODY)


def _has_credential(headers: Headers, names: FieldNames) -> bool:
    """Whether some field says who the client is."""
    return any(not _NO_KEY.match(headers[position][1]) for position in names.credentials)


# -- the body as a whole ------------------------------------------------------------------------------


def _check_body(ctx: Context, body: bytes, document: Document) -> None:
    if document.faults and _is_faulty(ctx, body, document):
        return
    if not isinstance(document.value, dict):
        ctx.report("request.json-invalid", "", document.value)


def _is_faulty(ctx: Context, body: bytes, document: Document) -> bool:
    """Whether a body is no JSON, or deeper than it is looked at."""
    if any(fault.kind is JsonFaultKind.DEPTH for fault in document.faults):
        ctx.partial("depth-limit")
        return True
    fault = next((f for f in document.faults if _is_no_json(f, body)), None)
    if fault is not None:
        detail = f"{fault.kind.value} at byte {fault.byte}"
        ctx.report("request.json-invalid", detail=detail, byte=fault.byte)
    return fault is not None


def _is_no_json(fault: JsonFault, body: bytes) -> bool:
    """Repeated names, a number beyond a double and half a surrogate are in JSON's grammar; NaN is not."""
    if fault.kind is JsonFaultKind.NONFINITE:
        return _NAN.match(body, fault.byte) is not None
    return fault.kind in _NOT_JSON


# -- single members -----------------------------------------------------------------------------------


def _check_model(ctx: Context) -> None:
    model = ctx.request.document.get("model", ABSENT)
    if isinstance(model, str) and model:
        return
    # Azure and others name the model in the path, a stored prompt of the Responses API has its own.
    prompted = ctx.operation is Operation.RESPONSES and ctx.request.document.get("prompt")
    if not prompted and not _MODEL_IN_PATH.search(ctx.exchange.path):
        ctx.report("request.model-missing", "/model", model)


def _check_bounds(ctx: Context) -> None:
    document = ctx.request.document
    for member, value in document.items():
        if member in _BOUNDED and not _is_within(member, value):
            break  # worth a look
    else:
        return
    for row in BOUNDS:
        number = document.get(row.member)
        if number is None or ctx.operation not in row.operations or isinstance(number, bool):
            continue
        if isinstance(number, int | float) and not row.low <= number <= row.high:
            ctx.report("request.range", f"/{row.member}", number)
    stops = document.get("stop")
    if ctx.operation in COUNTED and isinstance(stops, list) and len(stops) > MOST_STOPS:
        ctx.report("request.range", "/stop", detail=f"{len(stops)} of at most {MOST_STOPS}")


def _is_within(member: str, value: Any) -> bool:
    """Whether a member's value is a number within its bounds: the usual, of which nothing is to be said."""
    row = _ROWS.get(member)
    return row is not None and type(value) in _NUMBERS and row.low <= value <= row.high


_NUMBERS = frozenset({int, float})
_ROWS = {row.member: row for row in BOUNDS}
_BOUNDED = frozenset({"stop", *(row.member for row in BOUNDS)})
_CLASHES = {
    operation: [(row.member.split("/")[1], row) for row in CLASHES if operation in row.operations]
    for operation in Operation
}
"""Each operation's, by the member of the request in which they lie."""
_CLASHING = {operation: frozenset(m for m, _ in rows) for operation, rows in _CLASHES.items()}


def _check_clashes(ctx: Context) -> None:
    document = ctx.request.document
    for member, row in _CLASHES[ctx.operation]:
        if document.get(member) is not None and row.when(document):
            value = _at(document, row.member)
            if value is not None:
                ctx.report(row.rule, row.member, value)


def _at(document: Mapping[str, Any], pointer: str) -> Any:
    """What stands at a pointer through objects; None for nothing and for null."""
    value: Any = document
    for name in pointer.split("/")[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check_embeddings_input(ctx: Context) -> None:
    value = ctx.request.document.get("input", ABSENT)
    if value is ABSENT or value is None or value in ("", []):
        ctx.report("request.embeddings-input", "/input", value)
    elif isinstance(value, list):
        for n, element in enumerate(value):
            if element in ("", []):
                ctx.report("request.embeddings-input", f"/input/{n}", element)


class _Checks(NamedTuple):
    """An operation's checks in their order: those of any request, and those of one that has a member for
    which there are more."""

    usual: tuple[Callable[[Context], None], ...] = ()
    all: tuple[Callable[[Context], None], ...] = ()
    members: frozenset[str] = frozenset()


_NO_CHECKS = _Checks()
_TOLD = TOOLS_MEMBERS | FORMATS_MEMBERS
_CHECKS: Mapping[Operation, _Checks] = {
    Operation.CHAT: _Checks(
        (_check_model, _check_bounds, check_messages),
        (
            _check_model,
            _check_clashes,
            _check_bounds,
            check_messages,
            check_tools,
            check_formats,
        ),
        _CLASHING[Operation.CHAT] | _TOLD,
    ),
    Operation.RESPONSES: _Checks(
        (_check_model, _check_bounds, check_input_items),
        (
            _check_model,
            _check_clashes,
            _check_bounds,
            check_input_items,
            check_tools,
            check_formats,
        ),
        _CLASHING[Operation.RESPONSES] | _TOLD,
    ),
    Operation.COMPLETIONS: _Checks(
        (_check_model, _check_bounds),
        (_check_model, _check_clashes, _check_bounds),
        _CLASHING[Operation.COMPLETIONS],
    ),
    Operation.EMBEDDINGS: _Checks((_check_model, _check_embeddings_input)),
}
