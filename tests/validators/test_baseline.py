"""Baselines: what they keep, what makes two of them differ, and what is no baseline."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from teeline.validators import baseline
from teeline.validators.baseline import BaselineError, compare, loads, told
from teeline.validators.detectors.model import ProtocolFamily
from teeline.validators.structure import Difference

CHAT = ProtocolFamily.CHAT_COMPLETIONS


def answer(**more: Any) -> dict[str, Any]:
    body = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [], **more}
    return {"json": body}


def entry(response: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    response = response or answer()
    made = {
        "request": {},
        "status": 200,
        "response": response,
        "headers": {"x-request-id": "r"},
        "validation": {"result": "pass", "deductions": []},
        "features": baseline.features(CHAT, response, asked_json=False),
    }
    return made | more


def document(**probes: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): made for name, made in probes.items()}
    return {"v": 1, "kind": "teeline-baseline", "probes": named}


def kinds(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, str]]:
    found = compare(document(chat_create=first), document(chat_create=second)).changed
    return [(c.difference.kind, c.difference.path) for c in found]


def test_a_baseline_is_like_itself() -> None:
    made = document(models=entry(), chat_create=entry())
    assert compare(made, copy.deepcopy(made)) == ((), (), (), 2)


def test_values_do_not_count() -> None:
    assert kinds(entry(answer(id="chatcmpl-2")), entry()) == []
    assert kinds(entry(headers={"x-request-id": "other"}), entry()) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (entry(answer(id="gen-1")), [("id prefix", "/id")]),
        (entry(answer(extra=1)), [("field", "/extra")]),
        (entry(headers={}), [("header", "x-request-id")]),
        (entry(status=404), [("status", "")]),
        (entry({"text": "oops"}), [("form", "")]),
        (entry({"events": []}), [("form", "")]),
    ],
)
def test_what_a_relay_changes_shows_and_nothing_else(
    changed: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert kinds(entry(), changed) == expected


def test_events_that_lose_their_names_differ() -> None:
    """Clients that dispatch on names see none of them."""

    def stream(name: str) -> dict[str, Any]:
        return entry({"events": [{"event": name, "data": {"type": "response.created"}}] * 2})

    assert kinds(stream("response.created"), stream("")) == [("event lines", "")]
    assert kinds(stream(""), stream("")) == []


def test_a_call_that_one_answer_lacks_is_one_difference() -> None:
    """Everything below it differs, too, and says nothing more."""
    call = {"message": {"tool_calls": [{"id": "call_1"}]}, "finish_reason": "tool_calls"}
    called = entry(answer(choices=[call]))
    plain = entry(answer(choices=[{"message": {"content": "x"}, "finish_reason": "stop"}]))
    assert kinds(called, plain) == [("feature", "tool_call")]


def test_the_same_difference_in_many_probes_is_told_once() -> None:
    more = entry(answer(extra=1))
    found = compare(
        document(chat_basic=entry(), chat_create=entry()),
        document(chat_basic=more, chat_create=more),
    )
    assert told(found.changed) == ["field /extra: absent -> number  (chat-basic, chat-create)"]


def test_probes_of_one_side_are_named_and_not_compared() -> None:
    found = compare(document(models=entry()), document(chat_create=entry()))
    assert found == ((), ("models",), ("chat-create",), 0)


def test_only_diagnostic_fields_are_kept() -> None:
    fields = (
        ("X-Request-Id", "r"),
        ("openai-processing-ms", "7"),
        ("x-ratelimit-limit-requests", "9"),
        ("set-cookie", "secret"),
        ("authorization", "secret"),
        ("x-ratelimit-", "odd"),
    )
    assert baseline.kept_headers(fields).keys() == {
        "x-request-id",
        "openai-processing-ms",
        "x-ratelimit-limit-requests",
    }


def test_features_tell_servers_apart() -> None:
    body = {
        "id": "resp_1",
        "output": [{"type": "function_call", "id": "fc_1", "call_id": "call_1"}],
        "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}},
    }
    seen = baseline.features(ProtocolFamily.RESPONSES, {"json": body}, asked_json=False)
    assert seen["id_prefixes"] == {
        "/id": "resp_",
        "/output[]/call_id": "call_",
        "/output[]/id": "fc_",
    }
    assert seen["usage_fields"] == [
        "input_tokens",
        "input_tokens_details",
        "input_tokens_details.cached_tokens",
    ]
    assert seen["tool_call"] is True


@pytest.mark.parametrize(("text", "is_object"), [('{"a":1}', True), ("[1]", False), ("```", False)])
def test_a_structured_answer_is_an_object_or_not(text: str, is_object: bool) -> None:
    response = answer(choices=[{"message": {"content": text}}])
    assert baseline.features(CHAT, response, asked_json=True)["structured_object"] is is_object


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "kind"),
        (b'{"kind":"teeline-baseline","v":2,"probes":{}}', "another version"),
        (b'{"kind":"teeline-baseline","v":true,"probes":{}}', "another version"),
        (b'{"kind":"teeline-baseline","v":1,"probes":[]}', "must be an object"),
        (b'{"kind":"teeline-baseline","v":1,"probes":{"a":1}}', "must be an object"),
        (b'{"kind":"teeline-baseline","v":1,"probes":{"a":{}}}', "lacks request"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_baseline_is_refused_in_a_line(data: bytes, words: str) -> None:
    with pytest.raises(BaselineError, match=words):
        loads(data)


def test_a_baseline_that_was_tampered_with_is_compared_all_the_same() -> None:
    """Members of any type: a file from elsewhere must not break the comparison."""
    odd = entry(features={"id_prefixes": 1, "tool_call": "x"}, response={"events": [1, {}, None]})
    made = loads(json.dumps(document(chat_create=odd)).encode())
    assert compare(made, made).changed == ()
    assert compare(made, document(chat_create=entry())).changed


def test_a_difference_has_words() -> None:
    changed = baseline.Changed("models", Difference("status", "", "200", "404"))
    assert told([changed]) == ["status: 200 -> 404  (models)"]
