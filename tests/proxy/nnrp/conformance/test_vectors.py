"""Vectors are the same bytes each time, and say of a connection what the inspector finds."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from teeline.proxy.nnrp.conformance.vectors import (
    Vector,
    conversations,
    generated,
    of_conversations,
    of_recipes,
    of_rules,
)
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Severity, Side
from teeline.validators.nnrp.examples import Conversation, Sent
from teeline.validators.rules import register
from teeline.validators.wire.nnrp import Message, Splitter
from tests.validators.nnrp.connections import exchanges, outputs

KEPT = Path(__file__).parents[3] / "cases" / "nnrp" / "vectors.jsonl"
OWN = list(of_conversations())
RULES = list(of_rules())


def found(vector: Vector) -> dict[str, Severity]:
    """What the inspector says of a vector's bytes, read back from its line."""
    value = json.loads(vector.line())
    sides = {"client": Side.REQUEST, "server": Side.RESPONSE}
    sent = [Sent(sides[s["side"]], base64.b64decode(s["bytes"]), s["at"]) for s in value["sent"]]
    capabilities = value.get("capabilities")
    limits = DEFAULT_LIMITS.__class__(**value.get("limits", {}))
    capabilities = capabilities.encode() if capabilities is not None else None
    made = Conversation(tuple(sent), value["close"], capabilities, limits)
    seen = exchanges(outputs(made))
    return {v.rule.id: v.severity for e in seen for v in e.violations if v.rule.family == "nnrp"}


@pytest.mark.parametrize("vector", [*OWN, *RULES], ids=lambda vector: vector.id)
def test_a_vector_names_what_its_bytes_break(vector: Vector) -> None:
    seen = found(vector)
    expected = set(vector.value["rules"])
    assert {rule for rule, severity in seen.items() if severity >= Severity.WARN} <= expected
    nnrp = {rule for rule in expected if rule.startswith("nnrp.")}
    assert nnrp <= seen.keys()


def test_conversations_show_clean_ones_and_broken_ones() -> None:
    broken = [told["id"] for told in conversations() if told["rules"]]
    assert 5 <= len(broken) <= len(OWN) - 5
    assert len({vector.id for vector in generated()}) == len(list(generated()))


def test_every_rule_of_a_connection_has_its_vectors() -> None:
    of = {vector.id.split("/")[1] for vector in RULES}
    rules = {rule for rule in register() if rule.startswith("nnrp.")}
    others = ("nnrp.capability-", "nnrp.conformance-", "nnrp.recipe-", "nnrp.bridge-")
    assert {rule for rule in rules - of if not rule.startswith(others)} == set()


def test_a_recipe_s_vector_is_its_submit() -> None:
    for vector in of_recipes():
        (packet,) = Splitter(1 << 20).feed(base64.b64decode(vector.value["submit"]))
        assert packet.type == Message.FRAME_SUBMIT


def test_the_kept_vectors_are_regenerated_byte_for_byte() -> None:
    """Written by ``teeline nnrp vectors --kind conversation --kind recipe``."""
    made = "".join(vector.line() for vector in generated(("conversation", "recipe")))
    assert made == KEPT.read_text(encoding="utf-8")


def test_another_process_makes_the_same_bytes() -> None:
    code = (
        "from teeline.proxy.nnrp.conformance.vectors import generated\n"
        "import sys\n"
        "sys.stdout.writelines(v.line() for v in generated())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=60
    )
    assert run.stdout.decode() == "".join(vector.line() for vector in generated())
