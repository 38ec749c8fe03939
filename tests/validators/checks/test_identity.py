"""Ids across exchanges: new ones, repeated ones, and answers that were to be kept."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.history import History
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import (
    byte_by_byte,
    cases,
    examples,
    findings,
    inspect,
    partition,
    whole,
)

HEADERS = {"content-type": "application/json", "authorization": "Bearer x"}
STORED = {"on": "responses"}
UNSTORED = {"on": "responses", "request": {"/store": "false"}}
FETCH: dict[str, Any] = {
    "on": "responses",
    "method": "GET",
    "endpoint": "/v1/responses/resp_1?include=x",
    "request": {"": "null"},
}
GONE = {**FETCH, "status": 404, "body": '{"error":{"message":"x","type":"invalid_request_error"}}'}


def said(*exchanges: dict[str, Any]) -> list[tuple[str, str]]:
    """What is said of the last of several exchanges of one upstream, and where."""
    history = History()
    for example in exchanges[:-1]:
        inspect(exchange(example), history=history)
    seen = inspect(exchange(exchanges[-1]), history=history)
    return [
        (v.rule.id, v.place.pointer)
        for v in seen.violations
        if v.rule.id in ("cross.duplicate-id", "cross.store-id")
    ]


def numbered(number: str) -> dict[str, Any]:
    return {"on": "chat", "set": {"/id": f'"chatcmpl-{number}"'}}


# -- new ids ------------------------------------------------------------------------------------------


def test_an_upstream_repeats_no_id() -> None:
    assert said({"on": "chat"}, {"on": "chat"}) == [("cross.duplicate-id", "/id")]
    assert said({"on": "chat-stream"}, {"on": "chat-stream"}) == [("cross.duplicate-id", "/id")]
    assert said({"on": "chat"}, {"on": "chat-stream"}) == []


def test_nothing_is_said_where_nobody_remembers() -> None:
    """Files that have nothing to do with each other are no history."""
    document = exchange({"on": "chat"})
    assert findings(inspect(document)) == findings(inspect(document))


def test_the_id_of_a_stream_counts_once_in_it() -> None:
    assert said({"on": "chat-stream"}) == []


def test_a_client_may_ask_for_the_same_answer_again() -> None:
    again = {"on": "chat", "request_headers": {**HEADERS, "Idempotency-Key": "k"}}
    assert said({"on": "chat"}, again) == []
    assert said(again, {"on": "chat"}) == [("cross.duplicate-id", "/id")]


@pytest.mark.parametrize(
    ("method", "endpoint"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1?stream=true&starting_after=3"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ],
)
def test_a_response_that_is_fetched_keeps_its_id(method: str, endpoint: str) -> None:
    assert said(STORED, {**FETCH, "method": method, "endpoint": endpoint}) == []


def test_ids_out_of_a_thousand_repeat_by_chance_but_not_three_times_in_a_row() -> None:
    """Ollama's are such; a constant one is invented all the same."""
    few, other = numbered("123"), numbered("124")
    assert said(few, other, few) == []
    assert said(few, few) == []
    assert said(few, few, few) == [("cross.duplicate-id", "/id")]
    assert said(numbered("1234"), numbered("1234")) == [("cross.duplicate-id", "/id")]


def test_ids_that_were_cut_for_the_record_are_not_compared() -> None:
    one, two = numbered("x" * 300), numbered("x" * 299 + "y")
    assert said(one, two) == []


def test_errors_have_no_id() -> None:
    assert said({"on": "chat-error"}, {"on": "chat-error"}) == []


# -- kept answers -------------------------------------------------------------------------------------


def test_an_answer_that_was_not_to_be_kept_and_is_there() -> None:
    assert said(UNSTORED, FETCH) == [("cross.store-id", "/id")]


def test_an_answer_that_was_to_be_kept_and_is_gone() -> None:
    assert said(STORED, GONE) == [("cross.store-id", "")]


@pytest.mark.parametrize(
    "exchanges",
    [
        (STORED, FETCH),
        (UNSTORED, GONE),
        (GONE,),
        (STORED, {**FETCH, "method": "DELETE"}, GONE),
        (STORED, {**GONE, "status": 500}),
        (STORED, {**GONE, "endpoint": "/v1/responses/resp_2"}),
        ({**STORED, "connection": "aborted"}, GONE),
        (STORED, {**GONE, "request_headers": {**HEADERS, "authorization": "Bearer y"}}),
    ],
)
def test_what_is_as_it_was_asked_for_or_not_known(exchanges: tuple[dict[str, Any], ...]) -> None:
    assert said(*exchanges) == []


def test_chat_keeps_nothing_unless_asked_to() -> None:
    gone = {**GONE, "endpoint": "/v1/chat/completions/chatcmpl-A1"}
    assert said({"on": "chat"}, gone) == []
    assert said({"on": "chat", "request": {"/store": "true"}}, gone) == [("cross.store-id", "")]


# -- any cut ------------------------------------------------------------------------------------------


def test_any_cut_gives_the_same_findings_with_a_history() -> None:
    documents = [*cases().values(), *(document for _, document in examples())]
    for document in documents[::7]:
        seen = []
        for cut in (whole, byte_by_byte, partition(3)):
            history = History()
            inspect(document, cut, history=history)
            seen.append(findings(inspect(document, cut, history=history)))
        assert seen[0] == seen[1] == seen[2]
