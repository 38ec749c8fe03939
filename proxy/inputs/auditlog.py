"""teeline's own audit logs as input: records of exchanges whose bodies are gone.

What belongs here: a record back into the facts and findings of an exchange, so that a policy can judge
them again. What doesn't: whether the log is whole and unchanged (proxy/audit/verify.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from teeline.proxy.audit.chain import LineError, parse
from teeline.proxy.inputs.items import Item, Problem
from teeline.validators.model import (
    Circumstances,
    Exchange,
    Marks,
    Place,
    Rule,
    Side,
    Unit,
    Violation,
)

NOT_INSPECTED: Final = "none"

_SEAL: Final = ("chain", "seq", "prev", "hash")


class _RecordError(ValueError):
    """A record lacks what makes an exchange; the text is one line that names the member."""


def is_record(document: Any) -> bool:
    """Whether a JSON document is a line of an audit log."""
    return isinstance(document, Mapping) and all(key in document for key in _SEAL)


def items(
    lines: Iterator[tuple[int, bytes]], file: str, rules: Mapping[str, Rule]
) -> Iterator[Item | Problem]:
    """The exchanges of a log; ``lines`` with their numbers. Never raises."""
    for number, line in lines:
        try:
            record = parse(line.rstrip(b"\r\n"))
            if record.kind:
                continue
            exchange, unknown = _exchange(record.fields, rules)
        except LineError as error:
            yield Problem(file, f"line {number}: not a record: {error}", number)
            continue
        except _RecordError as error:
            yield Problem(file, f"line {number}: not the record of an exchange: {error}", number)
            continue
        if unknown:
            yield Problem(file, f"line {number}: unknown rule {unknown[0]}", number)
        yield Item(file, f"line {number}", exchange, number)


def _exchange(fields: Mapping[str, Any], rules: Mapping[str, Rule]) -> tuple[Exchange, list[str]]:
    """The exchange of a record, and the ids of rules that this version doesn't know."""
    found = fields.get("violations")
    if not isinstance(found, list):
        raise _RecordError("violations must be a list")
    violations = [_violation(v, rules) for v in found]
    unknown = [v for v in violations if isinstance(v, str)]
    finish = fields.get("finish")
    exchange = Exchange(
        id=_text(fields, "id"),
        upstream=_text(fields, "upstream"),
        method=_text(fields, "method"),
        path=_text(fields, "path"),
        operation=_text(fields, "operation"),
        model=_text(fields, "model") or None,
        stream=fields.get("stream") is True,
        status=_number(fields, "status"),
        request_id=_text(fields, "request_id") or None,
        events=_number(fields, "events") or 0,
        finish=[w for w in finish if isinstance(w, str)] if isinstance(finish, list) else [],
        marks=Marks(recorded=_text(fields, "profile")),
        inspection=NOT_INSPECTED,
        violations=[v for v in violations if isinstance(v, Violation)],
    )
    return exchange, unknown


def _violation(fields: Any, rules: Mapping[str, Rule]) -> Violation | str:
    """A finding with its rule's own severity, which a policy starts from; the id of an unknown rule."""
    if not isinstance(fields, Mapping):
        raise _RecordError("violations must hold objects")
    rule = rules.get(_text(fields, "rule"))
    if rule is None:
        return _text(fields, "rule")[:64]
    return Violation(
        rule=rule,
        severity=rule.severity,
        message=_text(fields, "message"),
        place=_place(fields.get("place")),
        evidence=_text(fields, "evidence"),
        at=0.0,
        count=_number(fields, "count") or 1,
        circumstances=Circumstances(_words(fields, "held"), _words(fields, "words")),
    )


def _place(fields: Any) -> Place:
    if not isinstance(fields, Mapping):
        raise _RecordError("a place must be an object")
    try:
        side, unit = Side(_text(fields, "side")), Unit(_text(fields, "unit"))
    except ValueError:
        raise _RecordError("a place has no side or unit that is known") from None
    return Place(
        side,
        unit,
        _number(fields, "index") or 0,
        _number(fields, "byte") or 0,
        _text(fields, "pointer"),
    )


def _words(fields: Mapping[str, Any], key: str) -> frozenset[str]:
    value = fields.get(key)
    return (
        frozenset(w for w in value if isinstance(w, str))
        if isinstance(value, list)
        else frozenset()
    )


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _number(fields: Mapping[str, Any], key: str) -> int | None:
    value = fields.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
