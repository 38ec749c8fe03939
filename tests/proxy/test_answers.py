"""teeline's own answers are well-formed, say who speaks, and look like the API's errors."""

from __future__ import annotations

import json

import pytest

from teeline.proxy import answers
from teeline.proxy.answers import Answer
from teeline.validators.model import Ended

ALL = [value for value in vars(answers).values() if isinstance(value, Answer)]


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.code)
def test_an_answer_is_an_error_that_the_sdk_can_read(answer: Answer) -> None:
    head, _, body = answer.encode().partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == f"HTTP/1.1 {answer.status} {answer.reason}".encode()
    assert f"Content-Length: {len(body)}".encode() in lines
    assert f"teeline-error: {answer.code}".encode() in lines
    error = json.loads(body)["error"]
    assert error == {
        "message": answer.message,
        "type": "teeline_error",
        "param": None,
        "code": answer.code,
    }


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.code)
def test_an_answer_to_head_announces_the_length_it_would_have_had(answer: Answer) -> None:
    assert answer.encode().startswith(answer.encode(body=False))
    assert answer.encode(body=False).endswith(b"\r\n\r\n")


def test_codes_are_unique_and_timeouts_end_as_timeouts() -> None:
    assert len({answer.code for answer in ALL}) == len(ALL)
    for answer in ALL:
        assert answer.ended is (Ended.TIMEOUT if answer.status == 504 else Ended.REFUSED)
