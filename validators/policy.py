"""What is reported of what was found: selection, and severities that the user set.

Detection knows nothing of this; a policy stands between inspectors and sinks. Patterns are a rule's id
(``chatstream.done-missing``), a family (``chatstream``) or a family with a star (``chatstream.*``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from teeline.validators.events import Closed, Found, Output
from teeline.validators.model import Rule, Severity, Violation


class UnknownRuleError(ValueError):
    """A pattern of the configuration matches no rule; the text names it."""


class Policy:
    """Resolved once against the register; per violation it is two look-ups.

    ``select`` empty means all. ``ignore`` wins over ``select``. ``severity`` maps patterns to severities.
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        severity: Mapping[str, Severity] | None = None,
    ) -> None:
        chosen = _matching(rules, select) or set(rules)
        self._dropped = (set(rules) - chosen) | _matching(rules, ignore)
        self._severity: dict[str, Severity] = {}
        for pattern, wanted in (severity or {}).items():
            for rule_id in _matching(rules, (pattern,)):
                self._severity[rule_id] = wanted

    def apply(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """The outputs as the user wants to see them; the same sequence where nothing applies."""
        if not outputs or not (self._dropped or self._severity):
            return outputs
        return [seen for output in outputs if (seen := self._seen(output)) is not None]

    def _seen(self, output: Output) -> Output | None:
        if isinstance(output, Found):
            violation = self._judged(output.violation)
            return None if violation is None else Found(output.exchange, violation)
        if isinstance(output, Closed):
            judged = (self._judged(v) for v in output.exchange.violations)
            output.exchange.violations = [v for v in judged if v is not None]
        return output

    def _judged(self, violation: Violation) -> Violation | None:
        if violation.rule.id in self._dropped:
            return None
        severity = self._severity.get(violation.rule.id)
        return violation if severity is None else replace(violation, severity=severity)


def _matching(rules: Mapping[str, Rule], patterns: Iterable[str]) -> set[str]:
    matched: set[str] = set()
    for pattern in patterns:
        family = pattern.removesuffix(".*")
        found = {r for r in rules if r == pattern or r.partition(".")[0] == family}
        if not found:
            raise UnknownRuleError(pattern)
        matched |= found
    return matched
