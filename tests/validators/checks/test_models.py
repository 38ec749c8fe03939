"""Lists of models: what is kept of them, and a used model against the last one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.history import History
from teeline.validators.limits import Limits
from teeline.validators.model import Exchange, Side
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import inspect

UNLISTED = "models.requested-model-unlisted"


def used(listed: list[str] | None, **change: Any) -> Exchange:
    """A chat answered by gpt-4o-mini after the server had listed these models."""
    history = History()
    if listed is not None:
        data = [{"id": m, "object": "model", "created": 1, "owned_by": "x"} for m in listed]
        inspect(exchange({"on": "models", "set": {"/data": json.dumps(data)}}), history=history)
    return inspect(exchange({"on": "chat", **change}), history=history)


def rules(seen: Exchange) -> set[str]:
    return {v.rule.id for v in seen.violations}


def test_a_whole_list_is_kept_for_later_exchanges() -> None:
    seen = inspect(exchange({"on": "models"}))
    assert seen.listed_models == frozenset({"gpt-4o-mini", "gpt-4o-mini-2024-07-18"})


@pytest.mark.parametrize(
    "change",
    [
        {"set": {"/has_more": "true"}},
        {"set": {"/data": "[]"}},
        {"set": {"/data": "null"}},
        {"set": {"/data/0/id": '"' + "x" * 300 + '"'}},
        {"status": 500},
    ],
)
def test_a_list_that_says_little_is_not_kept(change: dict[str, Any]) -> None:
    assert inspect(exchange({"on": "models", **change})).listed_models is None


def test_a_list_beyond_the_limit_is_not_kept() -> None:
    document = exchange({"on": "models"})
    assert inspect(document, limits=Limits(listed_models=1)).listed_models is None


def test_a_single_model_is_no_list() -> None:
    assert inspect(exchange({"on": "model"})).listed_models is None


def test_a_model_that_the_list_lacks_is_reported_where_it_was_asked_for() -> None:
    seen = used(["gpt-4o"])
    (violation,) = [v for v in seen.violations if v.rule.id == UNLISTED]
    assert (violation.place.side, violation.place.pointer) == (Side.REQUEST, "/model")
    assert violation.rule.side is Side.RESPONSE  # the list is the server's


@pytest.mark.parametrize(
    "listed",
    [
        None,
        ["gpt-4o-mini"],
        ["gpt-4o-mini-2024-07-18"],
        ["GPT-4o-mini-0718"],
        ["openai/gpt-4o-mini"],
        ["gpt-4o-mini:latest"],
    ],
)
def test_aliases_of_a_listed_model_are_listed(listed: list[str] | None) -> None:
    assert UNLISTED not in rules(used(listed))


def test_a_model_of_another_size_is_no_alias() -> None:
    assert UNLISTED in rules(used(["gpt-4o", "gpt-4o-mini-audio"]))


@pytest.mark.parametrize(
    "change",
    [
        {
            "status": 404,
            "set": {"": '{"error":{"message":"no such model","type":"x","code":null}}'},
        },
        {"set": {"": '{"error":{"message":"no such model"}}'}},
        {"endpoint": "/openai/deployments/my-name/chat/completions"},
        {"request_remove": ["/model"]},
    ],
)
def test_only_a_model_that_answered_is_missed_in_the_list(change: dict[str, Any]) -> None:
    assert UNLISTED not in rules(used(["gpt-4o"], **change))


@pytest.mark.parametrize(
    ("endpoint", "got", "right"),
    [
        ("/v1/models/org/m", "org/m", True),
        ("/v1/models/m", "models/m", True),
        ("/models/base/v1/models/m", "m", True),
        ("/v1/models/m", "m2", False),
        ("/v1/models/m2", "m", False),
    ],
)
def test_a_retrieved_model_is_the_one_that_was_asked_for(
    endpoint: str, got: str, right: bool
) -> None:
    seen = inspect(exchange({"on": "model", "endpoint": endpoint, "set": {"/id": f'"{got}"'}}))
    assert ("models.retrieve-shape" not in rules(seen)) is right
