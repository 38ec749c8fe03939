"""RESULT_PUSH, RESULT_DROP, RESULT_DROP_REASON and ERROR: how an operation ends.

What belongs here: the wire form of a terminal result, and what the end says of everything before it.
What doesn't: the members of its document (documents.py), a completed body against the stream
(completed.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import (
    CANCELLED,
    COMPLETED,
    ERROR,
    EVENTS,
    TERMINALS,
    TOOL_EVENTS,
)
from teeline.validators.nnrp.completed import check_completed, finish_cut
from teeline.validators.nnrp.documents import answered, check_document
from teeline.validators.nnrp.operation import Operation
from teeline.validators.nnrp.payload import TERMINAL, read_payload
from teeline.validators.nnrp.tools import check_unterminated, close_tools
from teeline.validators.wire.nnrp import (
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    PRELUDE_BYTES,
    ControlMeta,
    ErrorMeta,
    ResultMeta,
    prelude_of,
)

EMPTY: Final = "empty"
UNREADABLE: Final = "unreadable"
DROPPED: Final = "dropped"
FAILED: Final = "failed"

_PARTIAL_CLASS: Final = 1
_PARTIAL_FLAG: Final = 4
_STALE_OR_FALLBACK: Final = 3
_LAST_DROP_CODE: Final = 9
_PEER_CANCELLED: Final = 3
_BACKPRESSURE: Final = 4
_FRAME_CANCELLED: Final = 9
_SERVER_BUSY: Final = 11


def check_result(op: Operation, packet: Packet, meta: ResultMeta | None) -> None:
    """A RESULT_PUSH for an operation that has not ended; ``meta`` None: its length is wrong."""
    if meta is None or not packet.whole:
        if not packet.whole:
            op.ctx.partial("body-limit")
        _end(op, UNREADABLE)
        return
    _check_marks(op, meta)
    if 100 <= meta.status <= 599:
        op.exchange.status = meta.status
    op.asked_to_wait = op.asked_to_wait or meta.queue_ms > 0
    document = _document(op, packet, meta)
    if document is None:
        _end(op, UNREADABLE)
        return
    kind = document.get("type", EMPTY) if document else EMPTY
    _check_status(op, meta.status, kind)
    if kind == ERROR:
        check_document(op, kind, document)
        _end_in_error(op)
    elif kind == CANCELLED:
        check_document(op, kind, document)
        close_tools(op, cut=False)
        _end(op, kind)
    else:
        _succeeded(op, kind, document)


def _check_marks(op: Operation, meta: ResultMeta) -> None:
    report = op.report
    if any(meta.reserved):
        report("nnrp.reserved-nonzero", detail="reserved fields of the metadata")
    if meta.result_class == _PARTIAL_CLASS or meta.flags & _PARTIAL_FLAG:
        detail = f"result_class {meta.result_class}, result_flags {meta.flags}"
        report("nnrp.terminal-marked-partial", detail=detail)
    if meta.result_class > _PARTIAL_CLASS or meta.flags & _STALE_OR_FALLBACK or meta.reused_frame:
        detail = f"result_class {meta.result_class}, result_flags {meta.flags}"
        report("nnrp.terminal-marked-reused", detail=detail)


def _document(op: Operation, packet: Packet, meta: ResultMeta) -> Mapping[str, Any] | None:
    """The document of a result: empty for an empty success, None where it can't be read."""
    report, body = op.report, packet.body
    claimed = f"payload_frame_count {meta.frames}, payload_kind_bitmap {meta.bitmap}"
    if not body or body == bytes(PRELUDE_BYTES):
        if meta.frames or meta.bitmap:
            report("nnrp.terminal-empty-fields-nonzero", detail=claimed)
        return {}
    prelude = prelude_of(body)
    if not meta.frames and (prelude is None or not prelude.descriptors):
        report("nnrp.terminal-undeclared-body", detail=f"{len(body)} bytes of body, {claimed}")
        return None
    value = read_payload(op.ctx, packet, meta.bitmap, meta.frames, TERMINAL).value
    if value is ABSENT:
        return None
    if not isinstance(value, dict):
        report("nnrp.terminal-json-not-object", "", value)
        return None
    return _typed(op, value)


def _typed(op: Operation, value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The document if it is one that ends an operation."""
    report = op.report
    kind = value.get("type", ABSENT)
    if not isinstance(kind, str):
        report("nnrp.terminal-type-missing", "/type", kind)
        return None
    if kind in TERMINALS:
        return value
    if kind in TOOL_EVENTS:
        report("nnrp.tool-event-in-result-push", "/type", kind, words=True)
    elif kind in EVENTS:
        report("nnrp.terminal-stream-event", "/type", kind, words=True)
    else:
        report("nnrp.terminal-type-unknown", "/type", kind, words=True)
    return None


def _check_status(op: Operation, status: int, kind: str) -> None:
    failed = kind in (ERROR, CANCELLED)
    if (200 <= status < 300 and failed) or (400 <= status < 600 and not failed):
        words = kind if kind != EMPTY else "an empty result"
        op.report("nnrp.terminal-status-inconsistent", detail=f"status_code {status} with {words}")


# -- what the end says ---------------------------------------------------------------------------------


def _succeeded(op: Operation, kind: str, document: Mapping[str, Any]) -> None:
    report = op.report
    answered(op)
    if op.cancelled:
        _late_success(op)
    if kind == COMPLETED:
        if op.completed_events:
            report("nnrp.completed-repeated", "/type", kind, words=True)
        if op.error_event:
            report("nnrp.completed-after-error", "/type", kind, words=True)
        check_document(op, kind, document)
    elif op.error_event:
        report("nnrp.empty-success-after-error", detail="after response.error")
    elif op.known and not op.stream and not op.completed_events:
        report("nnrp.terminal-empty-nonstream", detail="the request does not stream")
    body = document.get("body")
    body = body if isinstance(body, dict) else None
    close_tools(op, cut=finish_cut(body))
    if not op.cancelled:
        check_unterminated(op, "nnrp.tool-unterminated-at-success")
        if not op.error_event:
            _check_success(op, body)
    _end(op, kind)


def _late_success(op: Operation) -> None:
    report = op.report
    late = op.latest_partial - (op.cancelled_at or 0.0)
    if op.timed and late > 5 * op.limits.grace:
        report("nnrp.cancel-ignored", detail=f"events up to {late:.1f} s after the cancel")
    report("nnrp.cancel-late-result", detail="after the cancel")


def _check_success(op: Operation, body: Mapping[str, Any] | None) -> None:
    report = op.report
    if op.stream and not op.usages and op.ctx.request.include_usage:
        report("nnrp.usage-missing", detail="include_usage is true, no response.usage came")
    declared = op.declared
    if declared is not None and op.known:
        mode = declared.streaming if op.stream else declared.non_streaming
        if mode is False:
            words = "streaming" if op.stream else "non_streaming"
            report("nnrp.undeclared-mode-used", detail=f"{words} is declared false")
    check_completed(op, body)


def _end_in_error(op: Operation) -> None:
    close_tools(op, cut=False)
    if not op.cancelled:
        check_unterminated(op, "nnrp.tool-unterminated-at-error")
    _end(op, ERROR)


def _end(op: Operation, terminal: str) -> None:
    op.terminal = terminal
    op.terminal_at = op.report.at


def check_drop(op: Operation, meta: ControlMeta | None) -> None:
    """RESULT_DROP or RESULT_DROP_REASON for an operation that has not ended."""
    report = op.report
    if meta is not None:
        if meta.reason > _LAST_DROP_CODE:
            report("nnrp.drop-reason-unknown", detail=f"drop_reason_code {meta.reason}")
        if meta.reason == _BACKPRESSURE and not op.asked_to_wait:
            report("nnrp.overload-without-diagnostics", detail="dropped for back-pressure")
        if op.cancelled and meta.reason != _PEER_CANCELLED:
            detail = f"drop_reason_code {meta.reason}"
            report("nnrp.cancel-other-terminal", detail=detail)
    _given_up(op, DROPPED)


def check_error(op: Operation, meta: ErrorMeta, *, alone: bool) -> None:
    """ERROR ends an operation; ``alone``: it is about this one."""
    report = op.report
    op.exchange.error_type = f"nnrp_error_{meta.code}"
    if alone:
        report("nnrp.error-message-for-one-frame", detail=f"error_code {meta.code}")
    if meta.code == _SERVER_BUSY and not op.asked_to_wait and not meta.retry_after:
        report("nnrp.overload-without-diagnostics", detail=f"error_code {meta.code}")
    if op.cancelled and meta.code != _FRAME_CANCELLED:
        report("nnrp.cancel-other-terminal", detail=f"error_code {meta.code}")
    _given_up(op, FAILED)


def _given_up(op: Operation, terminal: str) -> None:
    close_tools(op, cut=False)
    if not op.cancelled:
        check_unterminated(op, "nnrp.tool-unterminated-at-drop")
    _end(op, terminal)
