"""Recipes of any shape are judged: what they must say, and what is no fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.checks.reporter import Reporter
from teeline.validators.fields.nnrp import EVENTS, TERMINALS
from teeline.validators.model import Exchange
from teeline.validators.nnrp.examples import document
from teeline.validators.nnrp.recipes import check_recipe

RECIPE: dict[str, Any] = json.loads(document({"on": "nnrp-recipe"})[0])
INCOMPLETE = "nnrp.recipe-incomplete"
HEX = "nnrp.recipe-hex-fixture"


def told(recipe: Any) -> list[tuple[str, str, int]]:
    data = recipe if isinstance(recipe, bytes) else json.dumps(recipe).encode()
    exchange = Exchange()
    check_recipe(Reporter(exchange), data)
    return [(v.rule.id, v.place.pointer, v.count) for v in exchange.violations]


@pytest.mark.parametrize("member", ["operation", "request", "expect"])
def test_a_member_that_is_not_there_is_named(member: str) -> None:
    rest = {name: value for name, value in RECIPE.items() if name != member}
    assert told(rest) == [(INCOMPLETE, f"/{member}", 1)]


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 200, b"{}{}"])
def test_what_is_no_object_has_nothing_of_a_recipe(data: bytes) -> None:
    assert told(data) == [(INCOMPLETE, "", 1)]


def test_every_event_of_the_profile_may_be_expected_in_any_number() -> None:
    kinds = sorted({*EVENTS, *TERMINALS})
    assert len(kinds) == 9
    expect = {"events": [{"type": kind} for kind in kinds], "terminal": "success"}
    assert told({**RECIPE, "expect": expect}) == []
    assert told({**RECIPE, "expect": {"events": [], "terminal": "error"}}) == []


def test_an_event_without_a_type_is_no_expected_event() -> None:
    expect = {"events": [{}, 7, {"type": ""}], "terminal": "success"}
    assert told({**RECIPE, "expect": expect}) == [(INCOMPLETE, "/expect/events/0/type", 3)]


@pytest.mark.parametrize(
    ("request_", "pointer"),
    [
        ("4e4e5250 01001028 00000000 48000000 9d000000", "/request"),
        ("0x4e4e525001001028", "/request"),
        ("TktOUlABABAoAAAAAEgAAAA=", "/request"),
        ({"body": "4e4e525001001028000000004800000"}, "/request/body"),
        ({"hex": "4e4e"}, "/request/hex"),
        ({"body_base64": "e30="}, "/request/body_base64"),
    ],
)
def test_bytes_in_place_of_a_body_are_named_and_nothing_else(request_: Any, pointer: str) -> None:
    assert told({**RECIPE, "request": request_}) == [(HEX, pointer, 1)]


@pytest.mark.parametrize("request_", [{}, {"body": "Say hello."}, {"body": []}, 7, "${REQUEST}"])
def test_other_requests_without_a_body_are_incomplete(request_: Any) -> None:
    assert [rule for rule, _, _ in told({**RECIPE, "request": request_})] == [INCOMPLETE]


def test_a_readable_body_may_hold_anything() -> None:
    body = {"model": "m", "input": "4e4e525001001028000000004800000" * 9, "base64": "e30="}
    assert told({**RECIPE, "request": {"body": body, "nnrp": {}}}) == []


@pytest.mark.parametrize("value", [None, 7, [], {}, True, "x" * 100_000, "\ud800", 1e308])
@pytest.mark.parametrize("member", sorted(RECIPE))
def test_any_value_in_any_member_is_judged_without_an_error(member: str, value: Any) -> None:
    rules = {rule for rule, _, _ in told({**RECIPE, member: value})}
    assert all(rule.startswith("nnrp.recipe-") for rule in rules)
    free = member == "id" or (member == "operation" and isinstance(value, str))
    assert bool(rules) == (not free)  # a recipe may ask for an operation that must be refused


def test_long_texts_cost_time_in_proportion_to_their_length() -> None:
    """No pattern goes back over what it has read: a text of 4 MiB that almost matches is refused at once."""
    for text in ("4e " * 1_400_000 + "g", "QUJD\n" * 800_000 + "!", "4e" + " " * 4_000_000 + "g"):
        assert [rule for rule, _, _ in told({**RECIPE, "request": {"body": text}})] == [INCOMPLETE]
