"""What of an exchange is inspected elsewhere, and what comes back, as data.

A large document takes long to read, and other streams wait meanwhile: an inspector that may do so gives
it away as a ``Task`` (events.Aside) and takes the report in when it comes. There are two: a request to be
read, whose report has its outline, and an answer to be checked against that (nnrp/passed.py has a third, of
another kind). Everything here is JSON in bytes, so that nothing of a peer's is ever unpickled.

What belongs here: tasks, reports and outlines, written and read. What doesn't: doing a task (replay.py),
and the process that does it (proxy/inspectpool.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from teeline.validators.checks.context import Context, SchemaRules, WantedCheck
from teeline.validators.checks.cross import holds_replacement
from teeline.validators.checks.estimate import text_size
from teeline.validators.checks.request import RequestFacts
from teeline.validators.events import RequestHead, Task
from teeline.validators.model import Circumstances, Ended, Exchange, Place, Side, Unit, Violation
from teeline.validators.rules import register

REQUEST: Final = "request"
ANSWER: Final = "answer"
MAX_REPORT: Final = 1024 * 1024
"""Bytes of a report: reading it is work in place again."""

_MAX_CHECKS: Final = 256 * 1024
"""Bytes of all schemas and documents that a report gives back to be checked."""
_LONG: Final = 256
"""Characters of a text that an outline keeps."""
_MANY: Final = 64
"""Messages that an outline keeps one by one."""
_BULKY: Final = ("messages", "input", "prompt")
"""Members of a request that hold the texts of a conversation."""
_EXACT: Final = frozenset({"tools"})
"""Members inside of those that answers are compared with as they stand."""
_REPLACEMENT: Final = "\ufffd"


def task(kind: str, facts: Mapping[str, Any], request: bytes, pieces: Sequence[bytes]) -> Task:
    return Task(kind, json.dumps(facts).encode("ascii"), request, pieces)


def whole_request(request: RequestFacts) -> bytes:
    """A request that was read in place, as a task has it; empty where it is not known."""
    if not request.known:
        return b""
    try:
        size, replaced = request.unkept, request.replaced
        unkept = [[["messages", 0, "content"], size, replaced]] if size else []
        whole = {"outline": {"document": request.document, "texts": unkept}}
        return json.dumps(whole).encode("ascii")
    except (RecursionError, ValueError):
        return b""  # an integer of more digits than Python writes


def request_facts(exchange: Exchange, head: RequestHead) -> dict[str, Any]:
    """What a task says of the request whatever is to be done."""
    return {
        "method": head.method,
        "target": head.target,
        "headers": head.headers,
        "at": exchange.timing.start,
        "request_bytes": exchange.request_bytes,
    }


def answer_facts(ctx: Context, ended: Ended) -> dict[str, Any]:
    """What a task says of an answer beside its request."""
    timing = ctx.exchange.timing
    return {
        "status": ctx.response.status,
        "response_headers": ctx.response.headers,
        "first_byte": timing.first_byte,
        "last_byte": timing.last_byte,
        "end": timing.end,
        "ended": ended.value,
    }


# -- a request in outline ------------------------------------------------------------------------------


def outline(document: Any) -> dict[str, Any]:
    """A request's document without its long texts, and where they stood.

    Answers are compared with most of a request, but of a conversation's texts with their lengths alone,
    and with whether they hold U+FFFD.
    """
    if not isinstance(document, dict):
        return {"document": None, "texts": []}
    texts: list[list[Any]] = []
    cut = {
        name: _cut(_merged(value), [name], texts) if name in _BULKY else value
        for name, value in document.items()
    }
    return {"document": cut, "texts": texts}


def _merged(entries: Any) -> Any:
    """Messages and items with nothing but text as one, where there are many."""
    if not isinstance(entries, list) or len(entries) <= _MANY:
        return entries
    kept: list[Any] = []
    size, replaced = 0, False
    for entry in entries:
        characters = None if _is_tools(entry) else text_size(entry)
        if characters is None:
            kept.append(entry)
        else:
            size += characters
            replaced = replaced or holds_replacement(entry)
    if len(kept) == len(entries):
        return entries
    text = (_REPLACEMENT if replaced else " ") + " " * (size - 1)
    return [*kept, {"role": "user", "content": text}]


def _is_tools(entry: Any) -> bool:
    return isinstance(entry, dict) and not _EXACT.isdisjoint(entry)


def _cut(value: Any, path: list[Any], texts: list[list[Any]]) -> Any:
    """A copy; levels are as many as a document's may be (``Limits.depth``)."""
    if isinstance(value, str) and len(value) > _LONG:
        texts.append([path, len(value), _REPLACEMENT in value])
        return ""
    if isinstance(value, list):
        if set(map(type, value)) == {int}:
            return [int(any(value))]  # one input, in tokens
        return [_cut(item, [*path, n], texts) for n, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            name: inner if name in _EXACT else _cut(inner, [*path, name], texts)
            for name, inner in value.items()
        }
    return value


def filled(outlined: Mapping[str, Any]) -> Any:
    """The document of an outline, with blanks for the texts that it lacks."""
    document = outlined["document"]
    for path, length, replaced in outlined["texts"]:
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = (_REPLACEMENT if replaced else " ") + " " * (length - 1)
    return document


# -- what was found ------------------------------------------------------------------------------------

_TEXTS: Final = (
    *("response_id", "response_model", "service_tier", "error_type", "inspection", "events"),
)
"""Facts of an exchange that are taken over as they are."""


def report_of(ctx: Context, **more: Any) -> bytes:
    """Everything that came to light, as a report."""
    exchange = ctx.exchange
    models = exchange.listed_models
    checks = list(_written_checks(ctx))
    report = {
        **{name: getattr(exchange, name) for name in _TEXTS},
        "usage": exchange.usage,
        "finish": exchange.finish,
        "listed_models": None if models is None else sorted(models),
        "members": sorted(exchange.marks.members),
        "fingerprint": exchange.marks.fingerprint,
        "id": exchange.marks.id,
        "violations": list(map(_written, exchange.violations)),
        "checks": checks,
        **more,
    }
    return json.dumps(report).encode("ascii")


def _written(violation: Violation) -> dict[str, Any]:
    return {
        "rule": violation.rule.id,
        "place": violation.place,
        "evidence": violation.evidence,
        "at": violation.at,
        "count": violation.count,
        "held": sorted(violation.circumstances.held),
        "words": sorted(violation.circumstances.words),
    }


def _written_checks(ctx: Context) -> Iterator[Any]:
    """Schema checks to be had where the report goes, as far as they are small."""
    room = _MAX_CHECKS
    for _, wanted in ctx.wanted_checks():
        try:
            room -= len(json.dumps((wanted.schema, wanted.document)))
        except (RecursionError, ValueError):
            room = -1
        if room < 0:
            ctx.partial("schema-too-large")
            return
        yield wanted


def adopt(ctx: Context, report: Mapping[str, Any]) -> None:
    """Takes a report's findings, facts and schema checks over into an exchange."""
    exchange = ctx.exchange
    for written in report["violations"]:
        ctx.report.adopt(_read(written))
    for written in report["checks"]:
        rules, place, schema, document = written
        ctx.want_check(WantedCheck(SchemaRules(*rules), _place(place), schema, document))
    if exchange.inspection == "full":
        exchange.inspection = report["inspection"]


def adopt_facts(exchange: Exchange, report: Mapping[str, Any]) -> None:
    """Takes over what a report says of the answer."""
    for name in _TEXTS:
        if name != "inspection":
            setattr(exchange, name, report[name])
    exchange.usage = report["usage"]
    exchange.finish = report["finish"]
    models = report["listed_models"]
    exchange.listed_models = None if models is None else frozenset(models)
    marks = exchange.marks
    marks.members = frozenset(report["members"])
    marks.fingerprint, marks.id = report["fingerprint"], report["id"]


def _read(written: Mapping[str, Any]) -> Violation:
    rule = register()[written["rule"]]
    return Violation(
        rule=rule,
        severity=rule.severity,
        message=rule.summary,
        place=_place(written["place"]),
        evidence=written["evidence"],
        at=written["at"],
        count=written["count"],
        circumstances=Circumstances(frozenset(written["held"]), frozenset(written["words"])),
    )


def _place(written: Sequence[Any]) -> Place:
    side, unit, *rest = written
    return Place(Side(side), Unit(unit), *rest)
