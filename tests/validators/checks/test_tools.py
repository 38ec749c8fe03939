"""Whole calls: their members, their arguments, and the calls of an answer against its request."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.validators.answers import (
    ASKED,
    STREAMED,
    TOOLS,
    chunk,
    completion,
    dumps,
    everything,
    finding,
    ids,
    inspected,
    opening,
    streamed,
)

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CUSTOM = {"id": "call_1", "type": "custom", "custom": {"name": "c", "input": "x"}}
BOTH = {"tools": [*TOOLS["tools"], {"type": "custom", "custom": {"name": "c"}}]}


def call(n: int = 1, **function: Any) -> dict[str, Any]:
    return {**CALL, "id": f"call_{n}", "function": {**CALL["function"], **function}}  # type: ignore[dict-item]


def answer(calls: Any, finish: str = "tool_calls", **said: Any) -> bytes:
    body = completion({"content": None, "tool_calls": calls, **said})
    body["choices"][0]["finish_reason"] = finish
    return dumps(body)


def found(calls: Any, finish: str = "tool_calls", **asked: Any) -> set[str]:
    return ids(inspected(answer(calls, finish), {**ASKED, **BOTH, **asked}))


@pytest.mark.parametrize(
    ("calls", "rules"),
    [
        ([CALL], set()),
        ([call(1), call(2, name="g")], set()),
        ([CUSTOM], set()),
        ([CUSTOM, call(2)], set()),
        ({}, {"tools.calls-not-array"}),
        ("x", {"tools.calls-not-array"}),
        (["x"], {"tools.calls-not-array"}),
        ([[]], {"tools.calls-not-array"}),
        ([{**CALL, "id": None}], {"tools.id-missing"}),
        ([{**CALL, "id": 5}], {"tools.id-missing"}),
        ([{**CALL, "id": ""}], {"tools.id-empty"}),
        ([{**CALL, "id": ""}, {**CALL, "id": ""}], {"tools.id-empty", "tools.id-duplicate"}),
        ([CALL, CALL], {"tools.id-duplicate"}),
        ([{**CALL, "id": "toolu_1"}], set()),
        ([{k: v for k, v in CALL.items() if k != "type"}], {"tools.type-missing"}),
        ([{**CALL, "type": None}], {"tools.type-missing"}),
        ([{**CALL, "type": 5}], {"tools.type-missing"}),
        ([{**CALL, "type": "FUNCTION"}], {"tools.type-case"}),
        ([{**CALL, "type": "tool"}], {"tools.type-unknown"}),
        ([call(name=None)], {"tools.name-missing"}),
        ([call(name="")], {"tools.name-missing"}),
        ([call(name=5)], {"tools.name-missing"}),
        ([call(arguments=None)], {"tools.args-type"}),
        ([call(arguments={})], {"tools.args-type"}),
        (
            [{"id": "call_1", "type": "function", "name": "f", "arguments": "{}"}],
            {"tools.flat-shape"},
        ),
        ([{"id": "call_1", "type": "custom"}], {"tools.custom-shape"}),
        ([{"id": "call_1", "type": "custom", "custom": {"name": "c"}}], {"tools.custom-shape"}),
        (
            [{"id": "call_1", "type": "custom", "custom": {"name": "c", "input": {}}}],
            {"tools.custom-shape"},
        ),
        ([{"id": "call_1", "type": "custom", "custom": {"input": "x"}}], {"tools.custom-shape"}),
    ],
)
def test_a_call_has_one_thing_wrong_with_it_at_most(calls: Any, rules: set[str]) -> None:
    """P9."""
    assert found(calls) == rules


@pytest.mark.parametrize("function", [None, "f", [], 5])
def test_a_call_without_a_function_has_no_name_and_no_arguments(function: Any) -> None:
    assert found([{**CALL, "function": function}]) == {"tools.name-missing", "tools.args-type"}


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("f", False),
        ("a" * 64, False),
        ("get-weather_2", False),
        ("a" * 65, True),
        ("ns.f", True),
        ("f x", True),
        ("f\n", True),
        ("é", True),
    ],
)
def test_a_name_is_of_64_plain_characters(name: str, pattern: bool) -> None:
    asked = {"tools": [{"type": "function", "function": {"name": name}}]}
    wanted = {"tools.name-pattern"} if pattern else set()
    assert ids(inspected(answer([call(name=name)]), {**ASKED, **asked})) == wanted


ARGUMENTS: list[tuple[str, str]] = [
    ("{}", ""),
    (' {"a": 1}\n', ""),
    ('{"a": "\\ud83d"}', ""),
    ("", "tools.args-empty"),
    (" ", "tools.args-invalid-json"),
    ("{", "tools.args-invalid-json"),
    ('{"a": 1}{"b": 2}', "tools.args-invalid-json"),
    ("{'a': 1}", "tools.args-invalid-json"),
    ("None", "tools.args-invalid-json"),
    ("[]", "tools.args-not-object"),
    ("null", "tools.args-not-object"),
    ('"{}"', "tools.args-not-object"),
    ("5", "tools.args-not-object"),
]


@pytest.mark.parametrize(("text", "rule"), ARGUMENTS)
def test_arguments_are_one_json_object_in_a_string(text: str, rule: str) -> None:
    assert found([call(arguments=text)]) == ({rule} if rule else set())


@pytest.mark.parametrize(("text", "rule"), ARGUMENTS)
def test_arguments_may_be_unfinished_where_a_length_limit_ended_them(text: str, rule: str) -> None:
    seen = inspected(answer([call(arguments=text)], "length"), {**ASKED, **BOTH})
    unfinished = rule in ("tools.args-empty", "tools.args-invalid-json")
    assert ids(seen) == ({rule} if rule and not unfinished else set())
    assert ("tools.args-truncated" in everything(seen)) is unfinished


def test_arguments_too_deep_to_be_looked_into_are_said_to_be() -> None:
    deep = '{"a":' * 200 + "1" + "}" * 200
    seen = inspected(answer([call(arguments=deep)]), {**ASKED, **BOTH})
    assert ids(seen) == set() and seen.inspection == "partial (depth-limit)"


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("arguments", "strict", "rule"),
    [
        ('{"a": 1}', True, ""),
        ("{}", True, "tools.args-strict-schema-mismatch"),
        ("{}", False, "tools.args-schema-mismatch"),
        ('{"a": "x"}', True, "tools.args-strict-schema-mismatch"),
        ("{", True, "tools.args-invalid-json"),
    ],
)
def test_arguments_are_held_against_the_schema_of_their_tool(
    arguments: str, strict: bool, rule: str
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": strict}}
    seen = inspected(answer([call(arguments=arguments)]), {**ASKED, "tools": [tool]})
    tools = {r for r in everything(seen) if r.startswith("tools.")}
    assert tools == ({rule} if rule else set())


def test_a_mismatch_shows_the_keyword_and_not_the_value() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}
    seen = inspected(answer([call(arguments='{"a": "Secret"}')]), {**ASKED, "tools": [tool]})
    shown = finding(seen, "tools.args-strict-schema-mismatch").evidence
    assert shown == "type at /a of the arguments"


# -- calls against the request ---------------------------------------------------------------------

CHOICES: dict[str, Any] = {
    "absent": None,
    "auto": "auto",
    "none": "none",
    "required": "required",
    "named f": {"type": "function", "function": {"name": "f"}},
    "named g": {"type": "function", "function": {"name": "g"}},
    "allowed g": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "g"}}],
        },
    },
}


@pytest.mark.parametrize(
    ("choice", "calls", "finish", "refused"),
    [*product(CHOICES, (0, 1, 2), ("stop", "tool_calls", "length"), (False, True))],
)
def test_calls_are_held_against_tool_choice(
    choice: str, calls: int, finish: str, refused: bool
) -> None:
    """Every tool_choice with every number of calls of ``f`` and every end, in a document and in a stream."""
    named, wanted = choice.startswith("named"), set()
    if calls and choice == "none":
        wanted.add("cross.tool-choice-none")
    if calls and choice == "named g":
        wanted.add("cross.tool-choice-named")
    if calls and choice == "allowed g":
        wanted.add("cross.tool-name-unknown")
    if calls and finish == "stop" and not named:
        wanted.add("tools.finish-stop-with-calls")
    if not calls and finish == "tool_calls":
        wanted.add("tools.finish-without-calls")
    if not calls and finish == "stop" and not refused and (named or choice == "required"):
        wanted.add("cross.tool-choice-required")
    request = {**ASKED, **BOTH, "tool_choice": CHOICES[choice]}
    said: dict[str, Any] = {"content": "x", "refusal": "No." if refused else None}
    whole = [call(n) for n in range(calls)]
    body = answer(whole or None, finish, **said)
    assert ids(inspected(body, request)) == wanted
    deltas = [{"content": "x"}, {"refusal": said["refusal"]}]
    deltas += [{"tool_calls": [{"index": n, **entry}]} for n, entry in enumerate(whole)]
    events = [opening(), *map(chunk, deltas), chunk(finish=finish)]
    assert ids(streamed(*events, request={**request, "stream": True})) == wanted


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        (BOTH, set()),
        ({"functions": [{"name": "f"}]}, set()),
        ({"tools": [{"function": {"name": "f"}}]}, set()),
        ({"tools": [{"type": "function", "name": "f"}]}, set()),
        ({}, {"cross.tools-unrequested"}),
        ({"tools": []}, {"cross.tools-unrequested"}),
        ({"tools": None}, {"cross.tools-unrequested"}),
        ({"tools": [{"type": "function", "function": {"name": "g"}}]}, {"cross.tool-name-unknown"}),
        ({"tools": [{"type": "web_search"}]}, {"cross.tool-name-unknown"}),
    ],
)
def test_what_is_called_was_sent(asked: Any, rules: set[str]) -> None:
    assert ids(inspected(answer([CALL]), {**ASKED, **asked})) == rules
    events = [opening(), chunk({"tool_calls": [{"index": 0, **CALL}]}), chunk(finish="tool_calls")]
    assert ids(streamed(*events, request={**STREAMED, **asked})) == rules


@pytest.mark.parametrize(
    ("parallel", "calls", "broken"),
    [(False, 1, False), (False, 2, True), (True, 2, False), (None, 2, False), (0, 2, False)],
)
def test_calls_come_one_by_one_where_that_was_asked_for(
    parallel: Any, calls: int, broken: bool
) -> None:
    wanted = {"cross.parallel-tool-calls"} if broken else set()
    assert found([call(n) for n in range(calls)], parallel_tool_calls=parallel) == wanted


def test_nothing_is_held_against_a_request_that_was_not_read() -> None:
    """P7."""
    assert ids(inspected(answer([CALL]), None)) == set()


def test_an_empty_list_of_calls_is_an_observation() -> None:
    seen = inspected(answer([], "stop", content="x"), {**ASKED, **BOTH})
    assert ids(seen) == set() and "tools.calls-empty-array" in everything(seen)
