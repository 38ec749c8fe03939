"""An envelope is read as it was written, and refused with the code that the profile has for its fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.nnrp.adapter.envelope import read_request
from teeline.proxy.nnrp.documents import FailedError

ALL = frozenset({"chat.completions.create", "responses.create", "models.list", "embeddings.create"})
MESSAGES = [{"role": "user", "content": "Hi"}]


def envelope(**changes: Any) -> dict[str, Any]:
    right = {
        "schema_version": "openai-compatible/1",
        "operation": "chat.completions.create",
        "body": {"model": "m", "messages": MESSAGES},
    }
    return {k: v for k, v in (right | changes).items() if v is not ...}


def test_the_body_is_the_client_s_own_text() -> None:
    body = (
        b'{ "messages" : [7], "seed":12345678901234567890123, "temperature" : 1.50, "stream":true}'
    )
    payload = json.dumps(envelope(body=0)).encode().replace(b'"body": 0', b'"body": ' + body)
    request = read_request(payload, ALL)
    assert request.body == body
    assert request.stream


def test_hints_are_read_and_stay_out_of_the_body() -> None:
    hints = {"timeout_ms": 1500, "cancel_after_events": 2, "other": 1}
    request = read_request(json.dumps(envelope(nnrp=hints, request_id="r-1")).encode(), ALL)
    assert (request.timeout, request.cancel_after, request.request_id) == (1.5, 2, "r-1")
    assert b"timeout_ms" not in request.body


@pytest.mark.parametrize(
    "hints",
    [{"timeout_ms": "soon"}, {"timeout_ms": -1}, {"timeout_ms": True}, {"timeout_ms": 0}, None],
)
def test_a_hint_that_is_no_number_is_none(hints: Any) -> None:
    request = read_request(json.dumps(envelope(nnrp=hints)).encode(), ALL)
    assert (request.timeout, request.cancel_after) == (None, None)


@pytest.mark.parametrize("request_id", [None, 7, "", "two words", "a\r\nb", "x" * 300])
def test_a_request_id_that_fits_no_header_field_is_none(request_id: Any) -> None:
    assert read_request(json.dumps(envelope(request_id=request_id)).encode(), ALL).request_id == ""


CODES = [
    (envelope(schema_version="openai-compatible/2"), "unsupported_schema_version"),
    (envelope(schema_version=...), "unsupported_schema_version"),
    (envelope(operation=...), "invalid_envelope"),
    (envelope(operation=7), "invalid_envelope"),
    (envelope(operation="/v1/chat/completions"), "unsupported_operation"),
    (envelope(operation="images.create", body={}), "unsupported_operation"),
    (envelope(body=...), "invalid_envelope"),
    (envelope(body="{}"), "invalid_envelope"),
    (envelope(body={"model": "m"}), "missing_messages"),
    (envelope(body={"messages": []}), "missing_messages"),
    (envelope(body={"messages": MESSAGES, "nnrp": {}}), "invalid_body"),
    (envelope(nnrp=[]), "invalid_envelope"),
    ([], "invalid_envelope"),
]


@pytest.mark.parametrize(("value", "code"), CODES)
def test_a_fault_has_its_code(value: Any, code: str) -> None:
    with pytest.raises(FailedError) as failed:
        read_request(json.dumps(value).encode(), ALL)
    assert failed.value.problem[:2] == ("invalid_request_error", code)


def test_an_operation_that_is_not_offered_is_unsupported() -> None:
    asked = json.dumps(envelope(operation="responses.create")).encode()
    with pytest.raises(FailedError, match="unsupported_operation"):
        read_request(asked, frozenset({"chat.completions.create"}))


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"\xef\xbb\xbf{}", b"\xff", b'{"a":NaN}', b"{} x", b"[" * 200 + b"]" * 200],
)
def test_what_is_no_json_document_is_invalid_json(payload: bytes) -> None:
    with pytest.raises(FailedError, match="invalid_json"):
        read_request(payload, ALL)


def test_a_member_that_comes_twice_is_not_taken_either_way() -> None:
    text = json.dumps(envelope())[:-1] + ', "body": {"messages": [7]}}'
    with pytest.raises(FailedError, match="invalid_envelope"):
        read_request(text.encode(), ALL)
