"""From findings to points: what is paid once, what is not weighed, and where the bands begin."""

from __future__ import annotations

import pytest

from teeline.validators import detectors as d
from teeline.validators.detectors.model import Probe, ProtocolFamily
from teeline.validators.detectors.probes import FOLLOW_UPS, PROBES
from teeline.validators.model import Place, Severity, Side, Unit, Verdict, Violation
from teeline.validators.rules import register
from teeline.validators.scoring import (
    Band,
    Finding,
    Scorecard,
    scorecard,
    share_interval,
)

BY_NAME = {probe.name: probe for probe in PROBES} | {p.name: p for p in FOLLOW_UPS.values()}
FULL = [p for p in PROBES if p.detector != d.EXTENDED]
CHAT = [p for p in FULL if p.family is not ProtocolFamily.RESPONSES]


def found(probe: str, rule: str, count: int = 1, severity: Severity | None = None) -> Finding:
    declared = register()[rule]
    place = Place(Side.RESPONSE, Unit.BODY)
    level = severity or declared.severity
    return Finding(BY_NAME[probe], Violation(declared, level, "", place, "", 0.0, count))


def card(*findings: Finding, ran: list[Probe] = FULL) -> Scorecard:
    return scorecard(findings, ran)


@pytest.mark.parametrize(
    ("total", "band"),
    [
        (100.0, Band.EXCELLENT),
        (90.0, Band.EXCELLENT),
        (89.999999, Band.PASSED),
        (80.0, Band.PASSED),
        (79.999999, Band.MARGINAL),
        (60.0, Band.MARGINAL),
        (59.999999, Band.FAILED),
        (0.0, Band.FAILED),
    ],
)
def test_bands_begin_at_the_unrounded_total(total: float, band: Band) -> None:
    """89.999999 would be rounded up to excellent by a careless report."""
    assert Band.of(total) is band


def test_nothing_found_is_100_and_pass() -> None:
    made = card()
    assert (made.total, made.result) == (100.0, Verdict.PASS)


def test_nothing_asked_is_no_score_at_all() -> None:
    made = card(ran=[])
    assert (made.total, made.band) == (None, Band.FAILED)


def test_a_fault_that_many_requests_show_is_paid_once() -> None:
    """Else a relay that lacks one member would lose it with each request."""
    shown = [
        found(name, "chat.object-wrong") for name in ("chat-basic", "chat-create", "chat-tools")
    ]
    assert card(*shown).of(d.CHAT).score == 85


def test_of_several_exchanges_the_one_with_most_places_is_paid() -> None:
    low = found("responses-create", "responses.item-field-missing", 1)
    high = found("responses-tools", "responses.item-field-missing", 3)
    assert card(low, high).of(d.RESPONSES).score == 70
    assert card(high, low).of(d.RESPONSES).score == 70


def test_broken_json_costs_ten_each_and_thirty_at_most() -> None:
    costs = [
        card(found("chat-stream", "sse.data-invalid-json", n)).of(d.CHAT_STREAM).score
        for n in (1, 2, 3, 4, 1000)
    ]
    assert costs == [90, 80, 70, 70, 70]


def test_no_score_is_below_zero() -> None:
    rules = ("chat.responses-shape", "chat.id-missing", "chat.object-wrong")
    assert card(*(found("chat-create", rule) for rule in rules)).of(d.CHAT).score == 0


def test_info_is_free_and_passes() -> None:
    made = card(found("chat-create", "chat.id-prefix"))
    assert (made.total, made.result) == (100.0, Verdict.PASS)


def test_a_fault_of_our_own_request_is_nobody_s_loss() -> None:
    """``request.*`` is the client's side, and here the client is teeline."""
    own = [rule for rule in register() if rule.startswith("request.")]
    assert card(*(found("chat-create", rule) for rule in own)).total == 100.0


def test_skipped_detectors_leave_the_denominator() -> None:
    """One fault weighs more where less was checked."""
    fault = found("chat-create", "chat.object-wrong")
    assert card(fault).total == pytest.approx(97.75)
    smaller = card(fault, ran=CHAT)
    assert smaller.total == pytest.approx((65 * 100 - 15 * 15) / 65)
    assert smaller.of(d.RESPONSES).skipped == "Responses not checked"


def test_one_protocol_alone_has_a_score_of_its_own() -> None:
    """A fault in chat leaves the score of Responses alone; the list of models counts for both."""
    faults = [found("chat-create", "chat.object-wrong"), found("models", "models.object-wrong")]
    chat = scorecard(faults, FULL, ProtocolFamily.CHAT_COMPLETIONS)
    responses = scorecard(faults, FULL, ProtocolFamily.RESPONSES)
    assert (chat.of(d.CHAT).score, chat.of(d.MODELS).score) == (85, 85)
    assert (responses.of(d.CHAT).score, responses.of(d.MODELS).score) == (None, 85)


def test_a_high_score_hides_no_fail() -> None:
    made = card(found("chat-create", "usage.total-too-low"))
    assert made.band is Band.EXCELLENT
    assert made.result is Verdict.FAIL


def test_a_finding_of_a_detector_that_did_not_run_counts_for_the_object_it_lies_in() -> None:
    """A call that nobody asked for, in a set that asks for none."""
    smoke = [p for p in FULL if p.detector not in (d.TOOLS, d.STRUCTURED)]
    made = card(found("chat-create", "tools.id-missing"), ran=smoke)
    assert made.of(d.TOOLS).score is None
    assert made.of(d.CHAT).score == 85


@pytest.mark.parametrize(("hits", "calls"), [(0, 1), (1, 1), (0, 30), (1, 30), (15, 30), (30, 30)])
def test_an_interval_holds_its_share_and_has_a_width(hits: int, calls: int) -> None:
    low, high = share_interval(hits, calls)
    assert 0 <= low <= hits / calls <= high <= 1
    assert low < high


def test_an_interval_is_wilson_s() -> None:
    """3 of 40 at 95 %, as tables give it."""
    assert share_interval(3, 40) == pytest.approx((0.0258, 0.1986), abs=1e-3)
    assert share_interval(0, 0) == (0.0, 1.0)
