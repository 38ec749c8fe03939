"""Whatever a server says went wrong, an OpenAI client gets a status and an error object that it can read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.nnrp.bridge.failure import (
    FailureError,
    cancelled_by_server,
    from_ending,
    from_error,
    refused,
)
from teeline.proxy.nnrp.clientoperation import Cancelled, Dropped, Failed, Lost
from teeline.validators.wire.nnrpcodes import CancelReason, DropReason, ErrorCode

ENDINGS = [
    *(Dropped(reason) for reason in DropReason),
    *(Failed(code) for code in ErrorCode),
    *(Cancelled(reason) for reason in CancelReason),
    Lost("it is gone"),
    Lost("it is broken", protocol=True),
    Dropped(77),
    Failed(77),
]


def readable(failure: FailureError) -> dict[str, Any]:
    """The error object, which must be one that every client reads."""
    body = json.loads(failure.body)
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert isinstance(error["message"], str) and isinstance(error["type"], str) and error["type"]
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)
    assert 400 <= failure.status < 600
    assert bool(failure.retry_after_ms) >= (failure.status in (429, 503))
    return error


@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
def test_every_end_without_a_document_is_an_error(ending: Any) -> None:
    assert readable(from_ending(ending))["code"]


def test_a_diagnostic_is_told_on_one_line_and_bounded() -> None:
    said = b"\x1b[31mred\r\n\xff" + b"x" * 1000
    message = readable(from_ending(Failed(ErrorCode.INTERNAL, said)))["message"]
    assert "\x1b" not in message and "\n" not in message and len(message) < 500


def test_a_client_is_told_when_to_come_again_where_that_helps() -> None:
    assert from_ending(Dropped(DropReason.BACKPRESSURE)).retry_after_ms == 1000
    assert from_ending(Dropped(DropReason.DEADLINE)).retry_after_ms == 0


def test_all_members_of_an_error_object_are_kept() -> None:
    error = {"message": "m", "type": "t", "code": "c", "param": "p", "vendor": {"a": [1]}}
    failure = from_error({"error": error})
    assert readable(failure) == error and not failure.own


@given(
    st.none()
    | st.text()
    | st.dictionaries(
        st.sampled_from(["message", "type", "code", "param", "x"]),
        st.none() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_whatever_stands_where_an_error_should_becomes_one(error: Any) -> None:
    readable(from_error({"error": error}))
    readable(from_error({} if error is None else {"type": "response.error", "error": error}))


@pytest.mark.parametrize("reason", [None, "", 1, "the operator stopped it", "\x1b[0m"])
def test_a_cancel_of_the_server_is_an_error(reason: Any) -> None:
    error = readable(cancelled_by_server({"reason": reason}))
    assert error["code"] == "cancelled" and "\x1b" not in error["message"]


def test_errors_of_the_bridge_are_the_client_s_or_the_server_s() -> None:
    assert readable(refused(404, "c", "m"))["type"] == "invalid_request_error"
    assert readable(refused(502, "c", "m"))["type"] == "server_error"
    assert refused(503, "c", "m").retry_after_ms == 1000


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        ({"type": "BadRequestError", "code": 400}, 500, 400),
        ({"type": "NotFoundError", "code": 404}, 500, 404),
        ({"type": "x", "code": "y"}, 422, 422),
        ({"type": "x", "code": "y"}, 499, 500),
        ({"type": "x", "code": "y"}, 200, 500),
        ({"type": "server_error", "code": "overloaded"}, 500, 503),
    ],
)
def test_words_choose_the_status_and_the_result_s_own_where_they_say_nothing(
    error: dict[str, Any], status: int, expected: int
) -> None:
    assert from_error({"error": error}, status).status == expected
