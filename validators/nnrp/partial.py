"""PARTIAL_RESULT: one bare JSON event (rules ``nnrp.partial-*``), and where it stands in its operation.

What belongs here: the wire form, and the order of events against each other and the end. What doesn't:
the members of events (events.py), tool calls (tools.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import (
    CANCELLED,
    COMPLETED,
    DIAGNOSTICS,
    EVENTS,
    TERMINALS,
    TEXT,
    TOOL_EVENTS,
    USAGE,
)
from teeline.validators.nnrp.documents import answered, check_document
from teeline.validators.nnrp.events import check_event
from teeline.validators.nnrp.operation import Operation
from teeline.validators.nnrp.payload import JsonRules, read_json
from teeline.validators.wire.json import JsonFaultKind, decode
from teeline.validators.wire.nnrp import (
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    PartialMeta,
    looks_typed,
)

_FINAL: Final = 1
_JSON: Final = JsonRules(
    "nnrp.partial-utf8-invalid", "nnrp.partial-json-invalid", "nnrp.partial-multiple-events"
)
_SSE_LINE: Final = re.compile(rb"(?:\A|[\r\n])(?:data|event|id|retry):")
_SSE_DONE: Final = re.compile(rb"\A\s*\[DONE\]|[\r\n}]\s*\[DONE\]\s*\Z")
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)\s*\Z")


def check_partial(
    op: Operation, packet: Packet, meta: PartialMeta | None
) -> Mapping[str, Any] | None:
    """Checks one PARTIAL_RESULT of an operation; ``meta`` None: its metadata has a wrong length.

    Gives the event where it is a text delta.
    """
    report = op.report
    if meta is not None:
        if meta.body_bytes != packet.body_bytes:
            detail = f"body_bytes {meta.body_bytes}, body_len {packet.body_bytes}"
            report("nnrp.partial-body-bytes-wrong", detail=detail)
        if op.sequence is not None and meta.sequence <= op.sequence:
            detail = f"result_sequence {meta.sequence} after {op.sequence}"
            report("nnrp.result-sequence-not-increasing", detail=detail)
        op.sequence = meta.sequence
    if op.final_partial:
        report("nnrp.partial-after-final-flag", detail="the one before was marked final")
    if meta is not None and meta.flags & _FINAL:
        op.final_partial = True
    if not packet.whole:
        op.ctx.partial("body-limit")
        return None
    event = _event(op, packet)
    if event is None:
        if op.terminal:
            report("nnrp.event-after-terminal", detail="an event after the end")
        return None
    kind = event.get("type", ABSENT)
    if not isinstance(kind, str):
        report("nnrp.partial-type-missing", "/type", kind)
        return None
    _placed(op, kind, event)
    return event if kind == TEXT else None


def _event(op: Operation, packet: Packet) -> Mapping[str, Any] | None:
    """The event of a body; None where it is none, which was reported."""
    report, body = op.report, packet.body
    if not body:
        report("nnrp.partial-empty", detail="0 bytes of body")
        return None
    if body[:1] != b"{" and looks_typed(body):
        report("nnrp.partial-typed-envelope", detail=f"{len(body)} bytes begin like a typed body")
        return None
    if _has_sse(body):
        report("nnrp.partial-sse-delimiter", detail=f"SSE framing in {len(body)} bytes")
        return None
    value, valid = read_json(op.ctx, body, packet.body_offset, _JSON)
    if value is ABSENT:
        return None
    if isinstance(value, dict):
        return value
    if valid:
        array = isinstance(value, list)
        report("nnrp.partial-array" if array else "nnrp.partial-json-not-object", "", value)
    return None


def _has_sse(body: bytes) -> bool:
    """Whether a body holds framing of an event stream; inside a JSON string no line can begin."""
    if body[:1] == b"{" and body[-1:] == b"}" and b"\n" not in body and b"\r" not in body:
        return False
    if _SSE_LINE.search(body) or _SSE_DONE.search(body):
        return not _is_json(body)
    return bool(_BLANK_LINE.search(body)) and body.rstrip()[-1:] == b"}"


def _is_json(body: bytes) -> bool:
    document = decode(body)
    return document.ok and not any(f.kind is JsonFaultKind.TRAILING for f in document.faults)


# -- order ---------------------------------------------------------------------------------------------


def _placed(op: Operation, kind: str, event: Mapping[str, Any]) -> None:
    """Checks where an event comes, then what it says."""
    report = op.report
    if op.terminal:
        rule = "nnrp.usage-after-terminal" if kind == USAGE else "nnrp.event-after-terminal"
        report(rule, "/type", kind, words=True)
        return
    if op.cancelled_event:
        report("nnrp.event-after-cancelled", "/type", kind, words=True)
        return
    if kind == DIAGNOSTICS:
        _diagnostics(op)
        return
    if kind not in EVENTS and kind not in TERMINALS:
        report("nnrp.partial-type-unknown", "/type", kind, words=True)
        return
    if kind in TERMINALS:
        _terminal_document(op, kind, event)
        return
    _check_order(op, kind)
    answered(op)
    check_event(op, kind, event)


def _check_order(op: Operation, kind: str) -> None:
    report = op.report
    if op.completed_events or op.error_event:
        report("nnrp.event-after-terminal-document", "/type", kind, words=True)
    if op.usages and kind in (TEXT, *TOOL_EVENTS):
        report("nnrp.usage-not-last", "/type", kind, words=True)
    if op.known and not op.stream:
        rule = "nnrp.nonstream-usage-event" if kind == USAGE else "nnrp.nonstream-partials"
        report(rule, "/type", kind, words=True)


def _terminal_document(op: Operation, kind: str, event: Mapping[str, Any]) -> None:
    """A document that belongs into RESULT_PUSH: what it says counts, the operation goes on."""
    report = op.report
    report("nnrp.partial-terminal-document", "/type", kind, words=True)
    if kind == COMPLETED:
        if op.error_event:
            report("nnrp.completed-after-error", "/type", kind, words=True)
        answered(op)
    check_document(op, kind, event)
    if kind == COMPLETED:
        op.completed_events += 1
    elif kind == CANCELLED:
        op.cancelled_event = True
    else:
        op.error_event = True


def _diagnostics(op: Operation) -> None:
    declared = op.capabilities is not None and any(
        "diagnostics" in name for name in op.capabilities.extensions
    )
    asked = op.hints.get("diagnostics") is True or declared
    rule = "nnrp.diagnostics-event" if asked else "nnrp.diagnostics-event-unasked"
    op.report(rule, "/type", DIAGNOSTICS, words=True)
