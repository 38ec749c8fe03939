"""Error bodies and error objects: whether a client gets to see what went wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.wire.json import Document

_SECRET = re.compile(rb"\bsk-[A-Za-z0-9_-]{20,}|https?://[^/\s:@\"']{1,64}:[^/\s@\"']{1,128}@")
_TRACE = re.compile(
    rb"Traceback \(most recent call last\)|\n[ \t]{1,32}at [\w.$<>]{1,128} ?\([^)\n]{0,256}:\d+\)"
)
_SCANNED = 64 * 1024
_NO_CHANNEL = re.compile(
    r"no available (channel|provider)|model[^.]{0,80}(not found|does not exist)|unknown model", re.I
)
_BAD_KEY = re.compile(r"(incorrect|invalid|wrong)[ _](api|auth)[\w ]{0,16}key|invalid token", re.I)
_SERVER_TYPES = frozenset({"server_error", "internal_server_error", "internal_error"})


def check_error_body(ctx: Context, body: bytes, document: Document) -> None:
    """Checks the body of an answer with status 400 or above."""
    ctx.exchange.error_type = str(ctx.response.status)
    _leaks(ctx, body)
    value = document.value
    _retry_hint(ctx, value)
    if not document.ok:
        ctx.report("error.not-json", "", detail=f"{len(body)} bytes that are no JSON")
        return
    at = ""
    if isinstance(value, list) and value and isinstance(value[0], dict) and "error" in value[0]:
        ctx.report("error.list-wrapped", "", value)
        value, at = value[0], "/0"
    if not isinstance(value, dict):
        ctx.report("error.no-envelope", "", value)
        return
    if value.get("type") == "error":
        ctx.report("error.anthropic-shape", f"{at}/type", value["type"], words=True)
    error = value.get("error")
    if isinstance(error, dict):
        check_error_object(ctx, error, f"{at}/error")
        _against_status(ctx, error, f"{at}/error")
    elif isinstance(error, str) and error:
        ctx.report("error.string", f"{at}/error", error)
    elif isinstance(value.get("message"), str):
        ctx.report("error.top-level-message", f"{at}/message", value["message"])
        _against_status(ctx, value, at)
    else:
        ctx.report("error.no-envelope", "", value)


def check_error_object(ctx: Context, error: Mapping[str, Any], pointer: str) -> None:
    """Members of an error object, in an error body or in a stream."""
    report = ctx.report
    message = error.get("message")
    if not isinstance(message, str) or not message:
        report("error.message-missing", f"{pointer}/message", message)
    kind = error.get("type")
    if kind is None:
        report("error.type-missing", f"{pointer}/type", kind)
    elif isinstance(kind, str) and kind:
        ctx.exchange.error_type = kind[:64]
    code = error.get("code")
    if code is not None and not isinstance(code, str):
        report("error.code-type", f"{pointer}/code", code)
    for name in ("param", "code"):
        if name not in error:
            report("error.param-missing", f"{pointer}/{name}")


def _retry_hint(ctx: Context, value: Any) -> None:
    """A rate limit or an overload should say when to come back; an empty account need not."""
    if ctx.response.status not in (429, 503) or not ctx.headers_known:
        return
    error = value.get("error") if isinstance(value, dict) else None
    quota = isinstance(error, dict) and "insufficient_quota" in (
        error.get("code"),
        error.get("type"),
    )
    if not quota and not ctx.header("retry-after") and not ctx.header("retry-after-ms"):
        ctx.report(
            "http.retry-after-missing", detail=f"status {ctx.response.status} without retry-after"
        )


def _leaks(ctx: Context, body: bytes) -> None:
    start = body[:_SCANNED]
    if _SECRET.search(start):
        ctx.report("error.secret-leak", "", detail="a key or credentials in the body")
    elif _TRACE.search(start) or b"Traceback (most recent call last)" in start:
        ctx.report("error.secret-leak", "", detail="a stack trace in the body")


def _against_status(ctx: Context, error: Mapping[str, Any], at: str) -> None:
    status = ctx.response.status
    code, kind = error.get("code"), error.get("type")
    message = error.get("message")
    text = message if isinstance(message, str) else ""
    if isinstance(code, int) and not isinstance(code, bool) and code != status:
        ctx.report("error.code-status-mismatch", f"{at}/code", code)
    if _contradicts(kind, code, status):
        ctx.report("error.type-status-mismatch", f"{at}/type", kind, words=True)
    if status not in (401, 403) and (code == "invalid_api_key" or _BAD_KEY.search(text[:500])):
        ctx.report("error.auth-status-wrong", at, detail=f"status {status} for a bad key")
    if (
        status == 429
        and "insufficient_quota" in (kind, code)
        and ctx.header("x-should-retry") != "false"
    ):
        ctx.report("error.quota-retryable", f"{at}/code", code, words=True)
    if status in (500, 503) and (code == "model_not_found" or _NO_CHANNEL.search(text[:500])):
        ctx.report(
            "error.model-not-found-status", at, detail=f"status {status} for an unknown model"
        )


def _contradicts(kind: Any, code: Any, status: int) -> bool:
    """Whether the body's type would make a client retry differently than the status does."""
    if "insufficient_quota" in (kind, code):
        return status >= 500
    if kind == "invalid_request_error":
        return status >= 500
    return isinstance(kind, str) and kind in _SERVER_TYPES and 400 <= status < 500
