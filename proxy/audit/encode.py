"""The record of an exchange as JSON: the members that stand between a line's links.

What belongs here: writing the fields of record.py quickly, of which most are the same from exchange
to exchange, so that their bytes are kept. What doesn't: what the fields are (record.py), and the
line around them (chain.py).

``record.exchange_record`` is the truth: the tests compare every byte that is written here with its.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import itemgetter
from typing import Any, Final

import orjson

from teeline.proxy.audit import record
from teeline.validators.model import Exchange

_KEPT: Final = 512
_LONGEST: Final = 1024
"""Bytes of an exchange's members that are kept, at most."""
# A named tuple is no JSON to orjson. This makes plain ones in a third of the time that tuple() takes.
_UNNAMED: Final = itemgetter(slice(None))


def members(fields: Mapping[str, Any]) -> bytes:
    """``"a":1,"b":2``; TypeError (of which orjson's error is one) where there is no JSON for it."""
    return orjson.dumps(fields)[1:-1]


class Encoder:
    """Encodes the records of one chain; used by one thread at a time.

    What follows from a few values of an exchange is kept. Bounded: begun anew when it is full.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[bytes, bytes]] = {}

    def exchange(self, exchange: Exchange) -> bytes:
        """The members of ``record.exchange_record``, in its order."""
        request, outcome = self._shared(exchange)
        if exchange.violations:
            outcome = members(record.outcome_fields(exchange))
        own = _plain(exchange) if _is_plain(exchange) else None
        identity, course = own or (
            members(record.identity_fields(exchange)),
            members(record.course_fields(exchange)),
        )
        return b"".join((identity, b",", request, b",", course, b",", outcome))

    def _shared(self, exchange: Exchange) -> tuple[bytes, bytes]:
        """The members of the request, and those of the outcome where nothing was found."""
        clean, finish = not exchange.violations, exchange.finish
        # Every value of the exchange that they follow from.
        key = (
            clean,
            exchange.upstream,
            exchange.operation,
            exchange.method,
            exchange.path,
            exchange.model,
            exchange.stream,
            exchange.status,
            exchange.inspection,
            exchange.ended,
            exchange.profile,
            *finish,
        )
        known = self._known.get(key)
        if known is None:
            outcome = members(record.outcome_fields(exchange)) if clean else b""
            known = members(record.request_fields(exchange)), outcome
            if len(known[0]) + len(outcome) <= _LONGEST and len(finish) <= record.FINISH:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[key] = known
        return known


def _is_plain(exchange: Exchange) -> bool:
    """Whether the texts that only this exchange has are recorded as they are, uncut and unescaped."""
    told = f"{exchange.id}{exchange.trace_id}{exchange.span_id}{exchange.request_id}"
    told += exchange.client
    return len(told) <= record.ID and told.isprintable() and record.are_shown(tuple(exchange.usage))


def _plain(exchange: Exchange) -> tuple[bytes, bytes] | None:
    """Identity and course of an exchange that is plain; None where a number may have to be bounded,
    too.
    """
    identity = {
        "id": exchange.id,
        "trace_id": exchange.trace_id,
        "span_id": exchange.span_id,
    }
    course = {
        "request_id": exchange.request_id,
        "client": {"peer": exchange.client, "key": exchange.client_key or None},
        "timing": record.timing_fields(exchange.timing),
        "timeline": list(map(_UNNAMED, exchange.timeline)),
        "bytes": {"request": exchange.request_bytes, "response": exchange.response_bytes},
        "events": exchange.events,
        "usage": exchange.usage,
    }
    try:
        # Refuses numbers of more than 53 bits, all at once.
        written = orjson.dumps(course, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return None
    return members(identity), written[1:-1]
