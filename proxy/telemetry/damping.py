"""Which violations become log records, where a relay breaks a rule in every exchange.

What belongs here: deciding, and counting what is left out. What doesn't: building records (logs.py);
metrics, which count every violation.

A kind is a rule and an upstream. In each window its first violations are told in full, then one of
many, which says how many were left out since the one before; when the window ends, a summary says
what stood behind it. So nothing is swallowed silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from teeline.validators.model import Exchange, Severity, Violation

WINDOW: Final = 600.0
"""Seconds."""
FIRST: Final = 25
EVERY: Final = 100
_KINDS = 2000
_OTHERS = ("(other rules)", "(other upstreams)")


@dataclass(slots=True)
class _Kind:
    since: float
    severity: Severity
    found: int = 0
    untold: int = 0
    """Left out since the last one that was told."""
    left_out: int = 0


class Summary(NamedTuple):
    """A kind's window that is over: ``found`` violations since ``since``, ``left_out`` not told."""

    rule: str
    upstream: str
    severity: Severity
    since: float
    until: float
    found: int
    left_out: int


class Damper:
    """Decides for one thread."""

    def __init__(self, window: float = WINDOW, first: int = FIRST, every: int = EVERY) -> None:
        self._window = window
        self._first = first
        self._every = every
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def decide(self, exchange: Exchange, violation: Violation) -> int | None:
        """How many were left out before this one is told; None where it is left out itself."""
        key = (violation.rule.id, exchange.upstream)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS:
                key = _OTHERS
            made = _Kind(violation.at, violation.severity)
            kind = self._kinds.setdefault(key, made)
        kind.found += 1
        if violation.severity > kind.severity:
            kind.severity = violation.severity
        beyond = kind.found - self._first
        if beyond > 0 and beyond % self._every:
            kind.untold += 1
            kind.left_out += 1
            return None
        untold, kind.untold = kind.untold, 0
        return untold

    def ended(self, now: float, *, all_of_them: bool = False) -> Iterator[Summary]:
        """The summaries of windows that are over, which begin anew with the next violation."""
        over = [
            key
            for key, kind in self._kinds.items()
            if all_of_them or abs(now - kind.since) >= self._window
        ]
        for key in over:
            kind = self._kinds.pop(key)
            if kind.left_out:
                yield Summary(*key, kind.severity, kind.since, now, kind.found, kind.left_out)
