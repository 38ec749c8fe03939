"""Exchanges made after public fault reports get the verdict they deserve."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.model import Verdict
from tests.validators.exchanges import cases, inspect

CASES = cases()


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_verdict_is_right_and_names_the_fault(name: str) -> None:
    expect: dict[str, Any] = CASES[name]["expect"]
    seen = inspect(CASES[name])
    assert seen.verdict in {expect["verdict"], *expect.get("also_ok", ())}
    if expect["verdict"] != Verdict.PASS:
        found = {v.rule.id for v in seen.violations}
        assert set(expect.get("rules", ())) <= found
        some = set(expect.get("rules_any", ()))
        assert not some or some & found
