"""What is inspected elsewhere gives the same findings as in place, whatever it is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from teeline.validators.aside import MAX_REPORT, filled, outline
from teeline.validators.events import Aside, Output, Report, RequestHead, ResponseHead
from teeline.validators.exchangefile import parse, replay
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.replay import TOO_LARGE, perform
from tests.validators.exchanges import (
    NOW,
    Finding,
    byte_by_byte,
    cases,
    examples,
    findings,
    inspect,
)
from tests.validators.schemas import answer_schema_checks

ALL_ASIDE = Limits(in_place=1)
HEAD = RequestHead("POST", "/v1/chat/completions", (("Content-Type", "application/json"),))
JSON = ResponseHead(200, (("Content-Type", "application/json"),))
SSE = ResponseHead(200, (("Content-Type", "text/event-stream"),))
ASKED = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
STREAMED = ASKED[:-1] + b', "stream": true}'
EVENT = (
    b'data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}\n\n'
)


class Doing:
    """An inspector whose tasks are done as soon as it gives them away."""

    def __init__(self, limits: Limits = ALL_ASIDE) -> None:
        self.inspector = Inspector(Exchange(id="test"), limits, aside=True)
        self.exchange = self.inspector.exchange
        self.kinds: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., list[Output]]:
        step = getattr(self.inspector, name)
        return lambda *arguments: self._done(step(*arguments))

    def _done(self, outputs: Sequence[Output]) -> list[Output]:
        seen: list[Output] = []
        for output in outputs:
            if isinstance(output, Aside):
                self.kinds.append(output.task.kind)
                report = Report(perform(output.task, DEFAULT_LIMITS))
                seen += self._done(self.inspector.inspected(report, NOW))
            else:
                seen.append(output)
        return seen


def inspect_aside(document: dict[str, Any]) -> Exchange:
    doing = Doing()
    outputs = replay(doing, parse(document), NOW)
    answer_schema_checks(doing.inspector, outputs, NOW)
    return doing.exchange


def told(seen: Exchange) -> list[Finding]:
    """Findings in no order: what is looked at elsewhere comes to light later."""
    return sorted(findings(seen), key=lambda finding: finding[0])


EXCHANGES = {**cases(), **dict(examples())}
SKIPPED = ("timing.",)


@pytest.mark.parametrize("name", [n for n in EXCHANGES if not n.startswith(SKIPPED)])
def test_every_case_and_example_gives_the_same_elsewhere(name: str) -> None:
    here, there = inspect(EXCHANGES[name]), inspect_aside(EXCHANGES[name])
    assert told(there) == told(here)
    for fact in ("model", "stream", "events", "usage", "finish", "response_id", "inspection"):
        assert getattr(there, fact) == getattr(here, fact), fact
    assert there.marks == here.marks
