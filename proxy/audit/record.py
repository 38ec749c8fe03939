"""What the lines of an audit log say.

What belongs here: the fields of each kind of record, and their bounds. What doesn't: the fields
that chain them (chain.py), writing them as JSON (encode.py), and when that is done (writer.py).

A line without ``kind`` is a closed exchange. The kinds: ``open`` (each file's first line), ``lost``
(exchanges that could not be recorded), ``retention`` (files about to be deleted, by their heads)
and ``close`` (the chain ends here on purpose). Strings are bounded and hold printable characters
only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from teeline.proxy.text import are_int64, int64, printable
from teeline.validators.model import (
    Circumstances,
    Exchange,
    Rule,
    Timing,
    Violation,
)

OPEN: Final = "open"
LOST: Final = "lost"
RETENTION: Final = "retention"
CLOSE: Final = "close"

ID: Final = 256
"""Characters of an id, at most."""
_NAME = 256
_PATH = 1024
_MESSAGE = 500
_VIOLATIONS = 100
FINISH: Final = 16
"""Reasons why choices ended, at most."""
_COUNTERS = 32


class Origin(NamedTuple):
    """Who writes a chain: teeline's version, the rule set (see ``ruleset_id``), the profiles in use,
    and the upstreams with their base URLs.
    """

    version: str
    rules: str
    profiles: tuple[str, ...] = ()
    upstreams: tuple[tuple[str, str], ...] = ()


class Ended(NamedTuple):
    """How far a file of the log is good, as the one says who went on from there.

    ``size`` is in bytes: what stands in the file behind it is debris of a write that was cut off.
    ``seq`` and ``head`` are those of the chain's last whole line, in this file or one before.
    """

    chain: str
    file: int
    seq: int
    head: str
    size: int


class Retired(NamedTuple):
    """A file that retention deleted, by the last line it held."""

    chain: str
    file: int
    seq: int
    head: str


def ruleset_id(rules: Mapping[str, Rule]) -> str:
    """16 hexadecimal digits that change with the ids and severities of a set of rules."""
    text = "".join(f"{rule.id} {rule.severity.word}\n" for _, rule in sorted(rules.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def exchange_record(exchange: Exchange) -> dict[str, Any]:
    """A closed exchange. No query, no header, no body; of the client its address, and its key's
    fingerprint where one was made."""
    return {
        **identity_fields(exchange),
        **request_fields(exchange),
        **course_fields(exchange),
        **outcome_fields(exchange),
    }


def identity_fields(exchange: Exchange) -> dict[str, Any]:
    """What no other exchange has."""
    return {
        "id": printable(exchange.id, ID),
        "trace_id": printable(exchange.trace_id, ID),
        "span_id": printable(exchange.span_id, ID),
    }


def request_fields(exchange: Exchange) -> dict[str, Any]:
    """What was asked for, and with which status it was answered."""
    return {
        "upstream": printable(exchange.upstream, _NAME),
        "operation": printable(exchange.operation, _NAME),
        "method": printable(exchange.method, _NAME),
        # Cut again here: whatever fills in the path, a query must never get into the log.
        "path": printable(exchange.path.partition("?")[0].partition("#")[0], _PATH),
        "model": _text(exchange.model),
        "stream": exchange.stream,
        "status": None if exchange.status is None else int64(exchange.status),
    }


def course_fields(exchange: Exchange) -> dict[str, Any]:
    """The relay's name for the exchange, who asked, times and amounts."""
    return {
        "request_id": _text(exchange.request_id),
        "client": {
            "peer": printable(exchange.client, _NAME),
            "key": exchange.client_key or None,
        },
        "timing": timing_fields(exchange.timing),
        "timeline": [list(entry) for entry in exchange.timeline],
        "bytes": {
            "request": int64(exchange.request_bytes),
            "response": int64(exchange.response_bytes),
        },
        "events": int64(exchange.events),
        "usage": _usage(exchange.usage),
    }


def timing_fields(timing: Timing) -> dict[str, float | None]:
    """Times as the clock gave them, which at this size have seven decimals at most; a difference
    of them has any number, so that it is rounded to microseconds."""
    return {
        "start": timing.start,
        "first_byte": timing.first_byte,
        "first_event": timing.first_event,
        "end": timing.end,
        "largest_gap": int(timing.largest_gap * 1e6 + 0.5)
        / 1e6,  # round() takes several times as long
    }


def outcome_fields(exchange: Exchange) -> dict[str, Any]:
    """What the exchange came to."""
    return {
        "finish": [printable(reason, _NAME) for reason in exchange.finish[:FINISH]],
        "verdict": exchange.verdict.value,
        "client_verdict": exchange.client_verdict.value,
        "violations": [_violation(violation) for violation in exchange.violations[:_VIOLATIONS]],
        **_omitted(exchange.violations),
        "inspection": printable(exchange.inspection, _NAME),
        "ended": None if exchange.ended is None else exchange.ended.value,
        "profile": _text(exchange.profile or None),
    }


def opening_record(
    origin: Origin,
    file: int,
    after: str,
    before: Ended | None = None,
    previous: Iterable[Ended] = (),
) -> dict[str, Any]:
    """The first line of a file.

    ``after`` says why it was opened: ``start``, ``rotation``, ``error`` (the file before could not
    be written any more) or ``removed`` (it was deleted under the writer). ``before`` is the file
    before in this chain, ``previous`` are chains of earlier processes as they were found at the
    start.
    """
    return {
        "kind": OPEN,
        "file": file,
        "after": after,
        "teeline": origin.version,
        "rules": origin.rules,
        "profiles": list(origin.profiles),
        "upstreams": dict(origin.upstreams),
        "before": None if before is None else before._asdict(),
        "previous": [ended._asdict() for ended in previous],
    }


def lost_record(reasons: Mapping[str, int]) -> dict[str, Any]:
    """Exchanges that closed and are not in the chain, counted by reason."""
    return {"kind": LOST, "count": sum(reasons.values()), "reasons": dict(reasons)}


def retention_record(deleted: Sequence[Retired], carried: Iterable[Retired]) -> dict[str, Any]:
    """Files that are about to be deleted; ``carried`` is what retention records in them said."""
    return {
        "kind": RETENTION,
        "deleted": [retired._asdict() for retired in deleted],
        "carried": [retired._asdict() for retired in carried],
    }


def close_record(records: int, lost: int) -> dict[str, Any]:
    """The end of a chain: how many exchanges it recorded, and how many it lost."""
    return {"kind": CLOSE, "records": records, "lost": lost}


def ended_in(fields: Mapping[str, Any]) -> list[Ended]:
    """What an opening record says of other files; entries that aren't well-formed are left out."""
    previous = fields.get("previous")
    entries = [fields.get("before"), *(previous if isinstance(previous, list) else ())]
    return [Ended(*found) for entry in entries if (found := _entry(entry, Ended._fields))]


def retired_in(fields: Mapping[str, Any]) -> list[Retired]:
    """The files that a retention record names; entries that aren't well-formed are left out."""
    lists = [fields.get("deleted"), fields.get("carried")]
    entries = [entry for each in lists if isinstance(each, list) for entry in each]
    return [Retired(*found) for entry in entries if (found := _entry(entry, Retired._fields))]


def _entry(entry: object, names: Sequence[str]) -> list[Any] | None:
    if not isinstance(entry, dict):
        return None
    values = [entry.get(name) for name in names]
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, str if name in ("chain", "head") else int):
            return None
    return values


def _violation(violation: Violation) -> dict[str, Any]:
    place = violation.place
    return {
        "rule": violation.rule.id,
        "severity": violation.severity.word,
        "message": printable(violation.message, _MESSAGE),
        "count": int64(violation.count),
        "place": {
            "side": place.side.value,
            "unit": place.unit.value,
            "index": int64(place.index),
            "byte": int64(place.byte),
            "pointer": printable(place.pointer, _NAME),
        },
        "evidence": printable(violation.evidence),
        **_circumstances(violation.circumstances),
    }


def _circumstances(seen: Circumstances) -> dict[str, Any]:
    """What a vendor profile asks of a violation, so that one can be applied to a record, too."""
    found: dict[str, Any] = {}
    if seen.held:
        found["held"] = sorted(seen.held)
    if seen.words:
        found["words"] = [printable(word, _NAME) for word in sorted(seen.words)]
    return found


def _omitted(violations: Sequence[Violation]) -> dict[str, int]:
    more = len(violations) - _VIOLATIONS
    return {"violations_omitted": more} if more > 0 else {}


def _usage(usage: Mapping[str, int]) -> Mapping[str, int]:
    if are_shown(tuple(usage)) and are_int64(usage.values()):
        return usage
    return {
        printable(name, _NAME): int64(count) for name, count in islice(usage.items(), _COUNTERS)
    }


@lru_cache(maxsize=256)
def are_shown(names: tuple[str, ...]) -> bool:
    """Whether all these counters, of which upstreams have few kinds, are shown under their own names."""
    return len(names) <= _COUNTERS and all(printable(name, _NAME) == name for name in names)


def _text(text: str | None) -> str | None:
    return None if text is None else printable(text, _NAME)
