"""Where checks report breaches: one violation a rule and exchange, at its first place, counted.

What belongs here: places, evidence and the counting. What doesn't: policy (policy.py) and wording for
people (the register has the words).
"""

from __future__ import annotations

from typing import Any, Final

from teeline.validators import evidence
from teeline.validators.checks.circumstances import WATCHED, circumstances, joined
from teeline.validators.events import Found, Output
from teeline.validators.evidence import ABSENT
from teeline.validators.model import (
    Circumstances,
    Exchange,
    Place,
    Side,
    Unit,
    Violation,
)
from teeline.validators.rules import register

# Members of an enum are looked up through its class, which takes ten times as long.
_BODY: Final = Unit.BODY
_PACKET: Final = Unit.PACKET
_REQUEST: Final = Side.REQUEST


class Reporter:
    """Collects the findings of one exchange.

    The feeder sets ``at`` (the time of the read) and the unit that is being looked at; checks call it with
    a rule and a JSON Pointer (``prefix`` stands before it where a document lies inside another one).
    ``subject`` is the object that is being looked at where the circumstances of a breach lie in it
    (circumstances.py). Outputs wait in ``out`` until ``drain``; ``breaches`` counts every report.
    """

    at = 0.0
    side = Side.RESPONSE
    unit = Unit.BODY
    index = 0
    byte = 0
    prefix = ""
    subject: Any = None

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.breaches = 0
        self.out: list[Output] = []
        self._found: dict[str, Violation] = {}

    def __call__(
        self,
        rule: str,
        pointer: str = "",
        value: Any = ABSENT,
        *,
        words: bool = False,
        detail: str = "",
        byte: int | None = None,
    ) -> None:
        """Reports a breach in the current unit.

        ``value`` is excerpted by the allow-list of evidence.py (``words``: a protocol word stands there);
        ``detail`` is text of our own that replaces the excerpt; ``byte`` the offset where it is known
        better than the unit's.
        """
        self.breaches += 1
        known = self._found.get(rule)
        if known is not None:
            known.count += 1
            if rule in WATCHED:
                seen = self._circumstances(rule, pointer, value)
                known.circumstances = joined(known.circumstances, seen)
            return
        declared = register()[rule]
        violation = Violation(
            rule=declared,
            severity=declared.severity,
            message=declared.summary,
            place=Place(
                self.side,
                self.unit,
                self.index,
                self.byte if byte is None else byte,
                self.prefix + pointer,
            ),
            evidence=(detail or evidence.member(pointer, value, words=words))[
                : evidence.MAX_LENGTH
            ],
            at=self.at,
            circumstances=self._circumstances(rule, pointer, value),
        )
        self._found[rule] = violation
        self.exchange.violations.append(violation)
        self.out.append(Found(self.exchange, violation))

    def adopt(self, violation: Violation) -> None:
        """Takes a breach in that was found elsewhere; what is known here already stays where it is."""
        known = self._found.get(violation.rule.id)
        if known is not None:
            known.count = max(known.count, violation.count)
            return
        self.breaches += violation.count
        self._found[violation.rule.id] = violation
        self.exchange.violations.append(violation)
        self.out.append(Found(self.exchange, violation))

    def _circumstances(self, rule: str, pointer: str, value: Any) -> Circumstances:
        return circumstances(rule, pointer, value, subject=self.subject, exchange=self.exchange)

    def has(self, *rules: str) -> bool:
        """Whether any of these rules was reported before."""
        return any(rule in self._found for rule in rules)

    def place(self, unit: Unit, index: int = 0, byte: int = 0) -> None:
        """Sets the unit that is being looked at."""
        self.unit = unit
        self.index = index
        self.byte = byte

    def on_request(self) -> OnRequest:
        """Places lie in the request's body for the time of the block; in its packet where it has one."""
        return OnRequest(self)

    def drain(self) -> list[Output]:
        out, self.out = self.out, []
        return out


class OnRequest:
    """A block in which the request is looked at: made by ``Reporter.on_request``."""

    __slots__ = ("_kept", "_report")

    def __init__(self, report: Reporter) -> None:
        self._report = report

    def __enter__(self) -> None:
        report = self._report
        self._kept = (report.side, report.unit, report.index, report.byte)
        if report.unit is not _PACKET:
            report.unit, report.index, report.byte = _BODY, 0, 0
        report.side = _REQUEST

    def __exit__(self, *_: object) -> None:
        report = self._report
        report.side, report.unit, report.index, report.byte = self._kept
