"""A field table reports each breach of an object once, by the rule in the table, at its pointer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.evidence import ABSENT
from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    Field,
    JsonType,
    Table,
    has_type,
    optional,
    required,
    unknown_names,
    walk,
)

INNER = Table("inner", (required("n", NUMBER, "n-type"),))
TABLE = Table(
    "outer",
    (
        required("id", STRING, "id-missing", empty="id-empty"),
        required("created", INTEGER, "created-type", integral="created-float"),
        required("kind", STRING, "kind-wrong", values=frozenset({"a"}), outside="kind-wrong"),
        Field(
            "why",
            STRING,
            absent="why-missing",
            wrong="why-type",
            values=frozenset({"stop"}),
            outside="why-unknown",
            named={"end_turn": "why-foreign"},
        ),
        optional("flag", BOOLEAN, "flag-type"),
        optional("inner", OBJECT, "inner-type", table=INNER),
        optional("list", ARRAY, "list-type", items=required("", OBJECT, "item-type", table=INNER)),
        Field("both", ARRAY, absent="both-missing", wrong="both-type", nullable=True),
    ),
    extensions=frozenset({"vendor"}),
    unknown="unknown",
)
VALID = {"id": "x", "created": 1, "kind": "a", "why": "stop", "both": None}
Breach = tuple[str, str, Any]


def breaches(value: dict[str, Any], skip: frozenset[str] = frozenset()) -> list[Breach]:
    found: list[Breach] = []

    def report(rule: str, pointer: str, value: Any = ABSENT, *, words: bool = False) -> None:
        found.append((rule, pointer, value))

    walk(TABLE, value, "/at", report, skip)
    return found


def test_a_valid_object_breaks_nothing() -> None:
    assert breaches(VALID) == []
    assert (
        breaches({**VALID, "flag": True, "inner": {"n": 1.5}, "list": [{"n": 1}], "both": []}) == []
    )


@pytest.mark.parametrize(
    ("name", "value", "rule", "at"),
    [
        ("id", ABSENT, "id-missing", ""),
        ("id", None, "id-missing", ""),
        ("id", 5, "id-missing", ""),
        ("id", "", "id-empty", ""),
        ("created", True, "created-type", ""),
        ("created", "1", "created-type", ""),
        ("created", 1.5, "created-type", ""),
        ("created", 1.0, "created-float", ""),
        ("created", float("inf"), "created-type", ""),
        ("created", float("nan"), "created-type", ""),
        ("kind", "b", "kind-wrong", ""),
        ("kind", "", "kind-wrong", ""),
        ("why", ABSENT, "why-missing", ""),
        ("why", 1, "why-type", ""),
        ("why", "", "why-unknown", ""),
        ("why", "end_turn", "why-foreign", ""),
        ("why", "other", "why-unknown", ""),
        ("flag", 0, "flag-type", ""),
        ("flag", "true", "flag-type", ""),
        ("inner", [], "inner-type", ""),
        ("inner", {}, "n-type", "/n"),
        ("inner", {"n": "1"}, "n-type", "/n"),
        ("list", {}, "list-type", ""),
        ("list", [{"n": 1}, None], "item-type", "/1"),
        ("list", [{"n": 1}, {"n": None}], "n-type", "/1/n"),
        ("both", ABSENT, "both-missing", ""),
        ("both", "", "both-type", ""),
        ("other", 1, "unknown", ""),
    ],
)
def test_each_breach_has_one_rule_and_its_pointer(
    name: str, value: Any, rule: str, at: str
) -> None:
    changed = {**VALID, name: value}
    if value is ABSENT:
        del changed[name]
    found = breaches(changed)
    assert [(r, p) for r, p, _ in found] == [(rule, f"/at/{name}{at}")]


@pytest.mark.parametrize("name", ["flag", "inner", "list", "both"])
def test_null_is_absent_where_a_member_may_be_absent(name: str) -> None:
    """P4."""
    assert breaches({**VALID, name: None}) == []


def test_what_is_skipped_is_not_looked_at() -> None:
    assert breaches({"why": "stop"}, frozenset({"id", "created", "kind", "both"})) == []


def test_vendor_members_are_known() -> None:
    assert breaches({**VALID, "vendor": 1}) == []
    assert list(unknown_names(TABLE, {**VALID, "vendor": 1, "b": 1, "a": 2})) == ["b", "a"]


@pytest.mark.parametrize(
    ("name", "token"), [("a/b", "a~1b"), ("a~b", "a~0b"), ("~1", "~01"), ("", "")]
)
def test_the_name_of_an_unknown_member_is_a_token_of_the_pointer(name: str, token: str) -> None:
    """RFC 6901 section 3."""
    assert breaches({**VALID, name: 1}) == [("unknown", f"/at/{token}", 1)]


@pytest.mark.parametrize(
    ("value", "types"),
    [
        ("", STRING),
        (True, BOOLEAN),
        (False, BOOLEAN),
        (0, INTEGER | NUMBER),
        (2**70, INTEGER | NUMBER),
        (1.0, NUMBER),
        (1e308, NUMBER),
        (float("nan"), JsonType(0)),
        (float("-inf"), JsonType(0)),
        ({}, OBJECT),
        ([], ARRAY),
        (None, JsonType(0)),
    ],
)
def test_a_value_has_its_own_json_types_and_no_other(value: Any, types: JsonType) -> None:
    for wanted in (STRING, INTEGER, NUMBER, BOOLEAN, OBJECT, ARRAY):
        assert has_type(value, wanted) is (wanted in types)
    assert has_type(value, ANY) is bool(types)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("nid"), inner),
    max_leaves=6,
)


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.dictionaries(st.sampled_from([*VALID, "flag", "inner", "list", "zz"]), JSON))
def test_no_value_raises_and_no_pointer_has_two_rules(value: dict[str, Any]) -> None:
    pointers = [pointer for _, pointer, _ in breaches(value)]
    assert len(pointers) == len(set(pointers))
