"""The two sides of a bridge: what is a change, what is none, and what is not compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.limits import Limits
from teeline.validators.model import Exchange, Side
from teeline.validators.nnrp import bridge as module
from teeline.validators.nnrp.bridge import Bridge, Front, HttpEnd
from teeline.validators.rules import register
from tests.validators.exchanges import NOW
from tests.validators.nnrp.connections import inspect, rules

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def chunk(text: str | None, index: int = 0, **members: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [{"index": index, "delta": delta}], **members}


def text(delta: str, index: int = 0, **members: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "index": index, "delta": delta, **members}


def tool(kind: str, call: str, origin: Any) -> dict[str, Any]:
    return {"type": f"response.tool_call.{kind}", "call_id": call, "openai_chunk": origin}


class Sides:
    """One request over a bridge, told step by step; ``rules`` are what was found."""

    def __init__(self, front: Front = Front.HTTP, **limits: int) -> None:
        self.exchange = Exchange()
        self.bridge = Bridge(self.exchange, front, Limits(**limits))
        self.bridge.http_request("POST", "/v1/chat/completions", encoded(ASKED))
        self.submit("chat.completions.create")
        self.bridge.http_answer(200)

    def submit(self, operation: str, body: Any = None) -> None:
        self.bridge.submitted(encoded({"operation": operation, "body": body or ASKED}))

    def nnrp(self, *events: dict[str, Any], document: bytes | None = b"") -> None:
        for event in events:
            self.bridge.event(encoded(event))
        self.bridge.ended(document, NOW)

    def http(self, *events: dict[str, Any], end: HttpEnd = HttpEnd.WHOLE) -> None:
        for event in events:
            self.bridge.http_event(encoded(event))
        self.bridge.http_event(b"[DONE]")
        self.bridge.http_ended(end, NOW)

    def rules(self, at: float = NOW) -> list[str]:
        self.bridge.close(at)
        return [violation.rule.id for violation in self.exchange.violations]


def test_synthesised_chunks_are_no_change_where_the_text_is_the_same() -> None:
    sides = Sides()
    sides.nnrp(text("He"), text("llo", openai_chunk=None), text("x", 1))
    sides.http(chunk(""), chunk("Hel"), chunk("x", 1), chunk("lo"), chunk(None), {"choices": []})
    assert sides.rules() == []


def test_a_choice_that_only_one_side_has_is_a_change() -> None:
    sides = Sides()
    sides.nnrp(text("He"), text("x", 1))
    sides.http(chunk("He"))
    assert sides.rules() == ["nnrp.bridge-text-changed"]


def test_a_text_is_compared_by_its_characters_however_it_was_cut() -> None:
    sides = Sides()
    sides.nnrp(text("\ud83d"), text("\ude00é"))
    sides.http(chunk("😀"), chunk("é"))
    assert sides.rules() == []


def test_a_chunk_that_made_several_events_is_replayed_once() -> None:
    origin = chunk("a")
    events = [
        text("a", openai_chunk=origin),
        tool("started", "1", origin),
        tool("delta", "1", origin),
    ]
    once, twice = Sides(), Sides()
    for sides, times in ((once, 1), (twice, 2)):
        sides.nnrp(*events)
        sides.http(*[origin] * times)
    assert once.rules() == []
    assert twice.rules() == ["nnrp.bridge-chunk-repeated"]


def test_equal_chunks_that_came_one_after_the_other_are_as_many() -> None:
    """A model that says the same token twice: the server's chunks differ in nothing."""
    origin = chunk("a")
    sides = Sides()
    sides.nnrp(*[text("a", openai_chunk=origin)] * 3)
    sides.http(*[origin] * 3)
    assert sides.rules() == []


def test_a_chunk_made_by_the_bridge_may_equal_a_replayed_one() -> None:
    origin = chunk("a")
    sides = Sides()
    sides.nnrp(text("a", openai_chunk=origin), text("a"))
    sides.http(origin, origin)
    assert sides.rules() == []


def test_an_adapter_must_not_make_chunks_up_either() -> None:
    sides = Sides(Front.NNRP)
    sides.nnrp(text("a", openai_chunk=chunk("a", id="other")))
    sides.http(chunk("a"))
    assert sides.rules() == ["nnrp.bridge-chunk-changed"]


@pytest.mark.parametrize(
    "strange",
    [
        chunk("a", usage={"prompt_tokens": 1}),
        chunk("a", id="other"),
        chunk("a", model="other"),
        chunk("a", object="other"),
        chunk("b"),
        {"choices": []},
    ],
)
def test_a_chunk_that_the_stream_can_t_hold_is_made_anew(strange: dict[str, Any]) -> None:
    """Usage that nobody asked for, another stream's chunk, one that says something else."""
    sides = Sides()
    sides.nnrp(text("a", openai_chunk=chunk("a")), text("a", openai_chunk=strange))
    sides.http(chunk("a"), chunk("a", made=True))
    assert sides.rules() == []


def test_a_stream_that_began_with_a_made_chunk_replays_none() -> None:
    sides = Sides()
    sides.nnrp(text("a"), text("b", openai_chunk=chunk("b", id="theirs")))
    sides.http(chunk("a", id="ours"), chunk("b", id="ours"))
    assert sides.rules() == []


def test_what_has_nothing_to_replay_is_not_missed() -> None:
    sides = Sides()
    sides.nnrp(text("", openai_chunk=chunk("")), tool("completed", "1", chunk("x")))
    sides.http(chunk(None))
    assert sides.rules() == []


def test_chunks_of_responses_are_made_throughout() -> None:
    event = {"type": "response.output_text.delta", "delta": "a"}
    sides = Sides()
    sides.bridge.http_request("POST", "/v1/responses", encoded(ASKED))
    sides.submit("responses.create")
    sides.nnrp(text("a", openai_chunk={**event, "sequence_number": 9}))
    sides.http({**event, "sequence_number": 4})
    assert sides.rules() == []


@pytest.mark.parametrize(
    ("said", "expected"), [("Hello", []), ("Hi", ["nnrp.bridge-text-changed"])]
)
def test_a_text_that_no_event_told_is_the_final_body_s(said: str, expected: list[str]) -> None:
    body = {"choices": [{"index": 1, "message": {"role": "assistant", "content": "Hello"}}]}
    completed = {"type": "response.completed", "body": body}
    for events, document in (((), encoded(completed)), ((completed,), b"")):
        sides = Sides()
        sides.nnrp(*events, document=document)
        sides.http(chunk(said, 1))
        assert sides.rules() == expected


def test_deltas_of_a_chat_are_held_against_themselves_and_not_the_final_body() -> None:
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}}]}
    sides = Sides()
    sides.nnrp(text("Hel"), document=encoded({"type": "response.completed", "body": body}))
    sides.http(chunk("Hello"))
    assert sides.rules() == ["nnrp.bridge-text-changed"]


@pytest.mark.parametrize(("rest", "expected"), [("b", []), ("c", ["nnrp.bridge-text-changed"])])
def test_items_of_a_response_that_no_event_told_are_the_final_body_s(
    rest: str, expected: list[str]
) -> None:
    event = {"type": "response.output_text.delta"}
    output = [{"type": "message", "content": [{"text": said}]} for said in ("a", "b")]
    completed = encoded({"type": "response.completed", "body": {"output": output}})
    sides = Sides()
    sides.bridge.http_request("POST", "/v1/responses", encoded(ASKED))
    sides.submit("responses.create")
    sides.nnrp(text("a"), document=completed)
    sides.http({**event, "delta": "a"}, {**event, "delta": rest})
    assert sides.rules() == expected


@pytest.mark.parametrize("index", [None, -1, "x"])
def test_a_text_of_no_choice_is_the_first_one_s(index: Any) -> None:
    sides = Sides()
    sides.nnrp({**text("a"), "index": index})
    sides.http(chunk("a"))
    assert sides.rules() == []


def test_what_is_missing_of_an_answer_is_said_and_only_the_requests_are_compared() -> None:
    error = encoded({"type": "response.error", "error": {"message": "no"}})
    sides = Sides()
    sides.submit("responses.create")
    sides.bridge.missing("memory-limit")
    sides.nnrp(text("Hello"), document=error)
    sides.http(chunk("H"))
    assert sides.rules() == ["nnrp.bridge-operation-wrong"]
    assert sides.exchange.inspection == "partial (memory-limit)"


def test_what_the_client_did_not_wait_for_is_not_compared() -> None:
    for end in (HttpEnd.LEFT, HttpEnd.BROKEN):
        sides = Sides()
        sides.nnrp(text("Hello", openai_chunk=chunk("Hello")))
        sides.http(chunk("He"), end=end)
        assert sides.rules() == []


def test_an_error_may_become_an_error_in_any_form() -> None:
    error = encoded({"type": "response.error", "error": {"message": "no"}})
    for events in (
        [{"error": {"message": "no"}}],
        [{"type": "error"}],
        [{"type": "response.failed"}],
    ):
        sides = Sides()
        sides.nnrp(text("He"), document=error)
        sides.http(chunk("He"), *events)
        assert sides.rules() == []
    broken = Sides()
    broken.nnrp(document=error)
    broken.http(end=HttpEnd.BROKEN)
    assert broken.rules() == []
    adapter = Sides(Front.NNRP)
    adapter.nnrp(document=error)
    adapter.http(chunk("He"))
    assert adapter.rules() == []


def test_numbers_are_compared_by_value_and_to_the_last_digit() -> None:
    for seed, same in (("7.0", True), ("1180591620717411303425", False)):
        sides = Sides()
        body = encoded({**ASKED, "seed": 7 if same else 2**70}).replace(b"7.0", b"7")
        asked = encoded(ASKED)[:-1] + b', "seed": ' + seed.encode() + b"}"
        sides.bridge.http_request("POST", "/v1/chat/completions", asked)
        sides.submit("chat.completions.create", json.loads(body))
        assert sides.rules() == ([] if same else ["nnrp.bridge-body-changed"])


@pytest.mark.parametrize(
    ("method", "target", "operation"),
    [
        ("POST", "/v1/responses?x=1", "responses.create"),
        ("POST", "/openai/v1/embeddings", "embeddings.create"),
        ("GET", "/v1/models", "models.list"),
    ],
)
def test_each_operation_has_its_path(method: str, target: str, operation: str) -> None:
    for named in (operation, "chat.completions.create"):
        sides = Sides()
        sides.bridge.http_request(method, target, b"" if method == "GET" else encoded(ASKED))
        body: Any = {} if method == "GET" else ASKED
        sides.bridge.submitted(encoded({"operation": named, "body": body}))
        assert sides.rules() == ([] if named == operation else ["nnrp.bridge-operation-wrong"])


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/v1/models/m"), ("POST", "/v1/responses/r/cancel"), ("POST", "/v1/completions")],
)
def test_paths_without_an_operation_have_none(method: str, target: str) -> None:
    sides = Sides()
    sides.bridge.http_request(method, target, encoded(ASKED))
    assert sides.rules() == ["nnrp.bridge-operation-wrong"]


def test_the_texts_of_responses_are_compared_as_one() -> None:
    event = {"type": "response.output_text.delta", "output_index": 1, "content_index": 0}
    for said, expected in (("lo", []), ("l", ["nnrp.bridge-text-changed"])):
        sides = Sides()
        sides.bridge.http_request("POST", "/v1/responses", encoded(ASKED))
        sides.submit("responses.create")
        sides.nnrp(text("Hel", 0), text("lo", 1))
        sides.http({**event, "delta": "Hel"}, {**event, "delta": said})
        assert sides.rules() == expected


def test_a_client_s_own_nnrp_member_is_passed_on_and_not_forwarded_from_the_envelope() -> None:
    sides = Sides(Front.NNRP)
    body = {**ASKED, "nnrp": {}}
    sides.bridge.http_request("POST", "/v1/chat/completions", encoded(body))
    sides.submit("chat.completions.create", body)
    assert sides.rules() == []


def test_an_operation_that_ended_soon_after_the_client_left_needed_no_cancel() -> None:
    for later, expected in ((0.5, []), (2.0, ["nnrp.bridge-disconnect-without-cancel"])):
        sides = Sides()
        sides.bridge.http_ended(HttpEnd.LEFT, NOW)
        sides.bridge.ended(b"", NOW + later)
        assert sides.rules(NOW + 60) == expected
    running = Sides()
    running.bridge.http_ended(HttpEnd.LEFT, NOW)
    assert running.rules(NOW + 60) == ["nnrp.bridge-disconnect-without-cancel"]


def test_a_bridge_s_faults_count_against_the_bridge_and_a_cancel_that_lacks_too() -> None:
    for rule in (r for r in register().values() if r.id.startswith("nnrp.bridge-")):
        found = [v for e in inspect(rule.bad) for v in e.violations if v.rule is rule]
        client = rule.id == "nnrp.bridge-disconnect-without-cancel"
        assert [v.side for v in found] == [Side.REQUEST if client else Side.RESPONSE]


def test_what_one_side_did_not_send_as_json_is_said_and_not_compared() -> None:
    for step in ("event", "http_event", "submitted"):
        sides = Sides()
        getattr(sides.bridge, step)(b"\xff{")
        sides.nnrp(text("Hello"))
        sides.http(chunk("Hi"))
        assert sides.rules() == []
        assert sides.exchange.inspection == "partial (unreadable)"


def test_what_is_held_is_bounded_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHUNKS", 4)
    sides = Sides(choices=2)
    sides.nnrp(*(text("a", n, openai_chunk=chunk(str(n))) for n in range(9)))
    sides.http(*(chunk(str(n), n) for n in range(9)))
    assert sides.rules() == []
    assert sides.exchange.inspection == "partial (choice-limit)"


ODD: tuple[Any, ...] = (None, 7, "x", [], {}, True, [{"a": []}], -1, 1e308)


def test_any_json_in_any_place_is_read_without_an_error() -> None:
    for value in ODD:
        for member in ("type", "index", "delta", "openai_chunk", "call_id"):
            sides = Sides()
            sides.nnrp({**text("a"), member: value}, {**tool("delta", "1", {}), member: value})
            sides.http({**chunk("a"), "choices": value}, chunk(value), {"choices": [value]})
            sides.rules()
        for step in ("event", "http_event", "http_body", "submitted"):
            sides = Sides()
            getattr(sides.bridge, step)(encoded(value))
            sides.nnrp(document=encoded(value))
            sides.http()
            sides.rules()
        sides = Sides()
        sides.bridge.http_request("POST", "/v1/chat/completions", encoded(value))
        sides.bridge.ended(encoded({"type": value, "body": value}), NOW)
        sides.rules()


def test_the_bases_of_the_examples_are_clean() -> None:
    for base in ("bridge", "bridge-plain", "bridge-error", "bridge-left", "adapter"):
        assert rules({"on": f"nnrp-{base}"}) == set()
