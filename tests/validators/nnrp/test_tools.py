"""The life of tool calls: each by its call_id, however they alternate, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.limits import Limits
from teeline.validators.nnrp.operation import MOST_UNPARSED
from tests.validators.nnrp.steps import Steps

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]


def asked(**options: Any) -> Steps:
    return Steps(tools=TOOLS, **options)


def call(steps: Steps, number: int, arguments: str = "{}", name: str = "f") -> Steps:
    ids = {"call": f"call_{number}", "index": number, "item_id": f"item_{number}"}
    steps.tool("started", name=name, **ids)
    for character in arguments:
        steps.tool("delta", arguments_delta=character, **ids)
    return steps.tool("completed", name=name, arguments=arguments, **ids)


def test_calls_that_alternate_are_followed_each_by_itself() -> None:
    steps = asked()
    one, two = ({"call": f"call_{n}", "index": n, "item_id": f"item_{n}"} for n in (1, 2))
    steps.tool("started", name="f", **one).tool("started", name="g", **two)
    for left, right in zip('{"a":1}', '{"b":2}', strict=True):
        steps.tool("delta", arguments_delta=left, **one)
        steps.tool("delta", arguments_delta=right, **two)
    steps.tool("completed", name="g", arguments='{"b":2}', **two)
    steps.tool("completed", name="f", arguments='{"a":1}', **one)
    assert steps.server("RESULT_PUSH").rules == {}


def test_a_call_that_failed_is_over_like_one_that_completed() -> None:
    error = {"type": "t", "code": "c", "message": "m"}
    steps = asked().tool("started", name="f").tool("error", error=error)
    steps.tool("delta", arguments_delta="x").tool("completed", name="f", arguments="x")
    assert steps.rules == {
        "nnrp.tool-delta-after-termination": 1,
        "nnrp.tool-terminated-twice": 1,
    }
    assert not steps.op.open_calls


def test_a_call_without_a_start_is_named_once_and_is_no_open_call() -> None:
    steps = asked().tool("delta", arguments_delta="{").tool("delta", arguments_delta="}")
    steps.tool("started", name="f").server("RESULT_PUSH")
    assert steps.rules == {
        "nnrp.tool-delta-before-started": 1,
        "nnrp.tool-unterminated-at-success": 1,
    }


def test_a_start_that_comes_late_is_the_first() -> None:
    steps = asked().tool("completed", name="f", arguments="{}").tool("started", name="f")
    assert steps.rules == {"nnrp.tool-completed-before-started": 1}
    assert steps.tool("started", name="f").rules["nnrp.tool-started-twice"] == 1


@pytest.mark.parametrize("call_id", [None, 7, "", [], {}, True])
def test_a_call_id_that_is_none_makes_no_call(call_id: Any) -> None:
    steps = (
        asked()
        .tool("started", call_id, name="f")
        .tool("completed", call_id, name="f", arguments="{}")
    )
    assert steps.rules == {"nnrp.tool-call-id-invalid": 2}
    assert (steps.op.calls, steps.server("RESULT_PUSH").rules) == (
        {},
        {"nnrp.tool-call-id-invalid": 2},
    )


@pytest.mark.parametrize("value", [None, 7, [], {}, True, ""])
@pytest.mark.parametrize("member", ["name", "arguments", "arguments_delta", "item_id", "index"])
def test_members_of_any_type_are_followed_without_an_error(member: str, value: Any) -> None:
    steps = asked()
    given = {"name": "f", "arguments": "{}", "arguments_delta": "{}", "item_id": "i", "index": 0}
    for kind in ("started", "delta", "completed", "delta", "error", "completed"):
        steps.tool(kind, **{**given, member: value})
    assert steps.server("RESULT_PUSH").op.terminal


def test_arguments_that_lack_a_delta_are_not_compared() -> None:
    steps = (
        asked()
        .tool("started", name="f")
        .tool("delta", arguments_delta="{")
        .tool("delta", arguments_delta=7)
    )
    steps.tool("completed", name="f", arguments="{}")
    assert steps.rules == {"nnrp.tool-arguments-delta-not-string": 1}


def test_what_may_change_within_a_call_is_each_named_once() -> None:
    steps = asked().tool("started", name="f")
    for n in range(3):
        steps.tool("delta", arguments_delta="", index=n + 1, item_id=f"other_{n}")
    steps.tool("completed", name="g", arguments="{}", index=0)
    assert steps.rules == {
        "nnrp.tool-index-changed": 3,
        "nnrp.tool-item-id-changed": 3,
        "nnrp.tool-name-changed": 1,
    }


def test_calls_beyond_the_limit_are_said_and_not_held() -> None:
    steps = asked(limits=Limits(tool_calls=3))
    for number in range(8):
        call(steps, number)
    steps.server("RESULT_PUSH")
    assert (len(steps.op.calls), steps.rules) == (3, {})
    assert steps.op.exchange.inspection == "partial (tool-call-limit)"


def test_arguments_that_are_no_json_are_judged_by_how_the_answer_ended() -> None:
    for finish, rule in (("length", set()), ("tool_calls", {"nnrp.tool-arguments-not-json"})):
        steps = call(asked(), 1, '{"a')
        steps.ends(body={"choices": [{"finish_reason": finish}]})
        assert rule <= steps.rules.keys()
        assert ("nnrp.tool-arguments-truncated" in steps.noted) is (finish == "length")


def test_places_of_arguments_that_are_no_json_are_kept_within_a_bound() -> None:
    steps = asked()
    for number in range(MOST_UNPARSED + 20):
        call(steps, number, "{")
    assert len(steps.op.unparsed) == MOST_UNPARSED
    steps.server("RESULT_PUSH")
    assert steps.rules["nnrp.tool-arguments-not-json"] == MOST_UNPARSED
    assert steps.op.unparsed == []


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        (TOOLS, True),
        ([*TOOLS, {"type": "web_search"}], False),
        ([*TOOLS, {"type": "function", "function": {}}], False),
        ([], False),
    ],
)
def test_a_name_is_held_against_tools_that_all_have_one(tools: Any, named: bool) -> None:
    steps = Steps(tools=tools).tool("started", name="other")
    assert ("nnrp.tool-name-not-offered" in steps.rules) is named


@pytest.mark.parametrize("end", ["RESULT_DROP", "RESULT_DROP_REASON", "RESULT_PUSH"])
def test_an_open_call_is_nobody_s_fault_after_a_cancel(end: str) -> None:
    steps = asked().tool("started", name="f").client("FRAME_CANCEL")
    assert "nnrp.tool-unterminated" not in " ".join(steps.server(end).rules)
