"""The head of an answer: status, header fields, and what they promise about the body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime

from teeline.validators.checks.context import Context
from teeline.validators.events import ResponseHead
from teeline.validators.heads import ContentType, FieldNames
from teeline.validators.model import Ended, Unit
from teeline.validators.operation import Operation

_NORMAL_ERRORS = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 413, 414, 415, 422, 424, 429, 431, 451}
    | {500, 501, 502, 503, 504}
)
_DIGITS = 18
_AMOUNT = re.compile(rf"-?\d{{1,{_DIGITS}}}(\.\d+)?\Z")
_DURATION = re.compile(r"(?:\d++(?:\.\d++)?(?:ms|us|[smhd]))+\Z")
_COUNT = re.compile(rf"[0-9]{{1,{_DIGITS}}}\Z")
_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\Z")
_HEAD = Unit.HEAD
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_RETRY_FIELDS = ("retry-after", "retry-after-ms")
_RETRY_LIMIT = 120.0


def media_type(ctx: Context) -> str:
    """The answer's media type in lower case, without parameters; empty where there is none."""
    return ctx.content_type.media


def check_head(ctx: Context) -> None:
    """What a final response head must say whatever the body is."""
    status = ctx.response.status
    ctx.report.place(_HEAD)
    if status != 200:
        _check_status(ctx, status)
    if not ctx.response.headers:
        return  # P8
    names = ctx.names
    if not names.usual:
        _check_names(ctx)
    if names.rate_limits:
        _rate_limits(ctx)
    charset = ctx.content_type.charset
    if charset and charset not in _CHARSETS:
        ctx.report("http.charset-not-utf8", detail=f"charset {charset[:24]!r}")
    if names.retries:
        _retry_after(ctx)


def is_head_clean(head: ResponseHead, names: FieldNames, kind: ContentType) -> bool:
    """Whether a head is one of which ``check_head`` reports nothing, told at a glance; of an answer in no
    content coding."""
    if head.status != 200 or not names.usual or names.coded:
        return False
    if kind.charset and kind.charset not in _CHARSETS:
        return False
    headers = head.headers
    for at, _, reset in names.rate_limits:
        form = _DURATION if reset else _COUNT
        if form.match(headers[at][1]) is None:
            return False
    return True


def _check_status(ctx: Context, status: int) -> None:
    if 300 <= status < 400 and status != 304:
        ctx.report("http.redirect", detail=f"status {status}")
    elif status in (201, 202, 203, 205, 206) and ctx.operation is not Operation.OTHER:
        ctx.report("http.status-2xx-odd", detail=f"status {status}")
    elif status >= 400 and status not in _NORMAL_ERRORS:
        ctx.report("http.status-nonstandard", detail=f"status {status}")


def _check_names(ctx: Context) -> None:
    names = ctx.names
    if not names.identified:
        ctx.report("http.request-id-missing", detail="no x-request-id")
    if not names.timed:
        ctx.report("http.processing-ms-missing", detail="no openai-processing-ms or openai-version")
    if not names.limited:
        ctx.report("http.ratelimit-missing", detail="no x-ratelimit fields")


def _rate_limits(ctx: Context) -> None:
    headers = ctx.response.headers
    for position, name, reset in ctx.names.rate_limits:
        value = headers[position][1]
        if _is_usual(value, reset):
            continue
        text = value.strip()
        if not (_AMOUNT.match(text) or (reset and (_DURATION.match(text) or _is_date(text)))):
            ctx.report("http.ratelimit-format", detail=f"{name[:64]}: {len(text)} characters")


def _is_usual(value: str, reset: bool) -> bool:
    """Whether a rate limit's value is in the form that the API itself writes."""
    if reset:
        return _DURATION.match(value) is not None
    return _COUNT.match(value) is not None


def _is_date(text: str) -> bool:
    return bool(re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", text))


def _retry_after(ctx: Context) -> None:
    seconds, milliseconds = map(ctx.fields, _RETRY_FIELDS)
    waits = [_wait(ctx, text) for text in seconds] + [
        _number(text, 1000.0) for text in milliseconds
    ]
    if any(wait is None or wait < 0 for wait in waits):
        ctx.report("http.retry-after-invalid", detail="neither seconds nor a date to come")
    elif any(wait is not None and wait > _RETRY_LIMIT for wait in waits):
        ctx.report("http.retry-after-large", detail=f"more than {_RETRY_LIMIT:g} s")


def _number(text: str, divisor: float = 1.0) -> float | None:
    return float(text) / divisor if _AMOUNT.match(text.strip()) else None


def _wait(ctx: Context, text: str) -> float | None:
    """Seconds that a retry-after field asks for; None where it can't be read."""
    number = _number(text)
    if number is not None:
        return number
    when = http_date(text)
    if when is None:
        return None
    # Against the answer's own date where it has one: a capture is read long after it was made.
    answered = http_date(ctx.header("date"))
    return when - (ctx.report.at if answered is None else answered)


def http_date(text: str) -> float | None:
    """An HTTP-date (RFC 9110 5.6.7, the fixed form) as Unix time."""
    if not _HTTP_DATE.match(text.strip()):
        return None
    try:
        return parsedate_to_datetime(text.strip()).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def check_codings(ctx: Context, codings: Sequence[str]) -> None:
    """Content codings that the client did not offer."""
    offered = ctx.asked("accept-encoding") if codings else ()
    if not offered:
        return  # without the field every coding is acceptable (RFC 9110 12.5.3)
    accepted, refused = _accepted(offered)
    anything = "*" in accepted
    missing = [c for c in codings if c in refused or not (anything or c in accepted)]
    if missing:
        ctx.report.place(Unit.HEAD)
        ctx.report("http.encoding-not-offered", detail=f"content-encoding {missing[0][:24]!r}")


def _accepted(offered: Sequence[str]) -> tuple[set[str], set[str]]:
    """Codings that Accept-Encoding fields offer, and those that they refuse with a weight of 0."""
    accepted: set[str] = set()
    refused: set[str] = set()
    for part in ",".join(offered).split(","):
        coding, _, weight = part.partition(";")
        name = coding.strip().lower().removeprefix("x-")
        none = re.match(r"\s*q\s*=\s*0(\.0*)?\s*\Z", weight, re.I)
        (refused if none else accepted).add(name)
    return accepted, refused


def check_no_content(ctx: Context, ended: Ended) -> None:
    """An answer that has no body by its status, where JSON may have been due."""
    if ctx.body_due and ctx.exchange.status == 204 and ended is Ended.COMPLETE:
        ctx.report.place(Unit.HEAD)
        ctx.report("http.body-empty", detail=f"status {ctx.exchange.status}")
