"""The answers that teeline gives in its own name, where there is no upstream answer to pass on.

What belongs here: their statuses, codes and words; they are the only bytes of traffic that teeline
authors. What doesn't: when one is given (forward.py, upstream.py). No text here quotes a peer: an
error message that repeats a target or a header field would carry keys into logs.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from teeline.validators.model import Ended


class Answer(NamedTuple):
    """One of teeline's own answers, and how the exchange that gets it has ended."""

    status: int
    reason: str
    code: str
    message: str
    ended: Ended = Ended.REFUSED

    def encode(self, *, body: bool = True) -> bytes:
        """The whole message; ``body`` false for HEAD, which gets the head of the same answer.

        The connection closes behind it: what is left of the request was read by nobody.
        """
        error = {"message": self.message, "type": "teeline_error", "param": None, "code": self.code}
        content = json.dumps({"error": error}).encode("ascii")
        head = (
            f"HTTP/1.1 {self.status} {self.reason}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n"
            f"teeline-error: {self.code}\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode("ascii") + (content if body else b"")


BAD_REQUEST = Answer(
    400, "Bad Request", "bad_request", "teeline could not parse this request as HTTP/1.1."
)
BAD_TARGET = Answer(
    400,
    "Bad Request",
    "bad_target",
    "teeline forwards requests for a path; this target names none (CONNECT is not supported).",
)
HEAD_TOO_LARGE = Answer(
    431,
    "Request Header Fields Too Large",
    "head_too_large",
    "The request line or a header field is longer than teeline accepts.",
)
NO_ROUTE = Answer(
    404,
    "Not Found",
    "no_route",
    "No upstream of this teeline serves this path; its configuration names the prefixes served.",
)
SHUTTING_DOWN = Answer(
    503,
    "Service Unavailable",
    "shutting_down",
    "teeline is shutting down and takes no new requests.",
)
UNREACHABLE = Answer(
    502, "Bad Gateway", "upstream_unreachable", "teeline could not connect to the upstream."
)
TLS_FAILED = Answer(
    502,
    "Bad Gateway",
    "upstream_tls",
    "teeline could not set up TLS with the upstream, or does not trust its certificate.",
)
CLOSED = Answer(
    502,
    "Bad Gateway",
    "upstream_closed",
    "The upstream closed the connection before it answered.",
)
UNPARSABLE = Answer(
    502,
    "Bad Gateway",
    "upstream_unparsable",
    "The upstream answered with something that is not HTTP/1.1.",
)
CONNECT_TIMEOUT = Answer(
    504,
    "Gateway Timeout",
    "connect_timeout",
    "The upstream did not accept a connection in time.",
    Ended.TIMEOUT,
)
TIMEOUT = Answer(
    504, "Gateway Timeout", "timeout", "The upstream did not answer in time.", Ended.TIMEOUT
)


class Written(web.StreamResponse):
    """Tells the server framework that an answer is on the wire, or gives it the bytes to put there.

    A ``web.Response`` would add Date, Server and Content-Type; this adds nothing.
    """

    def __init__(self, data: bytes = b"", *, keep_alive: bool = False) -> None:
        super().__init__()
        self._data = data
        self._keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if self._data:
            await request.writer.write(self._data)
            self._data = b""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Does nothing: what there was to write was written by ``prepare`` or before."""
