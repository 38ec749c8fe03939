"""Capability documents of any shape are judged and read, and what the profile allows is no fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.checks.reporter import Reporter
from teeline.validators.model import Exchange, Side, Verdict
from teeline.validators.nnrp.capabilities import (
    FORMS,
    Declared,
    capabilities_of,
    check_capabilities,
    form_of,
)
from teeline.validators.nnrp.examples import document
from tests.validators.nnrp.connections import inspect

PROFILE, CONFORMANCE = (
    json.loads(document({"on": f"nnrp-{name}"})[0]) for name in ("capabilities", "conformance")
)
ODD: tuple[Any, ...] = (None, True, 7, -1, 1.5, "", "x", [], {}, [7], [{}], [[]], {"a": 1})


def told(value: Any, form: str | None = None) -> set[str]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    exchange = Exchange()
    check_capabilities(Reporter(exchange), data, form)
    assert exchange.worst(Side.REQUEST) is None
    return {v.rule.id for v in exchange.violations if v.severity > 1}


def operation(name: str, **flags: Any) -> dict[str, Any]:
    return {"name": name, "streaming": True, "non_streaming": True, "tool_calls": True, **flags}


CHAT, RESPONSES, MODELS = map(
    operation, ("chat.completions.create", "responses.create", "models.list")
)


@pytest.mark.parametrize(
    "value",
    [
        PROFILE,
        CONFORMANCE,
        {**PROFILE, "operations": [CHAT, RESPONSES, MODELS]},
        {**PROFILE, "compatibility_levels": [1, 3], "operations": [CHAT, MODELS]},
        {**PROFILE, "compatibility_levels": [1, 2, 3], "operations": [CHAT, RESPONSES, MODELS]},
        {name: member for name, member in PROFILE.items() if name != "models"},
    ],
    ids=[
        "profile",
        "conformance",
        "operations-without-level",
        "one-of-level-3",
        "all",
        "no-models",
    ],
)
def test_what_the_profile_allows_is_no_fault(value: Any) -> None:
    assert told(value) == set()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("member", sorted({*PROFILE, *CONFORMANCE}))
def test_any_value_in_any_member_is_judged_without_an_error(member: str, form: str) -> None:
    for base in (PROFILE, CONFORMANCE):
        for value in ODD:
            rules = told({**base, member: value}, form)
            known = capabilities_of(json.dumps({**base, member: value}).encode())
            assert known is not None
            assert all(rule.startswith(("nnrp.capability-", "nnrp.conformance-")) for rule in rules)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"7", b"{", b"\xff", b"{}{}", b"\xef\xbb\xbf{}"]
)
def test_what_is_no_object_is_named_alone(data: bytes) -> None:
    assert told(data) == {"nnrp.capability-not-object"}


@pytest.mark.parametrize("levels", [[], [0], [True], [1.0], ["1"], [1, 1], None, {}, 1])
def test_levels_are_different_whole_numbers_from_one(levels: Any) -> None:
    assert told({**PROFILE, "compatibility_levels": levels}) == {"nnrp.capability-levels-invalid"}
    known = capabilities_of(json.dumps({**PROFILE, "compatibility_levels": levels}).encode())
    assert known is not None and all(type(level) is int and level > 0 for level in known.levels)


@pytest.mark.parametrize("flag", ["streaming", "non_streaming", "tool_calls", "cancellation"])
@pytest.mark.parametrize("value", [None, 0, 1, "true", []])
def test_a_flag_is_a_boolean_and_anything_else_says_nothing(flag: str, value: Any) -> None:
    wrong = {**PROFILE, "operations": [{**CHAT, flag: value}]}
    assert told(wrong) == {"nnrp.capability-operation-flag-invalid"}
    known = capabilities_of(json.dumps(wrong).encode())
    assert known is not None
    declared = known.operations["chat.completions.create"]
    assert flag == "cancellation" or getattr(declared, flag) is None


def test_of_two_operations_of_one_name_the_last_is_known_and_the_fault_named() -> None:
    twice = {**PROFILE, "operations": [CHAT, {**CHAT, "streaming": False}]}
    assert told(twice) == {"nnrp.capability-operation-duplicate"}
    known = capabilities_of(json.dumps(twice).encode())
    assert known is not None
    assert known.operations == {CHAT["name"]: Declared(False, True, True)}


def test_a_form_is_told_by_the_members_that_it_alone_has() -> None:
    assert (form_of(PROFILE), form_of(CONFORMANCE)) == FORMS
    odd: tuple[Any, ...] = (None, [], 7, {})
    for value in odd:
        assert form_of(value) == "profile"


def test_what_a_conformance_run_breaks_on_purpose_never_counts_against_the_server() -> None:
    """Its requests are the client's: an invalid body, an operation that nobody has."""
    refused = {
        "/2/json/error": '{"type":"invalid_request_error","code":"missing_messages","message":"m"}'
    }
    without = {"on": "nnrp-error", "remove": ["/1/json/body/messages"], "set": refused}
    (seen,) = inspect(without)
    assert seen.verdict is Verdict.PASS and seen.client_verdict is not Verdict.PASS
