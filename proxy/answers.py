"""The answers that teeline gives in its own name, where there is no upstream answer to pass on.

What belongs here: their statuses, codes and words; they are the only bytes of traffic that teeline
authors. What doesn't: when one is given (connection.py, forward.py, transfer.py). No text here
quotes a peer: an error message that repeats a target or a header field would carry keys into logs.
"""

from __future__ import annotations

import json
from typing import NamedTuple

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
HEAD_TIMEOUT = Answer(
    408,
    "Request Timeout",
    "head_timeout",
    "The head of the request did not come whole in time.",
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
OVERLOADED = Answer(
    503,
    "Service Unavailable",
    "overloaded",
    "teeline has as many open exchanges as its configuration allows.",
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
PROXY_FAILED = Answer(
    502,
    "Bad Gateway",
    "proxy_failed",
    "The proxy on the way to the upstream can't be reached, or did not let teeline through.",
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
