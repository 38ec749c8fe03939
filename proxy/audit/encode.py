"""The record of an exchange as JSON: the members that stand between a line's links.

What belongs here: writing the fields of record.py, of which most are the same from exchange to
exchange, so that their bytes are kept. What doesn't: what the fields are (record.py), and the line
around them (chain.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import orjson

from teeline.proxy.audit import record
from teeline.validators.model import Exchange

Fields = Callable[[Exchange], Mapping[str, Any]]

_KEPT: Final = 512
_LONGEST: Final = 1024
"""Bytes of members that are kept, at most."""


def members(fields: Mapping[str, Any]) -> bytes:
    """``"a":1,"b":2``; TypeError (of which orjson's error is one) where there is no JSON for it."""
    return orjson.dumps(fields)[1:-1]


class Remembered:
    """Members that follow from a few values of an exchange. Bounded: begun anew when it is full."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._known: dict[Hashable, bytes] = {}

    def of(self, key: Hashable, exchange: Exchange) -> bytes:
        """``key`` holds every value of the exchange that the members follow from."""
        encoded = self._known.get(key)
        if encoded is None:
            encoded = members(self._fields(exchange))
            if len(encoded) <= _LONGEST:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[key] = encoded
        return encoded


class Encoder:
    """Encodes the records of one chain; used by one thread at a time."""

    def __init__(self) -> None:
        self._request = Remembered(record.request_fields)
        self._outcome = Remembered(record.outcome_fields)

    def exchange(self, exchange: Exchange) -> bytes:
        """The members of ``record.exchange_record``, in its order."""
        asked = (
            exchange.upstream,
            exchange.operation,
            exchange.method,
            exchange.path,
            exchange.model,
            exchange.stream,
            exchange.status,
        )
        return b"%b,%b,%b,%b" % (
            _identity(exchange),
            self._request.of(asked, exchange),
            members(record.course_fields(exchange)),
            self._outcome_of(exchange),
        )

    def _outcome_of(self, exchange: Exchange) -> bytes:
        if exchange.violations:
            return members(record.outcome_fields(exchange))
        came_to = (
            tuple(exchange.finish),
            exchange.inspection,
            exchange.ended,
            exchange.profile,
        )
        return self._outcome.of(came_to, exchange)


def _identity(exchange: Exchange) -> bytes:
    one, trace, span = exchange.id, exchange.trace_id, exchange.span_id
    digits = one + trace + span
    if digits.isalnum() and digits.isascii() and len(digits) <= record.ID:
        return f'"id":"{one}","trace_id":"{trace}","span_id":"{span}"'.encode()
    return members(record.identity_fields(exchange))
