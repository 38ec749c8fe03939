"""A plain exchange gets what the full inspector says of it: the same outputs of each call, the same facts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any, Protocol

import pytest

from teeline.validators.events import Found, Output, RequestHead, ResponseHead
from teeline.validators.exchangefile import parse, replay
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange, Headers
from teeline.validators.plain import PlainInspector
from tests.validators.answers import ASKED, completion, dumps
from tests.validators.exchanges import NOW, cases, examples, findings
from tests.validators.schemas import answer_schema_checks
from tests.validators.talk import JSON, PATHS, Talk

ASKING: Headers = (
    ("Host", "h"),
    ("Content-Type", "application/json"),
    ("Authorization", "Bearer k"),
)
CLEAN: Headers = (
    ("x-request-id", "req_1"),
    ("openai-processing-ms", "5"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-reset-requests", "6ms"),
    ("Content-Type", "application/json"),
)
ODD_ASKING: tuple[Headers, ...] = (
    ASKING[:2],
    ASKING[1:2],
    (),
    (*ASKING, ("content-encoding", "gzip")),
    (*ASKING, ("idempotency-key", "k")),
)
ODD_ANSWERS: tuple[Headers, ...] = (
    JSON,
    (),
    CLEAN[:5],
    (*CLEAN[:5], ("content-type", "text/event-stream")),
    (*CLEAN[:5], ("content-type", "application/json; charset=latin-1")),
    (*CLEAN, ("x-ratelimit-limit-tokens", "many")),
    (*CLEAN, ("content-encoding", "identity")),
    (*CLEAN, ("retry-after", "soon")),
)
LIMITS = (Limits(), Limits(in_place=200), Limits(body=150), Limits(large_request=80))

Step = tuple[str, tuple[Any, ...]]


class Feeds(Protocol):
    exchange: Exchange

    @property
    def acting(self) -> Any: ...


class Course:
    """One exchange as the calls that tell of it, by a seed."""

    def __init__(self, chance: random.Random, talk: Talk) -> None:
        self._chance = chance
        self._path, self._request, _, self._answer = talk.exchange()
        self._odd = chance.random() < 0.35
        self._at = NOW

    def steps(self) -> Iterator[Step]:
        chance, odd = self._chance, self._odd and self._chance.random() < 0.6
        method = chance.choice(("POST", "GET", "HEAD")) if odd else "POST"
        path = chance.choice((self._path, "/v1/models", "/v1/responses")) if odd else self._path
        asking = chance.choice(ODD_ASKING) if odd else ASKING
        yield "request_head", (RequestHead(method, path, asking), self._now())
        for piece in self._pieces(self._request, 0.1):
            yield "request_body", (piece, self._now())
        if not odd or chance.random() < 0.9:
            yield "request_end", (self._now(),)
        status = chance.choice((200, 200, 201, 302, 404, 500)) if odd else 200
        headers = chance.choice(ODD_ANSWERS) if self._odd and chance.random() < 0.5 else CLEAN
        if not odd or chance.random() < 0.9:
            slow = 40.0 if odd and chance.random() < 0.2 else 0.0
            yield "response_head", (ResponseHead(status, headers), self._now(slow))
            for piece in self._pieces(self._answer, 0.3):
                yield "response_body", (piece, self._now())
        ended = chance.choice(list(Ended)) if self._odd else Ended.COMPLETE
        yield "end", (ended, self._now())

    def _now(self, more: float = 0.0) -> float:
        self._at += self._chance.choice((0.0, 0.01, 0.3)) + more
        return self._at

    def _pieces(self, body: bytes, often: float) -> list[bytes]:
        if self._chance.random() >= often or len(body) < 2:
            return [body] if body else []
        count = self._chance.choice((1, 1, 2, 12))
        cuts = sorted(self._chance.sample(range(1, len(body)), min(count, len(body) - 1)))
        return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


class Noted:
    """Takes the calls of a replay down."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __getattr__(self, name: str) -> Any:
        def note(*what: Any) -> Sequence[Output]:
            self.steps.append((name, what))
            return ()

        return note


def told(feeds: Feeds, steps: Sequence[Step]) -> list[list[Any]]:
    """What each call gave, schema checks done at the end."""
    said: list[list[Any]] = []
    outputs: list[Output] = []
    for name, what in steps:
        given = getattr(feeds, name)(*what)
        outputs += given
        said.append([_shown(output) for output in given])
    acting = feeds.acting
    if isinstance(acting, Inspector):
        said.append([_shown(each) for each in answer_schema_checks(acting, outputs, NOW)])
    return said


def _shown(output: Output) -> Any:
    return findings_of(output) if isinstance(output, Found) else type(output)


def findings_of(output: Found) -> Any:
    found = output.violation
    return found.rule.id, found.place, found.evidence, found.at


def facts(exchange: Exchange) -> dict[str, Any]:
    names = [each.name for each in fields(Exchange) if each.name != "violations"]
    return {**{name: getattr(exchange, name) for name in names}, "found": findings(exchange)}


def compare(steps: Sequence[Step], plain: PlainInspector, full: Inspector) -> None:
    ours, theirs = told(plain, steps), told(full, steps)
    assert ours[: len(steps)] == theirs[: len(steps)], steps
    assert [*chain(*ours[len(steps) :])] == [*chain(*theirs[len(steps) :])], steps
    assert facts(plain.exchange) == facts(full.exchange), steps


@pytest.mark.parametrize("aside", [False, True])
def test_it_says_what_the_full_inspector_says_when_that_says_it(aside: bool) -> None:
    plain_to_the_end = 0
    for seed in range(150):
        chance, talk = random.Random(seed), Talk(seed)
        ours, theirs = History(), History()
        limits = chance.choice(LIMITS) if seed % 4 == 0 else LIMITS[0]
        for histories in (ours, theirs) if seed % 5 == 0 else ():
            histories.list_models(["gpt-4o-mini", "x"], hash((ASKING[2][1],)))
        for _ in range(25):
            steps = list(Course(chance, talk).steps())
            plain = PlainInspector(Exchange(), limits, ours, aside=aside)
            compare(steps, plain, Inspector(Exchange(), limits, theirs, aside=aside))
            plain_to_the_end += plain.acting is plain
    assert plain_to_the_end > 400


def test_every_case_and_example_is_told_as_the_full_inspector_tells_it() -> None:
    ours, theirs = History(), History()
    for document in (*cases().values(), *(document for _, document in examples())):
        noted = Noted()
        list(replay(noted, parse(document), NOW))
        steps = noted.steps
        compare(
            steps,
            PlainInspector(Exchange(), history=ours),
            Inspector(Exchange(), history=theirs),
        )


def usual(number: int, **asked: Any) -> list[Step]:
    answer = dumps(completion({"content": f"word {number}"}, id=f"chatcmpl-{number}x"))
    return [
        ("request_head", (RequestHead("POST", PATHS[0], ASKING), NOW)),
        ("request_body", (dumps({**ASKED, **asked}), NOW)),
        ("request_end", (NOW,)),
        ("response_head", (ResponseHead(200, CLEAN), NOW)),
        ("response_body", (answer, NOW)),
        ("end", (Ended.COMPLETE, NOW)),
    ]


def test_the_second_exchange_of_a_kind_is_plain_to_its_end() -> None:
    history = History()
    for number in range(3):
        plain = PlainInspector(Exchange(), history=history)
        told(plain, usual(number))
        assert (plain.acting is plain) == (number > 0)


@pytest.mark.parametrize(
    "asked", [{"stream": True}, {"tools": []}, {"store": True}, {"n": 2}, {"stop": "x"}]
)
def test_a_request_that_asks_for_more_is_the_full_inspectors_once_it_is_read(
    asked: dict[str, Any],
) -> None:
    history = History()
    told(PlainInspector(Exchange(), history=history), usual(0))
    plain = PlainInspector(Exchange(), history=history)
    for name, what in usual(1, **asked)[:3]:
        assert plain.acting is plain
        getattr(plain, name)(*what)
    assert isinstance(plain.acting, Inspector)
