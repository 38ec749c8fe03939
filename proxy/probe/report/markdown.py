"""The report of a check as Markdown, for issues and pull requests.

What belongs here: layout and escaping. What doesn't: what is told (view.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from teeline.proxy.probe.outcome import CheckOutcome
from teeline.proxy.probe.report.view import (
    DISCLAIMER,
    Told,
    View,
    cost_words,
    points,
    share_words,
    view,
)
from teeline.proxy.reports.model import Style
from teeline.proxy.text import printable

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@-])")


def render(outcome: CheckOutcome, style: Style) -> str:
    """The scores as a table, then each finding under a heading of its own."""
    return "\n".join(_lines(view(outcome, show_info=style.show_info))) + "\n"


def text(words: str) -> str:
    """Words that a peer or a user chose, as Markdown that shows them and nothing else."""
    return _SPECIAL.sub(r"\\\1", printable(words, 600))


def code(words: str) -> str:
    """The same as code: the fence is longer than any run of backticks inside."""
    shown = printable(words, 4000)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _lines(seen: View) -> Iterator[str]:
    outcome, card = seen.outcome, seen.card
    yield f"# Relay check: {text(outcome.target.base_url)}"
    yield ""
    yield f"Model {code(outcome.settings.model)}, key {code(outcome.target.masked or 'none')}."
    yield f"**{seen.total}, {card.band.value}, result {card.result.value}.**"
    for name, part in seen.by_protocol:
        yield f"{name}: {points(part.total)}, {part.band.value}, result {part.result.value}."
    yield ""
    yield from _table(seen)
    for told in seen.told:
        yield from _finding(told)
    if outcome.differences is not None:
        yield from ("", f"## {len(outcome.differences)} differences from the baseline", "")
        yield from (f"- {code(line)}" for line in outcome.differences)
    yield ""
    yield from (f"- {text(note)}" for note in outcome.notes)
    yield f"\n{text(cost_words(outcome))}\n\n{DISCLAIMER}"


def _table(seen: View) -> Iterator[str]:
    yield "| detector | weight | score | result | what took points |"
    yield "|---|---:|---:|---|---|"
    for score in seen.card.detectors:
        weight = score.detector.weight or "-"
        if score.score is None:
            yield f"| {score.detector.name} | {weight} | - | skipped | {score.skipped} |"
            continue
        taken = ", ".join(
            f"`{x.finding.violation.rule.id}` -{x.points}" for x in score.deductions if x.points
        )
        shown = score.score if score.detector.weight else "-"
        yield f"| {score.detector.name} | {weight} | {shown} | {score.result.value} | {taken} |"


def _finding(told: Told) -> Iterator[str]:
    share = f", {share_words(told.share)}" if told.share is not None else ""
    cost = f", -{told.points}" if told.points else ""
    yield f"\n## {told.severity.word}: `{told.rule.id}`"
    yield f"\n{told.detector}{cost}{share}. {told.rule.summary}\n"
    yield f"- where: {text(told.place)}"
    if told.evidence:
        yield f"- seen: {code(told.evidence)}"
    yield f"- why: {told.rule.why}"
    yield f"- fix: {told.rule.fix}"
    yield f"- again: {code(told.curl)}"
