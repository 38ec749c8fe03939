"""From findings to points: detectors, the total, its band, and the result beside it.

What belongs here: adding up. What doesn't: what costs how much (detectors/costs.py), finding anything.

A detector starts at 100. Each rule that is broken takes its cost once, by the exchange that shows it at
most places: a second request that meets the same fault says nothing new. The total weighs the detectors
that ran. The result is the worst verdict, and no score hides it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from teeline.validators import detectors as d
from teeline.validators.detectors.costs import cost, detector_of, envelope_of
from teeline.validators.detectors.model import Detector, Probe, ProtocolFamily
from teeline.validators.model import Side, Verdict, Violation

START: Final = 100


class Band(enum.StrEnum):
    """What a total is called."""

    EXCELLENT = "excellent"
    PASSED = "passed"
    MARGINAL = "marginal"
    FAILED = "failed"

    @classmethod
    def of(cls, total: float) -> Band:
        """By the unrounded total: 89.99 is not excellent."""
        if total >= 90:
            return cls.EXCELLENT
        if total >= 80:
            return cls.PASSED
        return cls.MARGINAL if total >= 60 else cls.FAILED


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule in the exchange of one probe."""

    probe: Probe
    violation: Violation


@dataclass(frozen=True, slots=True)
class Deduction:
    """What one rule takes from one detector. ``finding`` is the one that shows it at most places."""

    finding: Finding
    points: int


@dataclass(frozen=True, slots=True)
class DetectorScore:
    """``score`` is None where the detector was skipped; ``skipped`` then says why."""

    detector: Detector
    score: int | None
    result: Verdict
    deductions: tuple[Deduction, ...] = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Scorecard:
    """``total`` is None where nothing that has a weight ran."""

    detectors: tuple[DetectorScore, ...]
    total: float | None
    result: Verdict

    @property
    def band(self) -> Band:
        return Band.FAILED if self.total is None else Band.of(self.total)

    def of(self, name: str) -> DetectorScore:
        """The score of the detector of this name."""
        return next(s for s in self.detectors if s.detector.name == name)


def scorecard(
    findings: Iterable[Finding], ran: Iterable[Probe], only: ProtocolFamily | None = None
) -> Scorecard:
    """The scores of what was asked (``ran``) and found; of one protocol alone where ``only`` is set."""
    asked = [probe for probe in ran if _concerns(probe, only)]
    active = _active(asked)
    sorted_in: dict[str, list[Finding]] = {}
    for finding in findings:
        violation = finding.violation
        if violation.rule.side is Side.REQUEST or not _concerns(finding.probe, only):
            continue  # our own requests are not the server's fault
        name = detector_of(violation.rule, finding.probe)
        if name not in active:
            name = envelope_of(finding.probe)
        sorted_in.setdefault(name, []).append(finding)
    scores = tuple(
        _score(detector, sorted_in.get(detector.name, []))
        if detector.name in active
        else DetectorScore(detector, None, Verdict.PASS, skipped=_why_not(detector, asked, only))
        for detector in d.DETECTORS
    )
    return Scorecard(scores, _total(scores), _worst(scores))


def _concerns(probe: Probe, only: ProtocolFamily | None) -> bool:
    return only is None or probe.family is None or probe.family is only


def _active(asked: Sequence[Probe]) -> frozenset[str]:
    """The detectors that ran: those whose questions were asked, and usage wherever tokens were used."""
    names = {probe.detector for probe in asked}
    if any(probe.family is not None for probe in asked):
        names.add(d.USAGE)
    return frozenset(names)


def _why_not(detector: Detector, asked: Sequence[Probe], only: ProtocolFamily | None) -> str:
    families = {probe.family for probe in asked}
    responses = detector.name in (d.RESPONSES, d.RESPONSES_STREAM)
    chat = detector.name in (d.CHAT, d.CHAT_STREAM)
    if responses and ProtocolFamily.RESPONSES not in families:
        return "Responses not checked"
    if chat and ProtocolFamily.CHAT_COMPLETIONS not in families:
        return "Chat Completions not checked"
    return "not in this probe set"


def _score(detector: Detector, findings: Sequence[Finding]) -> DetectorScore:
    deductions = tuple(sorted(_deductions(detector, findings), key=lambda x: -x.points))
    lost = sum(deduction.points for deduction in deductions)
    worst = max((f.violation.severity for f in findings), default=None)
    return DetectorScore(detector, max(START - lost, 0), Verdict.of(worst), deductions)


def _deductions(detector: Detector, findings: Sequence[Finding]) -> Iterator[Deduction]:
    dearest: dict[str, Deduction] = {}
    for finding in findings:
        violation = finding.violation
        points = cost(detector.name, violation.rule, violation.severity).of(violation.count)
        known = dearest.get(violation.rule.id)
        if known is None or points > known.points:
            dearest[violation.rule.id] = Deduction(finding, points)
    return iter(dearest.values())


def _total(scores: Sequence[DetectorScore]) -> float | None:
    ran = [(s.score, s.detector.weight) for s in scores if s.score is not None]
    weight = sum(weight for _, weight in ran)
    return sum(score * weight for score, weight in ran) / weight if weight else None


def _worst(scores: Sequence[DetectorScore]) -> Verdict:
    order = (Verdict.FAIL, Verdict.WARN)
    return next((v for v in order if any(s.result is v for s in scores)), Verdict.PASS)


def share_interval(hits: int, calls: int, z: float = 1.96) -> tuple[float, float]:
    """Where the share of a fault lies that showed in ``hits`` of ``calls``, at 95 % (Wilson's interval).

    It holds for few calls and for none or all of them hit, where others give a width of nothing.
    """
    if calls <= 0:
        return 0.0, 1.0
    share, squared = hits / calls, z * z
    centre = share + squared / (2 * calls)
    spread = z * math.sqrt(share * (1 - share) / calls + squared / (4 * calls * calls))
    scale = 1 + squared / calls
    return max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)
