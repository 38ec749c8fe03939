"""The report for machines: one JSON document (design: formats, "Report").

What belongs here: names and order of the members. Each exchange stands on a line of its own, and
all is ASCII, so that the document can be looked at in a terminal, whatever a peer sent.
"""

from __future__ import annotations

import json
from typing import Any

from teeline.proxy.reports.model import (
    TOOL,
    Report,
    ReportedExchange,
    Style,
    rule_set,
    tool_version,
)
from teeline.validators.model import Verdict, Violation


def render(report: Report, style: Style) -> str:
    """The document; ``style`` is for people and changes nothing here."""
    tool = {"name": TOOL, "version": tool_version(), "rules": rule_set(report.rules)}
    exchanges = ",\n".join(_ascii(exchange(reported)) for reported in report.exchanges)
    summary = {
        "exchanges": len(report.exchanges),
        **{verdict.value: report.count(verdict) for verdict in Verdict},
    }
    return (
        f'{{"v": 1, "tool": {_ascii(tool)}, "profile": {_ascii(report.profile)}, "exchanges": [\n'
        f'{exchanges}\n], "summary": {_ascii(summary)}}}\n'
    )


def exchange(reported: ReportedExchange) -> dict[str, Any]:
    """One exchange as the report's object."""
    facts = reported.exchange
    return {
        "name": _text(reported.name),
        "file": _text(reported.file),
        "operation": str(facts.operation),
        "verdict": facts.verdict.value,
        "client_verdict": facts.client_verdict.value,
        "inspection": facts.inspection,
        "violations": [violation(v) for v in reported.violations],
    }


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
    }


def _text(text: str) -> str:
    # Half a surrogate pair (an undecodable byte of a file name) is no JSON to strict readers.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _ascii(value: Any) -> str:
    # DEL is the one control character that JSON leaves alone.
    return json.dumps(value).replace("\x7f", "\\u007f")
