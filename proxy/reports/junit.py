"""The report as JUnit XML, which every CI server shows: one test suite a file, one test case an exchange.

What belongs here: suites, cases and their outcomes. What doesn't: the severity from which a finding is a
failure (it comes with the report).

There is no one schema; this keeps to what its readers have in common: one outcome a case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final
from xml.etree import ElementTree as ET

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.hints import hints
from teeline.proxy.reports.model import TOOL, Report, ReportedExchange, Style
from teeline.proxy.reports.text import place_words
from teeline.proxy.text import printable
from teeline.validators.model import Violation

_MAX: Final = 4096


def render(report: Report, style: Style) -> str:
    """The whole document; info findings stand in it where ``show_info`` asks for them."""
    root = ET.Element("testsuites", name=TOOL)
    for file, exchanges in groupby(report.exchanges, key=lambda reported: reported.file):
        cases = [_case(reported, report, style) for reported in exchanges]
        root.append(_suite(file, cases))
    for problem in report.problems:
        root.append(_suite(problem.file, [_problem(problem)]))
    _count(root, root.iter("testcase"))
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(file: str, cases: Sequence[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=_text(file) or "-")
    suite.extend(cases)
    _count(suite, cases)
    return suite


def _count(element: ET.Element, cases: Iterable[ET.Element]) -> None:
    outcomes = [{child.tag for child in case} for case in cases]
    element.set("tests", str(len(outcomes)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(tag in tags for tags in outcomes)))


def _case(reported: ReportedExchange, report: Report, style: Style) -> ET.Element:
    facts = reported.exchange
    case = _element(
        "testcase",
        classname=f"{TOOL}.{facts.operation or 'other'}",
        name=reported.name or reported.file or "-",
        file=reported.file,
        line=str(reported.line),
        time=f"{_seconds(reported):.3f}",
    )
    shown = reported.shown(style)
    failing = [v for v in shown if report.threshold is not None and v.severity >= report.threshold]
    if failing:
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        failure = _element(
            "failure",
            message=f"{failing[0].rule.id}: {_words(failing[0])}{more}",
            type=failing[0].rule.id,
        )
        failure.text = "\n".join([*map(_finding, failing), *(f"hint: {h}" for h in hints(facts))])
        case.append(failure)
    elif facts.inspection.startswith("none") and not shown:
        case.append(_element("skipped", message=f"inspection: {facts.inspection}"))
    rest = [v for v in shown if v not in failing]
    if rest:
        out = ET.SubElement(case, "system-out")
        out.text = "\n".join(map(_finding, rest))
    return case


def _problem(problem: Problem) -> ET.Element:
    case = _element("testcase", classname=f"{TOOL}.input", name=problem.text, file=problem.file)
    case.set("time", "0.000")
    case.append(_element("error", message=problem.text, type="input"))
    return case


def _element(tag: str, **attributes: str) -> ET.Element:
    return ET.Element(tag, {name: _text(value) for name, value in attributes.items()})


def _seconds(reported: ReportedExchange) -> float:
    timing = reported.exchange.timing
    return max(timing.end - timing.start, 0.0) if timing.end is not None else 0.0


def _words(violation: Violation) -> str:
    return violation.message or violation.rule.summary


def _finding(violation: Violation) -> str:
    """A finding as a paragraph of text."""
    lines = [f"{violation.severity.word} {violation.rule.id}: {_words(violation)}"]
    for label, text in (
        ("where", place_words(violation.place)),
        ("seen", violation.evidence),
        ("why", violation.rule.why),
        ("fix", violation.rule.fix),
        ("note", violation.note),
    ):
        if text:
            lines.append(f"  {label + ':':<6} {text}")
    return "\n".join(map(_text, lines))


def _text(text: str) -> str:
    """Without characters that XML can't hold, whoever wrote them; on one line."""
    return printable(text, _MAX)
