"""HTTP heads on their way through: which fields travel, how a body is framed, what the target
becomes.

What belongs here: functions from received bytes to the bytes that go out, and nothing that holds a
connection. What doesn't: parsing (llhttp's, within aiohttp) and the heads that teeline writes in
its own name (answers.py).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from teeline.validators.model import Headers

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields as received: names in their case, values without the blanks around them."""

# RFC 9110 7.6.1, and the fields of 11.7 that speak to the next proxy alone. Not all that begins
# with "Proxy-": Proxy-Status (RFC 9209) travels end to end. Transfer-Encoding is dealt with by
# framing.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
    }
)
# A sender that lists these in Connection would have us drop the frame around a body (request
# smuggling).
_NEVER_LISTED = frozenset({b"host", b"content-length", b"transfer-encoding"})
_BODYLESS = frozenset({204, 304})
_CLOSE = b"Connection: close\r\n"


class Framing(enum.Enum):
    """How the end of a body is told (RFC 9112 6)."""

    NONE = "none"
    LENGTH = "content-length"
    CHUNKED = "chunked"
    CLOSE = "close"


def request_framing(fields: Fields) -> Framing:
    """The framing of a request that the parser has accepted; without a field there is no body.

    The parser takes no Transfer-Encoding whose last coding is another than chunked.
    """
    if value_of(fields, b"transfer-encoding") is not None:
        return Framing.CHUNKED
    return Framing.LENGTH if value_of(fields, b"content-length") is not None else Framing.NONE


def response_framing(method: str, status: int, fields: Fields, chunked: bool) -> Framing:
    """The framing of a final answer that the parser has accepted (RFC 9112 6.3)."""
    if method == "HEAD" or status in _BODYLESS:
        return Framing.NONE
    if chunked:
        return Framing.CHUNKED
    return Framing.LENGTH if value_of(fields, b"content-length") is not None else Framing.CLOSE


def request_head(
    method: str, target: bytes, fields: Fields, authority: bytes, *, close: bool
) -> bytes:
    """The head for the upstream: the same fields, with Host naming the upstream, in the same place.

    ``close``: the client's connection ends after this exchange, and so does the one behind it.
    """
    lines = [method.encode("ascii"), b" ", target, b" HTTP/1.1\r\n"]
    travelling = _travelling(fields)
    if value_of(travelling, b"host") is None:
        lines += (b"Host: ", authority, b"\r\n")
    for name, value in travelling:
        lines += (name, b": ", authority if name.lower() == b"host" else value, b"\r\n")
    if close:
        lines.append(_CLOSE)
    lines.append(b"\r\n")
    return b"".join(lines)


def response_head(
    status: int, reason: bytes, fields: Fields, *, chunked: bool = True, close: bool = False
) -> bytes:
    """The head for the client: the same status, reason and fields.

    ``chunked`` false takes Transfer-Encoding away, for a client of HTTP/1.0 (RFC 9112 7.1 forbids
    it there). ``close`` says that the connection ends behind this answer (RFC 9112 9.6).
    """
    lines = [b"HTTP/1.1 %d " % status, reason, b"\r\n"]
    for name, value in _travelling(fields):
        if chunked or name.lower() != b"transfer-encoding":
            lines += (name, b": ", value, b"\r\n")
    if close:
        lines.append(_CLOSE)
    lines.append(b"\r\n")
    return b"".join(lines)


def upstream_target(target: bytes, prefix: bytes, base: bytes) -> bytes:
    """The target for the upstream: a route's prefix off, the base URL's path on, the rest
    untouched.

    ``prefix`` and ``base`` have no slash at their end; both may be empty. Where the base ends in
    ``/v1`` and the client's path begins with it, it is used once. ``*`` (OPTIONS) stays as it is.
    """
    if target == b"*":
        return target
    path = origin_form(target)[len(prefix) :]
    if base.endswith(b"/v1") and begins_with(path, b"/v1"):
        path = path[3:]
    mapped = base + path
    return mapped if mapped.startswith(b"/") else b"/" + mapped


def begins_with(target: bytes, prefix: bytes) -> bool:
    """Whether the path of a target begins with a prefix, and ends or goes on at a ``/`` or
    ``?`` there.
    """
    return target.startswith(prefix) and target[len(prefix) : len(prefix) + 1] in b"/?"


def origin_form(target: bytes) -> bytes:
    """A target without the scheme and authority of the absolute form (RFC 9112 3.2.2)."""
    if target.startswith(b"/") or b"://" not in target:
        return target
    rest = target.partition(b"://")[2]
    cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    return rest[cut:] if rest[cut : cut + 1] == b"/" else b"/" + rest[cut:]


def value_of(fields: Fields, name: bytes) -> bytes | None:
    """The value of the first field with this (lower-case) name; None where there is none."""
    return next((value for key, value in fields if key.lower() == name), None)


def for_inspector(fields: Fields) -> Headers:
    """Fields as an inspector takes them: all of them, bytes above ASCII as latin-1."""
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in fields)


def _travelling(fields: Fields) -> list[tuple[bytes, bytes]]:
    """The fields without those of this hop: the well-known ones, and what Connection lists."""
    dropped = HOP_BY_HOP | set(_listed(fields))
    return [field for field in fields if field[0].lower() not in dropped]


def _listed(fields: Fields) -> Iterable[bytes]:
    for name, value in fields:
        if name.lower() == b"connection":
            for option in value.lower().split(b","):
                if (stripped := option.strip(b" \t")) not in _NEVER_LISTED:
                    yield stripped
