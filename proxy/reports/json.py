"""The report for machines: one JSON document (design: formats, "Report").

What belongs here: names and order of the members. Each exchange stands on a line of its own, and
all is ASCII, so that the document can be looked at in a terminal, whatever a peer sent.
"""

from __future__ import annotations

import json
from typing import Any

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.hints import hints
from teeline.proxy.reports.model import (
    TOOL,
    Report,
    ReportedExchange,
    Style,
    rule_set,
    tool_version,
)
from teeline.validators.model import Exchange, Verdict, Violation


def render(report: Report, style: Style) -> str:
    """The document; ``style`` is for people and changes nothing here."""
    exchanges = ",\n".join(ascii_json(exchange(reported)) for reported in report.exchanges)
    beside = {"problems": [problem(found) for found in report.problems], **summary(report)}
    opening = ascii_json({"v": 1, **head(report)}).removesuffix("}")
    closing = ascii_json(beside).removeprefix("{")
    return f'{opening}, "exchanges": [\n{exchanges}\n], {closing}\n'


def head(report: Report) -> dict[str, Any]:
    """What made the report."""
    tool = {"name": TOOL, "version": tool_version(), "rules": rule_set(report.rules)}
    return {"tool": tool, "profile": report.profile}


def summary(report: Report) -> dict[str, Any]:
    """How the verdicts add up."""
    counts = {verdict.value: report.count(verdict) for verdict in Verdict}
    return {"summary": {"exchanges": len(report.exchanges), **counts}}


def exchange(reported: ReportedExchange) -> dict[str, Any]:
    """One exchange as the report's object."""
    facts = reported.exchange
    return {
        "name": _text(reported.name),
        "file": _text(reported.file),
        "line": reported.line,
        "operation": str(facts.operation),
        "verdict": facts.verdict.value,
        "client_verdict": facts.client_verdict.value,
        "inspection": facts.inspection,
        "profile": _profile(facts),
        "hints": [*hints(facts)],
        "violations": [violation(v) for v in reported.violations],
    }


def _profile(facts: Exchange) -> dict[str, Any] | None:
    """The vendor profile that was applied (null: none), and why this one or none."""
    if not facts.profile and not facts.profile_reason:
        return None
    return {"name": facts.profile or None, "reason": _text(facts.profile_reason)}


def problem(found: Problem) -> dict[str, Any]:
    """Something that could not be checked."""
    return {"file": _text(found.file), "line": found.line, "message": _text(found.text)}


def violation(found: Violation) -> dict[str, Any]:
    """One finding as the report's object."""
    place = found.place
    return {
        "rule": found.rule.id,
        "severity": found.severity.word,
        "message": _text(found.message),
        "count": found.count,
        "place": {
            "side": place.side.value,
            "unit": place.unit.value,
            "index": place.index,
            "byte": place.byte,
            "pointer": _text(place.pointer),
        },
        "evidence": _text(found.evidence),
        "note": _text(found.note),
    }


def _text(text: str) -> str:
    # Half a surrogate pair (an undecodable byte of a file name) is no JSON to strict readers.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def ascii_json(value: Any, indent: int | None = None) -> str:
    """A JSON document that can be looked at in a terminal, whatever a peer sent."""
    # DEL is the one control character that JSON leaves alone.
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
