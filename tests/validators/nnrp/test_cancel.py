"""Cancels and deadlines: what counts is when, to the moment, and whose."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.nnrp.cancel import check_sequence
from tests.validators.nnrp.steps import CHAT, Steps


@pytest.mark.parametrize("message", ["FRAME_CANCEL", "CANCEL", "ABORT"])
def test_the_three_ways_to_cancel_are_one(message: str) -> None:
    steps = Steps().text("Hel").client(message)
    assert steps.op.cancelled and not steps.op.active
    steps.client(message, meta={"sequence": 9})
    assert (steps.rules, steps.noted) == ({}, {"nnrp.cancel-repeated"})


def test_a_cancel_s_time_is_that_of_the_first() -> None:
    steps = Steps().client("FRAME_CANCEL", after=1.0).client("FRAME_CANCEL", after=5.0)
    assert steps.op.cancelled_at == steps.op.at + 1.0


@pytest.mark.parametrize(("after", "late"), [(0.0, False), (0.9, False), (1.0, False), (1.1, True)])
def test_events_may_still_come_within_the_grace_window(after: float, late: bool) -> None:
    steps = Steps().client("FRAME_CANCEL").event("output_text.delta", after, index=0, delta="x")
    assert ("nnrp.cancel-late-partial" in steps.noted) is late
    assert steps.rules == {}


@pytest.mark.parametrize(("after", "ignored"), [(4.9, False), (5.1, True)])
def test_a_server_that_runs_on_for_five_windows_has_ignored_the_cancel(
    after: float, ignored: bool
) -> None:
    steps = Steps().client("FRAME_CANCEL").event("output_text.delta", after, index=0, delta="Hello")
    steps.ends()
    assert ("nnrp.cancel-ignored" in steps.rules) is ignored
    assert "nnrp.cancel-late-result" in steps.noted


def test_a_success_long_after_the_cancel_but_without_events_is_an_observation() -> None:
    steps = Steps().text("Hello").client("FRAME_CANCEL").ends(after=60.0)
    assert (steps.rules, steps.noted) == ({}, {"nnrp.cancel-late-result"})


def test_what_depends_on_time_is_off_where_times_were_made_up() -> None:
    steps = Steps({**NNRP, "nnrp": {"timeout_ms": 1}}, timed=False)
    steps.event("output_text.delta", 9.0, index=0, delta="x").client("FRAME_CANCEL")
    steps.event("output_text.delta", 9.0, index=0, delta="x").ends(body=CHAT)
    assert not {"nnrp.timeout-without-cancel", "nnrp.cancel-late-partial"} & steps.noted
    assert "nnrp.cancel-ignored" not in steps.rules


ODD: tuple[Any, ...] = ("1", None, True, -1, 1.5, [], {})
NNRP: dict[str, Any] = {
    "schema_version": "openai-compatible/1",
    "operation": "chat.completions.create",
    "body": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True},
}


@pytest.mark.parametrize(
    ("timeout", "after", "told"),
    [
        *((1000, 0.9, False), (1000, 1.1, True), (0, 0.1, True), (1e300, 9.0, False)),
        *((value, 9.0, False) for value in ODD),
    ],
)
def test_a_deadline_is_over_when_its_milliseconds_are(
    timeout: Any, after: float, told: bool
) -> None:
    steps = Steps({**NNRP, "nnrp": {"timeout_ms": timeout}})
    steps.event("output_text.delta", after, index=0, delta="x")
    assert ("nnrp.timeout-without-cancel" in steps.noted) is told
    assert steps.op.timed_out is told


def test_a_deadline_of_an_operation_that_is_over_is_no_deadline() -> None:
    for end in ("RESULT_DROP", "FRAME_CANCEL"):
        steps = Steps({**NNRP, "nnrp": {"timeout_ms": 1000}})
        steps.server(end) if end == "RESULT_DROP" else steps.client(end)
        steps.event("output_text.delta", 9.0, index=0, delta="x")
        assert not steps.op.timed_out


@pytest.mark.parametrize("reason", range(12))
def test_a_drop_after_a_cancel_says_that_the_peer_cancelled(reason: int) -> None:
    steps = Steps().client("FRAME_CANCEL").server("RESULT_DROP_REASON", meta={"reason": reason})
    assert ("nnrp.cancel-other-terminal" in steps.noted) is (reason != 3)
    assert ("nnrp.drop-reason-unknown" in steps.rules) is (reason > 9)


@pytest.mark.parametrize("code", ["cancelled", "request_canceled", "ABORTED", "c"])
def test_an_error_that_names_the_cancel_should_have_been_none(code: str) -> None:
    steps = Steps().client("FRAME_CANCEL").error(code=code)
    assert ("nnrp.cancel-reported-as-error" in steps.rules) is (code != "c")
    assert ("nnrp.cancel-other-terminal" in steps.noted) is (code == "c")


@pytest.mark.parametrize(
    ("last", "sequence", "wrong"),
    [(None, 0, False), (0, 0, True), (5, 4, True), (5, 2**64 - 1, False)],
)
def test_the_control_sequence_grows(last: int | None, sequence: int, wrong: bool) -> None:
    told: list[str] = []
    check_sequence(last, sequence, lambda rule, detail: told.append(rule))
    assert told == (["nnrp.cancel-sequence-not-increasing"] if wrong else [])
