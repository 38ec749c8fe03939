"""What a response repeats: a rewritten request shows, and the server's own way to write it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.checks.context import Context
from teeline.validators.checks.echo import check_echo
from teeline.validators.checks.request import facts_of
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation


def echoed(request: dict[str, Any], response: dict[str, Any]) -> list[str]:
    ctx = Context(Exchange(id="test"), Operation.RESPONSES, DEFAULT_LIMITS)
    ctx.request = facts_of(request, Operation.RESPONSES)
    check_echo(ctx, response, "")
    return [f"{v.rule.id} {v.place.pointer} {v.evidence}" for v in ctx.exchange.violations]


WEATHER = {"type": "function", "name": "get_weather", "parameters": {}}
LOADED = {"type": "function", "name": "get_time"}


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ([WEATHER], [{**WEATHER, "strict": True, "description": None}]),
        ([WEATHER, LOADED], [LOADED]),
        ([WEATHER], []),
        ([{"type": "function", "function": {"name": "get_weather"}}], [WEATHER]),
        ([{"name": "get_weather"}], [WEATHER]),
        ([{"type": "custom", "name": "shell"}], [{"type": "custom", "name": "shell"}]),
        ([{"type": "web_search_preview"}], [{"type": "web_search"}]),
        ([{"type": "web_search"}], [{"type": "web_search_preview_2025_03_11"}]),
        ([{"type": "computer_use_preview"}], [{"type": "computer"}]),
        ([{"type": "mcp", "server_label": "a"}], [{"type": "mcp", "server_label": "a"}]),
        ([{"type": "namespace", "name": "n", "tools": [LOADED]}], [LOADED]),
        ([LOADED], [{"type": "namespace", "name": "n", "tools": [LOADED, WEATHER]}]),
        ([], [None, "x", {"type": None}, {"type": []}, []]),
    ],
)
def test_the_servers_way_to_write_tools_is_no_other_tool(sent: Any, answered: Any) -> None:
    assert echoed({"tools": sent}, {"tools": answered}) == []


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ([WEATHER], [WEATHER, LOADED]),
        (None, [WEATHER]),
        ([WEATHER], [WEATHER, {"type": "web_search"}]),
        ([{"type": "mcp", "server_label": "a"}], [{"type": "mcp", "server_label": "b"}]),
        ([WEATHER], [{"type": "custom", "name": "get_weather"}]),
    ],
)
def test_a_tool_that_nobody_sent_is_found_and_not_shown(sent: Any, answered: Any) -> None:
    found = echoed({"tools": sent}, {"tools": answered})
    assert len(found) == 1
    assert found[0].startswith(f"cross.echo-tools /tools/{len(answered) - 1} ")
    assert "get_" not in found[0]


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
def test_tools_that_came_in_the_input_were_sent(kind: str) -> None:
    request = {"input": [{"type": kind, "tools": [LOADED]}]}
    assert echoed(request, {"tools": [LOADED]}) == []


@pytest.mark.parametrize("name", ["prompt", "previous_response_id", "conversation"])
def test_what_the_request_continues_may_have_brought_tools(name: str) -> None:
    assert echoed({name: {"id": "x"}}, {"tools": [WEATHER]}) == []


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ({"instructions": "Be brief."}, {"instructions": None}),
        ({"instructions": "Be brief."}, {}),
        ({"instructions": "Be brief."}, {"instructions": [{"type": "message"}]}),
        ({"instructions": None}, {"instructions": "Be brief."}),
        ({"metadata": None}, {"metadata": {}}),
        ({"metadata": {"a": "b"}}, {"metadata": None}),
        ({"max_output_tokens": 10}, {"max_output_tokens": None}),
        ({"max_output_tokens": 10}, {"max_output_tokens": 10.0}),
        ({"background": True}, {"status": "completed"}),
        ({"background": False}, {"status": "pending"}),
    ],
)
def test_what_is_not_repeated_is_not_another_value(
    sent: dict[str, Any], answered: dict[str, Any]
) -> None:
    assert echoed(sent, answered) == []


def test_evidence_holds_lengths_and_no_text() -> None:
    found = echoed(
        {"instructions": "SecretA", "metadata": {"SecretB": "x"}},
        {"instructions": "SecretC", "metadata": {"SecretD": "y"}},
    )
    assert [f.partition(" ")[0] for f in found] == [
        "cross.echo-instructions",
        "cross.echo-metadata",
    ]
    assert "Secret" not in json.dumps(found)


def test_a_response_that_no_request_is_known_for_repeats_nothing() -> None:
    ctx = Context(Exchange(id="test"), Operation.RESPONSES, DEFAULT_LIMITS)
    check_echo(ctx, {"tools": [WEATHER], "instructions": "x"}, "")
    assert ctx.exchange.violations == []
