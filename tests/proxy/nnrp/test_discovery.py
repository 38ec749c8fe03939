"""What a server does is seen from its answers, whichever way it is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from teeline.proxy.nnrp.discovery import Discovered, Modes, discover
from teeline.proxy.nnrp.observed import Observed

CHAT, RESPONSES = "chat.completions.create", "responses.create"
Answer = Callable[[str, dict[str, Any]], Observed]
TEXT = {"type": "response.output_text.delta", "index": 0, "delta": "OK"}
STARTED = {"type": "response.tool_call.started", "name": "lookup"}


def done(*events: dict[str, Any], **body: Any) -> Observed:
    completed = {"type": "response.completed", "body": body or {"object": "x"}}
    return Observed([*events, completed], "success", "RESULT_PUSH")


def empty(*events: dict[str, Any]) -> Observed:
    return Observed(list(events), "success", "RESULT_PUSH")


def refused(code: str) -> Observed:
    error = {"type": "response.error", "error": {"code": code}}
    return Observed([error], "error", "RESULT_PUSH")


def found(answer: Answer, **options: Any) -> tuple[Discovered, list[dict[str, Any]]]:
    asked: list[dict[str, Any]] = []

    async def ask(envelope: bytes) -> Observed:
        value = json.loads(envelope)
        asked.append(value)
        return answer(value["operation"], value["body"])

    return asyncio.run(discover(ask, **options)), asked


def chat_alone(operation: str, body: dict[str, Any]) -> Observed:
    if operation == "models.list":
        return done(data=[{"id": "first"}, {"id": 7}, "x", {"id": "second"}])
    if operation != CHAT:
        return refused("unsupported_operation")
    if not body.get("stream"):
        return done()
    return done(STARTED) if "tools" in body else done(TEXT)


def test_operations_modes_and_models_are_those_that_were_seen() -> None:
    seen, asked = found(chat_alone)
    assert seen.operations == {CHAT: Modes(True, True, True), "models.list": Modes(False, True)}
    assert seen.models == ["first", "second"]
    assert seen.levels == [1, 3]
    assert set(seen.refusals) == {RESPONSES, "embeddings.create"}
    assert {a["body"].get("model", "first") for a in asked} == {"first"}
    assert sum(a["operation"] == RESPONSES for a in asked) == 1


def test_a_stream_that_ends_without_a_document_is_one() -> None:
    def answer(operation: str, body: dict[str, Any]) -> Observed:
        if operation != CHAT or not body.get("stream"):
            return refused("backend_error")
        return empty(STARTED) if "tools" in body else empty(TEXT)

    seen, _ = found(answer, model="m")
    assert seen.operations == {CHAT: Modes(True, False, True)}


@pytest.mark.parametrize("answer", [refused("x"), empty(), Observed(notes=["no end came in time"])])
def test_what_is_not_answered_is_not_seen(answer: Observed) -> None:
    seen, _ = found(lambda operation, body: answer)
    assert (seen.operations, seen.levels) == ({}, [])


def test_another_bound_on_tokens_is_tried_and_calls_without_being_made_to() -> None:
    def answer(operation: str, body: dict[str, Any]) -> Observed:
        if operation != CHAT or "max_tokens" in body:
            return refused("unsupported_parameter")
        if body.get("tool_choice") == "required":
            return refused("invalid_request")
        return done(STARTED if "tools" in body else TEXT)

    seen, asked = found(answer, model="m")
    assert seen.operations == {CHAT: Modes(True, True, True)}
    assert {a["body"].get("tool_choice") for a in asked} >= {"required", "auto"}


def test_embeddings_are_asked_of_a_model_of_their_own() -> None:
    _, asked = found(chat_alone, embedding_model="e")
    assert [a["body"]["model"] for a in asked if a["operation"] == "embeddings.create"] == ["e"]


def test_the_two_forms_say_the_same() -> None:
    seen, _ = found(chat_alone)
    profile, conformance = seen.document("profile", "a"), seen.document("conformance", "a")
    assert profile.pop("models") == [{"id": "first"}, {"id": "second"}]
    assert conformance.pop("adapter") == "a"
    assert [o.pop("cancellation") for o in conformance["operations"]] == [True, False]
    assert profile == conformance
