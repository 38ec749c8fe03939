"""Waits and gaps from the given times, and silence where there are none."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.exchangefile import parse, replay
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange, Severity
from teeline.validators.rules import register
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import NOW, byte_by_byte, cases, inspect

CHUNK = (
    '{"id":"chatcmpl-A3","object":"chat.completion.chunk","created":1790000000,'
    '"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"delta":{"content":" a"},'
    '"logprobs":null,"finish_reason":null}]}'
)
LONG = {"4": [CHUNK] * 10}


def paced(times: list[float], limits: Limits = DEFAULT_LIMITS, **more: Any) -> dict[str, str]:
    """The evidence of each timing rule for a stream whose head, events and end came at these times."""
    document = exchange({"on": "chat-stream", "times": times, **more})
    seen = inspect(document, limits=limits)
    return {v.rule.id: v.evidence for v in seen.violations if v.rule.family == "timing"}


def test_timing_is_an_observation_and_never_more() -> None:
    assert {r.severity for r in register().values() if r.family == "timing"} == {Severity.INFO}


def test_without_times_there_is_nothing_to_observe() -> None:
    for document in cases().values():
        for cut in (None, byte_by_byte):
            assert not [v for v in inspect(document, cut).violations if v.rule.family == "timing"]


def test_an_own_cut_leaves_recorded_times_aside() -> None:
    document = exchange({"on": "chat-stream", "times": [40.0, 90.0, 140.0]})
    assert not [v for v in inspect(document, byte_by_byte).violations if v.rule.family == "timing"]


def test_the_wait_for_the_first_byte_starts_with_the_whole_request() -> None:
    """A slow upload is no slow answer."""
    document = parse(exchange({"on": "chat"}))
    inspector = Inspector(Exchange())
    inspector.request_head(document.request, NOW)
    inspector.request_body(document.request_body or b"", NOW + 50)
    inspector.request_end(NOW + 60)
    inspector.response_head(document.response, NOW + 89)
    assert not [v for v in inspector.exchange.violations if v.rule.family == "timing"]


def test_limits_are_configured() -> None:
    assert paced([2.0, 3.0], Limits(slow_first_byte=1.0)) == {
        "timing.slow-first-byte": "2.0 s, above 1 s"
    }
    assert paced([0.0, 3.0], Limits(idle_gap=2.5)) == {"timing.idle-gap": "3.0 s, above 2.5 s"}
    assert "timing.burst" in paced([0.0, 1.0], Limits(burst_wait=1.0), insert=LONG)


def test_a_gap_counts_wherever_it_is() -> None:
    assert paced([0.0, 31.0]) == {"timing.idle-gap": "31.0 s, above 30 s"}
    assert paced([0.0, 1.0, 2.0, 33.0]) == {"timing.idle-gap": "31.0 s, above 30 s"}
    # [DONE] came, and the connection stayed open
    late = paced([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 40.0])
    assert late == {"timing.idle-gap": "35.0 s, above 30 s"}


def test_a_body_without_events_has_no_gaps() -> None:
    """There is nothing that a server could send in one JSON document to show that it lives."""
    document = exchange({"on": "chat", "times": [1.0, 60.0]})
    assert not [v for v in inspect(document).violations if v.rule.family == "timing"]


def test_the_gap_before_a_stream_is_known_to_be_one_is_kept() -> None:
    document = exchange({"on": "chat-stream"})
    body = b"data: {}\n\n"
    inspector = Inspector(Exchange())
    recorded = parse(document)
    inspector.request_head(recorded.request, NOW)
    inspector.response_head(recorded.response, NOW)
    for byte in body:
        inspector.response_body(bytes([byte]), NOW + 40)
    assert "timing.idle-gap" in {v.rule.id for v in inspector.exchange.violations}


@pytest.mark.parametrize("times", [[0.0, 9.0], [9.0, 9.0], [0.1, 9.0, 9.004]])
def test_events_that_come_at_once_after_a_wait_were_held_back(times: list[float]) -> None:
    assert list(paced(times, insert=LONG)) == ["timing.burst"]


@pytest.mark.parametrize("times", [[0.0, 2.0], [0.0, 0.0], [0.0, 9.0, 9.1], [0.0, 9.0, 20.0]])
def test_events_that_came_soon_or_one_after_the_other_were_not(times: list[float]) -> None:
    assert paced(times, insert=LONG) == {}


def test_a_short_answer_is_no_burst() -> None:
    assert paced([0.0, 9.0]) == {}


def test_a_stream_that_was_broken_off_is_no_burst() -> None:
    assert paced([0.0, 9.0], insert=LONG, connection="aborted") == {}


def test_times_are_seconds_from_the_request() -> None:
    document = parse(exchange({"on": "chat-stream", "times": [1.0, 2.5]}))
    inspector = Inspector(Exchange())
    replay(inspector, document, NOW)
    timing = inspector.exchange.timing
    assert (timing.start, timing.first_byte, timing.end) == (NOW, NOW + 1.0, NOW + 2.5)
