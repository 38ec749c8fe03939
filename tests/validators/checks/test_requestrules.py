"""A request's head, its body as a whole, and single members: what the rules' examples can't show."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from teeline.validators.limits import Limits
from teeline.validators.model import Severity, Side, Unit, Verdict
from teeline.validators.rules import register
from tests.validators.exchanges import inspect
from tests.validators.requests import HEADERS, asked, broken, chat, responses


def document(body: bytes, headers: Any = HEADERS, endpoint: str = "/v1/chat/completions") -> Any:
    return {
        "endpoint": endpoint,
        "request_base64": base64.b64encode(body).decode("ascii"),
        "request_headers": headers,
        "response": {"status": 400, "headers": {}, "body_text": '{"error":{"message":"x"}}'},
    }


def client_side(exchange: Any, limits: Limits = Limits()) -> set[str]:  # noqa: B008  frozen
    seen = inspect(exchange, limits=limits)
    return {v.rule.id for v in seen.violations if v.place.side is Side.REQUEST}


def test_no_fault_of_the_client_is_worse_than_a_warning() -> None:
    """A relay that refuses such a request is right; nothing on the client's side can fail it."""
    family = [rule for rule in register().values() if rule.family == "request"]
    assert len(family) == 28
    assert max(rule.severity for rule in family) is Severity.WARN


def test_the_clients_faults_leave_the_relays_verdict_alone() -> None:
    example = document(b"not JSON", headers={"x": "y"})
    seen = inspect(example)
    assert seen.client_verdict is Verdict.WARN
    assert seen.verdict is inspect({**example, "request_base64": None}).verdict


# -- the head -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    [
        "Authorization",
        "API-Key",
        "x-api-key",
        "x-goog-api-key",
        "Ocp-Apim-Subscription-Key",
        "cf-aig-authorization",
        "x-auth-token",
        "Cookie",
    ],
)
def test_any_field_that_may_carry_a_key_is_one(field: str) -> None:
    headers = {"content-type": "application/json", field: "x"}
    assert asked(chat(), request_headers=headers) == []


@pytest.mark.parametrize("value", ["", "Bearer", "bearer  "])
def test_a_field_without_a_key_in_it_is_none(value: str) -> None:
    headers = {"content-type": "application/json", "authorization": value}
    assert broken(chat(), request_headers=headers) == {"request.auth-missing": ""}


def test_a_key_may_stand_in_the_query() -> None:
    headers = {"content-type": "application/json"}
    for query in ("?key=x", "?api-version=1&api-key=x"):
        endpoint = "/v1/chat/completions" + query
        assert broken(chat(), request_headers=headers, endpoint=endpoint) == {}
    empty = broken(chat(), request_headers=headers, endpoint="/v1/chat/completions?key=")
    assert "request.auth-missing" in empty


def test_without_recorded_fields_nothing_is_said_of_them() -> None:
    """P8: a record may hold no header fields at all."""
    assert asked(chat(), request_headers={}) == []


def test_rules_of_the_head_have_their_place_in_it_and_show_no_value() -> None:
    headers = {"content-type": "text/secret", "cookie": ""}
    for violation in asked(chat(), request_headers=headers):
        assert violation.place[:3] == (Side.REQUEST, Unit.HEAD, 0)
        assert "Bearer" not in violation.evidence


# -- the body as a whole ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"[]",
        b'"text"',
        b'{"model":"m"',
        b'{"model":"m"} x',
        b'{"model":"\xff"}',
        b'{"temperature":NaN}',
        b'{"temperature":-Infinity}',
    ],
)
def test_what_is_no_json_object_is_said(body: bytes) -> None:
    assert "request.json-invalid" in client_side(document(body))


@pytest.mark.parametrize(
    "body",
    [b'\n{"model":"m","a":1e999}', b'{"model":"m","a":1,"a":2}', b'{"model":"m","a":"\\ud83d"}'],
)
def test_what_the_grammar_allows_is_not_called_invalid(body: bytes) -> None:
    assert "request.json-invalid" not in client_side(document(body))


def test_the_place_is_the_byte_where_the_reading_stopped() -> None:
    seen = inspect(document(b'{"model":"m",}'))
    (found,) = [v for v in seen.violations if v.rule.id == "request.json-invalid"]
    assert found.place.byte == 13


def test_a_compressed_request_is_read() -> None:
    body = gzip.compress(json.dumps({"model": "", "messages": [1]}).encode())
    found = client_side(document(body, headers={**HEADERS, "content-encoding": "gzip"}))
    assert found == {"request.model-missing", "request.message-role"}


def test_a_coding_that_cannot_be_undone_is_named_and_nothing_is_guessed() -> None:
    example = document(b"\x00\x01", headers={**HEADERS, "content-encoding": "rot13"})
    assert client_side(example) == set()
    assert inspect(example).inspection == "partial (request-coding)"


def test_a_request_above_the_limit_is_not_read_but_its_size_is_said() -> None:
    """P7: rules that need its fields are off."""
    example = document(b'{"messages":[' + b" " * 500 + b"]}")
    limits = Limits(body=100, large_request=200)
    assert client_side(example, limits) == {"request.large"}
    assert inspect(example, limits=limits).inspection == "partial (request-limit)"


def test_a_compressed_request_does_not_grow_beyond_the_limit() -> None:
    example = document(
        gzip.compress(b'{"a":"' + b"x" * 50_000 + b'"}'),
        headers={**HEADERS, "content-encoding": "gzip"},
    )
    limits = Limits(body=10_000)
    assert client_side(example, limits) == set()
    assert inspect(example, limits=limits).inspection == "partial (request-limit)"


def test_nesting_beyond_the_limit_is_partial_not_invalid() -> None:
    example = document(b'{"model":"m","a":' + b"[" * 40 + b"]" * 40 + b"}")
    assert client_side(example, Limits(depth=16)) == set()
    assert inspect(example, limits=Limits(depth=16)).inspection == "partial (depth-limit)"


@pytest.mark.parametrize(
    ("method", "endpoint"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1/audio/speech"),
    ],
)
def test_requests_of_other_operations_are_nobodys_business(method: str, endpoint: str) -> None:
    example = {**document(b"", headers={"x": "y"}, endpoint=endpoint), "method": method}
    assert client_side(example) == set()


# -- single members -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/openai/deployments/d/chat/completions", "/models/org/name/v1/chat/completions"],
)
def test_a_model_may_be_named_by_the_path(path: str) -> None:
    assert broken({"messages": chat()["messages"]}, endpoint=path) == {}


def test_a_stored_prompt_names_its_model_on_responses_alone() -> None:
    prompt = {"prompt": {"id": "pmpt_1"}}
    assert broken({"input": "Hi", **prompt}, "responses") == {}
    assert broken({"prompt": "Hi"}, "completions") == {"request.model-missing": "/model"}


@pytest.mark.parametrize(
    ("member", "value", "on"),
    [
        ("n", 0, "chat"),
        ("n", 129, "completions"),
        ("temperature", -0.1, "responses"),
        ("top_p", 1.01, "chat"),
        ("presence_penalty", -2.5, "chat"),
        ("frequency_penalty", 3, "completions"),
        ("top_logprobs", 21, "responses"),
        ("stop", ["a"] * 5, "chat"),
        ("temperature", 10**400, "chat"),
    ],
)
def test_bounds(member: str, value: Any, on: str) -> None:
    request = responses() if on == "responses" else chat()
    assert broken({**request, member: value}, on) == {"request.range": f"/{member}"}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("n", 128),
        ("n", True),
        ("temperature", "hot"),
        ("temperature", None),
        ("top_p", {}),
        ("stop", "a"),
        ("stop", []),
        ("logprobs", 5),
        ("top_k", 1000),
        ("reasoning_effort", "enormous"),
    ],
)
def test_what_is_no_number_has_no_bounds_and_unknown_members_are_nobodys_business(
    member: str, value: Any
) -> None:
    assert broken({**chat(), member: value}) == {}


def test_max_tokens_is_the_word_of_legacy_completions() -> None:
    assert broken({"model": "m", "prompt": "Hi", "max_tokens": 5, "user": "u"}, "completions") == {}
    assert broken(chat(max_tokens=5)) == {"request.deprecated": "/max_tokens"}


def test_each_deprecated_member_counts() -> None:
    (found,) = asked(chat(user="u", max_tokens=5, functions=[{"name": "f"}], function_call="auto"))
    assert (found.rule.id, found.count) == ("request.deprecated", 4)
    assert found.evidence == '"functions": [{"name": "<str 1>"}]'


def test_an_object_on_the_way_to_a_member_may_be_anything() -> None:
    odd_values: list[Any] = [[], "x", 7, True]
    for odd in odd_values:
        assert broken(chat(text=odd)) == {}
        assert "request.include-usage-on-responses" not in broken(
            responses(stream_options=odd, background_options=odd), "responses"
        )


def test_a_window_of_minutes_may_be_streamed() -> None:
    options = {"completion_window": "default"}
    assert broken(responses(stream=True, background_options=options), "responses") == {}


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ("", "/input"),
        ([], "/input"),
        (None, "/input"),
        (["a", ""], "/input/1"),
        ([[1], []], "/input/1"),
    ],
)
def test_an_empty_embeddings_input_is_found_where_it_is(value: Any, pointer: str) -> None:
    request = {"model": "m", "input": value}
    assert broken(request, "embeddings") == {"request.embeddings-input": pointer}


@pytest.mark.parametrize("value", ["a", ["a"], [1, 2], [[1], [2, 3]], [0], [False], {"a": 1}])
def test_any_other_embeddings_input_is_let_pass(value: Any) -> None:
    assert broken({"model": "m", "input": value}, "embeddings") == {}
