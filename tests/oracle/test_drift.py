"""What the official package knows of an answer, teeline knows, but for what it leaves out on purpose."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import BaseModel

from teeline.validators.fields.items import ITEMS
from teeline.validators.fields.respevents import EVENTS
from teeline.validators.fields.table import NUMBER, STRING, Field, optional, required
from teeline.validators.rules import register
from tests.oracle.deliberate import DELIBERATE, deliberate
from tests.oracle.described import Pair, pairs
from tests.oracle.differences import differences
from tests.oracle.drift import drift
from tests.oracle.official import by_type, members, name


def test_no_difference_is_left_that_nobody_judged() -> None:
    """``python -m tests.oracle.drift`` prints them; each becomes a row, a rule or a reason."""
    assert drift() == []


def test_each_difference_has_one_reason_in_words() -> None:
    repeated = {line for line, count in Counter(deliberate()).items() if count > 1}
    assert repeated == set()
    assert all(len(reason) > 20 and text.strip() for reason, text in DELIBERATE.items())


def test_the_types_of_events_and_items_are_those_of_the_package() -> None:
    assert EVENTS.keys() | {"error"} == by_type(ResponseStreamEvent).keys()
    assert ITEMS.keys() == by_type(ResponseOutputItem).keys()
    assert (len(by_type(ResponseStreamEvent)), len(ITEMS)) == (59, 28)


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: name(pair.official))
def test_every_breach_of_a_member_has_a_rule(pair: Pair) -> None:
    """Those that are named are declared; what is required here is never silent."""
    declared = register()
    for field in pair.fields.values():
        assert rules_of(field) <= set(declared), field.name
    required = {n for n, m in members(pair.official).items() if m.required}
    silent = {n for n in required & pair.fields.keys() if not rules_of(pair.fields[n])}
    judged = {"finish_reason", "data", "usage", "embedding", "choices"}
    assert silent <= judged


class Newer(BaseModel):
    """What a later version of the package might say of an object."""

    kept: str
    kind: Literal["a", "c"]
    many: list[str]
    optional: str | None = None
    added: int | None = None
    demanded: float


def test_whatever_a_later_version_changes_shows() -> None:
    here = (
        required("kept", STRING, "x"),
        required("kind", STRING, "x", values=frozenset("ab")),
        required("many", STRING, "x"),
        required("optional", STRING, "x"),
        optional("demanded", NUMBER),
        optional("dropped", STRING),
    )
    found = differences([Pair(Newer, {field.name: field for field in here})], ())
    assert {line.partition(".Newer.")[2] for line in found} == {
        "kind: only here b",
        "kind: only there c",
        "many: string here, array there",
        "optional: required here",
        "added: only there",
        "demanded: required there",
        "dropped: only here",
    }


def rules_of(field: Field) -> set[str]:
    every = {field.absent, field.wrong, field.outside, field.empty, field.integral}
    return (every | set(field.named.values())) - {""}
