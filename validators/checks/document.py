"""One JSON document that was the whole body: framing faults of JSON, then the operation's own check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from teeline.validators import evidence
from teeline.validators.checks.chat import check_chat, note_error
from teeline.validators.checks.chatknown import asked_of, known_chat
from teeline.validators.checks.completions import check_completion
from teeline.validators.checks.context import Context
from teeline.validators.checks.embeddings import check_embeddings
from teeline.validators.checks.errors import check_error_body
from teeline.validators.checks.http import media_type
from teeline.validators.checks.identity import check_accepted, check_identity
from teeline.validators.checks.marks import note_object
from teeline.validators.checks.models import check_models
from teeline.validators.checks.responses import check_light, check_response
from teeline.validators.evidence import ABSENT
from teeline.validators.likeness import Known
from teeline.validators.model import Unit
from teeline.validators.operation import Operation
from teeline.validators.wire.json import Document, JsonFaultKind, decode

_BODY = Unit.BODY
BODY_FAULTS: Mapping[JsonFaultKind, str] = {
    JsonFaultKind.INVALID: "http.json-invalid",
    JsonFaultKind.TRAILING: "http.json-trailing",
    JsonFaultKind.BOM: "http.json-bom",
    JsonFaultKind.LEADING_SPACE: "http.json-whitespace",
    JsonFaultKind.NONFINITE: "http.json-nonfinite",
    JsonFaultKind.DUPLICATE_KEY: "http.json-duplicate-key",
    JsonFaultKind.SURROGATE: "http.json-surrogate",
    JsonFaultKind.UTF8: "http.utf8-invalid",
    JsonFaultKind.EMPTY: "http.body-empty",
}


def report_faults(
    ctx: Context, document: Document, rules: Mapping[JsonFaultKind, str], byte: int = 0
) -> None:
    """Reports a document's faults by their rules; ``byte`` is where the document starts."""
    for fault in document.faults:
        if fault.kind is JsonFaultKind.DEPTH:
            ctx.partial("depth-limit")
        elif rule := rules.get(fault.kind):
            detail = f"{fault.kind.value.replace('_', ' ')} at byte {byte + fault.byte}"
            ctx.report(
                rule, evidence.pointer_of(fault.pointer), detail=detail, byte=byte + fault.byte
            )


def check_document(ctx: Context, body: bytes) -> None:
    """Checks the body of a 2xx answer that is no event stream."""
    if not body and not ctx.body_due:
        return
    ctx.report.place(_BODY)
    history = ctx.history
    known = None if history is None else history.answers.get(ctx.operation)
    found = None if known is None else known.find(body)
    if found is not None and _is_typed(ctx):
        asked = asked_of(ctx)
        if asked is not None and found[0].accept(ctx.exchange, asked, found[1], ctx.report.at):
            check_accepted(ctx)
            return
    breaches = ctx.report.breaches
    value = _checked(ctx, body)
    clean = value is not ABSENT and ctx.report.breaches == breaches
    if known is not None and found is None and clean and known.useful:
        remembered = KNOWN_ANSWERS[ctx.operation](ctx, value)
        if remembered is not None:
            known.learn(body, remembered)
    if value is not ABSENT:
        check_identity(ctx, value)


def _checked(ctx: Context, body: bytes) -> Any:
    """The full check of a document but for its id; its value, ABSENT where it has none."""
    document = decode(body, ctx.limits.depth)
    if not document.ok and _is_html(body):
        ctx.report("http.html-200", detail=f"{len(body)} bytes of HTML")
        return ABSENT
    report_faults(ctx, document, BODY_FAULTS)
    if not document.ok:
        return ABSENT
    if ctx.request.stream:
        ctx.report("cross.stream-answered-with-json", "", document.value, words=True)
    elif not _is_typed(ctx):
        kind = media_type(ctx)
        ctx.report(
            "http.json-content-type",
            detail=f"content-type {kind[:64]!r}" if kind else "no content-type",
        )
    note_object(ctx.exchange, document.value)
    DOCUMENT_CHECKS.get(ctx.operation, _note_errors)(ctx, document.value)
    return document.value


DOCUMENT_CHECKS: Mapping[Operation, Callable[[Context, Any], None]] = {
    Operation.CHAT: check_chat,
    Operation.COMPLETIONS: check_completion,
    Operation.EMBEDDINGS: check_embeddings,
    Operation.MODELS: check_models,
    Operation.RESPONSES: check_response,
    Operation.RESPONSES_LIGHT: check_light,
}
"""Who checks the document of an operation's answer; of others only an error is looked for."""

KNOWN_ANSWERS: Mapping[Operation, Callable[[Context, Any], Known | None]] = {
    Operation.CHAT: known_chat
}
"""Who remembers an answer that its check accepted, for the operations that ``History.answers`` has."""


def _note_errors(ctx: Context, value: Any) -> None:
    if isinstance(value, dict) and value.get("error"):
        note_error(ctx, value)


def _is_typed(ctx: Context) -> bool:
    """Whether the head says that the body is JSON, or is not in the record (P8)."""
    kind = ctx.content_type.media
    return kind == "application/json" or kind.endswith("+json") or not ctx.headers_known


def _is_html(body: bytes) -> bool:
    start = body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<!--", b"<?xml"))


def check_error(ctx: Context, body: bytes) -> None:
    """Checks the body of an answer with status 400 or above."""
    ctx.report.place(Unit.BODY)
    check_error_body(ctx, body, decode(body, ctx.limits.depth))
