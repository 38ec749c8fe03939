"""Responses on one WebSocket: which exchange gets what, and that cuts change nothing."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from teeline.validators.events import ResponseHead, SchemaCheck, SchemaResult
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Ended, Side, Unit
from teeline.validators.wsresponses import MAX_OPEN, extension_of, is_inspected
from tests.validators.respscript import message, numbered, script
from tests.validators.wsframes import ASKED, Socket, asked, at_once, frame, single_bytes, told

CLEAN = numbered(script(message("Hello there")))
ERROR = {
    "type": "error",
    "status": 429,
    "error": {"type": "tokens", "code": "rate_limit", "message": "Slow down", "param": None},
}


def laned(events: list[Any], lane: str) -> list[Any]:
    """The events on a lane, of a response of its own."""
    made = [{**event, "stream_id": lane} for event in events]
    for event in made:
        if "response" in event:
            event["response"] = {**event["response"], "id": f"resp_{lane}"}
    return made


def test_a_clean_response_is_an_exchange_without_a_finding() -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(*map(told, CLEAN))
    socket.end()
    assert (socket.opened, socket.closed, socket.found) == (["response 1"], ["response 1"], [])
    (exchange,) = socket.made
    assert (exchange.operation, exchange.stream, exchange.model) == (
        "responses",
        True,
        "gpt-4o-mini",
    )
    assert (exchange.events, exchange.ended, exchange.status) == (len(CLEAN), Ended.COMPLETE, 200)
    assert (exchange.response_id, exchange.finish) == ("resp_1", ["completed"])
    assert exchange.usage
    assert exchange.inspection == socket.connection.inspection == "full"
    assert socket.connection.operation == "connection"


@pytest.mark.parametrize("cut", [at_once, single_bytes], ids=["at once", "single bytes"])
def test_a_fault_has_the_same_place_however_the_bytes_are_cut(cut: Any) -> None:
    events = [event for event in CLEAN if event["type"] != "response.output_text.done"]
    socket = Socket(cut=cut)
    socket.client(asked())
    socket.server(*map(told, events))
    socket.end()
    assert {name for name, _ in socket.found} == {"response 1"}
    assert "respstream.seq-gap" in {rule for _, rule in socket.found}
    whole = Socket()
    whole.client(asked())
    whole.server(*map(told, events))
    assert [v.place for v in socket.made[0].violations] == [
        v.place for v in whole.made[0].violations
    ]
    assert all(v.place.unit is Unit.FRAME and v.place.index for v in socket.made[0].violations)


def test_fragments_and_pings_between_them_are_one_frame() -> None:
    socket = Socket(cut=single_bytes)
    socket.client(asked(final=False), frame(b"", opcode=0, masked=True))
    for event in map(told, CLEAN):
        payload = event[4:] if event[1] == 126 else event[2:]
        socket.server(frame(payload[:9], final=False), frame(b"ping", opcode=9))
        socket.server(frame(payload[9:], opcode=0))
    socket.end()
    assert (socket.closed, socket.found) == (["response 1"], [])


def test_two_responses_are_told_apart_by_their_stream_id() -> None:
    socket = Socket()
    socket.client(asked({**ASKED, "stream_id": "a"}), asked({**ASKED, "stream_id": "b"}))
    broken = [event for event in CLEAN if event["type"] != "response.in_progress"]
    pairs = [*zip(laned(CLEAN, "a"), laned(broken, "b"), strict=False)]
    for one, other in pairs:
        socket.server(told(other), told(one))
    socket.server(*map(told, laned(CLEAN, "a")[len(pairs) :]))
    socket.end()
    assert sorted(socket.closed) == ["response 1", "response 2"]
    assert {name for name, _ in socket.found} == {"response 2"}
    assert [exchange.response_id for exchange in socket.made] == ["resp_a", "resp_b"]


def test_responses_without_a_stream_id_answer_in_the_order_they_were_asked_for() -> None:
    socket = Socket()
    socket.client(asked(), asked())
    second = [
        {**e, "response": {**e["response"], "id": "resp_2"}} if "response" in e else e
        for e in CLEAN
    ]
    socket.server(*map(told, [*CLEAN, *second]))
    socket.end()
    assert socket.closed == ["response 1", "response 2"]
    assert [exchange.response_id for exchange in socket.made] == ["resp_1", "resp_2"]
    assert socket.found == []


def test_an_error_frame_ends_its_response_and_has_its_status() -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(told(ERROR), told({"type": "response.failed", "response": {"id": "r"}}))
    socket.client(asked())
    socket.server(*map(told, CLEAN))
    socket.end()
    assert socket.closed == ["response 1", "response 2"]
    assert socket.found == [("response 1", "respstream.error-nested")]
    assert (socket.made[0].status, socket.made[0].error_type) == (429, "tokens")


def test_a_status_that_says_failed_too_early_ends_no_response() -> None:
    socket = Socket()
    socket.client(asked())
    early = {**CLEAN[1], "response": {**CLEAN[1]["response"], "status": "failed"}}
    socket.server(*map(told, [CLEAN[0], early, *CLEAN[2:]]))
    assert socket.made[0].events == len(CLEAN)
    assert ("response 1", "respstream.status-contradicts-event") in socket.found


@pytest.mark.parametrize("closing", [True, False], ids=["close frame", "end of the connection"])
def test_a_client_that_leaves_takes_the_rules_about_the_end_away(closing: bool) -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(*map(told, CLEAN[:4]))
    if closing:
        socket.client(frame(b"\x03\xe8", opcode=8, masked=True))
        socket.server(frame(b"\x03\xe8", opcode=8))
    else:
        socket.inspector.client_left()
    socket.end()
    assert (socket.closed, socket.found) == (["response 1"], [])
    assert socket.made[0].ended is Ended.CLIENT_CLOSED


def test_a_server_that_ends_the_connection_owes_the_terminal_event() -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(*map(told, CLEAN[:4]), frame(b"\x03\xf3", opcode=8))
    socket.client(frame(b"\x03\xf3", opcode=8, masked=True))
    socket.end()
    assert socket.found == [("response 1", "respstream.terminal-missing")]


def test_a_connection_that_breaks_truncates_what_is_open() -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(*map(told, CLEAN[:4]))
    socket.end(Ended.UPSTREAM_ABORTED)
    assert socket.found == [("response 1", "http.truncated")]


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"{oops", "sse.data-invalid-json"),
        (b'{"type":"keepalive"} x', "sse.data-invalid-json"),
        (b"", "sse.empty-data"),
        (b'"\xff"', "sse.utf8-invalid"),
        (b"[1]", "respstream.event-not-object"),
        (b"[DONE]", "respstream.done-early"),
    ],
)
def test_a_frame_that_is_no_event_is_a_fault_of_the_open_response(data: bytes, rule: str) -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(told(CLEAN[0]), told(data))
    assert rule in {found for name, found in socket.found if name == "response 1"}


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        ({"type": "keepalive", "sequence_number": 3}, []),
        ({"type": "codex.rate_limits"}, []),
        ({"type": "response.steer.failed"}, []),
        (ERROR, []),
        (b"{oops", ["sse.data-invalid-json"]),
        (b"[DONE]", ["respstream.done-marker"]),
        ({"type": "response.output_text.delta", "delta": "x"}, ["respstream.event-after-terminal"]),
        (CLEAN[-1], ["respstream.event-after-terminal"]),
    ],
)
def test_a_frame_outside_of_any_response_belongs_to_the_connection(
    value: Any, rules: list[str]
) -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(*map(told, CLEAN), told(value))
    assert socket.found == [("connection", rule) for rule in rules]
    assert all(v.place.index == len(CLEAN) + 1 for v in socket.connection.violations)


def test_a_response_that_no_frame_asked_for_is_inspected_without_its_request() -> None:
    socket = Socket()
    socket.client(asked({"type": "response.steer"}))
    socket.server(*map(told, CLEAN))
    assert (socket.opened, socket.closed, socket.found) == (["response 1"], ["response 1"], [])
    assert socket.made[0].inspection == "partial (request-unseen)"


def test_a_clients_frame_that_is_no_json_is_the_clients_fault() -> None:
    socket = Socket()
    socket.client(asked(b"{oops"), asked({**ASKED, "temperature": 9}))
    assert socket.found == [
        ("connection", "request.json-invalid"),
        ("response 1", "request.range"),
    ]
    assert socket.connection.violations[0].place.side is Side.REQUEST
    assert socket.connection.verdict == "pass"


def test_what_is_asked_of_the_answer_holds_for_it() -> None:
    """The request's facts reach the checks: a schema is checked, and the exchange waits for it."""
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    socket = Socket()
    socket.client(asked({**ASKED, "text": {"format": form}}))
    socket.server(*map(told, numbered(script(message("{}")))))
    checks = [output for output in socket.outputs if isinstance(output, SchemaCheck)]
    assert (len(checks), socket.closed, socket.inspector.pending) == (1, [], 1)
    socket.outputs += socket.inspector.schema_result(checks[0].ticket, SchemaResult(), 0.0)
    assert (socket.closed, socket.inspector.pending) == (["response 1"], 0)
    assert socket.inspector.schema_result(checks[0].ticket, SchemaResult(), 0.0) == ()


def test_a_schema_check_that_is_late_is_given_up() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    socket = Socket()
    socket.client(asked({**ASKED, "text": {"format": form}}))
    socket.server(*map(told, numbered(script(message("{}")))))
    socket.end()
    socket.outputs += socket.inspector.expire(0.0)
    assert (socket.closed, socket.inspector.pending) == (["response 1"], 0)
    assert socket.made[0].inspection == "partial (schema-timeout)"


_ODD: tuple[Any, ...] = (
    *(None, [], "x", 1, {}, b"", b"[DONE]", b"{", b"\xff", ERROR, {"error": "x"}, {"object": "x"}),
    {"type": 1, "stream_id": [], "response": {"id": {}}},
    {"type": "error", "error": {"type": []}, "status": "x"},
    {"type": "error", "status": True},
    {"type": "response.created", "response": [], "stream_id": "a"},
    {"type": "response.create", "stream_id": {}, "tools": 1, "input": {}, "text": []},
    {"choices": [], "object": "chat.completion.chunk"},
)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_either_side_sends_raises_and_what_is_opened_is_closed(seed: int) -> None:
    """The same findings come out of the same bytes in pieces."""
    draw = random.Random(seed)
    steps = [
        (draw.random() < 0.3, draw.choice((*_ODD, *CLEAN, ASKED)), draw.choice((1, 1, 1, 2, 8, 9)))
        for _ in range(60)
    ]
    noise = draw.randbytes(40)
    seen = []
    for cut in (at_once, single_bytes):
        socket = Socket(cut=cut)
        for up, value, opcode in steps:
            made = told(value, masked=up, opcode=opcode)
            socket.client(made) if up else socket.server(made)
        socket.client(noise)
        socket.server(noise)
        socket.end()
        assert sorted(socket.opened) == sorted(socket.closed)
        seen.append((socket.found, [e.violations for e in socket.made], socket.closed))
    assert seen[0] == seen[1]


# -- bounds ----------------------------------------------------------------------------------------


def test_messages_are_kept_up_to_their_limits() -> None:
    socket = Socket(replace(DEFAULT_LIMITS, event=1000, body=200))
    socket.client(asked({**ASKED, "input": "x" * 300}))
    socket.server(told(CLEAN[0]), told({"type": "x" * 2000}))
    socket.end()
    assert socket.found == []
    assert socket.made[0].inspection == "partial (request-limit)"
    assert socket.connection.inspection == "partial (event-limit)"


def test_more_responses_than_can_be_open_end_the_inspection() -> None:
    socket = Socket()
    socket.client(*[asked()] * (MAX_OPEN + 2))
    socket.server(told(b"{oops"))
    socket.end()
    assert (len(socket.made), socket.found) == (MAX_OPEN, [])
    assert len(socket.closed) == MAX_OPEN
    assert socket.connection.inspection == "partial (response-limit)"


def test_frames_that_cant_be_read_end_the_inspection() -> None:
    socket = Socket()
    socket.client(asked())
    socket.server(told(CLEAN[0]), b"\xc1\x01x", told(b"{oops"))
    socket.client(asked())
    socket.end()
    assert (socket.opened, socket.closed, socket.found) == (["response 1"], ["response 1"], [])
    assert socket.made[0].inspection == socket.connection.inspection == "partial (websocket)"


# -- which connections -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "inspected"),
    [
        ("/v1/responses", True),
        ("/spare/v1/responses/?beta=true", True),
        ("/v1/realtime?model=responses", False),
        ("/v1/responses/resp_1", False),
    ],
)
def test_sockets_at_responses_are_inspected(target: str, inspected: bool) -> None:
    assert is_inspected(target) is inspected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("permessage-deflate; client_max_window_bits", "permessage-deflate"),
        ("x-own", "websocket-extension"),
        (" ", ""),
    ],
)
def test_the_extension_of_a_handshake(value: str, name: str) -> None:
    assert extension_of(ResponseHead(101, (("Sec-WebSocket-Extensions", value),))) == name
    assert extension_of(ResponseHead(101, ())) == ""


def test_each_message_of_a_response_is_kept_for_it_and_others_for_nobody() -> None:
    socket = Socket()
    first, second = ({**ASKED, "stream_id": lane} for lane in "ab")
    socket.client(asked(first), asked({"type": "session.update"}), asked(second))
    events = [{**event, "stream_id": lane} for event in CLEAN[:2] for lane in "ba"]
    socket.server(*map(told, events), told({"type": "pong"}))
    socket.end()
    told_ = [(exchange, message.side.value, message.kind) for exchange, message in socket.kept]
    assert told_[:2] == [
        ("response 1", "request", "response.create"),
        ("response 2", "request", "response.create"),
    ]
    assert told_[2:6] == [
        ("response 2", "response", CLEAN[0]["type"]),
        ("response 1", "response", CLEAN[0]["type"]),
        ("response 2", "response", CLEAN[1]["type"]),
        ("response 1", "response", CLEAN[1]["type"]),
    ]
    assert json.loads(socket.kept[0][1].data) == first
    assert json.loads(socket.kept[2][1].data) == events[0]
    assert all(message.whole for _, message in socket.kept)


def test_messages_beyond_a_limit_are_kept_as_cut() -> None:
    socket = Socket(replace(DEFAULT_LIMITS, body=60, event=60))
    socket.client(asked({**ASKED, "input": "x" * 100}))
    socket.server(told({"type": "response.created", "response": {"id": "x" * 100}}))
    assert [(message.side.value, message.whole) for _, message in socket.kept] == [
        ("request", False),
        ("response", False),
    ]
