"""response.completed, response.error and response.cancelled, wherever they come.

What belongs here: the members of the three, error mapping, and answers that a submit must not get. What
doesn't: the packet around them (terminal.py, partial.py), a completed body against the stream
(completed.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from teeline.validators import evidence
from teeline.validators.checks.document import DOCUMENT_CHECKS
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import (
    CANCELLED,
    COMPLETED,
    KNOWN_MEMBERS,
    OPERATIONS,
    is_count,
    is_filled,
)
from teeline.validators.nnrp.operation import Operation

_STATUS: Final = re.compile(r"(?:HTTP[/ ]?[0-9.]*\s*)?[1-5][0-9][0-9](?:[ _:-].*)?\Z", re.I)
_OTHER_REASON: Final = re.compile(r"auth|permission|rate|quota|overload|busy|timeout|unavailable")
_OVERLOAD: Final = re.compile(r"overload|rate_limit|too_many|busy|capacity|queue|backpressure")
_CANCEL: Final = re.compile(r"cancel|abort", re.I)


def answered(op: Operation) -> None:
    """An event or a success has come: some submits must have failed."""
    report = op.report
    if op.broken_frame:
        report("nnrp.malformed-frame-answered-in-profile", detail="with an event or a success")
        op.broken_frame = False
    elif op.refusable and not op.error_event:
        report(op.refusable, detail="it was answered")
        op.refusable = ""


def check_document(op: Operation, kind: str, document: Mapping[str, Any]) -> None:
    """Checks one of the three documents by itself."""
    for name in document.keys() - KNOWN_MEMBERS[kind]:
        pointer = f"/{evidence.token(name)}"
        op.report("nnrp.event-field-unknown", pointer, document[name])
    if kind == COMPLETED:
        _completed(op, document.get("body", ABSENT))
    elif kind == CANCELLED:
        _cancelled(op, document.get("reason", ABSENT))
    else:
        _error(op, document.get("error", ABSENT))


def _completed(op: Operation, body: Any) -> None:
    if not isinstance(body, dict):
        op.report("nnrp.completed-body-missing", "/body", body)
        return
    check = DOCUMENT_CHECKS.get(op.ctx.operation)
    if check is None:
        return
    op.report.prefix = "/body"
    # A stream has usage only where include_usage asks for it; so has the document that it adds up to.
    op.ctx.joined = op.stream and not op.ctx.request.include_usage
    try:
        check(op.ctx, body)
    finally:
        op.report.prefix = ""


def _cancelled(op: Operation, reason: Any) -> None:
    if not isinstance(reason, str):
        op.report("nnrp.cancelled-reason-missing", "/reason", reason)
    elif not reason:
        op.report("nnrp.cancelled-reason-empty", "/reason", reason)
    expected = op.cancelled or op.timed_out or op.shutting_down
    if not expected and "cancel_after_events" not in op.hints and not _may_time_out(op):
        op.report("nnrp.cancelled-without-cancel", "/type", CANCELLED, words=True)


def _may_time_out(op: Operation) -> bool:
    """Whether a timeout may have passed: without given times it may always."""
    timeout = op.hints.get("timeout_ms")
    if not is_count(timeout):
        return False
    return not op.timed or op.report.at >= op.at + float(timeout) / 1000


# -- errors --------------------------------------------------------------------------------------------


def _error(op: Operation, error: Any) -> None:
    report = op.report
    if op.broken_frame:
        report("nnrp.malformed-frame-answered-in-profile", detail="with response.error")
        op.broken_frame = False
    if not isinstance(error, dict):
        report("nnrp.error-object-missing", "/error", error)
        return
    message = error.get("message", ABSENT)
    if not isinstance(message, str):
        report("nnrp.error-message-missing", "/error/message", message)
    elif not message:
        report("nnrp.error-message-empty", "/error/message", message)
    kind, code = error.get("type", ABSENT), error.get("code", ABSENT)
    if not is_filled(kind):
        report("nnrp.error-type-missing", "/error/type", kind)
    if code is ABSENT or code is None or code == "":
        report("nnrp.error-code-missing", "/error/code", code)
    elif not isinstance(code, str):
        report("nnrp.error-code-not-string", "/error/code", code)
    for name, value in (("type", kind), ("code", code)):
        if isinstance(value, str) and _STATUS.match(value[:64]):
            report("nnrp.error-http-status-leak", f"/error/{name}", detail="an HTTP status")
    op.exchange.error_type = kind[:64] if is_filled(kind) else "error"
    _check_mapping(op, *(w.lower()[:64] if isinstance(w, str) else "" for w in (kind, code)))


def _check_mapping(op: Operation, kind: str, code: str) -> None:
    """What an error says against what was wrong with the request; both words in lower case."""
    report = op.report
    if _CANCEL.search(kind + " " + code) and op.cancelled:
        report("nnrp.cancel-reported-as-error", "/error", detail="the client has cancelled")
        return
    if op.cancelled:
        report("nnrp.cancel-other-terminal", "/error", detail="the client has cancelled")
    if code == "unsupported_operation" and op.declared is not None:
        report("nnrp.declared-operation-refused", "/error/code", code, words=True)
    if _OVERLOAD.search(kind + " " + code) and not op.asked_to_wait:
        report("nnrp.overload-without-diagnostics", "/error", detail="no NNRP diagnostics came")
    if _OTHER_REASON.search(kind + " " + code):
        return  # refused for something that came before the request was read
    if _is_unsupported(op) and code != "unsupported_operation":
        report("nnrp.unsupported-operation-code-wrong", "/error/code", code, words=True)
    elif op.without_messages and not _is_unsupported(op) and code != "missing_messages":
        report("nnrp.missing-messages-code-wrong", "/error/code", code, words=True)
    if op.invalid_body and not _is_unsupported(op) and kind != "invalid_request_error":
        report("nnrp.invalid-body-type-wrong", "/error/type", kind, words=True)


def _is_unsupported(op: Operation) -> bool:
    """Whether a server had to refuse the operation: it is not declared, or not one of the profile."""
    if op.name is None:
        return False
    if op.capabilities is not None:
        return op.name not in op.capabilities.operations
    return op.name not in OPERATIONS
