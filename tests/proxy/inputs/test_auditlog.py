"""A record of an audit log is judged again by what it kept, and says that nothing was inspected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.audit.chain import Chain
from teeline.proxy.audit.record import exchange_record
from teeline.proxy.inputs.auditlog import is_record, items
from teeline.proxy.inputs.items import Item, Problem
from teeline.validators.model import Circumstances, Exchange, Severity, Violation
from teeline.validators.rules import register
from tests.proxy.samples import exchange, violation

DONE = "chatstream.done-missing"


def line(*violations: Violation, **facts: Any) -> bytes:
    return Chain("c").link(1.0, exchange_record(exchange(*violations, **facts)))


def changed(**changes: Any) -> bytes:
    return Chain("c").link(1.0, {**exchange_record(exchange(violation())), **changes})


def read(*lines: bytes) -> list[Item | Problem]:
    return list(items(iter(enumerate(lines, 1)), "a.jsonl", register()))


def restored(data: bytes) -> Exchange:
    (item,) = read(data)
    assert isinstance(item, Item) and isinstance(item.source, Exchange)
    return item.source


def test_facts_and_findings_come_back() -> None:
    seen = Circumstances(frozenset({"whole-entry"}), frozenset({"a"}))
    found = violation(DONE, count=3, circumstances=seen)
    back = restored(line(found, profile="mistral"))
    assert (back.method, back.path, back.operation) == ("POST", "/v1/chat/completions", "chat")
    assert (back.model, back.status, back.stream, back.finish) == (
        "gpt-4o-mini",
        200,
        True,
        ["stop"],
    )
    assert back.marks.recorded == "mistral"
    assert back.inspection == "none"
    (again,) = back.violations
    assert again.rule is register()[DONE]
    assert (again.message, again.evidence) == (found.message, found.evidence)
    assert (again.place, again.count, again.circumstances) == (found.place, 3, seen)


def test_a_finding_starts_from_its_rule_s_severity_again() -> None:
    """What a policy made of it then is what a policy may make otherwise now."""
    (again,) = restored(line(violation(DONE, Severity.INFO))).violations
    assert again.severity is Severity.FAIL


def test_other_records_are_no_exchanges_and_lines_keep_their_numbers() -> None:
    opening = Chain("c").link(1.0, {"kind": "open"})
    (item,) = read(opening, line())
    assert isinstance(item, Item)
    assert (item.name, item.line) == ("line 2", 2)


def test_a_rule_that_is_not_known_is_told_of_and_the_rest_is_read() -> None:
    problem, item = read(line(violation("chat.invented"), violation(DONE)))
    assert problem == Problem("a.jsonl", "line 1: unknown rule chat.invented", 1)
    assert isinstance(item, Item) and isinstance(item.source, Exchange)
    assert [v.rule.id for v in item.source.violations] == [DONE]


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"x\n",
        line()[:-30],
        changed(violations=5),
        changed(violations=[5]),
        changed(violations=[{"rule": DONE}]),
        changed(violations=[{"rule": DONE, "place": {"side": "left", "unit": "event"}}]),
    ],
)
def test_a_broken_line_is_named_and_costs_the_others_nothing(data: bytes) -> None:
    problem, item = read(data, line())
    assert isinstance(problem, Problem)
    assert problem.text.startswith("line 1: not ")
    assert isinstance(item, Item)


def test_members_of_another_type_are_as_absent() -> None:
    back = restored(changed(model=5, status="200", finish=7, events=[], stream=1, profile={}))
    assert (back.model, back.status, back.finish, back.events) == (None, None, [], 0)
    assert (back.stream, back.marks.recorded) == (False, "")


def test_a_record_is_told_by_what_chains_it() -> None:
    assert is_record(json.loads(line()))
    assert not is_record({"endpoint": "/v1/models", "response": {}})
    assert not is_record([])
