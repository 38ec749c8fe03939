"""What a check adds up to: shares of calls, whether it passes, usage that nobody could judge."""

from __future__ import annotations

import pytest

from teeline.proxy.probe.outcome import CheckOutcome, ProbeResult, passes
from teeline.validators.model import Severity
from tests.proxy.probe.report.outcomes import BY_NAME, clean, faulty, finding, outcome


@pytest.mark.parametrize(
    ("under", "on", "good"),
    [(80, Severity.FAIL, False), (80, None, True), (99.9, None, False), (0, Severity.WARN, False)],
)
def test_both_the_total_and_the_result_must_do(
    under: float, on: Severity | None, good: bool
) -> None:
    assert passes(faulty(), under, on) is good


def test_warnings_pass_where_only_fails_fail() -> None:
    made = outcome(finding("chat-create", "chat.id-empty"))
    assert passes(made, 80, Severity.FAIL)
    assert not passes(made, 80, Severity.WARN)


def test_a_share_counts_calls_of_the_probes_that_showed_the_fault() -> None:
    """A fault of streams says nothing of calls that stream nothing."""
    fault = finding("chat-stream", "chatstream.done-missing")
    made = outcome(fault, fault, *(clean("chat-stream") for _ in range(7)))
    (share,) = made.shares()
    assert (share.hits, share.calls) == (2, 10)


def test_usage_is_not_excellent_where_no_answer_could_be_read() -> None:
    made = outcome()
    made.results = [ProbeResult(BY_NAME["chat-create"], None, None, [], usable=False)]
    assert made.card().of("UsageIntegrity").score == 0


def test_nothing_asked_passes_nothing() -> None:
    made = outcome()
    empty = CheckOutcome(made.target, made.settings)
    assert not passes(empty, 0, None)
