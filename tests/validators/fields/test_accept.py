"""A table's accepting function says yes where its explaining walker has nothing to say, and only there."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator
from typing import Any

import pytest

from teeline.validators import fields
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.table import (
    ARRAY,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    Field,
    Table,
    explain,
    optional,
    required,
    walk,
)

ODD: tuple[Any, ...] = (
    None, True, 0, -3, 2**70, 1.0, 1.5, float("nan"), float("inf"), "", "x", [], [None], [1], {}, {"a": 1},
)  # fmt: skip
VARIANTS = 300


def tables() -> Iterator[Table]:
    """Every table of the fields package, by the names of its modules."""
    for module in pkgutil.iter_modules(fields.__path__):
        for value in vars(importlib.import_module(f"{fields.__name__}.{module.name}")).values():
            held = value.values() if isinstance(value, dict) else (value,)
            yield from (one for one in held if isinstance(one, Table))


TABLES = {f"{n} {table.name}": table for n, table in enumerate(tables())}


class Objects:
    """Objects that mostly fit a table."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def object(self, table: Table) -> dict[str, Any]:
        made = {f.name: self._value(f) for f in table.fields if self._chance.random() < 0.95}
        if self._chance.random() < 0.1:
            made["unheard_of"] = 1
        return made

    def _value(self, item: Field) -> Any:
        chance = self._chance
        if chance.random() < 0.04:
            return chance.choice(ODD)
        if item.nullable and chance.random() < 0.2:
            return None
        kind = chance.choice(list(item.type))
        if kind is STRING:
            return chance.choice([*item.values, *item.named, "" if chance.random() < 0.1 else "x"])
        if kind is OBJECT:
            return self.object(item.table) if item.table else {"a": 1}
        if kind is ARRAY:
            return [self._value(item.items) for _ in range(2)] if item.items else [1]
        return {INTEGER: 7, NUMBER: 0.5}.get(kind, True)


def said_of(table: Table, value: dict[str, Any]) -> list[str]:
    said: list[str] = []

    def report(rule: str, pointer: str, value: Any = ABSENT, *, words: bool = False) -> None:
        said.append(rule)

    explain(table, value, "", report)
    return said


@pytest.mark.parametrize("name", TABLES)
def test_accepting_and_explaining_agree(name: str) -> None:
    objects = Objects(seed=len(name))
    table = TABLES[name]
    for _ in range(VARIANTS):
        value = objects.object(table)
        assert table.accepts(value) is not bool(said_of(table, value)), value


def test_a_member_that_may_be_null_but_not_absent() -> None:
    table = Table("t", (Field("a", STRING, absent="a.absent", wrong="a.wrong", nullable=True),))
    assert table.accepts({"a": None}) and table.accepts({"a": "x"})
    assert not table.accepts({}) and not table.accepts({"a": 1})


def test_numbers_that_are_none_and_elements_inside_elements() -> None:
    row = required("", ARRAY, "n.row", items=required("", NUMBER, "n.number"))
    table = Table("t", (optional("rows", ARRAY, "n.rows", items=row),))
    assert table.accepts({"rows": [[1, 0.5], []]})
    for odd in (float("nan"), float("-inf"), True, "1", None):
        assert not table.accepts({"rows": [[1, odd]]})


def test_an_accepted_object_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walker is for what was not accepted; a member that is left out may be the reason."""
    said: list[str] = []

    def report(rule: str, pointer: str, value: Any = ABSENT, *, words: bool = False) -> None:
        said.append(rule)

    table = Table("t", (required("a", STRING, "a.a"), required("b", STRING, "b.b")))
    walk(table, {"a": "x"}, "", report, frozenset({"b"}))
    assert said == []
    monkeypatch.setattr("teeline.validators.fields.table.explain", None)
    walk(table, {"a": "x", "b": "y"}, "", report)
