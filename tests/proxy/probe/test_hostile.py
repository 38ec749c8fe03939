"""A server may answer anything: the check ends with a score, and its reports and baselines can be made."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from teeline.proxy.demo.scenarios import EVENT_STREAM, JSON, Answer
from teeline.proxy.probe.plan import Settings
from teeline.proxy.probe.recording import dumps, record
from teeline.proxy.probe.report import RENDERERS
from teeline.proxy.reports.model import Style
from teeline.validators import baseline
from teeline.validators.detectors.model import ProbeSet
from teeline.validators.scoring import Band
from tests.proxy.probe.relays import KEY, MODEL, Exchange, changed, serving
from tests.proxy.probe.test_runner import checked

VALUES: list[Any] = [None, True, 1, 1e308, "x", "\ud800", [], [[]], {}, {"a": {}}, [None, 1, "x"]]
BODIES = [json.dumps(value).encode() for value in VALUES]
BODIES += [b"", b"\x00" * 64, b"\xff\xfe\xfd", b"[" * 50_000, b'{"a":' * 50_000, b"null\n" * 100]
BODIES += [b"data: " + body + b"\n\n" for body in BODIES[:11]]
BODIES += [b"data: [DONE]\n\n", b"event: x\n\n", b":\n\n" * 1000, b"data:\n\n" * 100]


def survives(fault: Any) -> None:
    with serving(fault) as mock:
        settings = Settings(
            MODEL, probe_set=ProbeSet.EXTENDED, embedding_model="e", protocol="both"
        )
        outcome = asyncio.run(checked(mock.url, settings))
    assert outcome.card().total is not None
    for render in RENDERERS.values():
        assert KEY not in render(outcome, Style(show_info=True))
    made = baseline.loads(dumps(record(outcome, "both")).encode())
    assert baseline.compare(made, made).changed == ()


@pytest.mark.parametrize("body", BODIES, ids=lambda b: repr(b[:16]))
def test_any_body_ends_in_a_low_score(body: bytes) -> None:
    survives(lambda e: Answer((body,), EVENT_STREAM if e.stream else JSON))


def _at(value: Any, path: list[Any], odd: Any) -> Any:
    """A document with something odd in one place."""
    if not path:
        return odd
    step = path[0]
    if isinstance(value, dict) and step in value:
        return value | {step: _at(value[step], path[1:], odd)}
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [*value[:step], _at(value[step], path[1:], odd), *value[step + 1 :]]
    return value


PATHS: list[list[Any]] = [
    ["id"],
    ["object"],
    ["model"],
    ["choices"],
    ["choices", 0],
    ["choices", 0, "message"],
    ["choices", 0, "message", "content"],
    ["choices", 0, "message", "tool_calls"],
    ["choices", 0, "message", "tool_calls", 0, "function"],
    ["output"],
    ["output", 0],
    ["output", 0, "content"],
    ["output", 0, "content", 0],
    ["usage"],
    ["data"],
    ["data", 0],
]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: "/".join(map(str, p)))
def test_any_value_in_any_place_is_taken(path: list[Any]) -> None:
    odds: list[Any] = [[{}], {"a": [1]}, 7]
    for odd in odds:

        def fault(exchange: Exchange, odd: Any = odd) -> Answer:
            answer = exchange.conforming()
            if exchange.stream or answer.status != 200:
                return answer
            return changed(answer, lambda body: _at(body, path, odd))

        survives(fault)


def test_nothing_at_all_is_failed() -> None:
    with serving(lambda e: Answer((b"",))) as mock:
        outcome = asyncio.run(checked(mock.url, Settings(MODEL, protocol="both")))
    assert outcome.card().band is Band.FAILED
