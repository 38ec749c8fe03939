"""Reads that are only counted leave what the same reads leave that are looked at one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from teeline.validators.events import Aside, Found, Output, Report, RequestHead, ResponseHead
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.replay import perform
from teeline.validators.run import NumberedRun, Run
from tests.validators import streams
from tests.validators.exchanges import NOW

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ANSWER = ResponseHead(200, (("content-type", "text/event-stream"), ("x-request-id", "r")))
ODD = (*streams.TEXTS, "", "é", "x" * 5000, "\u0000")


class Course:
    """A stream of a read each, with times, by a seed; one in so many texts is no plain one."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        odd = chance.choice((0.0, 0.02, 0.2))
        texts = [
            chance.choice(ODD) if chance.random() < odd else f" word{n}"
            for n in range(chance.randint(1, 120))
        ]
        self.path = chance.choice((CHAT, RESPONSES))
        made = _chat if self.path == CHAT else _responses
        self.reads = made(chance, texts)
        if chance.random() < 0.3:
            self._disturb(chance)
        self.limits = Limits(event=chance.choice((1 << 20, 1 << 20, 4500)))
        waits = (0.0, 0.01, 0.05, 0.3, 31.0) if chance.random() < 0.3 else (0.0, 0.01, 0.05)
        self.times = [NOW]
        for _ in self.reads:
            self.times.append(self.times[-1] + chance.choice(waits))
        self.ended = chance.choice((Ended.COMPLETE, Ended.CLIENT_CLOSED, Ended.UPSTREAM_ABORTED))

    def _disturb(self, chance: random.Random) -> None:
        """Reads that end inside an event, come together, or bring something else."""
        at = chance.randrange(len(self.reads))
        block = self.reads[at]
        self.reads[at : at + 1] = chance.choice(
            (
                [block[:9], block[9:]],
                [block * 2],
                [b": ping\n\n", block],
                [block[:-1], block[-1:]],
                [block.replace(b"gpt-4o", b"gpt-4p")],
                [block, b"data: {}\n\n"],
                [block[:-2] + b"x\n\n"],
            )
        )


def _chat(chance: random.Random, texts: list[str]) -> list[bytes]:
    padded = chance.random() < 0.4
    chunks = [streams.chunk({"role": "assistant", "content": ""})]
    for text in texts:
        more: dict[str, Any] = {"obfuscation": "z" * chance.randint(0, 3)} if padded else {}
        chunks.append(streams.chunk({"content": text}, **more))
    if chance.random() < 0.8:
        chunks.append(streams.chunk({}, finish="stop"))
    return [*streams.framed(chunks), streams.DONE]


def _responses(chance: random.Random, texts: list[str]) -> list[bytes]:
    """The numbers stand before the texts or behind them, as paddings do, and one may be wrong."""
    events = _ordered(streams.responses(texts), chance.randrange(4))
    if chance.random() < 0.3:
        events = [{**{n: e[n] for n in ("obfuscation",) if n in e}, **e} for e in events]
    if chance.random() < 0.2:
        chance.choice(events)["sequence_number"] = chance.choice((0, 3, True, 5.0, "4"))
    if chance.random() < 0.2:
        del events[chance.randrange(len(events))]
    return streams.framed(events)


def _ordered(events: list[dict[str, Any]], way: int) -> list[dict[str, Any]]:
    """With the number behind the text in every other way, without padding in half of them."""
    for event in events:
        if way % 2:
            event["sequence_number"] = event.pop("sequence_number")
        if way // 2:
            event.pop("obfuscation", None)
    return events


def outcome(course: Course) -> tuple[Any, ...]:
    """All that comes out of an inspector, and when, and all that the exchange holds at its end."""
    exchange = Exchange(id="x")
    inspector = Inspector(exchange, course.limits)
    outputs: list[tuple[int, Output]] = []
    inspector.request_head(RequestHead("POST", course.path, (("authorization", "k"),)), NOW)
    inspector.request_body(b'{"model":"gpt-4o","stream":true,"messages":[],"input":"Hi"}', NOW)
    inspector.request_end(NOW)
    inspector.response_head(ANSWER, NOW)
    for n, (data, at) in enumerate(zip(course.reads, course.times, strict=False)):
        outputs += [(n, output) for output in inspector.response_body(data, at)]
        assert exchange.response_bytes == sum(map(len, course.reads[: n + 1]))
    outputs += [(-1, output) for output in inspector.end(course.ended, course.times[-1])]
    found = [(n, o.violation.rule.id) for n, o in outputs if isinstance(o, Found)]
    return found, exchange


def test_nothing_tells_that_reads_were_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    courses = [Course(seed) for seed in range(500)]
    quick = [outcome(course) for course in courses]
    for kind in (Run, NumberedRun):
        monkeypatch.setattr(kind, "take", lambda *_: False)
    for seed, (course, seen) in enumerate(zip(courses, quick, strict=True)):
        assert seen == outcome(course), seed


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("seed", range(4))
def test_reads_of_a_paced_stream_are_only_counted(
    path: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    kind = Run if path == CHAT else NumberedRun
    take = kind.take

    def counted(run: Any, data: bytes, at: float) -> bool:
        nonlocal taken
        done = take(run, data, at)
        taken += done
        return done

    monkeypatch.setattr(kind, "take", counted)
    course = Course(0)
    course.path = path
    texts = [f" word{n}" for n in range(500)]
    if path == CHAT:
        course.reads = _chat(random.Random(seed), texts)
    else:
        course.reads = streams.framed(_ordered(streams.responses(texts), seed))
    course.times = [NOW + n / 100 for n in range(600)]
    outcome(course)
    assert taken > 470


def with_report() -> Exchange:
    """A stream whose request is being read elsewhere for so long that the report comes amid its texts."""
    inspector = Inspector(Exchange(id="x"), Limits(in_place=1), aside=True)
    inspector.request_head(RequestHead("POST", CHAT, ()), NOW)
    inspector.request_body(b'{"model":"gpt-4o","stream":true,"messages":[]}', NOW)
    [given] = inspector.request_end(NOW)
    assert isinstance(given, Aside)
    inspector.response_head(ANSWER, NOW)
    reads = _chat(random.Random(1), [f" word{n}" for n in range(60)])
    for n, data in enumerate(reads):
        inspector.response_body(data, NOW + n / 100)
        if n == 40:
            report = Report(perform(given.task, DEFAULT_LIMITS))
            assert inspector.inspected(report, NOW + n / 100)
    inspector.end(Ended.COMPLETE, NOW + 1)
    return inspector.exchange


def test_a_report_from_elsewhere_comes_behind_what_was_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = with_report()
    monkeypatch.setattr(Run, "take", lambda *_: False)
    assert seen == with_report()
