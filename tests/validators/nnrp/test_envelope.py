"""The envelope: any value in any member is judged by one rule, and what can be read of it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.validators.nnrp.packets import ENVELOPE
from tests.validators.nnrp.steps import Steps

ODD: tuple[Any, ...] = (None, True, 0, 1.5, "", [], {}, [{}], "x")


def submitted(**members: Any) -> Steps:
    return Steps({**ENVELOPE, **members})


@pytest.mark.parametrize("value", ODD)
def test_a_version_is_the_one_string(value: Any) -> None:
    rule = "wrong" if isinstance(value, str) else "missing"
    assert submitted(schema_version=value).rules == {f"nnrp.envelope-schema-version-{rule}": 1}


@pytest.mark.parametrize("value", ODD)
def test_an_operation_is_a_name(value: Any) -> None:
    steps = submitted(operation=value)
    if value == "x":
        assert steps.rules == {"nnrp.envelope-operation-unknown": 1}
    else:
        assert steps.rules == {"nnrp.envelope-operation-missing": 1}
        assert steps.op.name is None


@pytest.mark.parametrize("name", ["/v1/chat/completions", "v1/responses", "/x"])
def test_a_path_is_no_name(name: str) -> None:
    assert submitted(operation=name).rules == {"nnrp.envelope-operation-is-path": 1}


def test_long_names_and_ids_are_kept_in_part() -> None:
    steps = submitted(operation="o" * 10_000, request_id="r" * 10_000)
    assert steps.op.name is not None and len(steps.op.name) == 256
    assert steps.op.exchange.request_id is not None and len(steps.op.exchange.request_id) == 256
    assert len(steps.op.exchange.path) == 256


@pytest.mark.parametrize("value", ODD)
def test_a_body_is_an_object(value: Any) -> None:
    steps = submitted(body=value)
    if isinstance(value, dict):
        assert steps.op.known and steps.op.without_messages
    else:
        assert steps.rules == {"nnrp.envelope-body-not-object": 1}
        assert not steps.op.known and steps.op.refusable == "nnrp.invalid-envelope-accepted"


@pytest.mark.parametrize("value", ODD)
def test_a_request_id_is_a_string_or_derived(value: Any) -> None:
    steps = submitted(request_id=value)
    wrong = value is not None and not isinstance(value, str)
    assert steps.rules == ({"nnrp.envelope-request-id-not-string": 1} if wrong else {})
    assert steps.op.exchange.request_id == ("x" if value == "x" else "1/1")
    assert steps.op.request_id == (value if value == "x" else None)


@pytest.mark.parametrize("value", ODD)
def test_hints_are_an_object_or_nothing(value: Any) -> None:
    steps = submitted(nnrp=value)
    wrong = value is not None and not isinstance(value, dict)
    assert steps.rules == ({"nnrp.envelope-nnrp-not-object": 1} if wrong else {})
    assert steps.op.hints == {}


@pytest.mark.parametrize("value", ODD)
def test_stream_is_a_boolean_or_nothing(value: Any) -> None:
    """Where it is neither, whether the request streams can't be told, and nothing follows from it."""
    steps = submitted(body={**ENVELOPE["body"], "stream": value})
    told = value is None or isinstance(value, bool)
    assert ("nnrp.envelope-stream-not-boolean" in steps.rules) is not told
    assert (steps.op.stream, steps.op.known) == (value is True, told)
    steps.text("x")
    assert ("nnrp.nonstream-partials" in steps.rules) is (value is None)


def test_a_hint_is_copied_where_name_value_and_type_are_the_same() -> None:
    for hint, member, copied in ((1, 1, True), (1, True, False), (1, 1.0, False), ({}, {}, True)):
        body = {**ENVELOPE["body"], "priority": member}
        steps = submitted(nnrp={"priority": hint}, body=body)
        assert ("nnrp.envelope-hint-copied-into-body" in steps.rules) is copied


@pytest.mark.parametrize("value", [None, [], {}, ""])
def test_messages_that_are_empty_are_none(value: Any) -> None:
    steps = submitted(body={**ENVELOPE["body"], "messages": value})
    assert steps.op.without_messages and steps.op.invalid_body
    assert steps.text("x").rules == {"nnrp.missing-messages-accepted": 1}


def test_the_first_cause_to_refuse_is_the_one_that_an_answer_breaks() -> None:
    steps = submitted(schema_version="2", body={"stream": True})
    assert steps.text("x").rules == {
        "nnrp.envelope-schema-version-wrong": 1,
        "nnrp.invalid-submit-accepted": 1,
    }


CAPABILITIES = b"""{"operations": [{"name": "chat.completions.create", "streaming": false,
    "non_streaming": true, "tool_calls": false}], "models": [{"id": "other"}]}"""


def test_what_is_declared_is_held_against_what_is_asked() -> None:
    steps = Steps(
        capabilities=CAPABILITIES, tools=[{"type": "function", "function": {"name": "f"}}]
    )
    assert steps.rules == {"nnrp.envelope-mode-undeclared": 1, "nnrp.envelope-tools-undeclared": 1}
    assert "nnrp.model-undeclared" in steps.noted
    other = {**ENVELOPE, "operation": "embeddings.create"}
    steps = Steps(other, capabilities=CAPABILITIES).text("x")
    assert steps.rules == {
        "nnrp.envelope-operation-undeclared": 1,
        "nnrp.unsupported-operation-accepted": 1,
    }


def test_a_document_that_declares_nothing_forbids_everything_by_name_alone() -> None:
    steps = Steps(capabilities=b"{}")
    assert steps.rules == {"nnrp.envelope-operation-undeclared": 1}
