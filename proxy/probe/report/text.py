"""The report of a check for people at a terminal.

What belongs here: layout and colours. What doesn't: what is told (view.py).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from teeline.proxy.probe.outcome import CheckOutcome
from teeline.proxy.probe.report.view import (
    DISCLAIMER,
    Told,
    View,
    cost_words,
    points,
    share_words,
    streams,
    view,
)
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.text import severity_word, wrapped
from teeline.proxy.text import printable
from teeline.validators.model import Verdict
from teeline.validators.scoring import Band, DetectorScore, Scorecard

_VERDICTS: Final = {Verdict.FAIL: "bold red", Verdict.WARN: "yellow", Verdict.PASS: "green"}
_BANDS: Final = {
    Band.EXCELLENT: "bold green",
    Band.PASSED: "green",
    Band.MARGINAL: "yellow",
    Band.FAILED: "bold red",
}
_INDENT: Final = 4


def render(outcome: CheckOutcome, style: Style) -> str:
    """The scores as a table, then each finding with its place, excerpt, why, fix and curl."""
    seen = view(outcome, show_info=style.show_info)
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        width=style.width,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in _head(outcome):
        console.print(line, soft_wrap=True)
    console.print(_table(seen))
    for line in (*_totals(seen), *_findings(seen, style), *_foot(outcome, style)):
        console.print(line, soft_wrap=True)
    text = out.getvalue()
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _head(outcome: CheckOutcome) -> Iterator[Text]:
    settings = outcome.settings
    line = Text.assemble(("Relay check  ", "bold"), printable(outcome.target.base_url, 300))
    yield line.append(f"  model {printable(settings.model, 100)}")
    key = outcome.target.masked or "none"
    yield Text(f"key {key}, probe set {settings.probe_set.name.lower()}", "dim")


def _table(seen: View) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("detector", no_wrap=True)
    table.add_column("weight", justify="right")
    table.add_column("score", justify="right")
    table.add_column("result")
    table.add_column("what took points", overflow="fold")
    for score in seen.card.detectors:
        weight = str(score.detector.weight) if score.detector.weight else "-"
        if score.score is None:
            table.add_row(score.detector.name, weight, "-", Text("skipped", "dim"), score.skipped)
            continue
        shown = str(score.score) if score.detector.weight else "-"
        result = Text(score.result.value, _VERDICTS[score.result])
        table.add_row(score.detector.name, weight, shown, result, _taken(score))
    return table


def _taken(score: DetectorScore) -> str:
    taken = (f"{x.finding.violation.rule.id} -{x.points}" for x in score.deductions if x.points)
    return ", ".join(taken)


def _totals(seen: View) -> Iterator[Text]:
    yield Text()
    yield _total("total", seen.card)
    for name, card in seen.by_protocol:
        yield _total(name, card)
    yield Text()


def _total(name: str, card: Scorecard) -> Text:
    line = Text(f"{name}: ")
    line.append(points(card.total), "bold").append("  ")
    line.append(card.band.value, _BANDS[card.band])
    return line.append(", result ").append(card.result.value, _VERDICTS[card.result])


def _findings(seen: View, style: Style) -> Iterator[Text]:
    explained: set[str] = set()
    for told in seen.told:
        yield from _finding(told, told.rule.id not in explained, style.width)
        explained.add(told.rule.id)
        yield Text()


def _finding(told: Told, explain: bool, width: int) -> Iterator[Text]:
    line = Text.assemble(severity_word(told.severity), "  ", (told.rule.id, "bold"))
    line.append(f"  {told.detector}" + (f" -{told.points}" if told.points else ""), "dim")
    if told.share is not None:
        line.append(f"  {share_words(told.share)}")
    yield line
    yield from wrapped("what", told.rule.summary, _INDENT, width)
    yield from wrapped("where", told.place, _INDENT, width)
    if told.evidence:
        yield Text.assemble(" " * _INDENT, ("seen  ", "dim"), (told.evidence, "cyan"))
    if explain:
        yield from wrapped("why", told.rule.why, _INDENT, width)
        yield from wrapped("fix", told.rule.fix, _INDENT, width, "green")
    # Not wrapped: it is to be copied.
    yield Text.assemble(" " * _INDENT, ("again ", "dim"), printable(told.curl, 4000))


def _foot(outcome: CheckOutcome, style: Style) -> Iterator[Text]:
    if outcome.differences is not None:
        yield Text(f"{len(outcome.differences)} differences from the baseline", "bold")
        for line in outcome.differences:
            yield Text("    " + printable(line, 600))
        yield Text()
    for seen in streams(outcome):
        yield Text(str(seen), "dim")
    for note in outcome.notes:
        yield Text(printable(note, 600), "yellow")
    if not style.quiet:
        yield Text(f"cost: {cost_words(outcome)}", "dim")
        yield Text(DISCLAIMER, "dim")
