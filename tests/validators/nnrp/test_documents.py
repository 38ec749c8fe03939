"""response.completed, response.error and response.cancelled: any shape, and what an error's words mean."""

from __future__ import annotations

from typing import Any

import pytest

from tests.validators.nnrp.packets import ENVELOPE
from tests.validators.nnrp.steps import Steps

ODD: tuple[Any, ...] = (None, True, 7, 1.5, "", [], "x")


@pytest.mark.parametrize("body", ODD)
def test_a_completed_body_is_an_object(body: Any) -> None:
    steps = Steps().text("Hello").ends(body=body)
    assert steps.rules == {"nnrp.completed-body-missing": 1}
    assert steps.op.terminal == "response.completed"


@pytest.mark.parametrize("error", ODD)
def test_an_error_is_an_object(error: Any) -> None:
    assert Steps().ends("error", error=error).rules == {"nnrp.error-object-missing": 1}


@pytest.mark.parametrize("value", [*ODD, {}])
@pytest.mark.parametrize("member", ["type", "code", "message"])
def test_each_member_of_an_error_breaks_one_rule(member: str, value: Any) -> None:
    rules = Steps().error(**{member: value}).rules
    assert len(rules) == (value != "x")
    assert all(rule.startswith(f"nnrp.error-{member}") for rule in rules)


@pytest.mark.parametrize("reason", ODD)
def test_a_reason_is_a_filled_string(reason: Any) -> None:
    steps = Steps().client("FRAME_CANCEL").ends("cancelled", reason=reason)
    rule = "missing" if not isinstance(reason, str) else "empty" if not reason else ""
    assert steps.rules == ({f"nnrp.cancelled-reason-{rule}": 1} if rule else {})


@pytest.mark.parametrize(
    ("code", "leaks"),
    [
        ("404", True), ("HTTP 503", True), ("HTTP/1.1 429", True), ("500 Internal Server Error", True),
        ("429_too_many", True), ("http404", True), ("4040", False), ("600", False), ("x404", False),
        ("500ms", False), ("not_found", False),
    ],
)  # fmt: skip
def test_an_http_status_is_told_from_other_codes(code: str, leaks: bool) -> None:
    for member in ("code", "type"):
        assert ("nnrp.error-http-status-leak" in Steps().error(**{member: code}).noted) is leaks


def test_long_words_of_an_error_are_kept_in_part() -> None:
    steps = Steps().error(type="t" * 5000, code="c" * 5000, message="m" * 5000)
    assert steps.rules == {}
    assert steps.op.exchange.error_type == "t" * 64


UNKNOWN = {**ENVELOPE, "operation": "files.create"}
WITHOUT = {**ENVELOPE, "body": {"model": "m"}}


@pytest.mark.parametrize("code", ["unsupported_operation", "UNSUPPORTED_OPERATION"])
def test_an_operation_that_nobody_knows_is_refused_by_its_code(code: str) -> None:
    rules = Steps(UNKNOWN).error(code=code).rules
    assert "nnrp.unsupported-operation-code-wrong" not in rules


@pytest.mark.parametrize(
    "error",
    [
        {"type": "authentication_error", "code": "invalid_api_key"},
        {"type": "rate_limit_error", "code": "slow_down"},
        {"type": "server_error", "code": "timeout"},
        {"type": "server_error", "code": "unavailable"},
    ],
)
def test_a_refusal_for_something_else_is_no_wrong_code(error: dict[str, str]) -> None:
    for envelope in (UNKNOWN, WITHOUT):
        rules = Steps(envelope).error(**error).rules
        assert not [rule for rule in rules if rule.endswith(("code-wrong", "type-wrong"))]


def test_missing_messages_have_a_code_and_a_type() -> None:
    assert Steps(WITHOUT).error(code="missing_messages", type="invalid_request_error").rules == {}
    assert Steps(WITHOUT).error(code="x", type="server_error").rules == {
        "nnrp.missing-messages-code-wrong": 1,
        "nnrp.invalid-body-type-wrong": 1,
    }


def test_an_unknown_operation_without_messages_is_first_of_all_unknown() -> None:
    envelope = {**UNKNOWN, "body": {}}
    assert Steps(envelope).error(code="unsupported_operation").rules == {
        "nnrp.envelope-operation-unknown": 1
    }


@pytest.mark.parametrize(
    ("nnrp", "after", "expected"),
    [
        ({}, 0.0, True),
        ({"cancel_after_events": 1}, 0.0, False),
        ({"timeout_ms": 1000}, 0.5, True),
        ({"timeout_ms": 1000}, 1.5, False),
        ({"timeout_ms": "x"}, 9.0, True),
    ],
)
def test_a_cancelled_answer_has_a_reason_to_be(nnrp: Any, after: float, expected: bool) -> None:
    steps = Steps({**ENVELOPE, "nnrp": nnrp}).ends("cancelled", after, reason="r")
    assert ("nnrp.cancelled-without-cancel" in steps.rules) is expected


def test_a_timeout_may_have_passed_where_times_are_not_known() -> None:
    steps = Steps({**ENVELOPE, "nnrp": {"timeout_ms": 1000}}, timed=False)
    assert "nnrp.cancelled-without-cancel" not in steps.ends("cancelled", reason="r").rules


def test_a_shutdown_that_was_announced_is_a_reason() -> None:
    steps = Steps().server("SESSION_CLOSE", frame=0).ends("cancelled", reason="shutdown")
    assert "nnrp.cancelled-without-cancel" not in steps.rules


def test_an_error_after_an_error_ends_well() -> None:
    steps = Steps().event("error", error={"type": "t", "code": "c", "message": "m"}).error()
    assert steps.rules == {"nnrp.partial-terminal-document": 1}


@pytest.mark.parametrize(
    "body", [{}, {"choices": None}, {"choices": [7]}, {"object": []}, {"usage": 7}]
)
def test_a_completed_body_of_any_shape_is_judged_by_the_openai_rules(body: Any) -> None:
    found = Steps(stream=False).ends(body=body).op.exchange.violations
    families = {v.rule.family for v in found}
    assert "chat" in families and "nnrp" not in families
    assert {v.place.pointer[:5] for v in found if v.rule.family == "chat"} == {"/body"}
