"""The report as SARIF 2.1.0 (OASIS), which code scanning services read.

What belongs here: a run, its rules, its results and where they lie. What doesn't: anything of teeline's
own formats.

The artifact of a result is the recording; the place inside of it (event, byte in the decoded body, JSON
Pointer) is a logical location, since it is no byte of the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.hints import hints
from teeline.proxy.reports.json import ascii_json
from teeline.proxy.reports.model import TOOL, Report, ReportedExchange, Style, tool_version
from teeline.proxy.reports.text import place_words
from teeline.proxy.text import printable
from teeline.validators.model import Rule, Severity, Violation

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION: Final = "2.1.0"

_LEVELS: Final = {Severity.FAIL: "error", Severity.WARN: "warning", Severity.INFO: "note"}
_MAX: Final = 4096
_NUMBERS = re.compile(r"/\d+")


def render(report: Report, style: Style) -> str:
    """One run with all results; info findings are results where ``show_info`` asks for them."""
    shown = [(r, v) for r in report.exchanges for v in r.shown(style)]
    rules = {violation.rule.id: violation.rule for _, violation in shown}
    indexes = {rule_id: index for index, rule_id in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": TOOL,
                "version": tool_version(),
                "rules": [_rule(rule) for rule in rules.values()],
            }
        },
        "columnKind": "utf16CodeUnits",
        "invocations": [_invocation(report)],
        "results": [_result(r, v, indexes[v.rule.id]) for r, v in shown],
    }
    return f"{ascii_json({'$schema': SCHEMA, 'version': VERSION, 'runs': [run]}, indent=1)}\n"


def _rule(rule: Rule) -> dict[str, Any]:
    """A rule as a reportingDescriptor with its help."""
    source = rule.source.text
    return {
        "id": rule.id,
        "shortDescription": _message(rule.summary),
        "fullDescription": _message(f"{rule.summary} {rule.why}"),
        "help": {
            "text": _braces(f"{rule.why}\n\nFix: {rule.fix}\n\nSource: {source}"),
            "markdown": _braces(f"{rule.why}\n\n**Fix:** {rule.fix}\n\n**Source:** {source}"),
        },
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.family]},
    }


def _result(reported: ReportedExchange, violation: Violation, index: int) -> dict[str, Any]:
    place = violation.place
    return {
        "ruleId": violation.rule.id,
        "ruleIndex": index,
        "level": _LEVELS[violation.severity],
        "message": _message(_words(reported, violation)),
        "locations": [
            {
                "physicalLocation": _physical(reported.file, reported.line),
                "logicalLocations": [_logical(reported, violation)],
            }
        ],
        "partialFingerprints": {"teeline/v1": _fingerprint(reported, violation)},
        "properties": {
            "exchange": _text(reported.name),
            "operation": _text(str(reported.exchange.operation)),
            "count": violation.count,
            "side": place.side.value,
            "unit": place.unit.value,
            "index": place.index,
            "byte": place.byte,
            "pointer": _text(place.pointer),
            "evidence": _text(violation.evidence),
            "note": _text(violation.note),
            "hints": [*hints(reported.exchange)],
        },
    }


def _words(reported: ReportedExchange, violation: Violation) -> str:
    name = f"{reported.name}: " if reported.name else ""
    words = violation.message or violation.rule.summary
    return f"{name}{words} ({place_words(violation.place)})"


def _message(text: str) -> dict[str, str]:
    return {"text": _braces(_text(text))}


def _braces(text: str) -> str:
    """A message string, in which single braces would be placeholders (SARIF 3.11.5)."""
    return text.replace("{", "{{").replace("}", "}}")


def _physical(file: str, line: int) -> dict[str, Any]:
    return {"artifactLocation": _artifact(file), "region": {"startLine": max(line, 1)}}


def _artifact(file: str) -> dict[str, str]:
    """A file name as a URI reference (RFC 3986)."""
    path = quote(file.removeprefix("./").encode("utf-8", "surrogateescape"), safe="/")
    if path.startswith("/"):
        return {"uri": f"file://{path}"}
    return {"uri": path or "-", "uriBaseId": "%SRCROOT%"}


def _logical(reported: ReportedExchange, violation: Violation) -> dict[str, str]:
    place = violation.place
    number = f" {place.index}" if place.index else ""
    unit = f"{place.side.value}/{place.unit.value}{number}"
    name = f"{reported.name or 'exchange'}/{unit}{place.pointer}"
    return {"fullyQualifiedName": _text(name), "kind": "element"}


def _fingerprint(reported: ReportedExchange, violation: Violation) -> str:
    """The same for the same finding in another run: elements of lists move, names stay."""
    pointer = _NUMBERS.sub("/*", violation.place.pointer)
    parts = (violation.rule.id, reported.file, reported.name, pointer)
    text = "\n".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:32]


def _invocation(report: Report) -> Mapping[str, Any]:
    return {
        "executionSuccessful": not report.problems,
        "toolExecutionNotifications": [_notification(problem) for problem in report.problems],
    }


def _notification(problem: Problem) -> dict[str, Any]:
    return {
        "level": "error",
        "message": _message(problem.text),
        "locations": [{"physicalLocation": _physical(problem.file, problem.line)}],
    }


def _text(text: str) -> str:
    return printable(text, _MAX)
