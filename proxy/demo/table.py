"""The demo's outcome as people read it: a table on a terminal, greppable lines elsewhere.

What belongs here: layout and words. What doesn't: what counts as a problem (findings.py).
Everything shown comes from the scenarios and the rules, which are our own; nothing that a peer
sent is printed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from teeline.proxy.demo.findings import shown
from teeline.proxy.demo.traffic import Outcome
from teeline.proxy.sightings import where
from teeline.validators.model import Severity

WIDTH = 100
"""Columns of the plain form."""

_COLOURS = {"pass": "green", "warn": "yellow", "fail": "red"}
_SEVERITIES = {Severity.INFO: "cyan", Severity.WARN: "yellow", Severity.FAIL: "red"}


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """Prints the outcomes: with columns and colour where the console is a terminal."""
    if console.is_terminal:
        console.print(_table(outcomes))
    else:
        for line in _lines(outcomes):
            # Not through the console, which would wrap lines that others want to search.
            console.file.write(f"{line}\n")


def totals(outcomes: Sequence[Outcome]) -> str:
    """The sentence about the bytes, on two lines; ``findings.problems`` names an outcome whose
    bytes differ.
    """
    asked = sum(outcome.request_bytes for outcome in outcomes)
    answered = sum(outcome.answer_bytes for outcome in outcomes)
    same = sum(not outcome.differences for outcome in outcomes)
    return (
        f"{same} of {len(outcomes)} exchanges crossed the proxy unchanged, compared at both ends:\n"
        f"{asked:,} body bytes out, {answered:,} back, and every end-to-end header field."
    )


def first_sentence(text: str) -> str:
    """The first sentence of a rule's words, without line ends."""
    words = " ".join(text.split())
    return re.split(r"(?<=[^.\s]\.)\s+(?=[A-Z`\"'])", words, maxsplit=1)[0]


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("model", no_wrap=True)
    table.add_column("what the relay did, what was found, and why it hurts")
    for outcome in outcomes:
        verdict = outcome.exchange.verdict.value
        table.add_row(
            Text(verdict, f"bold {_COLOURS[verdict]}"),
            Text(outcome.scenario.name, "bold"),
            Text("\n").join(_story(outcome)),
        )
    return table


def _story(outcome: Outcome) -> Iterator[Text]:
    yield Text(outcome.scenario.does)
    for violation in shown(outcome):
        rule = Text(violation.rule.id, f"bold {_SEVERITIES[violation.severity]}")
        yield rule.append(f"  {where(violation.place)}", "not bold default")
        yield Text(first_sentence(violation.rule.why), "dim")


def _lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    names = max((len(outcome.scenario.name) for outcome in outcomes), default=0)
    for outcome in outcomes:
        name = outcome.scenario.name.ljust(names)
        yield f"{outcome.exchange.verdict.value}  {name}  {outcome.scenario.does}"
        for violation in shown(outcome):
            yield f"      {violation.severity.word}  {violation.rule.id}  {where(violation.place)}"
            why = first_sentence(violation.rule.why)
            yield from textwrap.wrap(
                why, WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 12
            )
