"""How operations end: each end once, whatever it looks like, and what came before is then judged."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.limits import Limits
from teeline.validators.nnrp.terminal import DROPPED, EMPTY, FAILED, UNREADABLE
from tests.validators.nnrp.packets import ENVELOPE
from tests.validators.nnrp.steps import CHAT, Steps

TYPED = {"payload_kind_bitmap": 16, "payload_frame_count": 1}


@pytest.mark.parametrize(
    ("kind", "packet", "terminal"),
    [
        ("RESULT_PUSH", {}, EMPTY),
        ("RESULT_PUSH", {"prelude": {}}, EMPTY),
        (
            "RESULT_PUSH",
            {"json": {"type": "response.completed", "body": CHAT}},
            "response.completed",
        ),
        ("RESULT_PUSH", {"text": "{oops"}, UNREADABLE),
        ("RESULT_PUSH", {"body": "x" * 40}, UNREADABLE),
        ("RESULT_PUSH", {"json": []}, UNREADABLE),
        ("RESULT_PUSH", {"json": {"type": "response.output_text.delta"}}, UNREADABLE),
        ("RESULT_PUSH", {"meta_length": 3}, UNREADABLE),
        ("RESULT_DROP", {}, DROPPED),
        ("RESULT_DROP_REASON", {}, DROPPED),
        ("RESULT_DROP_REASON", {"meta_length": 3}, DROPPED),
        ("ERROR", {"meta": {"scope": 2}}, FAILED),
        ("ERROR", {"meta": {"scope": 1}}, FAILED),
        ("ERROR", {"meta": {"scope": 0}, "session": 0, "frame": 0}, FAILED),
    ],
)
def test_an_operation_ends_once(kind: str, packet: dict[str, Any], terminal: str) -> None:
    steps = Steps().text("Hello").server(kind, **packet)
    assert (steps.op.terminal, steps.op.active) == (terminal, False)
    before = set(steps.rules)
    steps.server("RESULT_DROP").server("RESULT_PUSH")
    assert set(steps.rules) - before == {"nnrp.terminal-twice"}
    assert steps.rules["nnrp.terminal-twice"] == 2 and steps.op.terminal == terminal


@pytest.mark.parametrize(
    "packet", [{"meta_length": 8}, {"meta": {"scope": 7}}, {"meta": {"scope": 2}, "frame": 9}]
)
def test_an_error_that_is_about_nobody_ends_nothing(packet: dict[str, Any]) -> None:
    steps = Steps().server("ERROR", **packet)
    ended = bool(steps.op.terminal)
    assert ended is (
        packet.get("meta") == {"scope": 7}
    )  # an unknown scope is read as the session's


def test_recoverable_errors_and_other_messages_end_nothing() -> None:
    steps = Steps()
    for kind in ("ERROR_RECOVERABLE", "RETRY_AFTER", "BACKPRESSURE", "PROGRESS"):
        steps.server(kind)
    assert steps.op.active and steps.text("Hello").ends().rules == {}


@pytest.mark.parametrize("status", [0, 99, 100, 200, 404, 599, 600, 65535])
def test_a_status_is_kept_where_it_can_be_one(status: int) -> None:
    steps = Steps().server("RESULT_PUSH", meta={"status_code": status})
    assert steps.op.exchange.status == (status if 100 <= status <= 599 else None)
    contradicts = 400 <= status <= 599
    assert ("nnrp.terminal-status-inconsistent" in steps.noted) is contradicts


@pytest.mark.parametrize(
    ("meta", "body", "rule"),
    [
        (TYPED, {}, "nnrp.terminal-empty-fields-nonzero"),
        ({"payload_frame_count": 1}, {"prelude": {}}, "nnrp.terminal-empty-fields-nonzero"),
        ({}, {"body": "x" * 40}, "nnrp.terminal-undeclared-body"),
        ({}, {"body": "{}"}, "nnrp.terminal-undeclared-body"),
        (TYPED, {"body": '{"type":"response.completed","body":{}}'}, "nnrp.terminal-raw-json"),
        (TYPED, {"body": "x" * 40}, "nnrp.terminal-prelude-wrong"),
    ],
)
def test_metadata_and_an_odd_body_break_one_rule(meta: Any, body: Any, rule: str) -> None:
    assert Steps().text("Hello").server("RESULT_PUSH", meta=meta, **body).rules == {rule: 1}


@pytest.mark.parametrize(
    "kind", [None, 7, "", "x", [], {}, "response.tool_call.delta", "response.usage"]
)
def test_a_document_that_ends_nothing_ends_the_operation_all_the_same(kind: Any) -> None:
    steps = Steps().text("Hello").server("RESULT_PUSH", json={"type": kind})
    assert steps.op.terminal == UNREADABLE and len(steps.rules) == 1


def test_an_end_that_can_not_be_read_starts_no_further_rules() -> None:
    """Whether usage or a completed body came can't be told any more."""
    asked = {**ENVELOPE, "body": {**ENVELOPE["body"], "stream_options": {"include_usage": True}}}
    steps = Steps(asked).server("RESULT_PUSH", text="{oops")
    assert steps.rules == {"nnrp.terminal-json-invalid": 1}


def test_an_end_beyond_the_limit_is_said() -> None:
    steps = Steps(limits=Limits(body=4096)).ends(body={"x": "y" * 5000})
    assert (steps.rules, steps.op.exchange.inspection) == ({}, "partial (body-limit)")
    assert steps.op.terminal == UNREADABLE


def test_waiting_is_asked_for_before_or_with_the_refusal() -> None:
    rule = "nnrp.overload-without-diagnostics"
    overloaded = {"type": "overloaded_error", "code": "server_overloaded"}
    assert rule in Steps().error(**overloaded).noted
    for kind in ("RETRY_AFTER", "BACKPRESSURE", "ERROR_RECOVERABLE"):
        assert rule not in Steps().server(kind).error(**overloaded).noted
        assert rule not in Steps().server(kind, frame=0).error(**overloaded).noted
    dropped = Steps().server("RESULT_DROP_REASON", meta={"reason": 4})
    assert rule in dropped.noted


def test_usage_that_was_asked_for_is_missed_at_a_success_alone() -> None:
    asked = {**ENVELOPE, "body": {**ENVELOPE["body"], "stream_options": {"include_usage": True}}}
    rule = "nnrp.usage-missing"
    assert rule in Steps(asked).text("Hello").ends().rules
    assert rule not in Steps(asked).text("Hello").error().rules
    assert rule not in Steps(asked).text("Hello").server("RESULT_DROP").rules
    assert rule not in Steps(asked).client("FRAME_CANCEL").ends().rules
