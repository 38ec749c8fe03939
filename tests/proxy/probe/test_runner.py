"""A check from end to end: what each kind of relay scores, and what becomes of refusals and limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from teeline.proxy.demo.relay import Relay
from teeline.proxy.demo.scenarios import EVENT_STREAM, Answer
from teeline.proxy.probe.client import OpenAIClient, RawResponse
from teeline.proxy.probe.judge import Judge
from teeline.proxy.probe.outcome import CheckOutcome, passes
from teeline.proxy.probe.plan import Settings
from teeline.proxy.probe.report.view import streams
from teeline.proxy.probe.runner import CantCheckError, Runner, asked_to_wait
from teeline.proxy.probe.target import Target, with_version
from teeline.proxy.schemapool import SchemaPool
from teeline.validators.detectors import DETECTORS
from teeline.validators.detectors.model import ProbeSet, ProtocolFamily
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Severity, Verdict
from teeline.validators.scoring import Band
from tests.proxy.probe import relays
from tests.proxy.probe.relays import (
    KEY,
    MODEL,
    Exchange,
    Fault,
    changed,
    document,
    error,
    only,
    pieces,
    replaced,
    serving,
)


async def checked(url: str, settings: Settings, key: str = KEY) -> CheckOutcome:
    target = Target(with_version(url), key)
    async with (
        SchemaPool(timeout=5.0, patience=60.0) as pool,
        OpenAIClient.to(target, settings.timeout) as client,
    ):
        return await Runner(client, Judge(pool), settings).run()


def check(fault: Fault = Exchange.conforming, **settings: Any) -> CheckOutcome:
    with serving(fault) as mock:
        return asyncio.run(checked(mock.url, Settings(MODEL, **settings)))


def rules(outcome: CheckOutcome, least: Severity = Severity.WARN) -> set[str]:
    found = outcome.findings()
    return {f.violation.rule.id for f in found if f.violation.severity >= least}


# -- a right one -------------------------------------------------------------------------------------------


def test_the_demo_s_clean_face_is_excellent() -> None:
    """100 points, result pass, both protocols: what a right server gets."""

    async def run() -> CheckOutcome:
        relay = Relay()
        try:
            return await checked(await relay.start(), Settings(MODEL))
        finally:
            await relay.stop()

    outcome = asyncio.run(run())
    card = outcome.card()
    assert (card.total, card.band, card.result) == (100.0, Band.EXCELLENT, Verdict.PASS)
    assert rules(outcome) == set()
    assert outcome.families == {ProtocolFamily.RESPONSES, ProtocolFamily.CHAT_COMPLETIONS}
    assert [s.score for s in card.detectors if s.detector.weight] == [100] * 9
    assert passes(outcome, 80, Severity.WARN)


def test_the_extended_set_adds_no_points_and_hides_no_finding() -> None:
    """A server that takes any key and any model is told so, beside an unchanged total."""
    outcome = check(probe_set=ProbeSet.EXTENDED, embedding_model="e")
    card = outcome.card()
    assert card.total == 100.0
    assert card.result is Verdict.WARN
    assert rules(outcome) == {"probe.bad-key-accepted", "probe.bad-model-accepted"}
    assert {"embeddings-float", "embeddings-base64"} <= {r.probe.name for r in outcome.results}


# -- one fault each ----------------------------------------------------------------------------------------


class Single(NamedTuple):
    """A fault, the rule that names it, the detector that pays, what is left of it and of the total."""

    name: str
    rule: str
    detector: str
    score: int
    total: float
    fault: Fault


def _whole(exchange: Exchange) -> bool:
    return bool(exchange.asked) and not exchange.stream


def _chat(exchange: Exchange) -> bool:
    return exchange.chat and not exchange.stream


def _chat_stream(exchange: Exchange) -> bool:
    return exchange.chat and exchange.stream


def _responses(exchange: Exchange) -> bool:
    return exchange.responses and not exchange.stream


def _responses_stream(exchange: Exchange) -> bool:
    return exchange.responses and exchange.stream


def _pong(exchange: Exchange) -> bool:
    return exchange.chat and "pong" in json.dumps(exchange.asked)


def _tools(exchange: Exchange) -> bool:
    return exchange.chat and "tools" in exchange.asked


def _json(exchange: Exchange) -> bool:
    return exchange.chat and "response_format" in exchange.asked


def _set(*path: Any, value: Any) -> Callable[[Answer], Answer]:
    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        body[path[-1]] = value

    return lambda answer: changed(answer, change)


_CALL = ("choices", 0, "message", "tool_calls", 0, "function", "arguments")
_TEXT = ("choices", 0, "message", "content")

SINGLE = (
    Single(
        *("wrong object of the list", "models.object-wrong", "ModelsEndpoint", 85, 98.5),
        only(lambda e: e.path == "/v1/models", _set("object", value="models")),
    ),
    Single(
        *("no answer to a plain question", "probe.request-failed", "BasicRequest", 0, 90.0),
        only(_pong, lambda _: error(500, "upstream unavailable")),
    ),
    Single(
        *("wrong status enum", "responses.status-unknown", "ResponsesProtocol", 85, 97.0),
        only(_responses, _set("status", value="done")),
    ),
    Single(
        *("created_at as text", "responses.created-at-type", "ResponsesProtocol", 90, 98.0),
        only(_responses, _set("created_at", value="now")),
    ),
    Single(
        *("no terminal event", "respstream.terminal-missing", "ResponsesStreaming", 80, 97.0),
        only(
            _responses_stream, lambda a: pieces(a, lambda p: b"event: response.completed" not in p)
        ),
    ),
    Single(
        *("done text differs", "respstream.text-mismatch", "ResponsesStreaming", 75, 96.25),
        only(_responses_stream, lambda a: replaced(a, b'"delta":"All"', b'"delta":"Oll"')),
    ),
    Single(
        *("wrong finish_reason", "chat.finish-unknown", "ChatCompletionsProtocol", 80, 97.0),
        only(
            lambda e: _chat(e) and "tools" not in e.asked,
            _set("choices", 0, "finish_reason", value="done"),
        ),
    ),
    Single(
        *("wrong object", "chat.object-wrong", "ChatCompletionsProtocol", 85, 97.75),
        only(_chat, _set("object", value="completion")),
    ),
    Single(
        *("no choices", "chat.choices-empty", "ChatCompletionsProtocol", 70, 95.5),
        only(lambda e: _chat(e) and "sentence" in json.dumps(e.asked), _set("choices", value=[])),
    ),
    Single(
        *("no [DONE]", "chatstream.done-missing", "ChatCompletionsStreaming", 85, 98.5),
        only(_chat_stream, lambda a: pieces(a, lambda p: b"[DONE]" not in p)),
    ),
    Single(
        *("no finish chunk", "chatstream.finish-missing", "ChatCompletionsStreaming", 80, 98.0),
        only(_chat_stream, lambda a: pieces(a, lambda p: b'"finish_reason":"stop"' not in p)),
    ),
    Single(
        *("arguments as an object", "tools.args-type", "ToolCalling", 75, 97.5),
        only(_tools, _set(*_CALL, value={"location": "Boston"})),
    ),
    Single(
        *("broken arguments", "tools.args-invalid-json", "ToolCalling", 70, 97.0),
        only(_tools, _set(*_CALL, value='{"location":"Boston"')),
    ),
    Single(
        *("JSON in a fence", "structured.fenced", "StructuredOutput", 25, 96.25),
        only(
            _json,
            _set(
                *_TEXT,
                value='```json\n{"city":"Tokyo","country":"Japan","population_millions":14}\n```',
            ),
        ),
    ),
    Single(
        *("JSON of another schema", "structured.schema-violation", "StructuredOutput", 50, 97.5),
        only(_json, _set(*_TEXT, value='{"city":"Tokyo","country":"Japan"}')),
    ),
    Single(
        *("wrong sum", "usage.total-too-low", "UsageIntegrity", 75, 98.75),
        only(_chat, _set("usage", "total_tokens", value=1)),
    ),
)


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.name.replace(" ", "-"))
def test_a_single_fault_costs_exactly_what_the_table_says(case: Single) -> None:
    """One rule names it, one detector pays, and however high the total, the result is fail."""
    outcome = check(case.fault)
    card = outcome.card()
    assert rules(outcome, Severity.FAIL) == {case.rule}
    paid = {s.detector.name: s.score for s in card.detectors if s.score not in (None, 100)}
    assert paid == {case.detector: case.score}
    assert card.total == pytest.approx(case.total, abs=1e-9)
    assert card.result is Verdict.FAIL
    assert not passes(outcome, 80, Severity.FAIL)
    assert passes(outcome, 80, None)


def test_every_detector_has_a_fault_of_its_own() -> None:
    assert {case.detector for case in SINGLE} == {d.name for d in DETECTORS if d.weight}


# -- other shapes ------------------------------------------------------------------------------------------


def _anthropic(exchange: Exchange) -> Answer:
    if exchange.path == "/v1/models":
        entry = {"type": "model", "id": MODEL, "display_name": "C", "created_at": "2026-01-01"}
        return document({"data": [entry], "has_more": False, "first_id": MODEL, "last_id": MODEL})
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": "pong"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    if not exchange.stream:
        return document(message)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "pong"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return Answer(
        tuple(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events),
        EVENT_STREAM,
    )


def _plain(exchange: Exchange) -> Answer:
    return Answer((b"pong, all is well\n",), "text/plain")


def _lines(exchange: Exchange) -> Answer:
    """Chunks as lines of JSON on every endpoint, without the framing of events."""
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": MODEL,
        "choices": [{"index": 0, "delta": {"content": "pong"}, "finish_reason": None}],
    }
    return Answer((json.dumps(chunk).encode() + b"\n",) * 3, "application/x-ndjson")


def _html(exchange: Exchange) -> Answer:
    return Answer((b"<!doctype html><html><body>Sign in</body></html>",), "text/html")


@pytest.mark.parametrize("shape", [_anthropic, _plain, _lines, _html], ids=lambda f: f.__name__)
@pytest.mark.parametrize("protocol", ["auto", "responses", "chat-completions"])
def test_another_shape_on_every_endpoint_fails(shape: Fault, protocol: str) -> None:
    """Nothing of it is worth a point, but for members that happen to be right in a list of models."""
    outcome = check(shape, protocol=protocol)
    card = outcome.card()
    assert card.band is Band.FAILED
    assert card.result is Verdict.FAIL
    scores = {s.detector.name: s.score for s in card.detectors if s.score is not None}
    assert {name: s for name, s in scores.items() if s and name != "ModelsEndpoint"} == {}


# -- which protocols are there -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "refusal",
    [
        error(404, "Not Found"),
        error(405, "Method Not Allowed"),
        error(400, "The Responses API is not supported by this server."),
    ],
    ids=["404", "405", "not-supported"],
)
def test_auto_leaves_out_the_protocol_that_is_not_there(refusal: Answer) -> None:
    """Nobody is blamed for an API that is not offered; the report says which was checked."""
    outcome = check(lambda e: refusal if e.responses else e.conforming())
    card = outcome.card()
    assert (card.total, card.result) == (100.0, Verdict.PASS)
    assert outcome.unsupported == {ProtocolFamily.RESPONSES}
    assert card.of("ResponsesProtocol").score is None
    assert any("Responses" in note for note in outcome.notes)


def test_a_model_that_is_not_found_is_no_missing_endpoint() -> None:
    """404 for a model says that the endpoint is there: the fault must show."""
    refusal = error(404, "The model `clean` does not exist", "model_not_found")
    outcome = check(lambda e: refusal if e.responses else e.conforming())
    assert outcome.unsupported == frozenset()
    assert outcome.card().of("ResponsesProtocol").score == 0


def test_a_protocol_that_was_asked_for_by_name_is_not_left_out() -> None:
    outcome = check(
        lambda e: error(404, "Not Found") if e.responses else e.conforming(), protocol="responses"
    )
    card = outcome.card()
    assert card.band is Band.FAILED
    assert "probe.request-failed" in rules(outcome)


# -- tools -------------------------------------------------------------------------------------------------


def test_a_tool_that_is_called_only_when_named_is_good_enough() -> None:
    """Under ``auto`` a model may answer in words; the second request settles it."""

    def shy(exchange: Exchange) -> Answer:
        if exchange.asked.get("tool_choice") == "auto":
            return Exchange(exchange.path, {**exchange.asked, "tools": []}).conforming()
        return exchange.conforming()

    outcome = check(shy)
    assert outcome.card().total == 100.0
    assert {"chat-tools-named", "responses-tools-named"} <= {r.probe.name for r in outcome.results}


def test_a_tool_that_is_never_called_is_a_warning_about_capability() -> None:
    def mute(exchange: Exchange) -> Answer:
        asked = {k: v for k, v in exchange.asked.items() if not k.startswith("tool")}
        return Exchange(exchange.path, asked).conforming()

    outcome = check(mute, protocol="chat-completions")
    score = outcome.card().of("ToolCalling")
    assert (score.score, score.result) == (60, Verdict.WARN)


def test_refused_tools_are_a_warning_and_a_server_error_is_not() -> None:
    for status, expected in ((400, (60, Verdict.WARN)), (500, (0, Verdict.FAIL))):
        refusal = error(status, "no tools here")
        outcome = check(
            lambda e, r=refusal: r if "tools" in e.asked else e.conforming(),  # type: ignore[misc]
            protocol="chat-completions",
        )
        score = outcome.card().of("ToolCalling")
        assert (score.score, score.result) == expected


# -- limits, waits, refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_no_score_but_a_word_of_the_server(status: int) -> None:
    """A key that does not work says nothing about the protocol; the server's words do help."""
    refusal = error(
        status, f"Incorrect API key provided: {KEY}. Get one at example.", "invalid_api_key"
    )
    with pytest.raises(CantCheckError, match="Incorrect API key") as caught:
        check(lambda e: refusal)
    assert KEY not in str(caught.value)
    assert "sk-...1234" in str(caught.value)


def test_nobody_at_home_is_no_score() -> None:
    with pytest.raises(CantCheckError, match=r"127\.0\.0\.1:9"):
        asyncio.run(checked("http://127.0.0.1:9", Settings(MODEL)))


def test_429_is_waited_for_as_the_server_says() -> None:
    answers: list[str] = []

    def busy(exchange: Exchange) -> Answer:
        answers.append(exchange.path)
        return error(429, "slow down") if len(answers) in (1, 3) else exchange.conforming()

    with serving(busy, retry_after="0") as mock:
        outcome = asyncio.run(checked(mock.url, Settings(MODEL, probe_set=ProbeSet.SMOKE)))
    assert outcome.card().total == 100.0
    assert outcome.waits == 2
    assert outcome.requests == 9
    assert any("429" in note for note in outcome.notes)


@pytest.mark.parametrize(
    ("fields", "wait"),
    [
        ((("Retry-After", "3"),), 3.0),
        ((("retry-after-ms", "250"), ("retry-after", "3")), 0.25),
        ((("retry-after", "Mon, 30 Nov 2026 12:00:07 GMT"),), 7.0),
        (
            (
                ("retry-after", "Mon, 30 Nov 2026 12:00:07 GMT"),
                ("date", "Mon, 30 Nov 2026 12:00:02 GMT"),
            ),
            5.0,
        ),
        ((("retry-after", "Mon, 30 Nov 2020 12:00:07 GMT"),), 4.0),
        ((("retry-after", "soon"),), 4.0),
        ((), 4.0),
    ],
)
def test_a_wait_is_seconds_or_a_date_and_grows_where_none_is_named(
    fields: tuple[tuple[str, str], ...], wait: float
) -> None:
    noon = 1_796_040_000.0  # Mon, 30 Nov 2026 12:00:00 GMT
    head = ResponseHead(429, fields)
    response = RawResponse(RequestHead("GET", "/", ()), b"", head, noon, noon)
    assert asked_to_wait(response, 2) == wait


def test_429_to_the_end_is_not_held_against_the_server() -> None:
    """What was not answered is not judged, and the report says so."""

    def busy(exchange: Exchange) -> Answer:
        return error(429, "slow down") if _json(exchange) else exchange.conforming()

    with serving(busy, retry_after="0") as mock:
        settings = Settings(MODEL, protocol="chat-completions")
        outcome = asyncio.run(checked(mock.url, settings))
    assert outcome.card().total == 100.0
    assert outcome.card().of("StructuredOutput").score is None
    assert any("chat-structured" in note and "slow down" in note for note in outcome.notes)


def test_no_more_requests_are_sent_than_allowed() -> None:
    with serving() as mock:
        outcome = asyncio.run(checked(mock.url, Settings(MODEL, max_requests=4)))
        assert len(mock.seen) == 4
    assert outcome.requests == 4
    assert any("--max-requests" in note for note in outcome.notes)


def test_repeats_tell_how_often_a_fault_shows() -> None:
    """A fault in one of four streams: found, counted, and its share given with an interval."""
    streams: list[int] = []

    def sometimes(exchange: Exchange) -> Answer:
        answer = exchange.conforming()
        if not _chat_stream(exchange):
            return answer
        streams.append(1)
        return pieces(answer, lambda p: b"[DONE]" not in p) if len(streams) == 3 else answer

    settings = {"repeat": 4, "probe_set": ProbeSet.SMOKE, "protocol": "chat-completions"}
    outcome = check(sometimes, **settings)
    (share,) = outcome.shares()
    assert (share.rule.id, share.hits, share.calls) == ("chatstream.done-missing", 1, 4)
    low, high = share.interval
    assert 0 < low < 0.25 < high < 1
    assert outcome.card().of("ChatCompletionsStreaming").score == 85


def test_reports_say_how_each_stream_came_once() -> None:
    """Repeats of a probe are folded to the slowest."""
    outcome = check(repeat=3, probe_set=ProbeSet.SMOKE)
    seen = streams(outcome)
    assert [s.probe for s in seen] == ["responses-stream", "chat-stream"]
    for stream in seen:
        assert stream.events >= 4
        assert 0 < stream.first_ms <= stream.last_ms


def test_a_stream_that_is_cut_is_no_answer() -> None:
    def cut(answer: Answer) -> Answer:
        return Answer(answer.pieces[:3], answer.content_type, cut=True)

    outcome = check(only(_chat_stream, cut))
    assert outcome.card().of("ChatCompletionsStreaming").score == 0
    assert "http.truncated" in rules(outcome, Severity.FAIL)


def test_a_slow_server_is_not_waited_for_longer_than_the_timeout() -> None:
    """An answer that never comes is a finding, once another one has shown that the server is there."""

    async def run() -> CheckOutcome:
        relay = Relay(pace=5.0)
        try:
            settings = Settings(MODEL, timeout=0.5, probe_set=ProbeSet.SMOKE)
            return await checked(await relay.start(), settings)
        finally:
            await relay.stop()

    outcome = asyncio.run(run())
    assert "probe.no-answer" in rules(outcome)
    assert outcome.card().of("ChatCompletionsStreaming").score == 0


def test_the_relay_of_these_tests_is_seen_with_the_key() -> None:
    with serving() as mock:
        asyncio.run(checked(mock.url, Settings(MODEL, probe_set=ProbeSet.SMOKE)))
    assert {e.headers["Authorization"] for e in mock.seen} == {f"Bearer {KEY}"}
    assert mock.paths().count("/v1/models") == 1
    assert relays.MODELS["object"] == "list"
