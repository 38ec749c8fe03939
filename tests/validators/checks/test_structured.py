"""Structured output: which texts are owed as JSON, and what counts as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.events import SchemaCheck, SchemaError, SchemaResult
from teeline.validators.exchangefile import parse, replay
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import NOW, byte_by_byte, inspect

PROSE = "It is in Paris."
PARIS = '{"city":"Paris"}'
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}


def structured(seen: Exchange) -> set[str]:
    return {v.rule.id for v in seen.violations if v.rule.family == "structured"}


def chat(content: str, request: dict[str, str] | None = None, **members: Any) -> set[str]:
    """What is found in an answer with this content; ``members`` change the message."""
    changes = {"/choices/0/message/content": json.dumps(content)}
    changes |= {f"/choices/0/message/{name}": json.dumps(v) for name, v in members.items()}
    return structured(
        inspect(exchange({"on": "chat-json", "request": request or {}, "set": changes}))
    )


def streamed(
    *deltas: dict[str, Any], finish: str = "stop", limits: Limits = DEFAULT_LIMITS
) -> Exchange:
    """A streamed answer of these deltas."""
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": d, "logprobs": None, "finish_reason": None} for d in deltas
    ]
    choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish})
    chunk: dict[str, Any] = {
        "id": "chatcmpl-A7",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "gpt-4o-mini-2024-07-18",
    }
    events = [json.dumps({**chunk, "choices": [choice]}) for choice in choices]
    body = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
    document = exchange({"on": "chat-json-stream", "body": body})
    return inspect(document, byte_by_byte, limits)


def message(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    content = [{"annotations": [], "logprobs": [], **part} for part in parts]
    item = {"id": "msg_2", "type": "message", "status": "completed", "role": "assistant"}
    return {**item, "content": content, **members}


def text(content: str) -> dict[str, Any]:
    return {"type": "output_text", "text": content}


def responses(*items: Any, **change: str) -> set[str]:
    changes = {"/output": json.dumps(items), **change}
    return structured(inspect(exchange({"on": "responses-json", "set": changes})))


# -- which texts are owed -----------------------------------------------------------------------------


def test_a_turn_that_calls_tools_owes_no_json() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert chat(PROSE, tool_calls=[call]) == set()
    assert chat(PROSE, function_call={"name": "f", "arguments": "{}"}) == set()
    entry = {"index": 0, **call}
    first = {"role": "assistant", "content": PROSE}
    assert structured(streamed(first, {"tool_calls": [entry]}, finish="stop")) == set()
    assert responses(message(text(PROSE)), CALL) == set()
    assert responses(CALL, message(text(PROSE))) == set()


@pytest.mark.parametrize(
    "format_", ['{"type":"text"}', "null", "[]", '{"type":[]}', '{"type":"grammar"}', '"json"']
)
def test_a_request_for_anything_else_owes_no_json(format_: str) -> None:
    assert chat(PROSE, {"/response_format": format_}) == set()


def test_json_object_owes_json_of_any_kind() -> None:
    asked = {"/response_format": '{"type":"json_object"}'}
    assert chat(PROSE, asked) == {"structured.invalid-json"}
    assert chat("[1]", asked) == set()


def test_a_schema_binds_only_where_it_is_strict() -> None:
    for strict in ("false", "null"):
        assert chat("{}", {"/response_format/json_schema/strict": strict}) == set()
    assert chat("{}") == {"structured.schema-violation"}


def test_an_empty_answer_is_the_business_of_another_rule() -> None:
    assert chat("") == set()


def test_a_refusal_takes_the_place_of_json() -> None:
    assert chat(PROSE, refusal="No.") == {"structured.refusal"}
    seen = streamed({"role": "assistant", "content": "", "refusal": "No."})
    assert structured(seen) == {"structured.refusal"}
    assert responses(message({"type": "refusal", "refusal": "No."})) == {"structured.refusal"}


def test_a_text_that_a_limit_cut_is_not_parsed() -> None:
    seen = streamed({"role": "assistant", "content": '{"ci'}, finish="length")
    assert structured(seen) == {"structured.truncated"}
    cut = {"/status": '"incomplete"', "/incomplete_details": '{"reason":"max_output_tokens"}'}
    assert responses(message(text('{"ci')), **cut) == {"structured.truncated"}
    filtered = {**cut, "/incomplete_details": '{"reason":"content_filter"}'}
    assert responses(message(text('{"ci')), **filtered) == set()


def test_comments_on_the_work_are_not_the_answer() -> None:
    """The last message is; what comes before it may be prose, and so is what is marked as a comment."""
    assert responses(message(text(PROSE)), message(text(PARIS))) == set()
    assert responses(message(text(PARIS)), message(text(PROSE))) == {"structured.invalid-json"}
    assert responses(message(text(PROSE), phase="commentary")) == set()


@pytest.mark.parametrize(
    "items",
    [
        [],
        [message(text(PROSE), text(PARIS))],
        [message()],
        [{**message(), "content": None}],
        [message({"type": "output_text", "text": None})],
        [message(text(PROSE)), {"type": "web_search_call", "id": "w", "status": "completed"}],
        [message(text(PROSE)), 5],
    ],
)
def test_a_response_without_one_last_text_owes_nothing(items: list[Any]) -> None:
    assert responses(*items) == set()


# -- what is JSON -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [' {"city": "Par\\u0131s"}\n', '{"city":"```json```"}', '{"city":"\\ud800"}']
)
def test_any_way_of_writing_it_is_json(content: str) -> None:
    assert chat(content) == set()


@pytest.mark.parametrize(
    "content",
    [
        PROSE,
        f"<think>Hm.</think>{PARIS}",
        f"{PARIS}\n{PARIS}",
        f"{PARIS}\n\nAnything else?",
        "{'city':'Paris'}",
        '{"city":"Par',
        "\ufeff" + PARIS,
        " \n ",
        f"Here:\n```json\n{PARIS}\n```",
    ],
)
def test_what_a_parser_rejects_is_no_json(content: str) -> None:
    assert chat(content) == {"structured.invalid-json"}


def test_nan_is_no_json_and_a_number_beyond_a_double_is() -> None:
    asked = {"/response_format": '{"type":"json_object"}'}
    assert chat('{"a":1e999}', asked) == set()
    for word in ("NaN", "Infinity", "-Infinity"):
        assert chat(f'{{"a":{word}}}', asked) == {"structured.invalid-json"}


@pytest.mark.parametrize(
    "content",
    [
        f"```json\n{PARIS}\n```",
        f"\n```\r\n{PARIS}```\n",
        f"```JSON {PARIS}```",
        f"```{PARIS}",
        "```json\n[]\n```",
    ],
)
def test_json_in_nothing_but_a_fence_is_named_as_such(content: str) -> None:
    assert chat(content) == {"structured.fenced"}


def test_extra_members_and_other_breaches_are_told_apart() -> None:
    assert chat('{"city":"Paris","a":1}') == {"structured.extra-properties"}
    assert chat('{"a":1}') == {"structured.extra-properties", "structured.schema-violation"}


# -- streams and limits -------------------------------------------------------------------------------


def test_a_streamed_text_is_judged_when_it_is_whole() -> None:
    pieces = [{"role": "assistant", "content": "```json\n"}, *({"content": c} for c in PARIS)]
    assert structured(streamed(*pieces)) == {"structured.fenced"}
    assert structured(streamed(*pieces[1:])) == set()


def test_a_text_beyond_the_limit_is_said_and_not_judged() -> None:
    pieces = [{"role": "assistant", "content": ""}, *({"content": "prose "} for _ in range(9))]
    seen = streamed(*pieces, limits=Limits(text=50))
    assert (structured(seen), seen.inspection) == (set(), "partial (text-limit)")
    change = {"/choices/0/message/content": json.dumps("prose " * 9)}
    seen = inspect(exchange({"on": "chat-json", "set": change}), limits=Limits(text=50))
    assert (structured(seen), seen.inspection) == (set(), "partial (text-limit)")


def test_a_text_that_nests_too_deep_is_said_and_not_judged() -> None:
    change = {"/choices/0/message/content": json.dumps("[" * 40)}
    seen = inspect(exchange({"on": "chat-json", "set": change}), limits=Limits(depth=16))
    assert (structured(seen), seen.inspection) == (set(), "partial (depth-limit)")


def test_evidence_names_the_keyword_and_the_place_and_no_content() -> None:
    inspector = Inspector(Exchange(id="x"))
    outputs = replay(inspector, parse(exchange({"on": "chat-json"})), NOW)
    (check,) = [o for o in outputs if isinstance(o, SchemaCheck)]
    assert check.document == {"city": "Paris"}
    errors = (SchemaError("/city/a secret name", "minLength"),)
    inspector.schema_result(check.ticket, SchemaResult(errors), NOW)
    (violation,) = [v for v in inspector.exchange.violations if v.rule.family == "structured"]
    assert violation.evidence == "minLength at /city/<name of 13> of the text"


def test_a_schema_that_could_not_be_checked_is_no_breach() -> None:
    inspector = Inspector(Exchange(id="x"))
    outputs = replay(inspector, parse(exchange({"on": "chat-json"})), NOW)
    (check,) = [o for o in outputs if isinstance(o, SchemaCheck)]
    inspector.schema_result(check.ticket, SchemaResult(unchecked="timeout"), NOW)
    assert structured(inspector.exchange) == set()
    assert inspector.exchange.inspection == "partial (schema-timeout)"
