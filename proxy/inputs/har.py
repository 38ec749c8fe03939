"""HAR 1.2: what browsers and debugging proxies save of the traffic that they saw.

What belongs here: entries to exchanges, and what each tool leaves out or writes in its own way. What
doesn't: telling a HAR from other files (reading.py).

A browser saves a page's every image; only entries that look like calls of the API are exchanges. Bodies
are saved decoded, so that a content-encoding no longer holds. A body that was not saved is no empty body:
such an exchange is listed and not inspected.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeGuard
from urllib.parse import quote

from teeline.proxy.inputs.items import Item, Problem
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.exchangefile import RecordedExchange, latin1
from teeline.validators.model import Ended, Exchange, Headers
from teeline.validators.operation import Operation, operation_of, path_of

NO_ANSWER: Final = "none (no answer was saved)"
NO_BODY: Final = "none (the answer's body was not saved)"

_EARLIEST: Final = 1.4e9
"""Unix seconds before which nobody spoke this API: such a clock is not set."""
_DAY: Final = 86400.0
_MAX_HEADERS: Final = 1000
_MAX_NAME: Final = 200
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}\Z")  # RFC 9110 5.6.2, token
_CLIENT_LEFT: Final = ("net::err_aborted", "ns_binding_aborted", "ns_error_abort", "cancel")
_MAGIC: Final = {"gzip": b"\x1f\x8b", "x-gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
_SAFE: Final = "!#$%&'()*+,/:;=?@[]<>{}|^`\"\\"
"""What stays as it is in a URL: recorders put placeholders for hosts and keys there."""
_LOOKED_AT: Final = 4096
_FIELD_LINE = re.compile(rb"^(data|event|id|retry)?:", re.M)
_BODILESS: Final = frozenset({204, 304})
_TAKEN_OUT: Final = ("authorization", "cookie")
"""Fields that Chrome leaves out of a HAR unless it is told to keep sensitive data (since version 130)."""
_REDACTED: Final = ("authorization", "<redacted>")
"""Stands in their place: nobody can tell such a client from one that has no key."""


class HarError(ValueError):
    """An entry is no entry of a HAR; the text is one line that names the member."""


class _Body(NamedTuple):
    """A body as it was saved; ``data`` None where it was not."""

    data: bytes | None
    encoded: bool = False


def is_har(document: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a JSON document is meant as a HAR."""
    return isinstance(document, Mapping) and isinstance(document.get("log"), Mapping)


def items(document: Mapping[str, Any], file: str, now: float) -> Iterator[Item | Problem]:
    """The API calls of a HAR in their order; ``now`` in Unix seconds. Never raises."""
    entries = document["log"].get("entries")
    if not isinstance(entries, list):
        yield Problem(file, "not a HAR: log.entries must be a list")
        return
    taken_out = [_REDACTED] if _is_sanitised(document["log"], entries) else []
    calls = 0
    for number, entry in enumerate(entries, 1):
        try:
            if not _is_call(entry):
                continue
            calls += 1
            yield Item(file, _name(entry, number), _exchange(entry, now, taken_out))
        except HarError as error:
            yield Problem(file, f"entry {number}: {error}")
    if calls == 0:
        yield Problem(file, f"none of its {len(entries)} entries looks like a call of the API")


def _is_sanitised(log: Mapping[str, Any], entries: Sequence[Any]) -> bool:
    """Whether the recorder takes keys out, and none of this file's entries has any."""
    creator = log.get("creator")
    if not isinstance(creator, Mapping) or creator.get("name") != "WebInspector":
        return False
    return not any(_has_what_is_taken_out(entry) for entry in entries)


def _has_what_is_taken_out(entry: Any) -> bool:
    try:
        fields = _headers(_object(entry, "request"), "request")
    except HarError:
        return False
    return any(name.lower() in _TAKEN_OUT for name, _ in fields)


def _is_call(entry: Any) -> bool:
    """Whether an entry is a call of the API: other sites have a /models and a /responses, too."""
    request = _object(entry, "request")
    method, url = _text(request, "request", "method"), _text(request, "request", "url")
    operation, path = operation_of(method, url), path_of(url)
    if method == "POST":
        body = _request_body(request)
        if operation is Operation.CHAT or _names_a_model(body):
            return True
        return operation is not Operation.OTHER and (body is None or "/v1/" in path)
    return operation is not Operation.OTHER and ("/v1/" in path or _is_json(entry))


def _is_json(entry: Mapping[str, Any]) -> bool:
    response = entry.get("response")
    content = response.get("content") if isinstance(response, Mapping) else None
    kind = content.get("mimeType") if isinstance(content, Mapping) else None
    return isinstance(kind, str) and "json" in kind.lower()


def _names_a_model(body: bytes | None) -> bool:
    if body is None or b'"model"' not in body:
        return False
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and isinstance(document.get("model"), str)


def _name(entry: Mapping[str, Any], number: int) -> str:
    comment = entry.get("comment")
    if isinstance(comment, str) and comment.strip():
        return f"entry {number}: {' '.join(comment.split())[:_MAX_NAME]}"
    return f"entry {number}"


def _exchange(
    entry: Mapping[str, Any], now: float, taken_out: Sequence[tuple[str, str]]
) -> RecordedExchange | Exchange:
    request, response = _object(entry, "request"), _object(entry, "response")
    method, url = _text(request, "request", "method"), _text(request, "request", "url")
    if not _METHOD.match(method):
        raise HarError("request.method must be an HTTP method")
    target = quote(url, safe=_SAFE, errors="replace")
    status = response.get("status")
    if not isinstance(status, int) or isinstance(status, bool):
        raise HarError("response.status must be an integer")
    if not 200 <= status <= 999:
        # 0 is written where nothing came back, 101 for a WebSocket.
        return _unseen(method, target, None, NO_ANSWER)
    body = _response_body(response, status)
    if body.data is None and method != "HEAD":
        return _unseen(method, target, status, NO_BODY)
    headers = _headers(request, "request")
    return RecordedExchange(
        name="",
        request=RequestHead(method, target, (*headers, *taken_out) if headers else ()),
        request_body=_request_body(request),
        response=ResponseHead(status, _response_headers(response, encoded=body.encoded)),
        reads=(body.data,) if body.data else (),
        ended=_ended(entry, response),
        at=_at(entry, now),
        times=_times(entry, reads=1 if body.data else 0, streamed=_is_stream(body.data)),
    )


def _unseen(method: str, target: str, status: int | None, why: str) -> Exchange:
    operation = operation_of(method, target)
    return Exchange(
        method=method,
        path=path_of(target),
        operation=operation.value,
        status=status,
        inspection=why,
    )


def _object(holder: Any, key: str) -> Mapping[str, Any]:
    value = holder.get(key) if isinstance(holder, Mapping) else None
    if not isinstance(value, Mapping):
        raise HarError(f"{key} must be an object")
    return value


def _text(holder: Mapping[str, Any], where: str, key: str) -> str:
    value = holder.get(key)
    if not isinstance(value, str) or not value:
        raise HarError(f"{where}.{key} must be a string")
    return value


def _headers(holder: Mapping[str, Any], where: str) -> Headers:
    """Header fields without the pseudo-fields of HTTP/2, which browsers list among them."""
    given = holder.get("headers")
    if given is None:
        return ()
    if not isinstance(given, list):
        raise HarError(f"{where}.headers must be a list")
    found = []
    for field in given[:_MAX_HEADERS]:
        name = field.get("name") if isinstance(field, Mapping) else None
        value = field.get("value") if isinstance(field, Mapping) else None
        if not isinstance(name, str) or not isinstance(value, str):
            raise HarError(f"{where}.headers must hold objects with name and value")
        if name and not name.startswith(":"):
            found.append((_latin1(name), _latin1(value)))
    return tuple(found)


def _latin1(text: str) -> str:
    # Half a surrogate pair is no header of anybody's; it must not cost the entry.
    return latin1(text.encode("utf-8", "replace").decode("utf-8"), "headers")


def _response_headers(response: Mapping[str, Any], *, encoded: bool) -> Headers:
    """The answer's fields; a content-encoding only where the body was saved with it."""
    fields = _headers(response, "response")
    if encoded:
        return fields
    return tuple(field for field in fields if field[0].lower() != "content-encoding")


def _request_body(request: Mapping[str, Any]) -> bytes | None:
    """None where it was not saved, or as a form's parameters."""
    data = request.get("postData")
    text = data.get("text") if isinstance(data, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    return _bytes(text, data.get("encoding") if isinstance(data, Mapping) else None)


def _response_body(response: Mapping[str, Any], status: int) -> _Body:
    content = response.get("content")
    if not isinstance(content, Mapping):
        content = {}
    text, size = content.get("text"), content.get("size")
    if not isinstance(text, str):
        # Chrome saves no event stream that a page reads by EventSource, Firefox none above a size.
        nothing = response.get("bodySize") == 0 and size == 0 and "comment" not in content
        return _Body(b"" if status in _BODILESS or nothing else None)
    if not text and isinstance(size, int) and size > 0:
        return _Body(None)
    data = _bytes(text, content.get("encoding"))
    return _Body(data, _still_encoded(response, data))


def _bytes(text: str, encoding: Any) -> bytes:
    if isinstance(encoding, str) and encoding.lower() == "base64":
        try:
            # Charles breaks the lines; Firefox called text base64 that was none (bug 1762313).
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            pass
    # Text with halves of surrogate pairs was bytes that are no UTF-8, and stays that.
    return text.encode("utf-8", "surrogatepass")


def _still_encoded(response: Mapping[str, Any], data: bytes) -> bool:
    codings = [
        value.strip().lower()
        for name, value in _headers(response, "response")
        if name.lower() == "content-encoding"
    ]
    return any(coding in _MAGIC and data.startswith(_MAGIC[coding]) for coding in codings)


def _ended(entry: Mapping[str, Any], response: Mapping[str, Any]) -> Ended:
    """Chrome says under ``_error`` what ended an answer before its time."""
    for holder in (response, entry):
        error = holder.get("_error")
        if isinstance(error, str) and error:
            left = any(word in error.lower() for word in _CLIENT_LEFT)
            return Ended.CLIENT_CLOSED if left else Ended.UPSTREAM_ABORTED
    return Ended.COMPLETE


def _at(entry: Mapping[str, Any], now: float) -> float | None:
    """The moment of a request; None where the clock that wrote it can't be believed."""
    at = _moment(entry.get("startedDateTime"))
    return at if at is not None and _EARLIEST <= at <= now + _DAY else None


def _times(entry: Mapping[str, Any], *, reads: int, streamed: bool) -> tuple[float, ...]:
    """Seconds until the head, the reads and the end; none for a stream, whose reads nobody saved."""
    timings = entry.get("timings")
    if streamed or not isinstance(timings, Mapping):
        return ()
    # ssl is part of connect.
    head = _seconds(timings, ("blocked", "dns", "connect", "send", "wait"))
    end = max(head + _seconds(timings, ("receive",)), _seconds(entry, ("time",)))
    return (head, *[end] * reads, end)


def _is_stream(body: bytes | None) -> bool:
    return bool(_FIELD_LINE.search((body or b"")[:_LOOKED_AT]))


def _moment(text: Any) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _seconds(holder: Mapping[str, Any], names: Sequence[str]) -> float:
    """The sum of times in milliseconds, where -1 stands for none."""
    total = 0.0
    for name in names:
        value = holder.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9:
            total += value / 1000
    return total
