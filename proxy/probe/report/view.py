"""What all reports of a check say, before any of them says it its way.

What belongs here: which findings are told, in which order, with which words, and the key taken out of
whatever the server repeated. What doesn't: layout and escaping (one module a format).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from teeline.proxy.probe import plan
from teeline.proxy.probe.outcome import CheckOutcome, ProbeResult, Share
from teeline.proxy.probe.target import scrubbed
from teeline.proxy.reports.text import place_words
from teeline.proxy.text import printable
from teeline.validators.detectors.model import Probe, ProtocolFamily
from teeline.validators.model import Rule, Severity, Violation
from teeline.validators.scoring import DetectorScore, Scorecard

PROTOCOL_NAMES: Final = {
    ProtocolFamily.RESPONSES: "Responses",
    ProtocolFamily.CHAT_COMPLETIONS: "Chat Completions",
    ProtocolFamily.ANTHROPIC: "Anthropic Messages",
}
DISCLAIMER: Final = (
    "Judged is what the protocol documents: no model identity, no style, no knowledge questions."
)


@dataclass(frozen=True, slots=True)
class Told:
    """One finding as it is told: where it shows first, what it costs, how to see it again."""

    detector: str
    rule: Rule
    severity: Severity
    violation: Violation
    probe: Probe
    points: int
    place: str
    evidence: str
    curl: str
    share: Share | None


@dataclass(frozen=True, slots=True)
class View:
    """A check ready to be laid out."""

    outcome: CheckOutcome
    card: Scorecard
    by_protocol: Sequence[tuple[str, Scorecard]]
    told: Sequence[Told]

    @property
    def total(self) -> str:
        return points(self.card.total)

    def of(self, detector: str) -> list[Told]:
        """The findings of one detector."""
        return [told for told in self.told if told.detector == detector]


def view(outcome: CheckOutcome, *, show_info: bool) -> View:
    """The check as it is told; info findings only where they are wanted."""
    card = outcome.card()
    protocols = [(PROTOCOL_NAMES[f], outcome.card(f)) for f in sorted(outcome.families)]
    shares = {share.rule.id: share for share in outcome.shares()}
    told = [
        _told(outcome, score, number, shares)
        for score in card.detectors
        for number in _order(score)
        if show_info or score.deductions[number].finding.violation.severity > Severity.INFO
    ]
    return View(outcome, card, protocols if len(protocols) > 1 else (), told)


def _order(score: DetectorScore) -> Iterator[int]:
    """The worst first, then the dearest."""
    of = score.deductions
    worst = sorted(range(len(of)), key=lambda n: (-of[n].finding.violation.severity, -of[n].points))
    return iter(worst)


def _told(
    outcome: CheckOutcome, score: DetectorScore, number: int, shares: dict[str, Share]
) -> Told:
    deduction = score.deductions[number]
    probe, violation = deduction.finding.probe, deduction.finding.violation
    secrets = outcome.target.secrets
    shown_by = place_words(violation.place)
    share = shares.get(violation.rule.id) if outcome.settings.repeat > 1 else None
    return Told(
        detector=score.detector.name,
        rule=violation.rule,
        severity=violation.severity,
        violation=violation,
        probe=probe,
        points=deduction.points,
        place=scrubbed(f"{probe.name}: {shown_by}", secrets),
        evidence=scrubbed(printable(violation.evidence), secrets),
        curl=curl(outcome, probe),
        share=share,
    )


def curl(outcome: CheckOutcome, probe: Probe) -> str:
    """The command that sends a probe's request again, without the key."""
    target = outcome.target
    # Query parameters may hold a key (Azure-like servers): the command names the bare address.
    url = f"{target.base_url}{probe.path}"
    public = [f"{k}={v}" for k, v in target.query if v not in target.secrets]
    url += f"?{'&'.join(public)}" if public else ""
    return plan.curl(probe, outcome.settings, url, target.auth_header, with_key=bool(target.key))


def points(score: float | None) -> str:
    """A score for people: whole where it is whole, cut and not rounded, so that 89.99 is not 90."""
    if score is None:
        return "-"
    cut = int(score * 100) / 100
    return f"{cut:.2f}".rstrip("0").rstrip(".")


def share_words(share: Share) -> str:
    """``3 of 40 calls (1.6-20 %)``."""
    low, high = share.interval
    return f"{share.hits} of {share.calls} calls ({low * 100:.1f}-{high * 100:.1f} %)"


def cost_words(outcome: CheckOutcome) -> str:
    """What the check has cost."""
    seconds = max(outcome.ended - outcome.started, 0.0)
    return (
        f"{outcome.requests} requests, {outcome.tokens} tokens as the answers count them, "
        f"{seconds:.1f} s"
    )


class StreamSeen(NamedTuple):
    """How one stream came; times in milliseconds from the request."""

    probe: str
    events: int
    reads: int
    first_ms: float
    last_ms: float
    gap_ms: float

    def __str__(self) -> str:
        return (
            f"{self.probe}: {self.events} events in {self.reads} reads, first after "
            f"{self.first_ms:.0f} ms, last after {self.last_ms:.0f} ms, largest gap {self.gap_ms:.0f} ms"
        )


def streams(outcome: CheckOutcome) -> list[StreamSeen]:
    """How the streams came: first event, gaps, pieces. Of several of one probe the slowest to begin."""
    slowest: dict[str, StreamSeen] = {}
    for result in outcome.results:
        seen = _stream_seen(result)
        if seen is not None:
            known = slowest.setdefault(seen.probe, seen)
            slowest[seen.probe] = max(known, seen, key=lambda s: s.first_ms)
    return list(slowest.values())


def _stream_seen(result: ProbeResult) -> StreamSeen | None:
    exchange, response = result.exchange, result.response
    if not result.probe.stream or exchange is None or response is None or not exchange.events:
        return None
    timing = exchange.timing
    first = (timing.first_event or timing.start) - timing.start
    last = max(response.end_at - timing.start, 0.0)
    times = (first * 1000, last * 1000, timing.largest_gap * 1000)
    return StreamSeen(result.probe.name, exchange.events, len(response.reads), *times)
