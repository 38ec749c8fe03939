"""Records of the audit log for people: lists of them, and one in full.

What belongs here: layout. What doesn't: finding records (proxy/audit), the rules' own words. All that
a peer or a file wrote is escaped on its way in: a log may come from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from teeline.proxy.audit.index import VERDICTS
from teeline.proxy.audit.query import Broken, Entry
from teeline.proxy.audit.reproduce import Reproduction
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.text import wrapped
from teeline.proxy.text import printable
from teeline.validators.model import Rule

SHORT_ID: Final = 18
"""Digits of an id that a list shows; ``show`` takes any beginning."""

_WORDS: Final = {number: word for word, number in VERDICTS.items()}
_COLORS: Final = {"fail": "bold red", "warn": "yellow", "pass": "green", "info": "blue"}
_LABEL: Final = 12
_CELL: Final = 28
_RULES: Final = 3
_TEXT: Final = 300
_HEADS: Final = ("time (UTC)", "id", "upstream", "operation", "model", "status", "verdict", "took")

Row = tuple[Entry, Sequence[Broken]]


def summary(entry: Entry, broken: Sequence[Broken]) -> dict[str, Any]:
    """A record as an object for machines, as far as the index knows it."""
    return {
        "id": entry.id,
        "ts": moment(entry.at),
        "upstream": entry.upstream,
        "operation": entry.operation,
        "model": entry.model or None,
        "stream": bool(entry.stream),
        "status": entry.status,
        "request_id": entry.request_id,
        "key": entry.key or None,
        "verdict": _WORDS[entry.verdict],
        "client_verdict": _WORDS[entry.client],
        "ended": entry.ended or None,
        "inspection": entry.inspection,
        "seconds": None if entry.duration is None else entry.duration / 1e6,
        "first_byte_seconds": None if entry.first_byte is None else entry.first_byte / 1e6,
        "events": entry.events,
        "response_bytes": entry.received,
        "captured": bool(entry.captured),
        "violations": [
            {"rule": b.rule, "severity": severity(b.severity), "count": b.times} for b in broken
        ],
        "chain": entry.chain,
        "file": entry.file,
        "line": entry.line,
    }


def severity(number: int) -> str:
    """The word of a severity's number in the index."""
    return ("", "info", "warn", "fail")[number]


def moment(at: int) -> str:
    """Microseconds since 1970 as RFC 3339."""
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def listed(rows: Sequence[Row]) -> Iterator[Text]:
    """A table of records, a line each."""
    cells = [_cells(entry) for entry, _ in rows]
    widths = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    yield Text("  ".join([*map(_padded, _HEADS, widths), "broken"]), "dim")
    for line, (entry, broken) in zip(cells, rows, strict=True):
        yield row(entry, broken, [_padded(c, w) for c, w in zip(line, widths, strict=True)])


def row(entry: Entry, broken: Sequence[Broken], cells: Sequence[str] | None = None) -> Text:
    """One record as a line; ``cells`` are its columns where they were brought to a width."""
    text = Text()
    for number, cell in enumerate(cells if cells is not None else _cells(entry)):
        verdict = _WORDS[entry.verdict]
        text.append(cell, _COLORS[verdict] if _HEADS[number] == "verdict" else "")
        text.append("  ")
    names = [printable(b.rule, 64) for b in broken if b.severity > 1]
    more = f" +{len(names) - _RULES}" if len(names) > _RULES else ""
    return text.append(", ".join(names[:_RULES]) + more)


def _cells(entry: Entry) -> list[str]:
    took = "-" if entry.duration is None else f"{entry.duration / 1e6:.2f}s"
    ended = "" if entry.ended in ("complete", "") else f" {entry.ended}"
    return [
        f"{datetime.fromtimestamp(entry.at / 1e6, UTC):%Y-%m-%d %H:%M:%S}",
        printable(entry.id, 64)[:SHORT_ID],
        printable(entry.upstream or "-", _CELL),
        printable(entry.operation or "-", _CELL) + ("*" if entry.stream else ""),
        printable(entry.model or "-", _CELL),
        "-" if entry.status is None else str(entry.status),
        _WORDS[entry.verdict],
        took + printable(ended, _CELL),
    ]


def _padded(text: str, width: int) -> str:
    return text.ljust(width)


def shown(
    fields: Mapping[str, Any],
    where: str,
    again: Reproduction,
    rules: Mapping[str, Rule],
    style: Style,
    *,
    intact: bool,
) -> Iterator[Text]:
    """One record in full. ``where`` is its file and line; ``fields`` may hold anything."""
    verdict = _text(fields, "verdict")
    head = Text.assemble((verdict.upper(), _COLORS.get(verdict, "")), "  ")
    head.append(f"{_text(fields, 'method')} {_text(fields, 'path')}", "bold")
    yield head.append(f"  {_text(fields, 'id')}", "dim")
    if not intact:
        yield Text("This record was changed: its own hash does not hold.", "bold red")
    yield from (_field(name, value) for name, value in _facts(fields, where) if value)
    yield from _timeline(fields)
    yield from _broken(fields, rules, style)
    yield Text()
    yield from wrapped("again", again.note, 0, style.width)
    yield Text(f"  {again.relay}")
    yield Text(f"  {again.official}")


def _facts(fields: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    client = _object(fields, "client")
    key = f", key {_text(client, 'key')}" if _text(client, "key") else ""
    yield "time", _text(fields, "ts")
    yield "upstream", _text(fields, "upstream")
    yield "operation", _text(fields, "operation") + (", stream" if fields.get("stream") else "")
    yield "model", _text(fields, "model")
    yield "status", _text(fields, "status")
    yield "ended", _text(fields, "ended")
    yield "request id", _text(fields, "request_id")
    yield "client", _text(client, "peer") + key
    yield "verdict", f"{_text(fields, 'verdict')}, client's side {_text(fields, 'client_verdict')}"
    yield "inspection", _text(fields, "inspection")
    yield "profile", _text(fields, "profile")
    yield "trace", f"{_text(fields, 'trace_id')} span {_text(fields, 'span_id')}"
    yield "bytes", ", ".join(f"{name} {_text(_object(fields, 'bytes'), name)}" for name in _BYTES)
    yield "events", _text(fields, "events")
    yield "usage", _pairs(_object(fields, "usage"))
    yield "finish", ", ".join(printable(str(x), 40) for x in _list(fields, "finish"))
    yield "timing", _timing(_object(fields, "timing"))
    yield "capture", _capture(fields)
    yield "record", where


_BYTES: Final = ("request", "response")


def _capture(fields: Mapping[str, Any]) -> str:
    capture = _object(fields, "capture")
    return f"bodies {_text(capture, 'state')}" if capture else "no bodies"


def _timing(timing: Mapping[str, Any]) -> str:
    start = _number(timing.get("start"))
    words = [
        f"{name.replace('_', ' ')} +{at - start:.3f} s"
        for name in ("first_byte", "first_event", "end")
        if start is not None and (at := _number(timing.get(name))) is not None
    ]
    gap = _number(timing.get("largest_gap"))
    return ", ".join([*words, f"largest gap {gap:.3f} s"] if gap else words)


def _timeline(fields: Mapping[str, Any]) -> Iterator[Text]:
    """What came when; the read that showed a violation is marked, and so is the violation."""
    entries = [e for e in _list(fields, "timeline") if isinstance(e, list) and len(e) == 4]
    start = _number(_object(fields, "timing").get("start"))
    if not entries or start is None:
        return
    broken = _broken_at(fields)
    yield Text("timeline", "dim")
    for (at, kind, index, size), behind in zip(entries, [*entries[1:], None], strict=True):
        offset = _number(at)
        if offset is None or not isinstance(index, int):
            continue
        # What a read has shown is told right behind it.
        shows = kind == "read" and behind is not None and behind[1] == "violation"
        line = Text("  > " if shows or kind == "violation" else "    ", "bold red")
        line.append(f"+{offset - start:9.3f} s  {printable(str(kind), 20):<10}")
        line.append(f" event {index}" if index else "")
        line.append(f"  {_size(str(kind), size)}", "dim")
        # An entry each, in the order in which they were found.
        names = broken.get(index) if kind == "violation" else None
        yield line.append(f"  {names.pop(0)}" if names else "", "red")


def _size(kind: str, size: Any) -> str:
    if not isinstance(size, int) or not size:
        return ""
    return f"status {size}" if kind == "head" else f"{size} bytes"


def _broken_at(fields: Mapping[str, Any]) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for each in _violations(fields):
        index = _object(each, "place").get("index")
        if isinstance(index, int):
            found.setdefault(index, []).append(_text(each, "rule"))
    return found


def _broken(fields: Mapping[str, Any], rules: Mapping[str, Rule], style: Style) -> Iterator[Text]:
    for each in sorted(_violations(fields), key=_rank):
        yield Text()
        word, name = _text(each, "severity"), _text(each, "rule")
        place = _object(each, "place")
        line = Text.assemble((word, _COLORS.get(word, "")), "  ", (name, "bold"))
        line.append(f"  {_place(place)}", "dim")
        count = each.get("count")
        yield line.append(f"  {count} times" if isinstance(count, int) and count > 1 else "")
        yield from wrapped("what", _text(each, "message"), 2, style.width)
        if evidence := _text(each, "evidence"):
            yield Text.assemble("  ", ("seen  ", "dim"), (evidence, "cyan"))
        rule = rules.get(name)
        if rule is None:
            yield from wrapped("why", "this version of teeline has no such rule", 2, style.width)
            continue
        yield from wrapped("why", rule.why, 2, style.width)
        yield from wrapped("fix", rule.fix, 2, style.width, "green")


def _rank(violation: Mapping[str, Any]) -> int:
    order = ("fail", "warn", "info")
    word = violation.get("severity")
    return order.index(word) if word in order else len(order)


def _place(place: Mapping[str, Any]) -> str:
    index = f" {_text(place, 'index')}" if place.get("index") else ""
    words = [_text(place, "side"), _text(place, "unit") + index]
    words += [f"byte {_text(place, 'byte')}"] if place.get("byte") else []
    return ", ".join(word for word in (*words, _text(place, "pointer")) if word)


def _violations(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in _list(fields, "violations") if isinstance(each, Mapping)]


def _field(name: str, value: str) -> Text:
    return Text.assemble((f"{name:<{_LABEL}}", "dim"), value)


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{printable(str(k), 64)} {printable(str(v), 40)}" for k, v in values.items())


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return "" if value is None else printable(str(value), _TEXT)


def _object(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fields.get(key)
    return value if isinstance(value, Mapping) else {}


def _list(fields: Mapping[str, Any], key: str) -> Iterable[Any]:
    value = fields.get(key)
    return value if isinstance(value, list) else ()


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
