"""Exchange files: one recorded HTTP exchange as JSON, and how it is fed to an inspector.

What belongs here: the format (design: formats, "Exchange file"), its errors in words that say what
to change, and the order in which an inspector sees the pieces. What doesn't: reading files and
folders (proxy/cli/check.py), writing exchanges (proxy/audit), the verdict.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from teeline.validators.events import Output, RequestHead, ResponseHead
from teeline.validators.model import Ended, Headers

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one exchange file: two documents at the inspector's limit fit, in base64."""

Cut = Callable[[bytes], Iterable[bytes]]
"""Cuts a body into the pieces in which it is to be read; their concatenation is the body."""

_ENDS: Final = {
    "closed": Ended.COMPLETE,
    "aborted": Ended.UPSTREAM_ABORTED,
    "client_closed": Ended.CLIENT_CLOSED,
}
_YEAR: Final = 366 * 86400.0
_BODIES: Final = ("body_text", "body_base64", "chunks", "chunks_base64")
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}\Z")  # RFC 9110 5.6.2, token
# Not only paths: recorders put absolute forms and placeholders for a host there.
_TARGET = re.compile(r"[^\x00-\x20\x7f]+\Z")


class ExchangeFileError(ValueError):
    """Not an exchange file; the text is one line that names the member and what it must be."""


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One exchange as it was recorded.

    ``request_body`` is None where the request was not recorded. ``reads`` are the pieces of the
    answer's body as they were read, before content decoding; a body whose reads were not recorded
    is one piece. ``times`` are seconds from the request to the head and to each read, then perhaps to
    the end; empty where none were recorded. ``at`` is the Unix time of the request, None where it was
    not recorded.
    """

    name: str
    request: RequestHead
    request_body: bytes | None
    response: ResponseHead
    reads: tuple[bytes, ...]
    ended: Ended
    times: tuple[float, ...] = ()
    at: float | None = None


class Replayable(Protocol):
    """What a recorded exchange is fed to: the inspector of one HTTP exchange."""

    def request_head(self, head: RequestHead, at: float) -> Iterable[Output]: ...
    def request_body(self, data: bytes, at: float) -> Iterable[Output]: ...
    def request_end(self, at: float) -> Iterable[Output]: ...
    def response_head(self, head: ResponseHead, at: float) -> Iterable[Output]: ...
    def response_body(self, data: bytes, at: float) -> Iterable[Output]: ...
    def end(self, ended: Ended, at: float) -> Iterable[Output]: ...


def loads(data: bytes) -> RecordedExchange:
    """The exchange that the bytes of a file hold, UTF-8 with or without a byte order mark.

    Raises ExchangeFileError, whatever the bytes are.
    """
    if len(data) > MAX_BYTES:
        raise ExchangeFileError(f"larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExchangeFileError(f"not UTF-8 at byte {error.start}") from None
    try:
        return parse(json.loads(text, parse_constant=_not_a_number, parse_float=_finite))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ExchangeFileError(f"not JSON: {error.msg} ({place})") from None
    except RecursionError:
        raise ExchangeFileError("not JSON that can be read: nested too deeply") from None
    except ExchangeFileError:
        raise
    except ValueError as error:
        # An integer beyond the digits that Python converts; the text names the limit, not the
        # number.
        raise ExchangeFileError(f"not JSON that can be read: {error}") from None


def _not_a_number(constant: str) -> Any:
    raise ExchangeFileError(f"not JSON: {constant}; a body that holds it goes in as base64")


def _finite(digits: str) -> float:
    """A request is written again from its value, so that a number must survive the way."""
    number = float(digits)
    if math.isinf(number):
        raise ExchangeFileError("a number is too large: a body that holds it goes in as base64")
    return number


def parse(document: Any) -> RecordedExchange:
    """An exchange file's object as a recorded exchange; raises ExchangeFileError."""
    if not isinstance(document, Mapping):
        raise ExchangeFileError("the top level must be an object")
    version = document.get("v", 1)
    if version != 1 or isinstance(version, bool):
        raise ExchangeFileError("v must be 1 (or absent)")
    method = _text(document, "method", "", default="POST")
    if not _METHOD.match(method):
        raise ExchangeFileError("method must be an HTTP method")
    target = _text(document, "endpoint", "")
    if not _TARGET.match(target):
        raise ExchangeFileError("endpoint must be the request's path and query, without spaces")
    response = document.get("response")
    if not isinstance(response, Mapping):
        raise ExchangeFileError("response must be an object")
    return RecordedExchange(
        name=_text(document, "name", "", default=""),
        request=RequestHead(method, target, _headers(document, "request_headers", "")),
        request_body=_request_body(document),
        response=ResponseHead(_status(response), _headers(response, "headers", "response.")),
        reads=(reads := _reads(response)),
        ended=_ended(response),
        times=_times(response, len(reads)),
    )


def replay(
    inspector: Replayable, exchange: RecordedExchange, at: float, cut: Cut | None = None
) -> list[Output]:
    """Feeds a recorded exchange to a fresh inspector, from the time ``at`` on (Unix seconds), or from
    its own where that was recorded.

    Without recorded times everything has that one. ``cut`` reads the answer's body in pieces of its own
    instead of the recorded ones, and leaves recorded times aside. A request
    that was not recorded gets a head alone, so that the rules which need it are off (P7). The
    outputs may hold schema checks; ``Closed`` then comes with the result of the last one.
    """
    at = at if exchange.at is None else exchange.at
    outputs = list(inspector.request_head(exchange.request, at))
    if exchange.request_body is not None:
        if exchange.request_body:
            outputs += inspector.request_body(exchange.request_body, at)
        outputs += inspector.request_end(at)
    reads = list(exchange.reads if cut is None else cut(b"".join(exchange.reads)))
    times = [at] * (len(reads) + 2)
    if cut is None and exchange.times:
        known = [at + after for after in exchange.times]
        times = known + known[-1:] * (len(times) - len(known))
    outputs += inspector.response_head(exchange.response, times[0])
    for data, when in zip(reads, times[1:], strict=False):
        outputs += inspector.response_body(data, when)
    outputs += inspector.end(exchange.ended, times[-1])
    return outputs


def _text(holder: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = holder.get(key, default)
    if not isinstance(value, str):
        absent = " (it is absent)" if key not in holder else ""
        raise ExchangeFileError(f"{where}{key} must be a string{absent}")
    return value


def _status(response: Mapping[str, Any]) -> int:
    status = response.get("status")
    if not isinstance(status, int) or isinstance(status, bool):
        raise ExchangeFileError("response.status must be an integer")
    if not 200 <= status <= 999:
        raise ExchangeFileError("response.status must be a final status, 200 to 999")
    return status


def _ended(response: Mapping[str, Any]) -> Ended:
    word = _text(response, "connection", "response.", default="closed")
    if word not in _ENDS:
        raise ExchangeFileError("response.connection must be closed, aborted or client_closed")
    return _ENDS[word]


def _headers(holder: Mapping[str, Any], key: str, where: str) -> Headers:
    """Header fields in their order; none recorded is the empty tuple (P8)."""
    given = holder.get(key)
    if given is None:
        return ()
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, list):
        raise ExchangeFileError(f"{where}{key} must be an object or a list of [name, value]")
    return tuple(_field(pair, f"{where}{key}") for pair in pairs)


def _field(pair: Any, where: str) -> tuple[str, str]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ExchangeFileError(f"{where} must hold pairs of name and value")
    name, value = pair
    if not isinstance(name, str) or not isinstance(value, str):
        raise ExchangeFileError(f"{where} must hold names and values that are strings")
    return latin1(name, where), latin1(value, where)


def latin1(text: str, where: str) -> str:
    """Bytes above ASCII as latin-1, as heads carry them; other text is taken as UTF-8.

    Raises ExchangeFileError for half a surrogate pair.
    """
    if all(character <= "\xff" for character in text):
        return text
    return _bytes(text, where).decode("latin-1")


def _request_body(document: Mapping[str, Any]) -> bytes | None:
    request = document.get("request")
    encoded = document.get("request_base64")
    if encoded is None:
        # ASCII with escapes: the one rendering that every JSON value has, lone surrogates included.
        return None if request is None else json.dumps(request).encode("ascii")
    if request is not None:
        raise ExchangeFileError("request and request_base64 exclude each other")
    return _decoded(encoded, "request_base64")


def _reads(response: Mapping[str, Any]) -> tuple[bytes, ...]:
    given = [key for key in _BODIES if response.get(key) is not None]
    bodies = [key for key in given if key.startswith("body")]
    chunks = [key for key in given if key.startswith("chunks")]
    if not given:
        raise ExchangeFileError(f"response must have one of {', '.join(_BODIES)}")
    for several in (bodies, chunks):
        if len(several) > 1:
            raise ExchangeFileError(f"response.{several[0]} and .{several[1]} exclude each other")
    body = _body(response, bodies[0]) if bodies else None
    if not chunks:
        return (body,) if body else ()
    reads = _chunks(response, chunks[0])
    if body is not None and b"".join(reads) != body:
        raise ExchangeFileError(f"response.{chunks[0]} joined must be response.{bodies[0]}")
    return reads


def _times(response: Mapping[str, Any], reads: int) -> tuple[float, ...]:
    """Times of the head, of each read, and of the end where it was later than the last one."""
    given = response.get("times")
    if given is None:
        return ()
    if not isinstance(given, list) or not all(map(_is_time, given)):
        raise ExchangeFileError("response.times must be a list of seconds, 0 to a year")
    if len(given) not in (reads + 1, reads + 2):
        raise ExchangeFileError(
            "response.times must have the head's, one a read, and perhaps the end's"
        )
    if sorted(given) != given:
        raise ExchangeFileError("response.times must not step back")
    return tuple(map(float, given))


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _YEAR


def _body(response: Mapping[str, Any], key: str) -> bytes:
    if key == "body_base64":
        return _decoded(response[key], f"response.{key}")
    return _bytes(_text(response, key, "response."), f"response.{key}")


def _chunks(response: Mapping[str, Any], key: str) -> tuple[bytes, ...]:
    chunks = response[key]
    where = f"response.{key}"
    if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
        raise ExchangeFileError(f"{where} must be a list of strings")
    convert = _decoded if key == "chunks_base64" else _bytes
    # An empty read is no read: sockets have none but at the end.
    return tuple(data for chunk in chunks if (data := convert(chunk, where)))


def _bytes(text: str, where: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ExchangeFileError(f"{where} holds half a surrogate pair: use base64") from None


def _decoded(text: Any, where: str) -> bytes:
    if not isinstance(text, str):
        raise ExchangeFileError(f"{where} must be a string")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ExchangeFileError(f"{where} must be base64") from None
