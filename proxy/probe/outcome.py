"""What came of a check, as data for reports and baselines.

What belongs here: results, their sums, how often a rule was broken. What doesn't: looks (report/), points
(validators/scoring.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from teeline.proxy.probe.client import RawResponse
from teeline.proxy.probe.judge import for_usage
from teeline.proxy.probe.plan import Settings
from teeline.proxy.probe.target import Target
from teeline.validators import detectors as d
from teeline.validators.detectors.model import Probe, ProtocolFamily
from teeline.validators.detectors.observations import PROBE_RULES
from teeline.validators.model import Exchange, Place, Rule, Severity, Side, Unit, Verdict, Violation
from teeline.validators.scoring import Finding, Scorecard, scorecard, share_interval


@dataclass(slots=True)
class ProbeResult:
    """One probe, sent once. ``response`` and ``exchange`` are None where no answer began.

    ``violations`` are those of the rules and of the probe's own question. ``usable``: the answer is one of
    its protocol.
    """

    probe: Probe
    response: RawResponse | None
    exchange: Exchange | None
    violations: list[Violation]
    usable: bool = False
    reason: str = ""

    @property
    def findings(self) -> Iterator[Finding]:
        """What counts against the server: our own requests' faults don't."""
        for violation in self.violations:
            if violation.rule.side is not Side.REQUEST:
                yield Finding(self.probe, violation)


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the calls that could show a fault showed it, and where its share lies at 95 %."""

    rule: Rule
    hits: int
    calls: int

    @property
    def interval(self) -> tuple[float, float]:
        return share_interval(self.hits, self.calls)


@dataclass(slots=True)
class CheckOutcome:
    """A whole check. ``notes`` are sentences of our own for the reader.

    ``families`` are the protocols that were checked, ``unsupported`` those that are not there.
    """

    target: Target
    settings: Settings
    families: frozenset[ProtocolFamily] = frozenset()
    unsupported: frozenset[ProtocolFamily] = frozenset()
    results: list[ProbeResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differences: list[str] | None = None
    """How the answers differ from a baseline, in words; None where there is none to compare with."""
    requests: int = 0
    waited: float = 0.0
    waits: int = 0
    started: float = 0.0
    ended: float = 0.0

    @property
    def tokens(self) -> int:
        """The tokens that the answers say were used, where they say so."""
        exchanges = [r.exchange for r in self.results if r.exchange is not None]
        return sum(exchange.usage.get("total_tokens", 0) for exchange in exchanges)

    def findings(self) -> list[Finding]:
        """All findings, those that no single exchange shows included."""
        found = [finding for result in self.results for finding in result.findings]
        return [*found, *self._no_usage()]

    def _no_usage(self) -> Iterator[Finding]:
        """Usage can't be judged where a protocol gave no answer at all."""
        for family in sorted(self.families):
            asked = [r for r in self.results if r.probe.family is family]
            if asked and not any(r.usable for r in asked):
                rule = PROBE_RULES["probe.answer-unusable"]
                place = Place(Side.RESPONSE, Unit.BODY)
                seen = Violation(rule, rule.severity, rule.summary, place, "", self.ended)
                yield Finding(for_usage(asked[0].probe, d.USAGE), seen)

    def card(self, only: ProtocolFamily | None = None) -> Scorecard:
        """The scores, of one protocol alone where it is named."""
        return scorecard(self.findings(), [result.probe for result in self.results], only)

    def shares(self) -> list[Share]:
        """How often each rule from warn up was broken, among the calls of the probes that broke it."""
        hits: dict[str, set[int]] = {}
        probes: dict[str, set[str]] = {}
        rules: dict[str, Rule] = {}
        for number, result in enumerate(self.results):
            for finding in result.findings:
                if finding.violation.severity > Severity.INFO:
                    rule = finding.violation.rule
                    rules[rule.id] = rule
                    hits.setdefault(rule.id, set()).add(number)
                    probes.setdefault(rule.id, set()).add(result.probe.name)
        return [
            Share(rule, len(hits[rule_id]), self._calls(probes[rule_id]))
            for rule_id, rule in rules.items()
        ]

    def _calls(self, names: set[str]) -> int:
        return sum(result.probe.name in names for result in self.results)


def passes(outcome: CheckOutcome, fail_under: float, fail_on: Severity | None) -> bool:
    """Whether the total reaches ``fail_under`` and nothing is as bad as ``fail_on``."""
    card = outcome.card()
    if card.total is None or card.total < fail_under:
        return False
    if fail_on is None:
        return True
    verdicts = {Severity.WARN: (Verdict.WARN, Verdict.FAIL), Severity.FAIL: (Verdict.FAIL,)}
    return card.result not in verdicts[fail_on]
