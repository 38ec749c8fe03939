"""The report of a check as JUnit XML: a detector is a test case, for CI systems that know no scores.

What belongs here: the mapping. Info and warn findings stand in a case's output; what fails it is a fail.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from teeline.proxy.probe.outcome import CheckOutcome
from teeline.proxy.probe.report.view import Told, View, view
from teeline.proxy.reports.model import Style
from teeline.proxy.text import printable
from teeline.validators.model import Severity, Verdict
from teeline.validators.scoring import DetectorScore


def render(outcome: CheckOutcome, style: Style) -> str:
    """One suite with a case a detector."""
    seen = view(outcome, show_info=style.show_info)
    scores = seen.card.detectors
    failures = sum(score.result is Verdict.FAIL for score in scores)
    skipped = sum(score.score is None for score in scores)
    name = f"teeline probe {printable(outcome.target.base_url, 300)}"
    seconds = max(outcome.ended - outcome.started, 0.0)
    head = (
        f'<testsuite name={quoteattr(name)} tests="{len(scores)}" failures="{failures}" errors="0" '
        f'skipped="{skipped}" time="{seconds:.3f}">'
    )
    properties = _properties(seen)
    cases = "\n".join(_case(score, seen.of(score.detector.name)) for score in scores)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{head}\n{properties}\n{cases}\n'
        "</testsuite>\n</testsuites>\n"
    )


def _properties(seen: View) -> str:
    facts = {
        "total": seen.total,
        "band": seen.card.band.value,
        "result": seen.card.result.value,
        "model": printable(seen.outcome.settings.model, 100),
    }
    lines = [f"<property name={quoteattr(n)} value={quoteattr(v)}/>" for n, v in facts.items()]
    return "<properties>\n" + "\n".join(lines) + "\n</properties>"


def _case(score: DetectorScore, told: list[Told]) -> str:
    head = f'<testcase classname="teeline.probe" name={quoteattr(score.detector.name)}'
    if score.score is None:
        return f"{head}><skipped message={quoteattr(score.skipped)}/></testcase>"
    failed = [one for one in told if one.severity is Severity.FAIL]
    other = [one for one in told if one.severity is not Severity.FAIL]
    inside = ""
    if failed:
        message = ", ".join(one.rule.id for one in failed)
        text = "\n\n".join(_words(one) for one in failed)
        inside += f"<failure message={quoteattr(message)}>{escape(text)}</failure>"
    if other:
        text = "\n\n".join(_words(one) for one in other)
        inside += f"<system-out>{escape(text)}</system-out>"
    return f"{head}>{inside}</testcase>" if inside else f"{head}/>"


def _words(told: Told) -> str:
    return (
        f"{told.severity.word} {told.rule.id} (-{told.points})\n{told.rule.summary}\n"
        f"where: {told.place}\nseen: {told.evidence}\nwhy: {told.rule.why}\nfix: {told.rule.fix}\n"
        f"again: {printable(told.curl, 4000)}"
    )
