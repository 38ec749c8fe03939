"""What must not be reported: legal traffic that a sloppy reading of the profile would find fault with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.rules import register
from tests.validators.nnrp.connections import inspect, rules

STREAM, PLAIN, USAGE, TOOLS = (
    {"on": f"nnrp-{name}"} for name in ("stream", "plain", "usage", "tools")
)
ERROR, CANCEL = {"on": "nnrp-error"}, {"on": "nnrp-cancel"}
EMPTY = '{"s":"RESULT_PUSH","meta":{"status_code":200}}'


def change(base: dict[str, Any], **pointers: Any) -> dict[str, Any]:
    return {**base, "set": {name: json.dumps(value) for name, value in pointers.items()}}


def event(kind: str, **members: Any) -> str:
    return json.dumps({"s": "PARTIAL_RESULT", "json": {"type": f"response.{kind}", **members}})


def tool(kind: str, call: int, **members: Any) -> str:
    ids = {"index": call, "item_id": f"item_{call}", "call_id": f"call_{call}"}
    return event(f"tool_call.{kind}", **ids, **members)


def cancel(message: str) -> dict[str, Any]:
    return {**CANCEL, "set": {"/3": json.dumps({"c": message, "meta": {"sequence": 1}})}}


SECOND_CALL: dict[str, Any] = {
    **TOOLS,
    "set": {"/6": EMPTY},
    "insert": {
        "3": tool("started", 7, name="get_weather"),
        "4": tool("delta", 7, arguments_delta="{}"),
        "6": tool("completed", 7, name="get_weather", arguments="{}"),
    },
}
TWO_FRAMES: dict[str, Any] = {
    **STREAM,
    "insert": {
        "2": json.dumps(
            {
                "c": "FRAME_SUBMIT",
                "frame": 2,
                "json": {
                    "schema_version": "openai-compatible/1",
                    "operation": "chat.completions.create",
                    "body": {
                        "model": "gpt-4o-mini",
                        "messages": [{"role": "user", "content": "Hi"}],
                        "stream": True,
                    },
                },
            }
        ),
        "3": json.dumps(
            {
                "s": "PARTIAL_RESULT",
                "frame": 2,
                "json": {"type": "response.output_text.delta", "index": 0, "delta": "x"},
            }
        ),
        "5": '{"s":"RESULT_PUSH","frame":2}',
    },
}
RECOVERABLE = '{"s":"ERROR_RECOVERABLE"}'
DROP = '{"s":"RESULT_DROP_REASON","meta":{"reason":1}}'

CLEAN: dict[str, dict[str, Any]] = {
    "tool-calls-interleaved": SECOND_CALL,
    "frames-interleaved": TWO_FRAMES,
    "openai-chunk-absent": TOOLS,
    "error-extra-fields": change(ERROR, **{"/2/json/error/param": None, "/2/json/error/x": {}}),
    "error-after-partials": {
        **ERROR,
        "insert": {"2": event("output_text.delta", index=0, delta="Hel")},
    },
    "error-in-result-push": change(ERROR, **{"/2/meta/status_code": 0}),
    "error-without-document-drop": {**ERROR, "set": {"/2": '{"s":"RESULT_DROP"}'}},
    "error-without-document-reason": {**ERROR, "set": {"/2": DROP}},
    "error-without-document-error": {
        **ERROR,
        "set": {"/2": '{"s":"ERROR","meta":{"code":12,"scope":1,"fatal":1}}'},
    },
    "recoverable-error-then-success": {**STREAM, "insert": {"3": RECOVERABLE}},
    "diagnostics-fields-unknown": {
        **change(STREAM, **{"/1/json/nnrp": {"diagnostics": True}}),
        "insert": {"3": event("diagnostics", anything={"a": 1})},
    },
    "cancelled-document-missing": CANCEL,
    "cancel-partials-in-flight": {
        **CANCEL,
        "insert": {"4": event("output_text.delta", index=0, delta="lo")},
    },
    "cancel-message-frame-cancel": cancel("FRAME_CANCEL"),
    "cancel-message-abort": cancel("ABORT"),
    "tool-open-at-cancel": {
        **CANCEL,
        "set": {"/1/json/body/tools": '[{"type":"function","function":{"name":"f"}}]'},
        "insert": {"3": tool("started", 1, name="f")},
    },
    "tool-zero-deltas": {**TOOLS, "remove": ["/4", "/3"]},
    "tool-empty-deltas": {
        **TOOLS,
        "remove": ["/4"],
        "set": {"/3/json/arguments_delta": '""'},
    },
    "terminal-empty-form-0": {**STREAM, "set": {"/4": EMPTY}},
    "terminal-empty-form-prelude": {**STREAM, "set": {"/4": '{"s":"RESULT_PUSH","prelude":{}}'}},
    "terminal-status-free": change(STREAM, **{"/4/meta/status_code": 7}),
    "tile-index-mode-one": change(STREAM, **{"/1/meta": {"tile_index_mode": 1}}),
    "session-profile-token": STREAM,
    "malformed-frame-silence": {**STREAM, "remove": ["/4", "/3", "/2"], "close": "none"},
    "id-reuse-after-end": {
        **STREAM,
        "insert": {"5": [TWO_FRAMES["insert"]["2"].replace('"frame": 2', '"frame": 1'), EMPTY]},
    },
    "request-id-absent": STREAM,
    "stream-null": change(PLAIN, **{"/1/json/body/stream": None}),
    "json-large-numbers": change(
        USAGE,
        **{
            "/1/json/body/seed": 2**70,
            "/3/json/usage": {
                "input_tokens": 2**70,
                "output_tokens": 0,
                "total_tokens": 2**70,
            },
        },
    ),
    "usage-event-names": USAGE,
    "transport-interleaved-websocket": {**TOOLS, "carrier": "websocket"},
}
for kind in ("PROGRESS", "BACKPRESSURE", "CREDIT_UPDATE", "PING", "TRACE_CONTEXT", "ROUTE_HINT"):
    CLEAN[f"unused-message-{kind}"] = {**STREAM, "insert": {"3": json.dumps({"s": kind})}}


def nnrp_rules(example: dict[str, Any]) -> set[str]:
    """What the NNRP rules say at warn or above."""
    found = rules(example)
    return {r for r in found if r.startswith("nnrp.") and register()[r].severity > 1}


@pytest.mark.parametrize("name", CLEAN)
def test_legal_traffic_is_clean(name: str) -> None:
    assert nnrp_rules(CLEAN[name]) == set()


WHITE_SPACE = (" {}\n", "{}\n", "\t{}", "{}  ")


@pytest.mark.parametrize("form", WHITE_SPACE)
def test_white_space_around_an_event_is_no_framing(form: str) -> None:
    text = '{"type":"response.output_text.delta","index":0,"delta":""}'
    packet = json.dumps({"s": "PARTIAL_RESULT", "text": form.replace("{}", text)})
    assert nnrp_rules({**STREAM, "insert": {"3": packet}}) == set()
    indented = text.replace(",", ",\n  ")
    packet = json.dumps({"s": "PARTIAL_RESULT", "text": form.replace("{}", indented)})
    assert nnrp_rules({**STREAM, "insert": {"3": packet}}) == set()


ENVELOPE = json.dumps(json.loads(TWO_FRAMES["insert"]["2"])["json"])
FOLLOW_UPS: dict[str, dict[str, Any]] = {
    "nnrp.submit-raw-json": {"/1/body": ENVELOPE, "/1/meta": {"payload_frame_count": 9}},
    "nnrp.submit-prelude-wrong": {
        "/1/prelude": {"payloads": 3},
        "/1/descriptor": {"profile_id": 4, "payload_kind": 2},
    },
    "nnrp.submit-metadata-mismatch": {
        "/1/meta": {"payload_frame_count": 3},
        "/1/descriptor": {"profile_id": 4, "payload_kind": 2},
    },
}


@pytest.mark.parametrize("rule", FOLLOW_UPS)
def test_what_follows_from_a_named_fault_is_not_named(rule: str) -> None:
    example = change(ERROR, **FOLLOW_UPS[rule])
    example["set"]["/2"] = '{"s":"ERROR","meta":{"code":5,"scope":2}}'
    assert nnrp_rules(example) == {rule}


def test_after_sse_framing_or_a_typed_envelope_no_json_rule_speaks() -> None:
    for packet, rule in (
        ({"s": "PARTIAL_RESULT", "text": "data: {oops\n\n"}, "nnrp.partial-sse-delimiter"),
        (
            {"s": "PARTIAL_RESULT", "text": "{oops", "descriptor": {}},
            "nnrp.partial-typed-envelope",
        ),
    ):
        assert nnrp_rules({**STREAM, "insert": {"3": json.dumps(packet)}}) == {rule}


def test_results_after_a_resume_are_those_of_an_earlier_connection() -> None:
    opened = {
        "c": "SESSION_OPEN",
        "session": 0,
        "frame": 0,
        "meta": {"profile_id": 2, "requested_session_id": 9},
    }
    result = '{"s":"RESULT_PUSH","session":9,"frame":44}'
    insert = {"1": [json.dumps(opened), '{"s":"SESSION_OPEN_ACK","session":9,"frame":0}', result]}
    assert nnrp_rules({**STREAM, "insert": insert}) == set()


def test_operations_of_two_sessions_with_one_frame_are_two() -> None:
    second = json.loads(TWO_FRAMES["insert"]["2"]) | {"session": 2, "frame": 1}
    opened = {"c": "SESSION_OPEN", "session": 0, "frame": 0, "meta": {"profile_id": 2}}
    insert = {
        "2": [
            json.dumps(opened),
            '{"s":"SESSION_OPEN_ACK","session":2,"frame":0}',
            json.dumps(second),
            '{"s":"RESULT_PUSH","session":2,"frame":1}',
        ]
    }
    seen = inspect({**STREAM, "insert": insert})
    assert [exchange.request_id for exchange in seen] == ["1/1", "2/1"]
    assert nnrp_rules({**STREAM, "insert": insert}) == set()


def test_a_session_level_cancel_cancels_all_its_operations() -> None:
    everything = '{"c":"CANCEL","frame":0,"op":0,"meta":{"sequence":1}}'
    assert nnrp_rules({**CANCEL, "set": {"/3": everything}}) == set()


def test_an_error_of_the_session_ends_all_its_operations() -> None:
    packet = '{"s":"ERROR","frame":0,"meta":{"code":12,"scope":1}}'
    example = {**STREAM, "set": {"/4": packet}, "close": "server"}
    assert nnrp_rules(example) == set()
    (seen,) = inspect(example)
    assert seen.error_type == "nnrp_error_12"
