"""Recipes are chosen by what a capability document declares, and by nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.nnrp.conformance.plan import Plan, plan
from teeline.proxy.nnrp.conformance.suite import Recipe, load
from teeline.validators.nnrp.capabilities import capabilities_of
from tests.proxy.nnrp.conformance.schemas import PLAN, validate

CHAT = {
    "name": "chat.completions.create",
    "streaming": True,
    "non_streaming": False,
    "tool_calls": False,
    "cancellation": True,
}


def declaring(**changes: Any) -> bytes:
    document = {"adapter": "a", "compatibility_levels": [1], "operations": [CHAT], **changes}
    return json.dumps(document).encode()


def recipe(*required: str, status: str = "mandatory", name: str = "r") -> Recipe:
    return Recipe(name, "op", {"body": {}}, {}, (), "success", required, status)


def made(recipes: list[Recipe], document: bytes) -> Plan:
    capabilities = capabilities_of(document)
    assert capabilities is not None
    return plan(recipes, capabilities, document)


@pytest.mark.parametrize(
    ("token", "declared"),
    [
        ("api.level1", True),
        ("api.level2", False),
        ("api.chat.completions.create", True),
        ("api.responses.create", False),
        ("api.streaming", True),
        ("api.non_streaming", False),
        ("api.tool_calls", False),
        ("api.cancellation", True),
        ("api.extension.x", True),
        ("api.extension.y.critical", True),
        ("api.extension.y", False),
    ],
)
def test_each_declaration_has_its_word(token: str, declared: bool) -> None:
    extensions = [{"name": "x", "critical": False}, {"name": "y", "critical": True}]
    result = made([recipe(token)], declaring(extensions=extensions))
    assert bool(result.selected) is declared
    assert bool(result.not_claimed) is not declared


@pytest.mark.parametrize("status", ["experimental", "deprecated"])
def test_what_is_not_settled_is_informational(status: str) -> None:
    result = made([recipe(status=status)], declaring())
    assert (len(result.selected), len(result.informational)) == (0, 1)


@pytest.mark.parametrize(
    "document", [b"{}", b'{"operations":[7],"extensions":{}}', b'{"extensions":[{"name":[]}]}']
)
def test_a_document_that_declares_nothing_claims_nothing(document: bytes) -> None:
    result = made([recipe("api.level1"), recipe()], document)
    assert len(result.not_claimed) == len(result.selected) == 1
    assert result.adapter == "unnamed-adapter"


def test_the_plan_is_written_as_the_public_suite_writes_it() -> None:
    result = made(load(None), declaring())
    document = result.document("results.json")
    validate(document, PLAN)
    assert document["adapter"] == "a"
    rows = document["coverage_matrix"]
    assert sum(row["summary"]["selected_cases"] for row in rows) == len(document["cases"])
    everything = sum(sum(row["statuses"].values()) for row in rows)
    assert everything == len(load(None))
