"""One exchange as the page shows it: its record, each violation with the rule's reason and remedy, how
to do it again, and what can be downloaded.

What belongs here: from a record to the page's object. What doesn't: finding the record (history.py),
layout (static/exchange.js).

A record comes from a file that anyone may have written: only what is named here is handed on, each of
it bounded and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from teeline.proxy.audit.reproduce import reproduction
from teeline.proxy.monitor.rows import Row
from teeline.proxy.reports.examples import Line, compared
from teeline.proxy.text import int64, printable
from teeline.validators.model import Rule
from teeline.validators.rules import register

VIOLATIONS: Final = 100
ENTRIES: Final = 64
_TEXT: Final = 500
_COMMAND: Final = 4000
_WIDTH: Final = 100
_RANK: Final = {"fail": 0, "warn": 1, "info": 2}
_TEXTS: Final = (
    *("id", "trace_id", "span_id", "upstream", "operation", "method", "path", "model"),
    *("request_id", "verdict", "client_verdict", "inspection", "ended", "profile"),
)
_TIMES: Final = ("start", "first_byte", "first_event", "end", "largest_gap")


def detailed(
    fields: Mapping[str, Any], folder: Path | None, url: str | None, *, intact: bool = True
) -> dict[str, Any]:
    """The object of a record. ``folder`` holds captured bodies; ``url`` is the upstream's base URL."""
    capture = _object(fields, "capture")
    state = str(capture.get("state") or "") if folder is not None else ""
    again = reproduction(folder or Path(), fields if folder else {**fields, "capture": None}, url)
    return {
        **{name: _text(fields, name) for name in _TEXTS},
        "settled": True,
        "intact": intact,
        "stream": fields.get("stream") is True,
        "status": _number(fields.get("status")),
        "client": _text(_object(fields, "client"), "peer"),
        "key": _text(_object(fields, "client"), "key"),
        "timing": {name: _time(_object(fields, "timing"), name) for name in _TIMES},
        "timeline": list(_timeline(fields)),
        "bytes": {side: _number(_object(fields, "bytes").get(side)) for side in _SIDES},
        "events": _number(fields.get("events")),
        "usage": _counts(_object(fields, "usage")),
        "finish": [printable(str(word), 64) for word in _list(fields, "finish")[:16]],
        "violations": list(_violations(fields)),
        "omitted": _number(fields.get("violations_omitted")) or 0,
        "captured": printable(state, 64) or None,
        "again": {
            "relay": printable(again.relay, _COMMAND),
            "official": printable(again.official, _COMMAND),
            "note": printable(again.note),
        },
    }


def unsettled(row: Row) -> dict[str, Any]:
    """The object of an exchange that has no record yet: what its row says."""
    rules = register()
    violations = [{**each, **_words(rules.get(each["rule"]))} for each in row["broken"]]
    return {**row, "settled": False, "violations": violations}


def rule_page(rule: Rule) -> dict[str, Any]:
    """A rule with its examples, as lines of which some are marked."""
    wrong, right = compared(rule.bad, rule.good, _WIDTH) if rule.bad else ((), ())
    return {
        "id": rule.id,
        "family": rule.family,
        "severity": rule.severity.word,
        "side": rule.side.value,
        "summary": rule.summary,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source.text,
        "bad": [_line(line) for line in wrong],
        "good": [_line(line) for line in right],
    }


def _line(line: Line) -> list[Any]:
    return [printable(line.text, _TEXT), line.differs]


_SIDES: Final = ("request", "response")


def _violations(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    rules = register()
    numbered = enumerate(_broken(fields))
    for number, each in sorted(numbered, key=lambda n: _severity_rank(str(n[1].get("severity")))):
        place = _object(each, "place")
        name = _text(each, "rule") or ""
        yield {
            "number": number,
            "rule": name,
            "severity": _text(each, "severity"),
            "message": _text(each, "message"),
            "count": _number(each.get("count")),
            "evidence": _text(each, "evidence"),
            "place": {
                "side": _text(place, "side"),
                "unit": _text(place, "unit"),
                "index": _number(place.get("index")),
                "byte": _number(place.get("byte")),
                "pointer": _text(place, "pointer"),
            },
            **_words(rules.get(name)),
        }


def _words(rule: Rule | None) -> dict[str, Any]:
    """Why a rule is one, and what to do; None where this version has no such rule."""
    if rule is None:
        return {"summary": None, "why": None, "fix": None}
    return {"summary": rule.summary, "why": rule.why, "fix": rule.fix}


def _timeline(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What came when. ``shows``: the severity of a violation, or of the worst that a read showed.

    ``broken`` is the violation that was found at an entry, by its place in the record.
    """
    start = _time(_object(fields, "timing"), "start")
    given = [e for e in _list(fields, "timeline") if isinstance(e, list) and len(e) == 4]
    entries = [e for e in given[:ENTRIES] if _number(e[0]) is not None]
    if start is None:
        return
    severities = _severities(fields)
    found = list(_found(entries, _by_index(fields)))
    for number, (at, kind, index, size) in enumerate(entries):
        told = found[number]
        worst = None if told is None else severities[told]
        if kind == "read":
            worst = _shown(entries, found, severities, number)
        yield {
            "after": round(at - start, 6),
            "kind": printable(str(kind), 32),
            "index": _number(index),
            "size": _number(size),
            "shows": worst,
            "broken": told,
        }


def _found(entries: Sequence[Any], by_index: Mapping[Any, list[int]]) -> Iterator[int | None]:
    """For each entry the violation that was found there; they stand in the order of their finding."""
    waiting = {index: list(numbers) for index, numbers in by_index.items()}
    for _, kind, index, _ in entries:
        numbers = waiting.get(index) if kind == "violation" and isinstance(index, int) else None
        yield numbers.pop(0) if numbers else None


def _shown(
    entries: Sequence[Any], found: Sequence[int | None], severities: Sequence[str], read: int
) -> str | None:
    """The worst that is told right behind a read, which is what the read has shown."""
    worst: list[str] = []
    for number in range(read + 1, len(entries)):
        if entries[number][1] != "violation":
            break
        told = found[number]
        worst.append("info" if told is None else severities[told])
    return min(worst, key=_severity_rank, default=None)


def _severities(fields: Mapping[str, Any]) -> list[str]:
    return [str(each.get("severity")) for each in _broken(fields)]


def _by_index(fields: Mapping[str, Any]) -> dict[Any, list[int]]:
    by_index: dict[Any, list[int]] = {}
    for number, each in enumerate(_broken(fields)):
        index = _object(each, "place").get("index")
        if isinstance(index, int):
            by_index.setdefault(index, []).append(number)
    return by_index


def _broken(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The violations of a record, in its order."""
    found = [each for each in _list(fields, "violations") if isinstance(each, Mapping)]
    return found[:VIOLATIONS]


def _severity_rank(severity: str) -> int:
    return _RANK.get(severity, len(_RANK))


def _counts(values: Mapping[str, Any]) -> dict[str, int | float]:
    pairs = ((printable(str(name), 64), _number(value)) for name, value in values.items())
    return {name: value for name, value in pairs if value is not None}


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else printable(str(value), _TEXT)


def _time(fields: Mapping[str, Any], name: str) -> float | None:
    value = _number(fields.get(name))
    return None if value is None else float(value)


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int64(value) if isinstance(value, int) else value


def _object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    return value if isinstance(value, list) else []
