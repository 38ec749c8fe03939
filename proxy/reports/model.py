"""What a report holds, whatever the format: exchanges with their findings, and how they add up.

What belongs here: the data that all renderers share. What doesn't: words and layout (one module a
format), finding anything (the inspector), choosing what is reported (the policy).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final, Protocol

from teeline.proxy.inputs.items import Problem
from teeline.validators.model import Exchange, Rule, Severity, Verdict, Violation

TOOL: Final = "teeline"


@dataclass(frozen=True, slots=True)
class ReportedExchange:
    """A closed exchange, the name it was given and the file it came from (empty where none).

    ``line`` is the line of the file on which its recording begins, from 1.
    """

    name: str
    file: str
    exchange: Exchange
    line: int = 1

    @property
    def violations(self) -> list[Violation]:
        """The findings, the worst first; of one severity in the order in which they showed."""
        return sorted(self.exchange.violations, key=lambda v: -v.severity)

    def shown(self, style: Style) -> list[Violation]:
        """The findings that people see: without info unless it was asked for."""
        return [v for v in self.violations if style.show_info or v.severity > Severity.INFO]


@dataclass(frozen=True, slots=True)
class Report:
    """Closed exchanges after policy, in the order in which they are reported.

    ``rules`` is the register that was applied. ``profile`` says how vendor profiles were chosen: a
    profile's name, ``auto``, or None for none at all; the one that an exchange got stands on it.
    ``problems`` are what could not be checked. A finding of ``threshold`` or above is a failure; None:
    none is.
    """

    exchanges: Sequence[ReportedExchange]
    rules: Mapping[str, Rule]
    profile: str | None = None
    problems: Sequence[Problem] = ()
    threshold: Severity | None = Severity.FAIL

    def count(self, verdict: Verdict) -> int:
        """How many exchanges have this verdict (the relay's side)."""
        return sum(reported.exchange.verdict is verdict for reported in self.exchanges)

    def worst(self) -> Severity | None:
        """The worst severity among all findings, of the relay's and of the client's side."""
        return max(
            (v.severity for reported in self.exchanges for v in reported.exchange.violations),
            default=None,
        )


@dataclass(frozen=True, slots=True)
class Style:
    """How a report for people is drawn; JSON and JSON Lines pay it no heed.

    ``color`` and ``width`` in columns (>= 40) are of the text format. ``show_info`` lists info
    findings, too. ``quiet`` leaves out exchanges without findings and the summary.
    """

    color: bool = False
    width: int = 100
    show_info: bool = False
    quiet: bool = False


class Renderer(Protocol):
    """A format: the whole report as text, ended by a line break."""

    def __call__(self, report: Report, style: Style) -> str: ...


def tool_version() -> str:
    """teeline's version; ``unknown`` where it runs from a tree that was never installed."""
    try:
        return metadata.version(TOOL)
    except metadata.PackageNotFoundError:
        return "unknown"


def rule_set(rules: Mapping[str, Rule]) -> str:
    """A fingerprint of the rules and their severities: two reports with the same one compare."""
    lines = "\n".join(f"{rule.id} {rule.severity.word}" for _, rule in sorted(rules.items()))
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()[:12]
