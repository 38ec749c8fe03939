"""The report of a check as SARIF 2.1.0, for code scanning views.

What belongs here: the mapping. A place is a probe's request with a JSON Pointer: there is no file.
"""

from __future__ import annotations

import json
from typing import Any, Final

from teeline.proxy.probe.outcome import CheckOutcome
from teeline.proxy.probe.report.view import Told, view
from teeline.proxy.reports.model import TOOL, Style, tool_version
from teeline.validators.model import Rule, Severity

_LEVELS: Final = {Severity.FAIL: "error", Severity.WARN: "warning", Severity.INFO: "note"}
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def render(outcome: CheckOutcome, style: Style) -> str:
    """One run with a result a finding."""
    seen = view(outcome, show_info=style.show_info)
    rules = {told.rule.id: told.rule for told in seen.told}
    run = {
        "tool": {
            "driver": {
                "name": TOOL,
                "version": tool_version(),
                "rules": [_rule(rule) for rule in rules.values()],
            }
        },
        "results": [_result(told, list(rules)) for told in seen.told],
        "properties": {
            "base_url": outcome.target.base_url,
            "model": outcome.settings.model,
            "total": seen.card.total,
            "band": seen.card.band.value,
            "result": seen.card.result.value,
        },
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1).replace("\x7f", "\\u007f") + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.fix}\n\nSource: {rule.source.text}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(told: Told, order: list[str]) -> dict[str, Any]:
    seen = f" Seen: {told.evidence}" if told.evidence else ""
    name = f"{told.probe.name}{told.violation.place.pointer}"
    return {
        "ruleId": told.rule.id,
        "ruleIndex": order.index(told.rule.id),
        "level": _LEVELS[told.severity],
        "message": {"text": f"{told.rule.summary} ({told.place}){seen}"},
        "locations": [
            {
                "logicalLocations": [
                    {"name": told.probe.name, "fullyQualifiedName": name, "kind": "function"}
                ]
            }
        ],
        "properties": {"detector": told.detector, "points": told.points, "curl": told.curl},
    }
