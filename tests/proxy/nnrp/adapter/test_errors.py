"""A server's errors keep their words, and get the types and codes that the profile's clients go by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.nnrp.adapter.errors import of_answer, of_event, path_is_absent


def answer(status: int, error: Any) -> tuple[str, str, str, int]:
    return of_answer(status, json.dumps({"error": error}).encode())[:4]


def error(**members: Any) -> dict[str, Any]:
    return {"message": "Says why.", "type": None, "code": None, **members}


@pytest.mark.parametrize(
    ("status", "told", "kind", "code"),
    [
        (400, error(), "invalid_request_error", "invalid_request"),
        (
            400,
            error(code="context_length_exceeded"),
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (401, error(type="auth_error", code="invalid_api_key"), "auth_error", "invalid_api_key"),
        (404, error(code="model_not_found"), "invalid_request_error", "model_not_found"),
        (
            400,
            error(type="invalid_request_error", code=400),
            "invalid_request_error",
            "invalid_request",
        ),
        (400, error(type="400", code="400"), "invalid_request_error", "invalid_request"),
        (429, error(), "rate_limit_error", "rate_limit_exceeded"),
        (500, error(type="internal", code="cuda"), "internal", "backend_error"),
        (502, error(), "server_error", "backend_error"),
        (503, error(), "server_error", "overloaded"),
        (504, error(), "timeout_error", "timeout"),
        (418, error(), "invalid_request_error", "invalid_request"),
    ],
)
def test_a_status_and_its_words(status: int, told: Any, kind: str, code: str) -> None:
    assert answer(status, told) == (kind, code, "Says why.", status)


def test_other_members_are_kept_and_the_code_of_what_failed_inside() -> None:
    told = json.dumps({"error": error(code="cuda", param="model")}).encode()
    assert of_answer(500, told).more == {"param": "model", "backend_code": "cuda"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail":"no"}', b'{"error":7}'])
def test_a_server_that_says_nothing_is_spoken_for(body: bytes) -> None:
    problem = of_answer(500, body)
    assert problem[:4] == (
        "server_error",
        "backend_error",
        "The server answered with status 500.",
        500,
    )


def test_an_error_as_a_bare_text_and_the_older_bare_object_are_read() -> None:
    assert of_answer(400, b'{"error":"No."}').message == "No."
    assert of_answer(400, b'{"object":"error","message":"No.","code":40303}').message == "No."


def test_a_redirect_is_the_server_s_fault() -> None:
    assert of_answer(302, b"")[:4][1::2] == ("backend_error", 502)


def test_the_time_to_wait_is_told() -> None:
    assert of_answer(429, b"", "7").retry_ms == 7000
    assert of_answer(429, b"", "Wed, 21 Oct 2026 07:28:00 GMT").retry_ms == 0


@pytest.mark.parametrize(
    ("status", "body", "absent"),
    [
        (404, b'{"detail":"Not Found"}', True),
        (404, b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}', True),
        (404, b'{"error":{"message":"Invalid URL (POST /v1/x)"}}', True),
        (405, b"", True),
        (501, b"", True),
        (404, b'{"error":{"message":"The model `x` does not exist."}}', False),
        (404, b'{"error":{"message":"Response with id resp_1 not found."}}', False),
        (500, b"", False),
    ],
)
def test_a_path_that_is_not_there_is_no_model_that_is_not(
    status: int, body: bytes, absent: bool
) -> None:
    assert path_is_absent(status, of_answer(status, body)) is absent


@pytest.mark.parametrize(
    ("told", "code", "status"),
    [
        ({"message": "m", "code": 429}, "rate_limit_exceeded", 429),
        ({"message": "m", "code": "x"}, "backend_error", 500),
        ("m", "backend_error", 500),
        (None, "backend_error", 500),
        ({"message": "m", "code": True}, "backend_error", 500),
    ],
)
def test_an_error_in_a_stream(told: Any, code: str, status: int) -> None:
    problem = of_event(told)
    assert (problem.code, problem.status) == (code, status)


def test_a_message_is_bounded() -> None:
    assert len(of_answer(500, json.dumps({"error": "x" * 10_000}).encode()).message) == 4096


@pytest.mark.parametrize("number", ["NaN", "1e999"])
def test_an_error_with_a_number_that_is_none_keeps_its_words_alone(number: str) -> None:
    problem = of_answer(400, f'{{"error":{{"message":"m","x":{number}}}}}'.encode())
    assert (problem.message, problem.more) == ("m", {})
    assert json.loads(problem.document)["error"]["message"] == "m"
