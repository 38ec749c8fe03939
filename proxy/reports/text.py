"""The report for people: what is wrong, where, what a client will suffer, how it is fixed.

What belongs here: layout, colours, the words around the rules' own. Everything that a peer or a
file system wrote is escaped (proxy/text.py) on its way in; no markup is ever read from it.
"""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from teeline.proxy.reports.hints import hints
from teeline.proxy.reports.model import Report, ReportedExchange, Style
from teeline.proxy.text import printable
from teeline.validators.model import Place, Severity, Unit, Verdict, Violation

_INDENT: Final = 6
_DETAIL: Final = 12
_LABEL: Final = 6
_MIN_WIDTH: Final = 40
_MAX_WIDTH: Final = 100
_MAX_NAME: Final = 80
_MAX_PATH: Final = 4096
_MAX_TEXT: Final = 2000
_COLORS: Final = {"fail": "bold red", "warn": "yellow", "pass": "green", "info": "blue"}


def render(report: Report, style: Style) -> str:
    """Each exchange with its findings, then a summary; words and escapes alone where no colour."""
    return drawn(list(_lines(report, style)), style)


def drawn(lines: Sequence[Text], style: Style) -> str:
    """Lines as text, with escape sequences for their styles where colour is wanted."""
    if not style.color:
        return "".join(line.plain.rstrip() + "\n" for line in lines)
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=True,
        color_system="standard",
        no_color=False,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return out.getvalue()


def terminal_width() -> int:
    """Columns of the terminal that stdout is; of a pipe or a file, what people can read."""
    return max(shutil.get_terminal_size((_MAX_WIDTH, 24)).columns, _MIN_WIDTH)


def wrapped(label: str, text: str, indent: int, width: int, style: str = "") -> Iterator[Text]:
    """A text of our own under a label, with a hanging indent."""
    hanging = indent + _LABEL
    room = max(min(width, _MAX_WIDTH) - hanging, 20)
    for number, line in enumerate(textwrap.wrap(printable(text, _MAX_TEXT), room) or [""]):
        head = f"{label:<{_LABEL}}" if number == 0 else " " * _LABEL
        yield Text.assemble(" " * indent, (head, "dim"), (line, style))


def severity_word(severity: Severity) -> tuple[str, str]:
    """A severity as a word and its style."""
    return severity.word, _COLORS[severity.word]


def _lines(report: Report, style: Style) -> Iterator[Text]:
    explained: set[str] = set()
    hidden = 0
    for reported in report.exchanges:
        shown = reported.shown(style)
        hidden += len(reported.violations) - len(shown)
        if style.quiet and not shown:
            continue
        yield _headline(reported)
        for hint in hints(reported.exchange):
            yield from wrapped("hint", hint, _INDENT, style.width, "magenta")
        for violation in shown:
            yield from _finding(violation, violation.rule.id not in explained, style)
            explained.add(violation.rule.id)
        if shown:
            yield Text()
    if not style.quiet:
        yield from _summary(report, hidden)


def _headline(reported: ReportedExchange) -> Text:
    facts = reported.exchange
    # Text(x, style) would lend its style to all that is appended.
    line = Text.assemble(_badge(facts.verdict), "  ")
    line.append(printable(reported.file, _MAX_PATH) or "-", "bold")
    if reported.name and reported.name not in reported.file:
        line.append(f"  {printable(reported.name, _MAX_NAME)}")
    described = [str(facts.operation)] if facts.operation else []
    if facts.status is not None:
        described.append(str(facts.status))
    line.append(f"  {', '.join(described)}", "dim")
    if facts.profile:
        line.append(f"  profile {facts.profile} ({printable(facts.profile_reason)})", "dim")
    elif facts.profile_reason:
        line.append(f"  profile {printable(facts.profile_reason)}", "dim")
    if facts.client_verdict is not Verdict.PASS:
        line.append("  client: ").append(*_badge(facts.client_verdict))
    if facts.inspection != "full":
        line.append(f"  inspection: {printable(facts.inspection)}", "yellow")
    return line


def _badge(verdict: Verdict) -> tuple[str, str]:
    return verdict.value.upper(), _COLORS[verdict.value]


def _finding(violation: Violation, explain: bool, style: Style) -> Iterator[Text]:
    rule = violation.rule
    line = Text(" " * _INDENT)
    line.append(*severity_word(violation.severity))
    line.append("  ")
    line.append(rule.id, "bold")
    line.append(f"  {place_words(violation.place)}", "dim")
    if violation.count > 1:
        line.append(f"  {violation.count} times")
    yield line
    yield from wrapped("what", violation.message or rule.summary, _DETAIL, style.width)
    if violation.evidence:
        seen = printable(violation.evidence)
        yield Text.assemble(" " * _DETAIL, ("seen  ", "dim"), (seen, "cyan"))
    if violation.note:
        yield from wrapped("note", violation.note, _DETAIL, style.width)
    if explain:
        yield from wrapped("why", rule.why, _DETAIL, style.width)
        yield from wrapped("fix", rule.fix, _DETAIL, style.width, "green")


def place_words(place: Place) -> str:
    """A place for people: ``response, event 3, byte 1204, /choices/0/delta``."""
    number = f" {place.index}" if place.index else ""
    words = [place.side.value, f"{place.unit.value}{number}"]
    if place.byte or place.unit not in (Unit.HEAD, Unit.BODY):
        words.append(f"byte {place.byte}")
    if place.pointer:
        words.append(printable(place.pointer))
    return ", ".join(words)


def _summary(report: Report, hidden: int) -> Iterator[Text]:
    total = len(report.exchanges)
    line = Text.assemble((f"{total} exchange{'s' if total != 1 else ''}: ", "bold"))
    for number, verdict in enumerate((Verdict.FAIL, Verdict.WARN, Verdict.PASS)):
        count = report.count(verdict)
        line.append(", " if number else "")
        line.append(f"{count} {verdict.value}", _COLORS[verdict.value] if count else "dim")
    yield line
    partly = sum(reported.exchange.inspection != "full" for reported in report.exchanges)
    if partly:
        yield Text(f"{partly} not inspected in full; the reason stands beside each")
    if hidden:
        yield Text(f"{hidden} info finding{'s' if hidden != 1 else ''} hidden (--show-info)", "dim")
    worst = report.worst()
    if worst is not None and worst > Severity.INFO:
        yield Text("teeline rules ID shows a rule with its source and examples", "dim")
