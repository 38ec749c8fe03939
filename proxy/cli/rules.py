"""``teeline rules``: what can be reported, and one rule in full with its examples.

What belongs here: choosing and laying out. What doesn't: the words (validators/rules/*.toml), how
an example is shortened (proxy/reports/examples.py).
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import click
from rich.text import Text

from teeline.proxy.console import wants_color
from teeline.proxy.reports.examples import Line, compared
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.text import drawn, severity_word, terminal_width, wrapped
from teeline.proxy.text import printable
from teeline.validators.detectors.observations import PROBE_RULES
from teeline.validators.model import Rule, Severity
from teeline.validators.rules import examples, register

_GUTTER: Final = {True: "  > ", False: "    "}


@click.command()
@click.argument("rule_id", metavar="[ID]", required=False)
@click.option("--family", metavar="FAMILY", help="List the rules of one family alone.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def rules(rule_id: str | None, family: str | None, form: str) -> None:
    """List the rules, or explain one: what, why, how to fix it, examples.

    With --format json every field is given; the examples are exchange files.
    """
    # The relay check's own rules are explained where they are asked for; live traffic has none of them.
    known = register() if rule_id is None and family is None else {**register(), **PROBE_RULES}
    chosen = _chosen(known, rule_id, family)
    if form == "json":
        document = {"v": 1, "rules": [as_object(rule) for rule in chosen]}
        text = json.dumps(document, indent=1) + "\n"
    else:
        style = Style(
            color=wants_color(sys.stdout, os.environ),
            width=terminal_width(),
        )
        shown = explained(chosen[0], style) if rule_id is not None else listed(chosen)
        text = drawn(list(shown), style)
    click.echo(text, nl=False)


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` for the known word most like this one; empty where none is like it."""
    words = list(known)
    ending = [candidate for candidate in words if candidate.partition(".")[2] == word]
    close = ending or difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def _chosen(known: Mapping[str, Rule], rule_id: str | None, family: str | None) -> Sequence[Rule]:
    if rule_id is not None and family is not None:
        raise click.UsageError("an ID and --family exclude each other")
    if rule_id is not None:
        if rule_id not in known:
            raise _unknown("rule", rule_id, known)
        return [known[rule_id]]
    if family is None:
        return list(known.values())
    members = [rule for rule in known.values() if rule.family == family.removesuffix(".*")]
    if not members:
        raise _unknown("family", family, {rule.family for rule in known.values()})
    return members


def _unknown(kind: str, word: str, known: Iterable[str]) -> click.UsageError:
    return click.UsageError(
        f"no {kind} is called {printable(word)!r}{nearest(word, sorted(known))}"
    )


def as_object(rule: Rule) -> dict[str, Any]:
    """Every field of a rule as JSON values."""
    return {
        "id": rule.id,
        "family": rule.family,
        "side": rule.side.value,
        "severity": rule.severity.word,
        "core": rule.core,
        "summary": rule.summary,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source._asdict(),
        "bad": _example(rule.bad),
        "good": _example(rule.good),
    }


def _example(example: Mapping[str, Any]) -> dict[str, Any]:
    if example.get("on") in examples.bases():
        return examples.exchange(example)
    return dict(example)


def listed(chosen: Sequence[Rule]) -> Iterator[Text]:
    """One line a rule: id, severity, summary."""
    width = max((len(rule.id) for rule in chosen), default=0)
    for rule in chosen:
        name, summary = f"{rule.id:<{width}}", printable(rule.summary, 1000)
        yield Text.assemble((name, "bold"), "  ", severity_word(rule.severity), f"  {summary}")


def explained(rule: Rule, style: Style) -> Iterator[Text]:
    """A rule in full."""
    yield Text.assemble((rule.id, "bold"), "  ", severity_word(rule.severity))
    yield Text()
    yield from wrapped("what", rule.summary, 0, style.width)
    yield from wrapped("why", rule.why, 0, style.width)
    yield from wrapped("fix", rule.fix, 0, style.width)
    yield from wrapped("from", _source(rule), 0, style.width, "dim")
    if not rule.bad:
        return
    wrong, right = compared(rule.bad, rule.good, style.width - len(_GUTTER[True]))
    # What is only observed isn't wrong, and its counterpart not the better for it.
    observed = rule.severity is Severity.INFO
    yield from _drawn_example("reported" if observed else "wrong", wrong, "red")
    yield from _drawn_example("not reported" if observed else "right", right, "green")


def _source(rule: Rule) -> str:
    words = [rule.source.text]
    if rule.source.section:
        words.append(f"scoring section {rule.source.section}")
    if rule.source.deduction:
        words.append(f"deduction {rule.source.deduction}")
    return ", ".join(words)


def _drawn_example(heading: str, shown: Sequence[Line], color: str) -> Iterator[Text]:
    yield Text()
    yield Text(heading, f"bold {color}")
    for line in shown:
        yield Text(_GUTTER[line.differs] + line.text, color if line.differs else "dim")
