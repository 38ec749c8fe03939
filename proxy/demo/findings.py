"""What the outcomes of the demo come to: whether the proxy kept its promise.

What belongs here: the comparison of what was reported with what each scenario says has to be. What
doesn't: how it is shown (table.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from teeline.proxy.demo.traffic import Outcome
from teeline.validators.model import Severity, Side, Violation


def shown(outcome: Outcome) -> list[Violation]:
    """The relay's breaches from warn up, the worst first; equals stay in the order of their
    finding.
    """
    breaches = [
        v
        for v in outcome.exchange.violations
        if v.severity >= Severity.WARN and v.rule.side is Side.RESPONSE
    ]
    return sorted(breaches, key=lambda v: -v.severity)


def problems(outcome: Outcome) -> list[str]:
    """In words, where this outcome is not what its scenario says; empty where all is well."""
    scenario, exchange = outcome.scenario, outcome.exchange
    reported = {v.rule.id for v in shown(outcome)}
    missed = [rule for rule in scenario.expected if rule not in reported]
    false = sorted(reported.difference(scenario.expected))
    own = sorted(
        v.rule.id
        for v in exchange.violations
        if v.severity >= Severity.WARN and v.rule.side is Side.REQUEST
    )
    found = [f"{rule} was not found" for rule in missed]
    found += [f"{rule} was reported, and is not what is wrong here" for rule in false]
    found += [f"{rule} was reported of the demo's own request" for rule in own]
    if exchange.inspection != "full":
        found.append(f"was not inspected in full: {exchange.inspection}")
    found += outcome.differences
    return [f"{scenario.name}: {words}" for words in found]


def all_problems(outcomes: Sequence[Outcome]) -> list[str]:
    """The problems of every outcome, in order."""
    return [words for outcome in outcomes for words in problems(outcome)]
