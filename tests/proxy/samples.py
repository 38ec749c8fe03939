"""Exchanges and violations for the tests of sinks: complete, and every string one that can be told."""

from __future__ import annotations

import itertools
from typing import Any

from teeline.validators.model import (
    Ended,
    Exchange,
    Place,
    Rule,
    RuleSource,
    Severity,
    Side,
    TimelineEntry,
    Timing,
    Unit,
    Violation,
)

START = 1_796_040_067.25
"""2026-11-30T12:01:07.25Z"""

_numbers = itertools.count(1)


def rule(name: str = "chatstream.done-missing", severity: Severity = Severity.FAIL) -> Rule:
    return Rule(
        id=name,
        severity=severity,
        summary="the stream ends without [DONE]",
        why="clients wait for it until they time out",
        fix="send data: [DONE]",
        source=RuleSource("docs"),
        bad={},
        good={},
    )


def violation(
    name: str = "chatstream.done-missing", severity: Severity = Severity.FAIL, **changes: Any
) -> Violation:
    made = Violation(
        rule=rule(name, severity),
        severity=severity,
        message="the stream ended without [DONE]",
        place=Place(Side.RESPONSE, Unit.EVENT, 12, 2345, "/choices/0/delta"),
        evidence='"finish_reason": "stop"',
        at=START + 1.5,
    )
    for field, value in changes.items():
        setattr(made, field, value)
    return made


def exchange(*violations: Violation, **changes: Any) -> Exchange:
    number = next(_numbers)
    made = Exchange(
        id=f"exchange-{number}",
        upstream="my-relay",
        client="127.0.0.1",
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        method="POST",
        path="/v1/chat/completions",
        operation="chat",
        model="gpt-4o-mini",
        stream=True,
        request_bytes=120,
        status=200,
        request_id="req-1",
        response_id="chatcmpl-1",
        response_model="gpt-4o-mini-2024-07-18",
        response_bytes=2400,
        events=12,
        usage={"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
        finish=["stop"],
        timing=Timing(START, START + 0.2, START + 0.25, START + 1.4, START + 1.5, 0.1),
        timeline=[
            TimelineEntry(START, "request", 0, 0),
            TimelineEntry(START + 1.5, "complete", 0, 0),
        ],
        ended=Ended.COMPLETE,
        violations=list(violations),
    )
    for field, value in changes.items():
        setattr(made, field, value)
    return made
