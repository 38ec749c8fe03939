"""A connection as a whole: captures of real peers, exchanges and their facts, ends, and cuts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from teeline.validators.events import Closed, Found, Opened, Output
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange, Severity, Side, Unit, Verdict
from teeline.validators.nnrp.examples import conversation, is_document
from teeline.validators.nnrp.inspector import CONNECTION, End, NnrpInspector
from teeline.validators.nnrp.order import interleaved
from teeline.validators.rules import register
from tests.validators.exchanges import NOW, Cut, byte_by_byte, partition, whole
from tests.validators.nnrp.connections import exchanges, inspect, outputs, rules, violations
from tests.validators.nnrp.fuzz import Mutator, same

CAPTURES = Path(__file__).parents[2] / "cases" / "nnrp"
RULES = [rule for rule in register().values() if rule.family == "nnrp"]
STREAM = {"on": "nnrp-stream"}


def of_capture(name: str, cut: Cut = whole) -> list[Exchange]:
    client = (CAPTURES / f"{name}_c2s.bin").read_bytes()
    server = (CAPTURES / f"{name}_s2c.bin").read_bytes()
    inspector = NnrpInspector(Exchange, timed=False)
    found: list[Output] = []
    for side, data in interleaved(client, server, Limits().body):
        for piece in cut(data):
            found += inspector.feed(side, piece, NOW)
    for side in Side:
        found += inspector.finish(side, NOW, End.UNKNOWN)
    found += inspector.close(NOW)
    return exchanges(found)


def told(seen: Exchange, least: Severity = Severity.WARN) -> set[str]:
    return {v.rule.id for v in seen.violations if v.rule.family == "nnrp" and v.severity >= least}


def test_of_a_real_server_s_traffic_the_deliberate_faults_alone_are_told() -> None:
    seen = of_capture("capture")
    assert [exchange.request_id for exchange in seen] == [f"1/{n}" for n in range(1, 17)]
    by_frame = {n: told(exchange) for n, exchange in enumerate(seen, 1) if told(exchange)}
    assert by_frame == {
        3: {"nnrp.tool-events-unrequested"},
        6: {"nnrp.terminal-empty-nonstream"},
        7: {"nnrp.terminal-empty-nonstream"},
        9: {"nnrp.terminal-raw-json"},
    }


@pytest.mark.parametrize("carrier", ["tcp", "ipc", "websocket"])
def test_the_same_traffic_is_clean_on_every_carrier(carrier: str) -> None:
    seen = of_capture(f"capture_{carrier}")
    assert seen and all(exchange.operation != CONNECTION for exchange in seen)
    assert {rule for exchange in seen for rule in told(exchange)} <= {
        "nnrp.tool-events-unrequested",
        "nnrp.terminal-empty-nonstream",
    }


@pytest.mark.parametrize("cut", [byte_by_byte, partition(1), partition(2)])
@pytest.mark.parametrize("name", ["capture", "capture_websocket"])
def test_a_capture_says_the_same_however_it_is_cut(name: str, cut: Cut) -> None:
    def findings(seen: list[Exchange]) -> list[object]:
        return [(v.rule.id, v.place, v.evidence, v.count) for e in seen for v in e.violations]

    assert findings(of_capture(name, cut)) == findings(of_capture(name))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_an_example_says_the_same_byte_by_byte(rule: object) -> None:
    for example in (rule.bad, rule.good):  # type: ignore[attr-defined]
        if is_document(example):
            continue
        expected = [(v.rule.id, v.place, v.evidence, v.count) for v in violations(example)]
        for cut in (byte_by_byte, partition(3)):
            found = [(v.rule.id, v.place, v.evidence, v.count) for v in violations(example, cut)]
            assert found == expected


def test_an_exchange_opens_with_its_submit_and_holds_its_facts() -> None:
    found = outputs(conversation({"on": "nnrp-usage"}))
    assert isinstance(found[0], Opened) and isinstance(found[-1], Closed)
    (seen,) = exchanges(found)
    assert (seen.method, seen.path, seen.operation) == ("NNRP", "chat.completions.create", "chat")
    assert (seen.model, seen.stream, seen.status, seen.events) == ("gpt-4o-mini", True, 200, 2)
    assert seen.usage["prompt_tokens"] == 9
    assert (seen.ended, seen.request_id, seen.finish) == (Ended.COMPLETE, "1/1", ["stop"])
    assert seen.request_bytes > 100 and seen.response_bytes > 500


def test_a_fault_is_told_when_it_shows_with_its_packet() -> None:
    example = {**STREAM, "set": {"/3/json/delta": "7"}}
    found = outputs(conversation(example))
    kinds = [type(output).__name__ for output in found]
    assert kinds.index("Found") < kinds.index("Closed")
    violation = next(o.violation for o in found if isinstance(o, Found))
    assert violation.rule.id == "nnrp.text-delta-not-string"
    place = violation.place
    # Behind SERVER_HELLO_ACK, SESSION_OPEN_ACK and the first event.
    assert (place.side, place.unit, place.index) == (Side.RESPONSE, Unit.PACKET, 4)
    assert place.pointer == "/delta"


def test_what_the_client_does_wrong_never_counts_against_the_server() -> None:
    rule = register()["nnrp.envelope-nnrp-in-body"]
    (seen,) = inspect(rule.bad)
    assert (seen.verdict, seen.client_verdict) == (Verdict.PASS, Verdict.FAIL)


def test_a_packet_s_fault_counts_against_whoever_sent_it() -> None:
    for number, sides in ((1, (Verdict.PASS, Verdict.FAIL)), (2, (Verdict.FAIL, Verdict.PASS))):
        (seen,) = inspect({**STREAM, "set": {f"/{number}/header": '{"version":2}'}})
        assert (seen.verdict, seen.client_verdict) == sides


def test_the_openai_rules_judge_the_bodies_inside_at_their_place() -> None:
    (seen,) = inspect({"on": "nnrp-plain", "remove": ["/2/json/body/created"]})
    violation = next(v for v in seen.violations if v.rule.id == "chat.created-type")
    assert (violation.place.unit, violation.place.pointer) == (Unit.PACKET, "/body/created")
    (seen,) = inspect({"on": "nnrp-plain", "remove": ["/1/json/body/model"]})
    violation = next(v for v in seen.violations if v.rule.id == "request.model-missing")
    assert (violation.place.side, violation.place.pointer) == (Side.REQUEST, "/body/model")


def test_faults_of_no_operation_go_to_an_exchange_of_the_connection() -> None:
    first, second = inspect({**STREAM, "raw": [["s", "XXXX"]]})
    assert (first.operation, second.operation) == ("chat", CONNECTION)
    assert second.inspection == "partial (framing-lost)"


def test_one_side_that_lost_its_framing_leaves_the_other_one_read() -> None:
    found = rules({**STREAM, "raw": [["s", "XXXX"], ["c", "YYYY"]]})
    assert "nnrp.magic-wrong" in found


def test_rules_that_need_times_are_off_where_times_were_made_up() -> None:
    for rule in ("nnrp.cancel-late-partial", "nnrp.cancel-ignored", "nnrp.timeout-without-cancel"):
        assert rule not in rules(register()[rule].bad, timed=False)


def test_an_operation_that_ended_is_closed_a_grace_window_later() -> None:
    inspector = NnrpInspector(Exchange)
    for side, data, at in conversation(STREAM).sent:
        inspector.feed(side, data, NOW + at)
    assert not any(isinstance(o, Closed) for o in inspector.tick(NOW + 0.5))
    assert [type(o) for o in inspector.tick(NOW + 2.0)] == [Closed]
    assert inspector.close(NOW + 3.0) == []


def test_an_event_that_comes_after_its_exchange_was_closed_is_told_of_the_connection() -> None:
    inspector = NnrpInspector(Exchange)
    sent = conversation({**STREAM, "insert": register()["nnrp.event-after-terminal"].bad["insert"]})
    for side, data, at in sent.sent[:-1]:
        inspector.feed(side, data, NOW + at)
    inspector.tick(NOW + 5.0)
    found = inspector.feed(Side.RESPONSE, sent.sent[-1].data, NOW + 6.0)
    assert [o.violation.rule.id for o in found if isinstance(o, Found)] == [
        "nnrp.event-after-terminal"
    ]
    assert found[-1].exchange.operation == CONNECTION


def test_a_cut_recording_is_no_fault_of_anybody() -> None:
    (seen,) = inspect({**STREAM, "remove": ["/4"], "close": "none"})
    assert (seen.violations, seen.inspection) == ([], "partial (capture-end)")


SMALL = Limits(operations=4, sessions=2, body=2_000, choices=2, tool_calls=2)


def test_what_is_held_is_bounded_and_said() -> None:
    inspector = NnrpInspector(Exchange, SMALL)
    found: list[Output] = []
    sent = conversation(STREAM).sent
    for side, data, at in sent[:5]:
        found += inspector.feed(side, data, NOW + at)
    submit = bytearray(sent[4].data)
    for frame in range(2, 40):
        submit[24:28] = frame.to_bytes(4, "little")
        submit[80:88] = frame.to_bytes(8, "little")
        found += inspector.feed(Side.REQUEST, bytes(submit), NOW)
    closed = [o.exchange for o in found if isinstance(o, Closed)]
    assert len(closed) == 35
    assert {exchange.inspection for exchange in closed} == {"partial (operation-limit)"}
    found += inspector.close(NOW)
    assert len(exchanges(found)) == 39


def test_broken_connections_say_the_same_however_they_are_read() -> None:
    """What the fuzzer does by the hundred thousand."""
    for n, wanted in enumerate(Mutator(seed=4).variants(300)):
        assert same(wanted, n), f"variant {n}"


def test_any_bytes_are_read_without_an_error() -> None:
    chance = random.Random(7)
    samples = [conversation(rule.bad) for rule in RULES if not is_document(rule.bad)]
    for _ in range(1500):
        sample = chance.choice(samples)
        inspector = NnrpInspector(Exchange, SMALL)
        found: list[Output] = []
        for side, data, at in sample.sent:
            broken = bytearray(data)
            for _ in range(chance.choice([0, 0, 1, 3])):
                if broken:
                    broken[chance.randrange(len(broken))] = chance.choice([0, 1, 255, 16, 91, 34])
            size = chance.choice([1, 7, 64, 5000])
            for n in range(0, len(broken), size):
                found += inspector.feed(side, bytes(broken[n : n + size]), NOW + at)
        for side in chance.sample(list(Side), 2):
            found += inspector.finish(side, NOW + 9, chance.choice(list(End)))
        found += inspector.close(NOW + 9)
        found += inspector.expire(NOW + 10)
        exchanges(found)


ODD = ("null", "[]", "{}", "true", "-1", "1e400", '""', '"x"', '[{"a":[]}]', '{"type":[]}')


PLACES = {
    "nnrp-tools": [f"/{n}/json/{m}" for n in (2, 3, 5) for m in ("index", "call_id", "item_id")]
    + ["/1/json/body/tools", "/1/json/body/tools/0/function", "/1/json/nnrp", "/2/json/type"]
    + ["/5/json/arguments", "/5/json/name", "/6/json", "/6/json/type", "/6/json/body"]
    + [f"/6/json/body/{m}" for m in ("choices", "choices/0/message", "usage")],
    "nnrp-usage": [f"/1/json{m}" for m in ("", "/operation", "/body", "/request_id")]
    + ["/1/json/body/stream_options", "/2/json", "/2/json/index", "/2/json/openai_chunk"]
    + ["/3/json/usage", "/3/json/usage/input_tokens", "/4/json/body/choices/0/index"],
    "nnrp-error": ["/2/json/error", "/2/json/error/type", "/2/json/error/code"],
}


def test_any_json_in_any_place_is_read_without_an_error() -> None:
    for base, pointers in PLACES.items():
        for pointer in pointers:
            for value in ODD:
                violations({"on": base, "set": {pointer: value}})


@pytest.mark.parametrize(
    ("rule", "side"),
    [
        ("nnrp.terminal-missing", Side.RESPONSE),
        ("nnrp.terminal-native-missing", Side.RESPONSE),
        ("nnrp.cancel-without-terminal", Side.RESPONSE),
        ("nnrp.timeout-without-cancel", Side.REQUEST),
    ],
)
def test_what_is_missing_counts_against_who_owes_it(rule: str, side: Side) -> None:
    """It shows at a packet of either side, or at none: whose packet came last says nothing."""
    found = [v for v in violations(register()[rule].bad) if v.rule.id == rule]
    assert [v.place.side for v in found] == [side]


def test_an_operation_that_a_server_leaves_without_an_event_is_the_server_s_fault() -> None:
    example = {**STREAM, "remove": ["/2", "/3", "/4"], "close": "server"}
    (exchange,) = inspect(example)
    assert {v.rule.id for v in exchange.violations} >= {"nnrp.terminal-missing"}
    assert (exchange.verdict, exchange.client_verdict) == (Verdict.WARN, Verdict.PASS)
