"""The table of families counts what the register has, and describes each family."""

from __future__ import annotations

import dataclasses

import pytest

from teeline.proxy.reports.familytable import FAMILIES, family_table
from teeline.validators.rules import register


def test_every_family_has_a_line_and_no_line_is_without_one() -> None:
    rules = register()
    assert set(FAMILIES) == {rule.family for rule in rules.values()}
    rows = family_table(rules, "docs/rules").splitlines()[2:]
    assert [row.split("]")[0].removeprefix("| [") for row in rows[:-1]] == list(FAMILIES)
    assert rows[-1].startswith(f"| | {len(rules)} | ")


def test_rules_and_those_that_fail_are_counted() -> None:
    rules = {k: v for k, v in register().items() if k in ("sse.separator-missing", "sse.bom")}
    some = {k: v for k, v in register().items() if v.family == "timing"} | rules
    table = family_table(some, "r")
    assert f"| [timing](r/timing.md) | {len(some) - len(rules)} | 0 | " in table
    assert f"| [sse](r/sse.md) | {len(rules)} | 1 | " in table


def test_a_family_without_a_line_is_no_silent_gap() -> None:
    rule = dataclasses.replace(next(iter(register().values())), id="unheard.of")
    with pytest.raises(KeyError, match="unheard"):
        family_table({rule.id: rule}, "r")
