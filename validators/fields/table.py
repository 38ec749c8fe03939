"""Field tables: what an object of the API is, and which rule each breach of it carries.

A table is data. From it come the function that accepts an object (accept.py), the walker below that explains
a breach, and whatever else needs to know an object (docs, generated schemas, mutation tests). What a table
can't say, order and relations between fields, is in checks/.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from teeline.validators import evidence
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.accept import Accepts, compiled


class JsonType(enum.Flag):
    """The JSON types a field may have; NUMBER includes INTEGER, as in JSON Schema.

    INTEGRAL is an integer written as a float (1.0), for fields that no rule judges for it.
    """

    STRING = enum.auto()
    INTEGER = enum.auto()
    NUMBER = enum.auto()
    BOOLEAN = enum.auto()
    OBJECT = enum.auto()
    ARRAY = enum.auto()
    INTEGRAL = enum.auto()
    ANY = STRING | INTEGER | NUMBER | BOOLEAN | OBJECT | ARRAY


STRING, INTEGER, NUMBER = JsonType.STRING, JsonType.INTEGER, JsonType.NUMBER
WHOLE = JsonType.INTEGER | JsonType.INTEGRAL
BOOLEAN, OBJECT, ARRAY, ANY = JsonType.BOOLEAN, JsonType.OBJECT, JsonType.ARRAY, JsonType.ANY


@dataclass(frozen=True, slots=True)
class Field:
    """One member of an object. Every rule is optional: an empty one means that nothing is reported.

    ``absent``  the member is missing, or null where ``nullable`` is false
    ``wrong``   its value has another JSON type
    ``outside`` its value is not among ``values``
    ``named``   particular values that have a rule of their own
    ``empty``   its value is the empty string
    ``integral`` its value is an integer written as a float (1.0)

    An optional member that is null counts as absent whatever the specification says of null.
    """

    name: str
    type: JsonType
    absent: str = ""
    wrong: str = ""
    outside: str = ""
    empty: str = ""
    integral: str = ""
    nullable: bool = False
    values: frozenset[str] = frozenset()
    named: Mapping[str, str] = field(default_factory=dict)
    table: Table | None = None
    items: Field | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """An object: its documented members, names that vendors add knowingly, and the rule for others."""

    name: str
    fields: tuple[Field, ...]
    extensions: frozenset[str] = frozenset()
    unknown: str = ""
    _accepts: Accepts | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def accepts(self) -> Accepts:
        """Whether an object breaks none of this table's rules; made when it is first asked for."""
        made = self._accepts
        if made is None:
            made = compiled(self)
            object.__setattr__(self, "_accepts", made)
        return made

    @property
    def known(self) -> frozenset[str]:
        return frozenset(f.name for f in self.fields) | self.extensions


def required(name: str, kind: JsonType, rule: str, **more: Any) -> Field:
    """A member that must be there, not null and of its type: one rule for all three."""
    return Field(name, kind, absent=rule, wrong=rule, **more)


def optional(name: str, kind: JsonType, rule: str = "", **more: Any) -> Field:
    """A member that may be absent or null; ``rule`` where it has another type."""
    return Field(name, kind, wrong=rule, nullable=True, **more)


class Report(Protocol):
    """Takes a breach: the rule, the JSON Pointer, the value (ABSENT for none)."""

    def __call__(
        self, rule: str, pointer: str, value: Any = ABSENT, *, words: bool = False
    ) -> None: ...


_BITS = {
    bool: BOOLEAN.value,
    str: STRING.value,
    int: INTEGER.value | NUMBER.value,
    float: NUMBER.value | JsonType.INTEGRAL.value,
    dict: OBJECT.value,
    list: ARRAY.value,
}
"""The classes of decoded values; a plain mapping, since flags take ten times as long."""


def has_type(value: Any, wanted: JsonType) -> bool:
    """Whether a decoded JSON value has one of the types; 1.0 is an integer only for ``integral`` fields."""
    if not _BITS.get(type(value), 0) & wanted._value_:
        return False
    if not isinstance(value, float):
        return True
    return math.isfinite(value) if JsonType.NUMBER in wanted else value.is_integer()


def walk(
    table: Table,
    value: Mapping[str, Any],
    pointer: str,
    report: Report,
    skip: frozenset[str] = frozenset(),
) -> bool:
    """Reports every breach of ``table`` in ``value``, which lies at ``pointer``; never raises.

    True says that there is none; False may stand for breaches that carry no rule, too.
    """
    if (table._accepts or table.accepts)(value):
        return True
    explain(table, value, pointer, report, skip)
    return False


def explain(
    table: Table,
    value: Mapping[str, Any],
    pointer: str,
    report: Report,
    skip: frozenset[str] = frozenset(),
) -> None:
    """What ``walk`` does with an object that was not accepted."""
    for item in table.fields:
        if item.name not in skip:
            _member(item, value.get(item.name, ABSENT), f"{pointer}/{item.name}", report)
    if table.unknown:
        for name in unknown_names(table, value):
            report(table.unknown, f"{pointer}/{evidence.token(name)}", value[name])


def unknown_names(table: Table, value: Mapping[str, Any]) -> Iterator[str]:
    known = table.known
    return (name for name in value if name not in known)


def _member(item: Field, value: Any, pointer: str, report: Report) -> None:
    if value is ABSENT or value is None:
        if item.absent and not (value is None and item.nullable):
            report(item.absent, pointer, value)
        return
    if not has_type(value, item.type):
        _mistyped(item, value, pointer, report)
        return
    if isinstance(value, str):
        _text(item, value, pointer, report)
    elif item.table is not None and isinstance(value, dict):
        explain(item.table, value, pointer, report)
    elif item.items is not None and isinstance(value, list):
        for n, element in enumerate(value):
            _member(item.items, element, f"{pointer}/{n}", report)


def _mistyped(item: Field, value: Any, pointer: str, report: Report) -> None:
    if item.integral and isinstance(value, float) and value.is_integer():
        report(item.integral, pointer, value)
    elif item.wrong:
        report(item.wrong, pointer, value)


def _text(item: Field, value: str, pointer: str, report: Report) -> None:
    rule = item.named.get(value, "")
    if not rule and value == "" and item.empty:
        rule = item.empty
    if not rule and item.values and value not in item.values:
        rule = item.outside
    if rule:
        report(rule, pointer, value, words=True)
