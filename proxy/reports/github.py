"""The report as workflow commands of GitHub Actions: annotations beside the files of a change.

What belongs here: the commands and their escaping. What doesn't: which findings make a run fail (the
exit code does).

A runner reads commands from any line of a step's output, so that nothing a peer wrote may begin a line or
hold a line break; ``##[`` is the older form of a command and may stand anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from teeline.proxy.reports.hints import hints
from teeline.proxy.reports.model import Report, ReportedExchange, Style
from teeline.proxy.reports.text import place_words
from teeline.proxy.text import printable
from teeline.validators.model import Severity, Verdict, Violation

_COMMANDS: Final = {Severity.FAIL: "error", Severity.WARN: "warning", Severity.INFO: "notice"}
_MAX: Final = 4096


def render(report: Report, style: Style) -> str:
    """A command for each finding and each problem, and a line that sums up unless ``quiet``."""
    lines = [line for reported in report.exchanges for line in _exchange(reported, style)]
    lines += [
        _command("error", problem.file, problem.line or 1, "teeline", problem.text)
        for problem in report.problems
    ]
    if not style.quiet:
        counts = ", ".join(
            f"{report.count(verdict)} {verdict.value}"
            for verdict in (Verdict.FAIL, Verdict.WARN, Verdict.PASS)
        )
        lines.append(f"teeline: {len(report.exchanges)} exchanges: {counts}")
    return "".join(f"{line}\n" for line in lines)


def _exchange(reported: ReportedExchange, style: Style) -> Iterator[str]:
    for violation in reported.shown(style):
        title = f"teeline {violation.rule.id}"
        command = _COMMANDS[violation.severity]
        yield _command(command, reported.file, reported.line, title, _message(reported, violation))
    for hint in hints(reported.exchange):
        yield _command("notice", reported.file, reported.line, "teeline hint", hint)


def _message(reported: ReportedExchange, violation: Violation) -> str:
    name = f"{reported.name}: " if reported.name else ""
    seen = f" (seen: {violation.evidence})" if violation.evidence else ""
    note = f"\nNote: {violation.note}" if violation.note else ""
    place = place_words(violation.place)
    words = violation.message or violation.rule.summary
    return f"{name}{words}\n{place}{seen}\nFix: {violation.rule.fix}{note}"


def _command(command: str, file: str, line: int, title: str, message: str) -> str:
    # Annotations are shown beside paths as the repository has them.
    path = _property(file.removeprefix("./"))
    properties = f"file={path},line={line},title={_property(title)}"
    return f"::{command} {properties}::{_data(message)}"


def _data(text: str) -> str:
    """A message: our own line breaks stay, what stands in a line is made printable."""
    lines = "\n".join(printable(line, _MAX) for line in text.split("\n"))
    return lines.replace("%", "%25").replace("\n", "%0A").replace("##[", "##\\[")


def _property(text: str) -> str:
    return _data(text.replace("\n", "\\n")).replace(":", "%3A").replace(",", "%2C")
