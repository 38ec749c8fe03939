"""Sums over exchanges, and the fingerprint of a rule set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata

import pytest

from teeline.proxy.reports import RENDERERS
from teeline.proxy.reports.model import (
    Report,
    ReportedExchange,
    Style,
    rule_set,
    tool_version,
)
from teeline.validators.model import (
    Exchange,
    Place,
    Rule,
    RuleSource,
    Severity,
    Side,
    Unit,
    Verdict,
    Violation,
)

RULE = Rule("chat.bad", Severity.FAIL, "Bad.", "why", "fix", RuleSource("x"), {}, {})


def reported(family: str, severity: Severity) -> ReportedExchange:
    rule = replace(RULE, id=f"{family}.bad")
    place = Place(Side.RESPONSE, Unit.BODY)
    exchange = Exchange(violations=[Violation(rule, severity, "", place, "", 0.0)])
    return ReportedExchange("", "", exchange)


def test_verdicts_are_the_relays_and_the_worst_is_anybodys() -> None:
    report = Report([reported("request", Severity.FAIL), reported("chat", Severity.INFO)], {})
    assert [report.count(verdict) for verdict in Verdict] == [2, 0, 0]
    assert report.worst() is Severity.FAIL


def test_a_report_without_findings_has_no_worst() -> None:
    assert Report([], {}).worst() is None


def test_the_fingerprint_depends_on_ids_and_severities_alone() -> None:
    def of(**changes: object) -> str:
        rules: Mapping[str, Rule] = {"chat.bad": replace(RULE, **changes)}  # type: ignore[arg-type]
        return rule_set(rules)

    assert of() == of(summary="Said better.")
    assert len({of(), of(id="chat.worse"), of(severity=Severity.WARN)}) == 3


def test_a_tree_that_was_never_installed_has_a_version_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    assert tool_version() == "unknown"


@pytest.mark.parametrize("name", sorted(RENDERERS))
def test_every_format_renders_a_report_and_ends_its_last_line(name: str) -> None:
    report = Report([reported("chat", Severity.FAIL)], {"chat.bad": RULE})
    rendered = RENDERERS[name](report, Style())
    assert "chat.bad" in rendered
    assert rendered.endswith("\n")
