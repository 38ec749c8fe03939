"""Reported exchanges for the tests of formats: plain ones, and ones in which every text is hostile."""

from __future__ import annotations

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.model import Report, ReportedExchange
from teeline.validators.model import (
    Exchange,
    Place,
    Rule,
    RuleSource,
    Severity,
    Side,
    Timing,
    Unit,
    Violation,
)

EVIL = (
    "\x1b[31m\x00\x07\r\n::error::x\n##[error]y </failure>]]>&quot;{0}[a](b)%0A,:\u202e\u2028"
    "\ufffe\ufffd\udc80\U0001f600"
)
"""What a peer or a file system could put into a report to break out of its format."""
PLACE = Place(Side.RESPONSE, Unit.EVENT, 3, 1204, "/choices/0/delta")


def rule(rule_id: str, severity: Severity = Severity.FAIL) -> Rule:
    return Rule(
        id=rule_id,
        severity=severity,
        summary="Something is bad.",
        why="A client breaks.",
        fix="Mend it: {always}.",
        source=RuleSource("a specification"),
        bad={},
        good={},
    )


def violation(
    rule_id: str = "chat.bad",
    severity: Severity = Severity.FAIL,
    *,
    text: str = "",
    place: Place = PLACE,
    note: str = "",
) -> Violation:
    declared = rule(rule_id, severity)
    message, evidence = text or "It is bad.", text or '"object": 7'
    return Violation(declared, severity, message, place, evidence, 0.0, 2, note=note)


def reported(
    *violations: Violation,
    file: str = "in/a.json",
    name: str = "one",
    line: int = 1,
    inspection: str = "full",
) -> ReportedExchange:
    exchange = Exchange(operation="chat", status=200, inspection=inspection)
    exchange.timing = Timing(start=10.0, end=10.25)
    exchange.violations = list(violations)
    return ReportedExchange(name, file, exchange, line)


def evil() -> Report:
    """A report in which everything that others may choose is hostile."""
    place = PLACE._replace(pointer="/" + EVIL)
    found = violation(text=EVIL, place=place, note=EVIL)
    exchange = reported(found, file=EVIL, name=EVIL, inspection=EVIL)
    exchange.exchange.profile_reason = EVIL
    exchange.exchange.path = EVIL
    return Report([exchange], {}, problems=[Problem(EVIL, EVIL, 3)])
