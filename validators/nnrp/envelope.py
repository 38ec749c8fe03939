"""The envelope of a request: what a client asks for, and how (rules ``nnrp.envelope-*``).

What belongs here: the envelope's own members, and what the capability document at hand says of them. The
OpenAI body inside it goes to the rules of its operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeline.validators import evidence
from teeline.validators.checks.request import facts_of
from teeline.validators.checks.requestrules import check_request
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import ENVELOPE, OPERATIONS, SCHEMA_VERSION, is_count, is_filled
from teeline.validators.nnrp.capabilities import is_path
from teeline.validators.nnrp.operation import Operation
from teeline.validators.operation import Operation as Api

_ACCEPTED = "nnrp.invalid-submit-accepted"


def check_envelope(op: Operation, envelope: Mapping[str, Any]) -> None:
    """Checks an envelope and reads what was asked into ``op``."""
    report = op.report
    _check_version(op, envelope.get("schema_version", ABSENT))
    _check_operation(op, envelope.get("operation", ABSENT))
    _check_request_id(op, envelope.get("request_id", ABSENT))
    _check_hints(op, envelope.get("nnrp", ABSENT))
    for name in envelope:
        if name not in ENVELOPE:
            pointer = f"/{evidence.token(name)}"
            report("nnrp.envelope-field-unknown", pointer, envelope[name])
    body = envelope.get("body", ABSENT)
    if body is ABSENT:
        report("nnrp.envelope-body-missing", "/body")
    elif not isinstance(body, dict):
        report("nnrp.envelope-body-not-object", "/body", body)
    if not isinstance(body, dict):
        op.invalid_body = True
        _refusable(op, "nnrp.invalid-envelope-accepted")
        return
    _check_body(op, body)


def _refusable(op: Operation, rule: str) -> None:
    """Notes what an answer other than an error breaks; the first cause is named."""
    op.refusable = op.refusable or rule


def _check_version(op: Operation, version: Any) -> None:
    if not isinstance(version, str):
        op.report("nnrp.envelope-schema-version-missing", "/schema_version", version)
    elif version != SCHEMA_VERSION:
        op.report("nnrp.envelope-schema-version-wrong", "/schema_version", version, words=True)
        _refusable(op, _ACCEPTED)


def _check_operation(op: Operation, name: Any) -> None:
    report = op.report
    if not is_filled(name):
        report("nnrp.envelope-operation-missing", "/operation", name)
        _refusable(op, "nnrp.invalid-envelope-accepted")
        return
    op.name = name[:256]
    op.exchange.path = op.name
    api = OPERATIONS.get(name, Api.OTHER)
    op.ctx.operation = api
    op.exchange.operation = api.reported
    if is_path(name):
        report("nnrp.envelope-operation-is-path", "/operation", detail="an HTTP path")
    elif op.capabilities is not None:
        if name not in op.capabilities.operations:
            report("nnrp.envelope-operation-undeclared", "/operation", name, words=True)
    elif name not in OPERATIONS:
        report("nnrp.envelope-operation-unknown", "/operation", name, words=True)
    if op.capabilities is not None and name not in op.capabilities.operations:
        _refusable(op, "nnrp.unsupported-operation-accepted")


def _check_request_id(op: Operation, value: Any) -> None:
    report = op.report
    derived = f"{op.session}/{op.frame}"
    op.exchange.request_id = value[:256] if is_filled(value) else derived
    if value is ABSENT:
        return
    if value is None:
        report("nnrp.envelope-optional-null", "/request_id", value)
    elif not isinstance(value, str):
        report("nnrp.envelope-request-id-not-string", "/request_id", value)
    elif not value:
        report("nnrp.envelope-request-id-empty", "/request_id", value)
    else:
        op.request_id = value


def _check_hints(op: Operation, hints: Any) -> None:
    report = op.report
    if hints is ABSENT:
        return
    if hints is None:
        report("nnrp.envelope-optional-null", "/nnrp", hints)
    elif not isinstance(hints, dict):
        report("nnrp.envelope-nnrp-not-object", "/nnrp", hints)
    else:
        op.hints = hints
        if "timeout_ms" in hints and not is_count(hints["timeout_ms"]):
            report("nnrp.envelope-timeout-invalid", "/nnrp/timeout_ms", hints["timeout_ms"])
        if "diagnostics" in hints and not isinstance(hints["diagnostics"], bool):
            value = hints["diagnostics"]
            report("nnrp.envelope-diagnostics-not-boolean", "/nnrp/diagnostics", value)


def _check_body(op: Operation, body: Mapping[str, Any]) -> None:
    report, ctx = op.report, op.ctx
    op.known, op.body = True, body
    stream = body.get("stream")
    op.stream = stream is True
    if "nnrp" in body:
        report("nnrp.envelope-nnrp-in-body", "/body/nnrp", body["nnrp"])
    for name, value in op.hints.items():
        if name in body and _same(body[name], value):
            pointer = f"/body/{evidence.token(name)}"
            report("nnrp.envelope-hint-copied-into-body", pointer, body[name])
    if stream is not None and not isinstance(stream, bool):
        report("nnrp.envelope-stream-not-boolean", "/body/stream", stream)
        op.known = False  # whether it streams can't be told
    facts = facts_of(body, ctx.operation)
    ctx.request = facts
    op.exchange.stream = op.stream
    model = body.get("model")
    op.exchange.model = model[:256] if isinstance(model, str) else None
    _check_declared(op, body, tools=facts.tools_sent)
    if ctx.operation is Api.CHAT and not body.get("messages"):
        op.without_messages = op.invalid_body = True
        _refusable(op, "nnrp.missing-messages-accepted")
    report.prefix = "/body"
    try:
        check_request(ctx, "", b"", None)
    finally:
        report.prefix = ""


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true is not 1."""
    return type(one) is type(other) and bool(one == other)


def _check_declared(op: Operation, body: Mapping[str, Any], *, tools: bool) -> None:
    declared, capabilities = op.declared, op.capabilities
    if declared is not None:
        mode = declared.streaming if op.stream else declared.non_streaming
        if mode is False and op.known:
            words = "streams" if op.stream else "does not stream"
            op.report("nnrp.envelope-mode-undeclared", "/body/stream", detail=f"it {words}")
        if tools and declared.tool_calls is False:
            op.report("nnrp.envelope-tools-undeclared", "/body/tools", detail="tools are offered")
    model = body.get("model")
    listed = capabilities.models if capabilities is not None else frozenset()
    if listed and isinstance(model, str) and model not in listed:
        op.report("nnrp.model-undeclared", "/body/model", model)
