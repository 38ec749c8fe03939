"""What is inspected elsewhere gives the same findings as in place, whatever it is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from teeline.validators.aside import MAX_REPORT, filled, outline
from teeline.validators.checks.request import facts_of
from teeline.validators.events import Aside, Closed, Output, Report, RequestHead, ResponseHead
from teeline.validators.exchangefile import parse, replay
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.operation import Operation
from teeline.validators.replay import TOO_LARGE, perform
from teeline.validators.wire.content import FREE, ContentDecoder
from tests.validators.exchanges import (
    NOW,
    Finding,
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

    def __init__(self, limits: Limits = ALL_ASIDE, history: History | None = None) -> None:
        self.inspector = Inspector(Exchange(id="test"), limits, history, aside=True)
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
    for fact in (
        *("model", "stream", "settings", "events", "usage", "finish"),
        *("response_id", "service_tier", "inspection"),
    ):
        assert getattr(there, fact) == getattr(here, fact), fact
    assert there.marks == here.marks


def opened(limits: Limits = ALL_ASIDE, request: bytes = STREAMED) -> tuple[Inspector, Aside]:
    """An inspector whose request is being read elsewhere, and that task."""
    inspector = Inspector(Exchange(id="test"), limits, aside=True)
    inspector.request_head(HEAD, NOW)
    inspector.request_body(request, NOW)
    [given] = inspector.request_end(NOW)
    assert isinstance(given, Aside)
    return inspector, given


def test_a_stream_is_held_while_its_request_is_read_and_then_checked_against_it() -> None:
    limits = Limits(in_place=len(EVENT))
    request = STREAMED + b" " * len(EVENT)
    inspector, given = opened(limits, request)
    inspector.response_head(SSE, NOW)
    inspector.response_body(EVENT, NOW)
    assert inspector.exchange.events == 0
    inspector.inspected(Report(perform(given.task, limits)), NOW)
    assert (inspector.exchange.events, inspector.exchange.stream) == (1, True)
    inspector.end(Ended.COMPLETE, NOW)
    assert inspector.exchange.inspection == "full"


def test_a_stream_that_grows_too_long_meanwhile_goes_on_without_its_request() -> None:
    inspector, given = opened()
    inspector.response_head(SSE, NOW)
    inspector.response_body(EVENT, NOW)
    inspector.response_body(EVENT, NOW)
    assert inspector.exchange.events == 2
    inspector.inspected(Report(perform(given.task, DEFAULT_LIMITS)), NOW)
    assert not inspector.context.request.known
    inspector.end(Ended.COMPLETE, NOW)
    assert inspector.exchange.inspection == "partial (inspection-busy)"


@pytest.mark.parametrize("failed", ["busy", "timeout", "crashed"])
def test_what_nobody_inspected_is_said_and_the_exchange_closes(failed: str) -> None:
    """Rules that need no body stand: the request has no key."""
    inspector, _ = opened()
    assert inspector.end(Ended.COMPLETE, NOW) == ()
    assert inspector.pending
    outputs = inspector.inspected(Report(failed=failed), NOW)
    assert isinstance(outputs[-1], Closed)
    assert inspector.exchange.inspection == f"partial (inspection-{failed})"
    assert "request.auth-missing" in {v.rule.id for v in inspector.exchange.violations}


def test_an_answer_that_nobody_inspected_closes_all_the_same() -> None:
    inspector = Inspector(Exchange(id="test"), ALL_ASIDE, aside=True)
    inspector.request_head(HEAD, NOW)
    inspector.response_head(JSON, NOW)
    inspector.response_body(b"{}", NOW)
    [*_, given] = inspector.end(Ended.COMPLETE, NOW)
    assert isinstance(given, Aside) and inspector.pending
    [closed] = inspector.inspected(Report(failed="timeout"), NOW)
    assert isinstance(closed, Closed)
    assert inspector.exchange.inspection == "partial (inspection-timeout)"


def test_giving_up_on_a_report_closes_and_a_late_one_changes_nothing() -> None:
    inspector, given = opened()
    inspector.end(Ended.COMPLETE, NOW)
    assert isinstance(inspector.expire(NOW)[0], Closed)
    assert inspector.inspected(Report(perform(given.task, DEFAULT_LIMITS)), NOW) == ()
    assert inspector.exchange.inspection == "partial (inspection-timeout)"


def test_ids_of_large_answers_are_compared_with_earlier_ones() -> None:
    history = History()
    answer = json.dumps({"id": "chatcmpl-abcdefgh", "object": "chat.completion"}).encode()
    for n in range(2):
        exchange = feed(Doing(ALL_ASIDE, history), ASKED, JSON, [answer])
        found = {v.rule.id for v in exchange.violations}
        assert ("cross.duplicate-id" in found) is (n == 1)


def feed(doing: Doing, request: bytes, head: ResponseHead, pieces: Sequence[bytes]) -> Exchange:
    doing.request_head(HEAD, NOW)
    doing.request_body(request, NOW)
    doing.request_end(NOW)
    doing.response_head(head, NOW)
    for piece in pieces:
        doing.response_body(piece, NOW)
    doing.end(Ended.COMPLETE, NOW)
    return doing.exchange


# -- coded bodies --------------------------------------------------------------------------------------

LARGE = json.dumps({"id": "a", "choices": [{"text": "x" * 100} for _ in range(4000)]}).encode()
CODED = ResponseHead(200, (("Content-Type", "application/json"), ("Content-Encoding", "gzip")))


def test_a_piece_that_expands_hugely_is_decoded_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place no more comes out than a little beyond the limit, however large the document is."""
    decoded: list[int] = []
    feed_ = ContentDecoder.feed

    def spy(decoder: ContentDecoder, data: bytes) -> bytes:
        out = feed_(decoder, data)
        decoded.append(len(out))
        return out

    body = gzip.compress(b'{"a": "' + b"x" * 8_000_000 + b'"}')
    inspector = Inspector(Exchange(), Limits(in_place=1000), aside=True)
    inspector.request_head(HEAD, NOW)
    inspector.response_head(CODED, NOW)
    monkeypatch.setattr(ContentDecoder, "feed", spy)
    inspector.response_body(body, NOW)
    outputs = inspector.end(Ended.COMPLETE, NOW)
    assert isinstance(outputs[-1], Aside)
    assert sum(decoded) <= FREE + 1000


@pytest.mark.parametrize("cut", [1, 7, 1000, 10**9])
def test_a_coded_document_gives_the_same_elsewhere(cut: int) -> None:
    body = gzip.compress(LARGE)
    pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
    there = feed(Doing(Limits(in_place=1000)), ASKED, CODED, pieces)
    here = feed(Doing(DEFAULT_LIMITS), ASKED, CODED, pieces)
    assert told(there) == told(here)
    assert here.violations


def test_a_coded_request_gives_the_same_elsewhere() -> None:
    head = RequestHead("POST", "/v1/chat/completions", (("Content-Encoding", "gzip"),))
    seen = []
    for limits in (Limits(in_place=20), DEFAULT_LIMITS):
        doing = Doing(limits)
        doing.request_head(head, NOW)
        doing.request_body(gzip.compress(STREAMED), NOW)
        doing.request_end(NOW)
        doing.end(Ended.CLIENT_CLOSED, NOW)
        seen.append((told(doing.exchange), doing.exchange.model, doing.exchange.inspection))
        assert doing.kinds == (["request"] if limits.in_place == 20 else [])
    assert seen[0] == seen[1]


def test_a_coded_stream_goes_nowhere() -> None:
    head = ResponseHead(200, (("Content-Encoding", "gzip"),))
    doing = Doing(Limits(in_place=1000))
    exchange = feed(doing, STREAMED, head, [gzip.compress(EVENT * 100)])
    assert (doing.kinds, exchange.events) == ([], 100)


# -- outlines and reports ------------------------------------------------------------------------------


def test_an_outline_keeps_lengths_where_texts_were_and_everything_else() -> None:
    document = {
        "model": "m",
        "instructions": "i" * 1000,
        "tools": [{"function": {"name": "f", "description": "d" * 1000}}],
        "messages": [
            {"role": "user", "content": "x" * 1000},
            {"role": "user", "content": [{"type": "text", "text": "\ufffd" + "y" * 999}]},
            {"role": "tool", "tools": [{"pattern": "p" * 1000}], "content": "short"},
        ],
        "input": "z" * 500,
    }
    written = json.dumps(outline(document))
    assert not any(letter * 300 in written for letter in "xyz")
    read = filled(json.loads(written))
    assert {k: v for k, v in read.items() if k not in ("messages", "input")} == {
        k: v for k, v in document.items() if k not in ("messages", "input")
    }
    first, second, third = read["messages"]
    assert (len(first["content"]), len(read["input"])) == (1000, 500)
    text = second["content"][0]["text"]
    assert len(text) == 1000 and "\ufffd" in text
    assert third == document["messages"][2]


def test_an_outline_of_many_messages_says_how_much_text_they_are() -> None:
    """Calls, pictures and tools stay; what is compared of plain texts is their size alone."""
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}
    brings = {"type": "message", "content": "x", "tools": [{"name": "f"}]}
    plain = [{"role": "user", "content": "abc"}, {"role": "user", "content": "\ufffd"}]
    read = filled(json.loads(json.dumps(outline({"messages": [picture, brings, *plain * 500]}))))
    [first, second, rest] = read["messages"]
    assert (first, second) == (picture, brings)
    assert len(rest["content"]) == 2000 and "\ufffd" in rest["content"]


@pytest.mark.parametrize("inputs", [["a"] * 3000, [[1, 2, 3]] * 3000, [5] * 3000, [""] * 3])
def test_an_outline_has_as_many_inputs_as_the_request(inputs: list[Any]) -> None:
    asked, read = (
        facts_of(document, Operation.EMBEDDINGS)
        for document in ({"input": inputs}, filled(outline({"input": inputs})))
    )
    assert read.inputs("input") == asked.inputs("input")


@pytest.mark.parametrize("document", [None, [], "x", 1])
def test_what_is_no_object_has_no_outline(document: Any) -> None:
    assert filled(outline(document)) is None


def test_a_report_beyond_its_bound_is_not_given() -> None:
    request = json.dumps({"model": "m", "tools": ["x" * MAX_REPORT]}).encode()
    _, given = opened(request=request)
    assert perform(given.task, DEFAULT_LIMITS) == TOO_LARGE


def test_a_number_that_python_does_not_write_leaves_the_request_unknown() -> None:
    request = b'{"model": "m", "n": ' + b"1" * 5000 + b"}"
    exchange = feed(Doing(Limits(in_place=10_000)), request, JSON, [b" " * 20_000 + b"{}"])
    assert exchange.ended is Ended.COMPLETE
