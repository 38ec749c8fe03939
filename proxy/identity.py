"""Who an exchange is: its id, and its place in a trace.

What belongs here: making ids, and reading a request's traceparent. What doesn't: what is seen of an
exchange (validators), and what becomes of ids (telemetry, audit).
"""

from __future__ import annotations

import os
import re
from typing import Final

from teeline.proxy.form import Fields
from teeline.validators.model import Exchange

_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_NO_TRACE: Final = ("", "", True)
_TRACEPARENT: Final = re.compile(
    rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})\Z"
)


class Randomness:
    """Random hex digits from the system, fetched for many exchanges at once.

    A process that forks has to ``forget`` in the child: two must not give the same digits.
    """

    DIGITS: Final = 68
    """Hex digits an exchange: 34 bytes."""
    _AT_ONCE: Final = 64

    def __init__(self) -> None:
        self._digits = ""
        self._at = 0

    def forget(self) -> None:
        """Gives none of the digits that were fetched so far."""
        self._digits, self._at = "", 0

    def next(self) -> str:
        """``DIGITS`` hex digits that were not given before."""
        at = self._at
        if at == len(self._digits):
            self._digits = os.urandom(self.DIGITS // 2 * self._AT_ONCE).hex()
            at = 0
        self._at = end = at + self.DIGITS
        return self._digits[at:end]


_random = Randomness()
os.register_at_fork(after_in_child=_random.forget)


def new_exchange(at: float, upstream: str, client: str, fields: Fields = ()) -> Exchange:
    """An exchange with ids of its own, in the trace that header fields say it belongs to."""
    trace_id, parent, sampled = trace_context(fields) if fields else _NO_TRACE
    random = _random.next()  # for all three ids
    return Exchange(
        id=exchange_id(at, random),
        upstream=upstream,
        client=client,
        trace_id=trace_id or random[20:52],
        span_id=random[52:],
        parent_span_id=parent,
        parent_sampled=sampled,
    )


def exchange_id(at: float, random: str) -> str:
    """A UUIDv7 (RFC 9562 5.7) as 32 hex digits: ids sort by the time that exchanges began.

    ``random`` holds twenty random hex digits at its beginning.
    """
    return f"{int(at * 1000):012x}7{random[:3]}{_VARIANT[random[3]]}{random[4:19]}"


def trace_context(fields: Fields) -> tuple[str, str, bool]:
    """Trace id, parent span id and sampled flag of a request's traceparent.

    The ids are empty where it has no valid one.

    W3C Trace Context 3.2, version 00. More than one such field is no valid one.
    """
    values = [value for name, value in fields if name.lower() == b"traceparent"]
    match = _TRACEPARENT.match(values[0]) if len(values) == 1 else None
    if match is None:
        return _NO_TRACE
    return match[1].decode(), match[2].decode(), bool(int(match[3], 16) & 1)
