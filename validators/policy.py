"""What is reported of what was found: the vendor's profile, selection, and severities that the user set.

Detection knows nothing of this; a policy stands between inspectors and sinks. Patterns are a rule's id
(``chatstream.done-missing``), a family (``chatstream``) or a family with a star (``chatstream.*``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from teeline.validators.events import Closed, Found, Opened, Output
from teeline.validators.model import Exchange, Rule, Severity, Violation
from teeline.validators.profiles import Profile, Profiles


class UnknownRuleError(ValueError):
    """A pattern of the configuration matches no rule; the text names it."""


class Policy:
    """Resolved once against the register; per violation it is a few look-ups.

    ``select`` empty means all. ``ignore`` wins over ``select``. ``severity`` maps patterns to severities
    and wins over the profile. ``profiles`` None: no exchange gets one.

    A profile is chosen by what is known at the time: a violation that is reported before its vendor shows
    is reported in full, and judged again at the end.
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        severity: Mapping[str, Severity] | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        chosen = _matching(rules, select) or set(rules)
        self._dropped = (set(rules) - chosen) | _matching(rules, ignore)
        self._severity: dict[str, Severity] = {}
        for pattern, wanted in (severity or {}).items():
            for rule_id in _matching(rules, (pattern,)):
                self._severity[rule_id] = wanted
        self._profiles = profiles

    def apply(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """The outputs of one exchange as the user wants to see them; the same where nothing applies."""
        if not outputs:
            return outputs
        first = outputs[0]
        if len(outputs) == 1 and type(first) is Opened:
            return outputs  # nothing was found, and nothing is known that could choose a profile
        exchange = first.exchange
        profile = None if self._profiles is None else self._profiles.choose(exchange)
        if not exchange.violations:
            return outputs
        if profile is None and not self._dropped and not self._severity:
            return outputs
        return [seen for output in outputs if (seen := self._seen(output, profile)) is not None]

    def _seen(self, output: Output, profile: Profile | None) -> Output | None:
        exchange = output.exchange
        if isinstance(output, Found):
            violation = self._judged(output.violation, exchange, profile)
            return None if violation is None else Found(exchange, violation)
        if isinstance(output, Closed):
            judged = (self._judged(v, exchange, profile) for v in exchange.violations)
            exchange.violations = [v for v in judged if v is not None]
        return output

    def _judged(
        self, violation: Violation, exchange: Exchange, profile: Profile | None
    ) -> Violation | None:
        rule_id = violation.rule.id
        if rule_id in self._dropped:
            return None
        if profile is not None and profile.is_alias(violation, exchange):
            return None
        severity = self._severity.get(rule_id)
        if severity is not None:
            return replace(violation, severity=severity)
        return violation if profile is None else _lowered(violation, exchange, profile)


def _lowered(violation: Violation, exchange: Exchange, profile: Profile) -> Violation:
    """The violation with what the vendor's profile makes of it."""
    lowering = profile.lowering(violation, exchange)
    if lowering is not None and lowering.to < violation.severity:
        words = f"{violation.severity.word} lowered to {lowering.to.word}"
        note = f"{words} by profile {profile.name}: {lowering.because}"
        return replace(violation, severity=lowering.to, note=note)
    note = profile.note(violation)
    return replace(violation, note=note) if note else violation


def _matching(rules: Mapping[str, Rule], patterns: Iterable[str]) -> set[str]:
    matched: set[str] = set()
    for pattern in patterns:
        family = pattern.removesuffix(".*")
        found = {r for r in rules if r == pattern or r.partition(".")[0] == family}
        if not found:
            raise UnknownRuleError(pattern)
        matched |= found
    return matched
