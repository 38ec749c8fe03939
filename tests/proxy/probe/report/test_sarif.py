"""SARIF: results that point at rules of the same document."""

from __future__ import annotations

import json

from teeline.proxy.probe.report.sarif import render
from teeline.proxy.reports.model import Style
from tests.proxy.probe.report.outcomes import HOSTILE, KEY, faulty


def test_each_result_names_its_rule_its_level_and_its_place() -> None:
    text = render(faulty(HOSTILE), Style(show_info=True))
    document = json.loads(text)
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert document["version"] == "2.1.0"
    assert [r["level"] for r in run["results"]] == ["error", "warning", "note"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["locations"][0]["logicalLocations"][0]["name"] == "chat-create"
    assert text.isascii()
    assert KEY not in text
