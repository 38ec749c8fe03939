"""FRAME_SUBMIT: what its metadata and body lack, and what becomes of the operation then."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.limits import Limits
from tests.validators.nnrp.packets import ENVELOPE
from tests.validators.nnrp.steps import Steps

TILES = ("src_width", "tile_height", "tile_count", "section_count", "tile_base_id", "camera_bytes")


def submitted(**packet: Any) -> Steps:
    return Steps(submit={"json": ENVELOPE, **packet})


@pytest.mark.parametrize("field", TILES)
def test_each_tile_field_is_seen_and_the_request_is_read(field: str) -> None:
    steps = submitted(meta={field: 1})
    assert steps.rules == {"nnrp.submit-tile-fields-set": 1}
    assert steps.op.stream and steps.op.known


@pytest.mark.parametrize("field", ["reserved0", "reserved1", "reserved2", "reserved3", "reserved4"])
def test_each_reserved_field_is_seen(field: str) -> None:
    assert submitted(meta={field: 1}).rules == {"nnrp.submit-reserved-nonzero": 1}


@pytest.mark.parametrize(
    "field", ["latency_budget_ms", "budget_policy", "frame_class", "retry_of_frame"]
)
def test_fields_that_the_profile_leaves_open_are_free(field: str) -> None:
    assert submitted(meta={field: 7}).rules == {}


@pytest.mark.parametrize("packet", [{"json": None, "text": ""}, {"prelude": {}}])
def test_an_empty_body_asks_for_nothing_and_may_be_answered_with_an_error(packet: Any) -> None:
    packet = {k: v for k, v in packet.items() if v is not None}
    steps = Steps(submit={"body": ""} if "text" in packet else packet)
    assert steps.rules == {"nnrp.submit-body-empty": 1}
    assert (steps.op.name, steps.op.known) == (None, False)
    assert "nnrp.unsupported-operation-code-wrong" not in steps.error().rules


def test_a_submit_beyond_the_limit_is_said_and_its_answer_is_read() -> None:
    long = {**ENVELOPE, "body": {**ENVELOPE["body"], "user": "x" * 5000}}
    steps = Steps(submit={"json": long}, limits=Limits(body=4096))
    steps.text("Hello").ends()
    assert (steps.rules, steps.op.exchange.inspection) == ({}, "partial (body-limit)")
    assert steps.op.terminal == "response.completed"


@pytest.mark.parametrize("text", ["7", "null", "[]", '"x"', "true"])
def test_an_envelope_is_an_object(text: str) -> None:
    steps = Steps(submit={"text": text})
    assert steps.rules == {"nnrp.submit-json-not-object": 1}


BROKEN: dict[str, dict[str, Any]] = {
    "nnrp.submit-raw-json": {"body": "{}"},
    "nnrp.submit-prelude-wrong": {"body": "x" * 40},
    "nnrp.submit-metadata-mismatch": {"meta": {"payload_frame_count": 3}},
    "nnrp.submit-payload-region-wrong": {"descriptor": {"length": 3}},
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_frame_is_not_to_be_answered_in_the_profile_and_that_is_told_once(
    rule: str,
) -> None:
    for answer in ("text", "ends", "error"):
        steps = submitted(**BROKEN[rule])
        step = getattr(steps, answer)
        step("Hello") if answer == "text" else step()
        steps.server("RESULT_PUSH")
        assert steps.rules.pop("nnrp.malformed-frame-answered-in-profile") == 1
        assert rule in steps.rules


def test_a_submit_that_must_fail_and_fails_is_answered_well() -> None:
    steps = submitted(descriptor={"stream_semantics": 2}).error(type="invalid_request_error")
    assert steps.rules == {"nnrp.submit-not-snapshot": 1}


def test_a_submit_that_must_fail_and_succeeds_is_told_once() -> None:
    steps = submitted(descriptor={"stream_semantics": 2}).text("Hel").text("lo").ends()
    assert steps.rules == {"nnrp.submit-not-snapshot": 1, "nnrp.invalid-submit-accepted": 1}


@pytest.mark.parametrize("length", [0, 71, 73, 1000])
def test_metadata_of_another_length_is_not_read(length: int) -> None:
    steps = submitted(meta_length=length)
    assert steps.rules == {"nnrp.metadata-length-wrong": 1}
    assert (steps.op.id, steps.op.known) == (0, False)
    steps.text("Hello").ends()
    assert steps.rules == {"nnrp.metadata-length-wrong": 1}
