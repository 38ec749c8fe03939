"""What a request set is told by numbers and protocol words alone, whatever stands in it."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.checks.settings import settings_of, tier_of


def test_settings_have_one_name_whatever_the_operation() -> None:
    for member in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        assert settings_of({member: 16}) == {"max_tokens": 16}
    assert settings_of({"response_format": {"type": "json_schema"}}) == {"output": "json"}
    assert settings_of({"text": {"format": {"type": "text"}}}) == {"output": "text"}


def test_nothing_that_a_user_wrote_is_kept() -> None:
    document = {
        "messages": [{"role": "user", "content": "secret"}],
        "stop": ["secret"],
        "user": "secret",
        "metadata": {"a": "secret"},
        "service_tier": "Not A Word secret",
        "temperature": 0.5,
    }
    assert settings_of(document) == {"temperature": 0.5}


@pytest.mark.parametrize(
    "value", [None, True, "x", [], {}, float("nan"), float("inf"), 10**400, -(10**30)]
)
def test_values_of_other_types_are_left_out(value: Any) -> None:
    names = ("n", "seed", "top_p", "dimensions", "encoding_format", "response_format", "text")
    kept = settings_of(dict.fromkeys(names, value))
    assert kept in ({}, {"encoding_format": "x"})


def test_a_tier_is_read_from_an_object_and_from_the_response_of_an_event() -> None:
    assert tier_of({"service_tier": "default"}) == "default"
    assert tier_of({"response": {"service_tier": "flex"}}) == "flex"
    assert tier_of({"service_tier": ["flex"], "response": 3}) is None
