"""A bridge's two sides as a task: nothing is lost on the way, and the report is the comparison's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from teeline.validators.events import Report, Task
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange, Side
from teeline.validators.nnrp.bridge import HttpEnd
from teeline.validators.nnrp.passed import BRIDGE, Passed, adopted, read
from teeline.validators.replay import perform
from tests.validators.exchanges import NOW
from tests.validators.nnrp.test_bridge import ASKED, chunk, encoded, text

ERROR = encoded({"type": "response.error", "error": {"message": "no"}})
BODY = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}}]}


def enveloped(operation: str = "chat.completions.create", body: Any = ASKED) -> bytes:
    return encoded({"operation": operation, "body": body})


def stream(*events: dict[str, Any]) -> list[bytes]:
    """An event stream, cut where nobody would cut it."""
    data = b"".join(b"data: " + encoded(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    return [data[:9], data[9:]]


def passed(**changed: Any) -> Passed:
    """A stream that said on both sides what it should."""
    made = Passed(
        "POST",
        "/v1/chat/completions",
        encoded(ASKED),
        enveloped(),
        status=200,
        streamed=True,
        sent=stream(chunk("Hel"), chunk("lo")),
        events=[encoded(text("Hello"))],
        document=b"",
        left_at=NOW,
        looked_at=NOW,
    )
    return replace(made, **changed)


def whole(answer: dict[str, Any], document: bytes) -> Passed:
    return passed(streamed=False, sent=[encoded(answer)], events=[], document=document)


def found(sides: Passed, limits: Limits = DEFAULT_LIMITS) -> Exchange:
    exchange = Exchange()
    adopted(exchange, Report(perform(sides.task(), limits)), limits)
    return exchange


def test_a_task_is_read_as_it_was_made_however_its_pieces_were_cut() -> None:
    for sides in (passed(), passed(document=None, sent=[], end=HttpEnd.LEFT, missing="x")):
        task = sides.task()
        assert task.kind == BRIDGE
        data = b"".join(task.pieces)
        for size in (1, 7, len(data)):
            pieces = [data[at : at + size] for at in range(0, len(data), size)]
            again = read(Task(task.kind, task.header, task.request, pieces))
            assert again == sides


def test_a_task_of_many_small_pieces_is_few_large_ones() -> None:
    many = passed(events=[encoded(text("x" * 100))] * 5000, sent=[b"y" * 100_000, b"z"])
    task = many.task()
    assert len(task.pieces) < 20
    assert read(task) == many


BROKEN: dict[str, Callable[[], Passed]] = {
    "nnrp.bridge-operation-wrong": lambda: passed(envelope=enveloped("responses.create")),
    "nnrp.bridge-body-changed": lambda: passed(envelope=enveloped(body={**ASKED, "model": "x"})),
    "nnrp.bridge-text-changed": lambda: passed(sent=stream(chunk("Hel"))),
    "nnrp.bridge-chunk-changed": lambda: passed(
        events=[encoded(text("Hello", openai_chunk=chunk("Hello")))]
    ),
    "nnrp.bridge-chunk-repeated": lambda: passed(
        events=[encoded(text("a", openai_chunk=chunk("a")))],
        sent=stream(chunk("a"), chunk("a")),
    ),
    "nnrp.bridge-error-lost": lambda: passed(document=ERROR),
    "nnrp.bridge-answer-changed": lambda: whole(
        {**BODY, "id": "x"}, encoded({"type": "response.completed", "body": BODY})
    ),
    "nnrp.bridge-disconnect-without-cancel": lambda: passed(
        end=HttpEnd.LEFT, document=None, ended=False, looked_at=NOW + 2
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_what_is_broken_is_in_the_report(rule: str) -> None:
    (violation,) = found(BROKEN[rule]()).violations
    assert violation.rule.id == rule
    client = rule == "nnrp.bridge-disconnect-without-cancel"
    assert violation.side is (Side.REQUEST if client else Side.RESPONSE)


@pytest.mark.parametrize(
    "sides",
    [
        passed(),
        whole(BODY, encoded({"type": "response.completed", "body": BODY})),
        passed(end=HttpEnd.LEFT, document=None, cancelled=True, looked_at=NOW + 2),
        passed(end=HttpEnd.LEFT, document=None, looked_at=NOW + 2),
        passed(status=500, streamed=False, sent=[b'{"error":{}}'], document=ERROR),
    ],
)
def test_sides_that_agree_are_fully_inspected_and_nothing_is_said(sides: Passed) -> None:
    exchange = found(sides)
    assert (exchange.violations, exchange.inspection) == ([], "full")


def test_what_was_not_kept_or_not_read_is_said_and_not_compared() -> None:
    lost = passed(missing="memory-limit", sent=[], events=[])
    assert found(lost).inspection == "partial (memory-limit)"
    long = passed(sent=stream(chunk("x" * 500)))
    exchange = found(long, Limits(line=100))
    assert (exchange.violations, exchange.inspection) == ([], "partial (line-limit)")


def test_a_comparison_that_was_not_done_is_said() -> None:
    exchange = Exchange()
    assert adopted(exchange, Report(failed="busy"), DEFAULT_LIMITS) == []
    assert exchange.inspection == "partial (inspection-busy)"


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"[]", b"{}", b'{"a":' * 500, b"data: {}\n\n"])
def test_any_bytes_on_either_side_are_taken(data: bytes) -> None:
    for member in ("request", "envelope", "document"):
        report = perform(passed(**{member: data}).task(), DEFAULT_LIMITS)
        assert json.loads(report)["violations"] is not None
    for member in ("sent", "events"):
        for streamed in (True, False):
            sides = passed(**{member: [data], "streamed": streamed})
            assert json.loads(perform(sides.task(), DEFAULT_LIMITS))["violations"] is not None
