"""Requests for tests of the client's side: a legal answer behind whatever was asked."""

from __future__ import annotations

import json
from typing import Any

from teeline.validators.model import Side, Violation
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import inspect

ENDPOINTS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "embeddings": "/v1/embeddings",
    "completions": "/v1/completions",
}
HEADERS = {"content-type": "application/json", "authorization": "Bearer x"}


def asked(request: Any, on: str = "chat", **more: Any) -> list[Violation]:
    """What is said of a request; ``more`` as in an example."""
    example = {
        "on": "responses" if on == "responses" else "chat",
        "endpoint": ENDPOINTS[on],
        "request": {"": json.dumps(request)},
        **more,
    }
    return [v for v in inspect(exchange(example)).violations if v.place.side is Side.REQUEST]


def broken(request: Any, on: str = "chat", **more: Any) -> dict[str, str]:
    """The rules that a request breaks, each with the pointer of its first place."""
    return {v.rule.id: v.place.pointer for v in asked(request, on, **more)}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "messages": list(messages) or [user("Hi")], **more}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def responses(**more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "input": "Hi", **more}
