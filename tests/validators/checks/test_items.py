"""Output items on their own: what each type owes, and when."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from teeline.validators.checks.context import Context
from teeline.validators.checks.items import check_item
from teeline.validators.fields.items import CALLS, ITEMS, UNFINISHED
from teeline.validators.fields.table import JsonType, Table
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange, Severity
from teeline.validators.operation import Operation
from tests.validators.mutations import ODD_VALUES

SAMPLES: tuple[tuple[JsonType, Any], ...] = (
    (JsonType.STRING, "x"),
    (JsonType.BOOLEAN, True),
    (JsonType.OBJECT, {}),
    (JsonType.ARRAY, []),
)


def found(item: Any, *, final: bool = True, beta: bool = False, **more: bool) -> dict[str, str]:
    """Rules that an item breaks, with the pointers of their places."""
    ctx = Context(Exchange(id="test"), Operation.RESPONSES, DEFAULT_LIMITS)
    ctx.beta = beta
    check_item(ctx, item, "/item", final=final, **more)
    return {v.rule.id: v.place.pointer for v in ctx.exchange.violations}


def whole(kind: str) -> dict[str, Any]:
    """An item of a type with every member that it owes."""
    item: dict[str, Any] = {"type": kind}
    if kind in CALLS:
        item |= {"call_id": "call_1", "name": "f", CALLS[kind]: "{}"}
    for table in (ITEMS[kind].state, ITEMS[kind].payload):
        item |= {f.name: sample(table, f.name) for f in table.fields if f.absent}
    return item


def sample(table: Table, name: str) -> Any:
    described = next(f for f in table.fields if f.name == name)
    if name == "status":
        return "completed"
    if described.values:
        return min(described.values)
    return next(value for kind, value in SAMPLES if kind in described.type)


@pytest.mark.parametrize("kind", sorted(ITEMS))
def test_an_item_with_what_it_owes_is_clean(kind: str) -> None:
    assert len(ITEMS) == 28
    assert found(whole(kind)) == {}


@pytest.mark.parametrize("kind", sorted(ITEMS))
def test_each_member_that_an_item_owes_is_missed(kind: str) -> None:
    """The rule is the member's own, and it is the only one."""
    for table in (ITEMS[kind].state, ITEMS[kind].payload):
        for member in (f for f in table.fields if f.absent):
            item = whole(kind)
            del item[member.name]
            assert found(item) == {member.absent: f"/item/{member.name}"}


@pytest.mark.parametrize("kind", sorted(ITEMS))
def test_an_item_that_is_not_over_owes_its_state_only(kind: str) -> None:
    """Official items come with id and status alone first: a search has no action yet."""
    item = {"type": kind, "id": "i_1", "role": "assistant", "status": "in_progress"}
    if "status" not in {f.name for f in ITEMS[kind].state.fields}:
        del item["status"]
    unlike = {"apply_patch_call_output", "program_output"}  # never in progress
    expected = {"responses.item-status-unknown": "/item/status"} if kind in unlike else {}
    assert found(item, final=False) == expected


@pytest.mark.parametrize("kind", sorted(set(ITEMS) - {"message", "reasoning", *CALLS}))
def test_an_unfinished_item_in_a_finished_response_owes_no_payload(kind: str) -> None:
    """That it is unfinished is one fault; what it lacks for that is none of its own."""
    statuses = next((f.values for f in ITEMS[kind].state.fields if f.name == "status"), frozenset())
    for status in statuses & UNFINISHED:
        assert found({"type": kind, "id": "i_1", "status": status}) == {}


@pytest.mark.parametrize("kind", sorted(ITEMS))
def test_null_is_absent_where_null_is_allowed(kind: str) -> None:
    item = whole(kind)
    for table in (ITEMS[kind].state, ITEMS[kind].payload):
        item |= {f.name: None for f in table.fields if not f.absent}
    assert found(item) == {}


@pytest.mark.parametrize("odd", ODD_VALUES, ids=lambda odd: repr(odd)[:24])
def test_no_value_anywhere_in_an_item_raises(odd: Any) -> None:
    found(odd)
    for kind in ITEMS:
        item = whole(kind)
        item["content"] = [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}]
        item["caller"] = {"type": "program"}
        for name in [*item, "function", "tool_calls", "phase"]:
            found({**item, name: odd})
    part = {"type": "output_text", "text": "x", "annotations": [{"type": "file_path"}]}
    for name in part:
        changed = copy.deepcopy(part)
        changed[name] = odd
        found({**whole("message"), "content": [odd, changed]})
        found({**whole("message"), "content": [{**part, "annotations": [odd, {"type": odd}]}]})


def test_the_form_of_chat_is_named_and_nothing_that_follows_from_it() -> None:
    called = {"id": "call_1", "function": {"name": "f", "arguments": "{}"}}
    nested = {"tools.nested-shape": "/item/function"}
    assert found({"type": "function_call", **called}) == nested
    assert found({"type": "function", **called}) == nested


def test_an_empty_type_is_none() -> None:
    assert set(found({"type": "", "id": "i_1"})) == {"responses.item-type-missing"}


def test_an_empty_call_id_is_a_string_but_no_use() -> None:
    assert set(found({**whole("function_call"), "call_id": ""})) == {"tools.id-empty"}


def test_arguments_are_judged_once_they_are_whole() -> None:
    call = {**whole("function_call"), "arguments": '{"a":'}
    assert set(found(call)) == {"tools.args-invalid-json"}
    assert set(found(call, cut=True)) == {"tools.args-truncated"}
    assert set(found({**call, "status": "incomplete"})) == {"tools.args-truncated"}
    assert found(call, arguments=False) == {}
    assert found({**call, "status": "in_progress"}) == {}
    assert found({**call, "arguments": ""}, final=False) == {}


def test_the_beta_form_has_items_of_its_own() -> None:
    assert found({"type": "agent_message", "agent": {}}, beta=True) == {}
    assert found({"type": "message"}, beta=True) == {}
    assert set(found({"id": "i_1"}, beta=True)) == {"responses.item-type-missing"}


def test_a_type_that_is_newer_than_we_are_is_an_observation() -> None:
    ctx = Context(Exchange(id="test"), Operation.RESPONSES, DEFAULT_LIMITS)
    check_item(ctx, {"type": "new_kind_call"}, "/item", final=True)
    assert [v.severity for v in ctx.exchange.violations] == [Severity.INFO]
