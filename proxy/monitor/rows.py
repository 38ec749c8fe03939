"""An exchange as the page lists it: one small object, from live traffic or from the index.

What belongs here: the members of a row and their bounds. What doesn't: one exchange in full
(details.py), which rows are asked for (filters.py).

Whatever a peer wrote is escaped and bounded here, before it leaves the process that saw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from teeline.proxy.audit.index import SEVERITIES, VERDICTS
from teeline.proxy.audit.query import Broken, Entry
from teeline.proxy.text import int64, printable
from teeline.validators.model import Exchange, Verdict, Violation

Row = dict[str, Any]

BROKEN: Final = 8
"""Violations that a row names, the worst first."""
_NAME: Final = 128
_MESSAGE: Final = 300

_VERDICTS: Final = {number: word for word, number in VERDICTS.items()}
_CLEAN: Final = (Verdict.PASS, Verdict.PASS)
_SEVERITIES: Final = {number: word for word, number in SEVERITIES.items()}


def live_row(exchange: Exchange) -> Row:
    """The row of an exchange that is over, or under way (then ``ended`` is None)."""
    timing = exchange.timing
    # Taken once: an exchange under way goes on growing in another thread.
    violations = list(exchange.violations)
    ours, theirs = (exchange.verdict, exchange.client_verdict) if violations else _CLEAN
    return {
        "id": printable(exchange.id, _NAME),
        "at": round(timing.start, 6),
        "upstream": printable(exchange.upstream, _NAME),
        "operation": printable(exchange.operation, _NAME),
        "model": _text(exchange.model),
        "stream": exchange.stream,
        "status": None if exchange.status is None else int64(exchange.status),
        "request_id": _text(exchange.request_id),
        "verdict": ours.value,
        "client_verdict": theirs.value,
        "ended": None if exchange.ended is None else exchange.ended.value,
        "inspection": printable(exchange.inspection, _NAME),
        "seconds": _since(timing.start, timing.end),
        "first_byte": _since(timing.start, timing.first_byte),
        "events": int64(exchange.events),
        "bytes": int64(exchange.response_bytes),
        "broken": [_broken(violation) for violation in _worst(violations)],
        "broken_count": len(violations),
    }


def indexed_row(entry: Entry, broken: Sequence[Broken]) -> Row:
    """The same of a record of the audit log, as far as the index knows it."""
    return {
        "id": printable(entry.id, _NAME),
        # Records stand in the order of their ends; a list says when exchanges began.
        "at": round((entry.at - (entry.duration or 0)) / 1e6, 6),
        "upstream": printable(entry.upstream or "", _NAME),
        "operation": printable(entry.operation or "", _NAME),
        "model": _text(entry.model or None),
        "stream": bool(entry.stream),
        "status": entry.status,
        "request_id": _text(entry.request_id),
        "verdict": _VERDICTS[entry.verdict],
        "client_verdict": _VERDICTS[entry.client],
        "ended": printable(entry.ended or "", _NAME),
        "inspection": printable(entry.inspection or "", _NAME),
        "seconds": None if entry.duration is None else entry.duration / 1e6,
        "first_byte": None if entry.first_byte is None else entry.first_byte / 1e6,
        "events": entry.events,
        "bytes": entry.received,
        "broken": [
            {
                "rule": printable(each.rule, _NAME),
                "severity": _SEVERITIES[each.severity],
                "count": each.times,
                "message": printable(each.message, _MESSAGE),
            }
            for each in broken[:BROKEN]
        ],
        "broken_count": len(broken),
    }


def _worst(violations: Sequence[Violation]) -> Iterable[Violation]:
    if len(violations) > 1:
        violations = sorted(violations, key=lambda violation: -violation.severity)
    return violations[:BROKEN]


def _broken(violation: Violation) -> dict[str, Any]:
    return {
        "rule": violation.rule.id,
        "severity": violation.severity.word,
        "count": int64(violation.count),
        "message": printable(violation.message, _MESSAGE),
    }


def _since(start: float, at: float | None) -> float | None:
    return None if at is None else round(max(0.0, at - start), 6)


def _text(text: str | None) -> str | None:
    return None if text is None else printable(text, _NAME)
