"""Tools, tool_choice and strict schemas of a request, in the shapes of both APIs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.validators.requests import asked, broken, chat, responses

NESTED = {"type": "function", "function": {"name": "f"}}
FLAT = {"type": "function", "name": "f", "parameters": None}
CUSTOM = {"type": "custom", "custom": {"name": "c"}}
CLOSED = {"type": "object", "additionalProperties": False}


# -- shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool",
    [FLAT, {"name": "f", "input_schema": {}}, {"type": "custom", "name": "c"}],
)
def test_flat_tools_are_not_chats(tool: Any) -> None:
    assert broken(chat(tools=[NESTED, tool])) == {"request.tools-shape-chat": "/tools/1"}


@pytest.mark.parametrize("tool", [NESTED, CUSTOM, {"function": {"name": "f"}}])
def test_nested_tools_are_not_responses(tool: Any) -> None:
    found = broken(responses(tools=[FLAT, tool]), "responses")
    assert found == {"request.tools-shape-responses": "/tools/1"}


@pytest.mark.parametrize(
    "tool", [None, 7, [], {}, {"type": []}, {"type": "web_search"}, {"name": 1}]
)
def test_tools_of_other_kinds_are_let_pass(tool: Any) -> None:
    assert broken(chat(tools=[tool])) == {}
    assert broken(responses(tools=[tool]), "responses") == {}


# -- tool_choice --------------------------------------------------------------------------------------


def chosen(choice: Any, on: str = "chat", **more: Any) -> list[str]:
    if on == "chat":
        return list(broken(chat(tools=[NESTED, CUSTOM], tool_choice=choice, **more)))
    return list(broken(responses(tools=[FLAT], tool_choice=choice, **more), on))


@pytest.mark.parametrize(
    "choice",
    [
        "any",  # Mistral's word
        {"type": "function", "function": {"name": "f"}},
        {"type": "custom", "custom": {"name": "c"}},
        {"function": {"name": "f"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NESTED, CUSTOM]}},
        {"type": ["odd"]},
        {},
        7,
        None,
        "none",
    ],
)
def test_choices_that_chat_takes_or_a_vendor_may(choice: Any) -> None:
    assert chosen(choice) == []


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "f"},
        {"type": "allowed_tools", "mode": "auto", "tools": [NESTED]},
        {"type": "tool", "name": "f"},
        {"type": "any"},
        {"type": "function", "function": {"name": "g"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NESTED, FLAT, {
            "type": "function", "function": {"name": "g"}}]}},
    ],
)  # fmt: skip
def test_choices_of_another_api_or_of_an_unknown_tool(choice: Any) -> None:
    assert chosen(choice) == ["request.tool-choice-shape"]


@pytest.mark.parametrize(
    ("choice", "legal"),
    [
        ({"type": "function", "name": "f"}, True),
        ({"type": "web_search"}, True),
        ({"type": "mcp", "server_label": "x", "name": "anything"}, True),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "name": "x"}]}, True),
        ({"type": "function", "function": {"name": "f"}}, False),
        ({"type": "function", "name": "g"}, False),
    ],
)
def test_choices_of_responses(choice: Any, legal: bool) -> None:
    assert chosen(choice, "responses") == ([] if legal else ["request.tool-choice-shape"])


def test_a_stored_prompt_may_bring_the_tool_that_is_named() -> None:
    choice = {"type": "function", "name": "g"}
    assert chosen(choice, "responses", prompt={"id": "pmpt_1"}) == []


def test_tools_may_come_from_what_a_response_goes_on_from() -> None:
    for name in ("previous_response_id", "conversation", "prompt"):
        request = responses(tool_choice="required", **{name: "x"})
        assert broken(request, "responses") == {}
    assert list(broken(responses(tool_choice="required"), "responses")) == [
        "request.tool-choice-without-tools"
    ]


def test_deprecated_functions_are_tools_too() -> None:
    found = broken(chat(functions=[{"name": "f"}], tool_choice="auto"))
    assert "request.tool-choice-without-tools" not in found


# -- strict schemas -----------------------------------------------------------------------------------


def strict(schema: Any) -> list[str]:
    """The evidence of a breach, the same for all four places of a strict schema."""
    function = {"name": "f", "strict": True, "parameters": schema}
    described = {"name": "s", "strict": True, "schema": schema}
    found = [
        asked(chat(tools=[{"type": "function", "function": function}])),
        asked(responses(tools=[{"type": "function", **function}]), "responses"),
        asked(chat(response_format={"type": "json_schema", "json_schema": described})),
        asked(responses(text={"format": {"type": "json_schema", **described}}), "responses"),
    ]
    evidence = [[v.evidence for v in of if v.rule.id == "request.strict-schema"] for of in found]
    assert all(one == evidence[0] for one in evidence)
    return evidence[0]


@pytest.mark.parametrize(
    "schema",
    [
        CLOSED,
        {**CLOSED, "properties": {}},
        {**CLOSED, "type": ["object", "null"], "properties": {"a": {}}, "required": ["a", "b"]},
        {"anyOf": [CLOSED, {"type": "string"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": CLOSED}},
        {"type": "array", "items": {"type": "string"}},
        {"properties": None, "required": 7, "anyOf": {}, "items": [CLOSED], "$defs": []},
        {},
        None,
        "x",
    ],
)
def test_schemas_that_are_strict_or_say_nothing_of_objects(schema: Any) -> None:
    assert strict(schema) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object"}, "no additionalProperties: false at / of the schema"),
        ({**CLOSED, "additionalProperties": {}}, "no additionalProperties: false at / of the schema"),
        ({**CLOSED, "properties": {"a": {}, "b": {}}, "required": ["b", 7, []]},
         "1 properties not required at / of the schema"),
        ({**CLOSED, "properties": {"a": {"items": {"anyOf": [{"type": "object"}]}}}, "required": ["a"]},
         "no additionalProperties: false at /properties/a/items/anyOf/0 of the schema"),
        ({"$defs": {"secret name": {"type": "object"}}},
         "no additionalProperties: false at /$defs/<name of 11> of the schema"),
        ({**CLOSED, "properties": {"a/b": {"type": "object"}}, "required": ["a/b"]},
         "no additionalProperties: false at /properties/<name of 4> of the schema"),
    ],
)  # fmt: skip
def test_what_a_schema_lacks_is_said_with_its_place_and_no_content(schema: Any, said: str) -> None:
    assert strict(schema) == [said]


def test_only_strict_schemas_are_looked_at() -> None:
    for value in (False, None, "true", 1):
        function = {"name": "f", "strict": value, "parameters": {"type": "object"}}
        assert asked(chat(tools=[{"type": "function", "function": function}])) == []


def test_a_deep_schema_with_long_names_costs_little() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(50):
        schema = {"properties": {"x" * 5000: schema}, "additionalProperties": False}
    (said,) = strict(schema)
    assert len(said) <= 200
