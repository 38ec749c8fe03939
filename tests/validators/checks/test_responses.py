"""Responses as documents and inside events: what is due depends on who asked, and when."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.checks.context import Context
from teeline.validators.checks.request import facts_of
from teeline.validators.checks.responses import check_response_object
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange, Severity, Verdict
from teeline.validators.operation import Operation
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import inspect
from tests.validators.mutations import ODD_VALUES


def seen(base: str = "responses-text", limits: Limits = DEFAULT_LIMITS, **example: Any) -> Exchange:
    """What an inspector says of one of the legal exchanges with changes."""
    return inspect(exchange({"on": base, **example}), limits=limits)


def faults(exchange: Exchange) -> set[str]:
    return {v.rule.id for v in exchange.violations if v.severity > Severity.INFO}


def fetched(**changes: str) -> Exchange:
    """A response that is polled: who asked for it, and what, is not known."""
    document = exchange({"on": "responses", "set": {f"/{k}": v for k, v in changes.items()}})
    document |= {"method": "GET", "endpoint": "/v1/responses/resp_1", "request": None}
    return inspect(document)


# -- polls, cancellations, background --------------------------------------------------------------


def test_a_poll_finds_items_that_are_still_being_made() -> None:
    half = '[{"id":"ws_1","type":"web_search_call","status":"searching"},{"type":"function_call"}]'
    exchange = fetched(status='"in_progress"', output=half, usage="null")
    assert exchange.operation == "responses"
    assert faults(exchange) == set()


def test_a_fetched_response_is_compared_with_no_request() -> None:
    exchange = fetched(model='"llama"', tools='[{"type":"web_search"}]', instructions='"Be rude."')
    assert exchange.verdict is Verdict.PASS


def test_the_body_of_a_cancellation_asks_for_nothing() -> None:
    document = exchange({"on": "responses", "set": {"/status": '"cancelled"'}})
    document |= {"endpoint": "/v1/responses/resp_1/cancel", "request": {}}
    cancelled = inspect(document)
    assert cancelled.operation == "responses"
    assert faults(cancelled) == set()


def test_a_fetched_warm_up_is_told_from_a_lost_answer_by_its_tokens() -> None:
    assert faults(fetched(output="[]")) == {"responses.output-empty"}
    zeros = """{"input_tokens":60,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,
     "output_tokens_details":{"reasoning_tokens":0},"total_tokens":60}"""
    assert faults(fetched(output="[]", usage=zeros)) == set()


# -- the beta form ---------------------------------------------------------------------------------


def test_of_the_beta_form_only_the_structure_is_checked() -> None:
    beta = "/v1/responses?beta=true"
    items = '[{"type":"agent_message"},{"type":"message","content":"Hello"}]'
    changes = {"/output": items, "/tools": "null", "/error": '"x"', "/usage": "{}"}
    assert faults(seen(endpoint=beta, set=changes)) == set()
    assert faults(seen(endpoint=beta, set={"/output": '["Hello"]'}, remove=["/id"])) == {
        "responses.id-missing",
        "responses.item-not-object",
    }
    assert "responses.chat-shape" in faults(seen(endpoint=beta, set={"": '{"choices":[{}]}'}))


# -- what surrounds responses ----------------------------------------------------------------------

LIGHT = [
    ("DELETE", "/v1/responses/resp_1"),
    ("GET", "/v1/responses/resp_1/input_items"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1/responses/compact"),
]


def light(method: str, endpoint: str, body: str, status: int = 200) -> Exchange:
    example = {"on": "responses-text", "method": method, "endpoint": endpoint, "status": status}
    return inspect(exchange({**example, "body": body}))


@pytest.mark.parametrize(("method", "endpoint"), LIGHT)
def test_around_responses_only_json_and_errors_are_checked(method: str, endpoint: str) -> None:
    assert light(method, endpoint, '{"object":"anything"}').verdict is Verdict.PASS
    assert faults(light(method, endpoint, '{"object"')) == {"http.json-invalid"}
    assert faults(light(method, endpoint, '{"error":{"message":"x"}}')) == {
        "responses.error-in-200"
    }
    assert faults(light(method, endpoint, "gone", status=404)) == {"error.not-json"}
    assert light(method, endpoint, "{}").operation == "other"


def test_a_deletion_may_be_answered_with_nothing() -> None:
    assert light("DELETE", "/v1/responses/resp_1", "").verdict is Verdict.PASS
    assert light("DELETE", "/v1/responses/resp_1", "", status=204).verdict is Verdict.PASS
    assert faults(light("POST", "/v1/responses/compact", "")) == {"http.body-empty"}


# -- a response in an event ------------------------------------------------------------------------

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1790000000,
    "status": "completed",
    "model": "m",
    "output": [],
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "usage": {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    },
}


def in_event(*, final: bool, streamed: int | None, request: Any = None, **members: Any) -> Context:
    ctx = Context(Exchange(id="test"), Operation.RESPONSES, DEFAULT_LIMITS)
    ctx.request = facts_of(request, Operation.RESPONSES)
    value = {**RESPONSE, **members}
    check_response_object(ctx, value, "/response", final=final, streamed=streamed)
    return ctx


def test_an_opening_event_has_no_outcome_yet() -> None:
    ctx = in_event(final=False, streamed=0, status="in_progress", usage=None, output=[{"x": 1}])
    assert faults(ctx.exchange) == set()
    assert ctx.exchange.finish == []


def test_members_are_checked_in_every_event() -> None:
    ctx = in_event(final=False, streamed=0, status="in_progress", created_at="now")
    assert [v.place.pointer for v in ctx.exchange.violations if v.severity is Severity.FAIL] == [
        "/response/created_at"
    ]


@pytest.mark.parametrize("output", [None, []])
def test_a_lost_output_behind_items_is_the_streams_fault(output: Any) -> None:
    assert faults(in_event(final=True, streamed=2, output=output).exchange) == set()


def test_a_stream_of_nothing_is_an_empty_response() -> None:
    assert faults(in_event(final=True, streamed=0).exchange) == {"responses.output-empty"}


def test_arguments_that_were_checked_with_their_item_are_not_checked_again() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{"}
    assert faults(in_event(final=True, streamed=1, output=[call]).exchange) == set()
    assert faults(in_event(final=True, streamed=0, output=[call]).exchange) == {
        "tools.args-invalid-json"
    }


@pytest.mark.parametrize("odd", ODD_VALUES, ids=lambda odd: repr(odd)[:24])
def test_no_value_of_any_member_raises(odd: Any) -> None:
    asked = {"tools": odd, "metadata": odd, "tool_choice": odd, "max_output_tokens": odd}
    for name in [*RESPONSE, "error", "incomplete_details", "metadata", "output_text"]:
        for status in ("completed", "incomplete", "failed"):
            members = {"status": status, name: odd}
            in_event(final=True, streamed=None, request=asked, **members)
            in_event(final=True, streamed=None, request={"input": odd, name: odd}, **members)


def test_the_facts_of_a_response_are_kept() -> None:
    failed = '{"code":"rate_limit_exceeded","message":"Slow down."}'
    kept = seen(set={"/status": '"failed"', "/error": failed})
    assert (kept.response_id, kept.response_model) == ("resp_2", "gpt-4o-mini-2024-07-18")
    assert (kept.finish, kept.error_type) == (["failed"], "rate_limit_exceeded")
    assert kept.usage["output_tokens"] == 3


# -- calls -----------------------------------------------------------------------------------------

ASKED = {"/tool_choice": '"required"'}
TEXT = '[{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[%s]}]'
SEARCH = (
    """{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search"}}"""
)
HELLO = '{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}'


def test_a_demanded_call_may_be_one_of_the_servers_own() -> None:
    text = TEXT % HELLO
    assert faults(seen("responses", request=ASKED, set={"/output": text})) == {
        "cross.tool-choice-required"
    }
    searched = f"[{SEARCH},{text[1:]}"
    assert faults(seen("responses", request=ASKED, set={"/output": searched})) == set()


def test_a_refusal_takes_the_place_of_a_demanded_call() -> None:
    refused = TEXT % '{"type":"refusal","refusal":"No."}'
    assert faults(seen("responses", request=ASKED, set={"/output": refused})) == set()


CALL = """{"id":"fc_2","type":"function_call","status":"completed","call_id":"%s",
 "name":"get_weather","arguments":"{\\"city\\":\\"Rome\\"}"%s}"""


def test_two_calls_may_not_share_the_id_of_their_result() -> None:
    assert faults(seen("responses", set={"/output/1": CALL % ("call_a1", "")})) == {
        "tools.id-duplicate"
    }


@pytest.mark.parametrize("status", ["incomplete", "failed", "cancelled"])
def test_arguments_may_be_unfinished_where_the_response_is(status: str) -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":'}
    ctx = in_event(final=True, streamed=None, output=[call], status=status)
    assert {r for r in (v.rule.id for v in ctx.exchange.violations) if r.startswith("tools.")} == {
        "tools.args-truncated"
    }


def test_calls_of_a_program_are_not_the_models_own() -> None:
    asked = {"/parallel_tool_calls": "false"}
    several = {"/output/1": CALL % ("call_a2", "")}
    assert faults(seen("responses", request=asked, set=several)) == {"cross.parallel-tool-calls"}
    scripted = {"/output/1": CALL % ("call_a2", ',"caller":{"type":"program","caller_id":"p"}')}
    assert faults(seen("responses", request=asked, set=scripted)) == set()


def test_earlier_turns_may_have_brought_the_tool() -> None:
    called = {"/output/0/name": '"get_time"', "/output/0/arguments": '"{}"'}
    assert faults(seen("responses", set=called)) == {"cross.tool-name-unknown"}
    asked = {"/previous_response_id": '"resp_0"'}
    assert faults(seen("responses", request=asked, set=called)) == set()


def test_the_place_of_an_unknown_tool_is_the_items_own_name() -> None:
    found = seen("responses", set={"/output/0/name": '"get_time"', "/output/0/arguments": '"{}"'})
    assert [v.place.pointer for v in found.violations if v.severity is Severity.WARN] == [
        "/output/0/name"
    ]


def test_no_more_calls_are_kept_than_the_limit_allows() -> None:
    more = {f"/output/{n}": CALL % (f"call_{n}", "") for n in range(1, 4)}
    assert seen("responses", Limits(tool_calls=2), set=more).inspection == (
        "partial (tool-call-limit)"
    )


# -- texts and counts ------------------------------------------------------------------------------


def test_replacement_characters_are_the_relays_only_where_nothing_else_brings_them() -> None:
    broken = TEXT % HELLO.replace("Hello", "Hel\ufffdo")
    rule = {"cross.replacement-characters"}
    assert faults(seen(set={"/output": broken})) == rule
    assert faults(seen(set={"/output": f"[{SEARCH},{broken[1:]}"})) == set()
    asked = {"/previous_response_id": '"resp_0"'}
    assert faults(seen(request=asked, set={"/output": broken})) == set()


def test_markup_of_a_call_in_a_text_is_found() -> None:
    text = TEXT % HELLO.replace("Hello", "<tool_call>{}")
    assert faults(seen("responses", set={"/output": text})) == {"tools.call-as-text"}


def test_the_token_limit_of_the_request_holds() -> None:
    assert faults(seen(request={"/max_output_tokens": "2"})) == {"cross.max-tokens-exceeded"}
    assert faults(seen(request={"/max_output_tokens": "3"})) == set()


def test_another_model_than_the_requested_one_is_found() -> None:
    assert faults(seen(set={"/model": '"llama-3.1-8b"'})) == {"cross.model-substituted"}
