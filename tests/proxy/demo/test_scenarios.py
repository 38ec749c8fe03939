"""The scenarios are sound: what they say has to be found is what the validators find."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from teeline.proxy.demo.scenarios import MODEL, SCENARIOS, Answer, Scenario
from teeline.validators.events import (
    RequestHead,
    ResponseHead,
    SchemaCheck,
    SchemaResult,
)
from teeline.validators.inspector import Inspector
from teeline.validators.model import Ended, Exchange, Severity
from teeline.validators.rules import register

_AT = 1_790_000_000.0

Cut = Callable[[list[bytes]], list[bytes]]


def _as_sent(pieces: list[bytes]) -> list[bytes]:
    return pieces


def _at_once(pieces: list[bytes]) -> list[bytes]:
    return [b"".join(pieces)]


def _byte_by_byte(pieces: list[bytes]) -> list[bytes]:
    return [bytes([byte]) for byte in b"".join(pieces)]


def _inspected(scenario: Scenario, answer: Answer, cut: Cut = _as_sent) -> Exchange:
    inspector = Inspector(Exchange(id="1"))
    fields = (("authorization", "Bearer x"), ("content-type", "application/json"))
    offered = (("accept-encoding", "gzip"),)
    inspector.request_head(RequestHead("POST", "/v1/chat/completions", fields + offered), _AT)
    stream = scenario.stream if answer is scenario.answer else not scenario.stream
    request = scenario.request | {"stream": stream}
    inspector.request_body(json.dumps(request).encode(), _AT)
    inspector.request_end(_AT)
    coded = (("content-encoding", answer.coding),) if answer.coding else ()
    kind = (("content-type", answer.content_type),)
    inspector.response_head(ResponseHead(answer.status, kind + coded), _AT)
    pieces = [piece.replace(MODEL.encode(), scenario.name.encode()) for piece in answer.pieces]
    if answer.coding:
        pieces = [gzip.compress(b"".join(pieces))]
    for piece in cut(pieces):
        inspector.response_body(piece, _AT)
    outputs = inspector.end(Ended.UPSTREAM_ABORTED if answer.cut else Ended.COMPLETE, _AT)
    for output in outputs:
        if isinstance(output, SchemaCheck):
            inspector.schema_result(output.ticket, SchemaResult(), _AT)
    return inspector.exchange


@pytest.mark.parametrize("cut", [_as_sent, _at_once, _byte_by_byte])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_exactly_the_expected_is_found_however_the_bytes_are_cut(
    scenario: Scenario, cut: Cut
) -> None:
    """Each fault by its rule, nothing of a clean answer, and nothing of the demo's own requests."""
    exchange = _inspected(scenario, scenario.answer, cut)
    found = {v.rule.id for v in exchange.violations if v.severity >= Severity.WARN}
    assert found == set(scenario.expected)
    assert exchange.inspection == "full"


_TWINS = {
    "finish-end-turn": "chat.finish-foreign",
    "choices-merged": "chat.choice-index-set",
    "usage-sum-low": "usage.total-too-low",
    "html-at-200": "http.html-200",
    "error-string": "error.string",
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_the_same_fault_shows_where_the_other_kind_is_asked_for(scenario: Scenario) -> None:
    """A client of the user's own meets the fault whether it streams or not, if there is one."""
    if scenario.twin is None:
        assert scenario.name not in _TWINS
        return
    exchange = _inspected(scenario, scenario.twin)
    found = {v.rule.id for v in exchange.violations if v.severity >= Severity.WARN}
    assert found == {_TWINS[scenario.name]}


def test_names_are_unique_and_fit_to_be_model_names() -> None:
    """A name asks for its scenario, in a URL, a shell and a table alike."""
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() and len(name) <= 20 for name in names)


def test_every_rule_that_is_named_is_declared_and_at_least_a_warning() -> None:
    """A rule that was renamed or lowered would leave its scenario without a meaning."""
    named = {rule for s in SCENARIOS for rule in s.expected}
    assert {rule for rule in named if register()[rule].severity >= Severity.WARN} == named


def test_clean_answers_stand_beside_the_faults_in_json_in_streams_and_compressed() -> None:
    """What is right has to pass: a demo of faults alone could not show that."""
    clean = [scenario for scenario in SCENARIOS if not scenario.expected]
    assert {scenario.stream for scenario in clean} == {True, False}
    assert "gzip" in {scenario.answer.coding for scenario in clean}
    assert len(SCENARIOS) > 2 * len(clean)


def test_streams_are_sent_in_several_pieces() -> None:
    """A stream in one piece would not show that pieces pass one by one."""
    streams = [scenario.answer for scenario in SCENARIOS if scenario.answer.stream]
    assert streams
    assert all(len(answer.pieces) > 2 for answer in streams)


def test_one_clean_stream_is_cut_inside_a_character() -> None:
    """Reads end anywhere: at least one piece here is not UTF-8 on its own."""
    (scenario,) = (s for s in SCENARIOS if s.name == "clean-stream")
    pieces = scenario.answer.pieces
    assert b"".join(pieces).decode("utf-8")
    with pytest.raises(UnicodeDecodeError):
        [piece.decode("utf-8") for piece in pieces]


def test_a_request_of_the_other_kind_gets_the_twin_or_nothing() -> None:
    """``stream`` decides which of a scenario's answers is given; none means a clean one is due."""
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    foreign = by_name["finish-end-turn"]
    assert foreign.answer_to(stream=True) is foreign.answer
    assert foreign.answer_to(stream=False) is foreign.twin is not None
    assert by_name["no-done"].answer_to(stream=False) is None
