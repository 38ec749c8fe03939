"""Records of the log in forms that other tools read: exchange files, HAR, JSON Lines.

What belongs here: from a record, and the bodies that were captured with it, to a document. What
doesn't: which records (query.py), reading these forms (proxy/inputs, validators/exchangefile.py).

JSON Lines are the records as they stand in the files, byte for byte. An exchange file needs the whole
of both bodies; a HAR entry without a body says that it was not saved.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.audit import bodies
from teeline.proxy.audit.lookup import Found
from teeline.proxy.audit.reproduce import UNKNOWN, as_post
from teeline.proxy.reports.model import TOOL, tool_version

_REDACTED: Final = ("authorization", "<redacted>")
"""Stands where a request had a key: of that, only a fingerprint was kept. Without a field in its
place the file would say that the client sent none (request.auth-missing)."""

_ENDS: Final = {
    "complete": "closed",
    "upstream_aborted": "aborted",
    # What we or the client broke off says nothing of how the relay would have ended.
    "client_closed": "client_closed",
    "timeout": "client_closed",
    "shutdown": "client_closed",
}


class Source(NamedTuple):
    """A record to be exported, and the base URL of its upstream, if that is known."""

    found: Found
    url: str | None


class Captured(NamedTuple):
    """What was kept of an exchange. ``request`` and ``response`` are None where a body is not whole."""

    target: str
    request: bytes | None
    response: bytes | None
    request_headers: list[list[str]]
    response_headers: list[list[str]]
    why: str


class Export:
    """Writes one form; ``left_out`` counts the records that could not be, by reason."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.written = 0
        self.left_out: Counter[str] = Counter()

    def lines(self, sources: Iterable[Source]) -> Iterator[bytes]:
        """The records themselves."""
        for source in sources:
            self.written += 1
            yield source.found.line.removesuffix(b"\n") + b"\n"

    def exchanges(self, sources: Iterable[Source]) -> Iterator[bytes]:
        """JSON Lines of exchange files."""
        for source in sources:
            fields = source.found.fields
            captured = self._captured(fields)
            status = fields.get("status")
            if not isinstance(status, int) or isinstance(status, bool):
                self.left_out["no answer came"] += 1
            elif captured.request is None or captured.response is None:
                self.left_out[captured.why] += 1
            else:
                self.written += 1
                document = _exchange_file(fields, captured, captured.request, captured.response)
                yield orjson.dumps(document) + b"\n"

    def har(self, sources: Iterable[Source]) -> Iterator[bytes]:
        """One HAR 1.2 document, in pieces."""
        creator = {"name": TOOL, "version": tool_version()}
        yield b'{"log":{"version":"1.2","creator":' + orjson.dumps(creator) + b',"entries":[\n'
        for source in sources:
            yield b",\n" if self.written else b""
            self.written += 1
            yield orjson.dumps(_entry(source, self._captured(source.found.fields)))
        yield b"\n]}}\n"

    def _captured(self, fields: Mapping[str, Any]) -> Captured:
        path, capture = str(fields.get("path") or "/"), fields.get("capture")
        if not isinstance(capture, Mapping):
            return Captured(path, None, None, [], [], "no bodies were captured")
        target = capture.get("target")
        target = target if isinstance(target, str) and target.startswith("/") else path
        sides = [capture.get(side) for side in ("request", "response")]
        kept = [side if isinstance(side, Mapping) else {} for side in sides]
        found = [bodies.load(self._folder, k.get("sha256"), k.get("size")) for k in kept]
        request_headers, response_headers = (_headers(k.get("headers")) for k in kept)
        client = fields.get("client")
        if isinstance(client, Mapping) and client.get("key"):
            request_headers.append(list(_REDACTED))
        if capture.get("state") != bodies.COMPLETE:
            why = f"the bodies are {capture.get('state')}"
            return Captured(target, None, None, request_headers, response_headers, why)
        why = next((f"a body is {body.why}" for body in found if body.data is None), "")
        request, response = (body.data for body in found)
        if request and capture.get("carrier") == bodies.WEBSOCKET:
            request = as_post(request)
        return Captured(target, request, response, request_headers, response_headers, why)


def _exchange_file(
    fields: Mapping[str, Any], captured: Captured, request: bytes, response: bytes
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "v": 1,
        "name": str(fields.get("id")),
        "source": f"audit log, {fields.get('ts')}, upstream {fields.get('upstream')}",
        "method": str(fields.get("method")),
        "endpoint": captured.target,
        "request_headers": captured.request_headers,
    }
    if request:
        document["request_base64"] = base64.b64encode(request).decode()
    text = _as_text(response)
    body = (
        {"body_base64": base64.b64encode(response).decode()}
        if text is None
        else {"body_text": text}
    )
    document["response"] = {
        "status": fields.get("status"),
        "headers": captured.response_headers,
        **body,
        "connection": _ENDS.get(str(fields.get("ended")), "client_closed"),
    }
    return document


def _entry(source: Source, captured: Captured) -> dict[str, Any]:
    fields = source.found.fields
    status = fields.get("status")
    start, waited, received = _times(fields)
    origin = UNKNOWN if source.url is None else "/".join(source.url.split("/", 3)[:3])
    return {
        "startedDateTime": f"{datetime.fromtimestamp(start, UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
        "time": waited + received,
        "request": {
            "method": str(fields.get("method")),
            "url": origin + captured.target,
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _pairs(captured.request_headers),
            "queryString": [],
            "headersSize": -1,
            "bodySize": _size(fields, "request"),
            **_post_data(captured),
        },
        "response": {
            "status": status if isinstance(status, int) else 0,
            "statusText": "",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _pairs(captured.response_headers),
            "content": _content(fields, captured),
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": _size(fields, "response"),
            **_broken_off(fields),
        },
        "cache": {},
        "timings": {"send": 0, "wait": waited, "receive": received},
        "comment": f"teeline {fields.get('verdict')}, record {fields.get('id')}",
    }


def _post_data(captured: Captured) -> dict[str, Any]:
    if not captured.request:
        return {}
    kind = _media_type(captured.request_headers)
    return {"postData": {"mimeType": kind, "params": [], **_body(captured.request)}}


def _content(fields: Mapping[str, Any], captured: Captured) -> dict[str, Any]:
    content: dict[str, Any] = {
        "size": _size(fields, "response"),
        "mimeType": _media_type(captured.response_headers),
    }
    if captured.response is None:
        return {**content, "comment": captured.why}
    return {**content, **_body(captured.response)}


def _body(data: bytes) -> dict[str, str]:
    text = _as_text(data)
    if text is not None:
        return {"text": text}
    return {"text": base64.b64encode(data).decode(), "encoding": "base64"}


def _broken_off(fields: Mapping[str, Any]) -> dict[str, str]:
    ended = fields.get("ended")
    if ended in ("complete", "refused", None):
        return {}
    aborted = ended == "upstream_aborted"
    return {"_error": "net::ERR_CONNECTION_CLOSED" if aborted else "net::ERR_ABORTED"}


def _times(fields: Mapping[str, Any]) -> tuple[float, float, float]:
    """Unix seconds of the start, milliseconds until the first byte, and from it to the end."""
    timing = fields.get("timing")
    timing = timing if isinstance(timing, Mapping) else {}
    start, first, end = (_number(timing.get(name)) for name in ("start", "first_byte", "end"))
    start = start or 0.0
    first = start if first is None else first
    end = first if end is None else end
    return start, round((first - start) * 1000, 3), round((end - first) * 1000, 3)


def _number(value: Any) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11
    return float(value) if right else None


def _size(fields: Mapping[str, Any], side: str) -> int:
    sizes = fields.get("bytes")
    size = sizes.get(side) if isinstance(sizes, Mapping) else None
    return size if isinstance(size, int) else -1


def _headers(given: Any) -> list[list[str]]:
    fields = given if isinstance(given, list) else []
    return [f for f in fields if isinstance(f, list) and len(f) == 2 and _texts(f)]


def _texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _pairs(headers: list[list[str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers]


def _media_type(headers: list[list[str]]) -> str:
    return next((value for name, value in headers if name.lower() == "content-type"), "")


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
