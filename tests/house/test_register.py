"""The register and the checks agree: what is declared is reported, and what is reported is declared."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from teeline.validators.rules import register

ROOT = Path(__file__).parents[2]
FAMILIES = {rule.family for rule in register().values()}
LITERAL = re.compile(r'"((?:' + "|".join(sorted(FAMILIES)) + r')\.[a-z0-9-]+)"')


NAMES = {"chat.completion", "responses.create", "models.list", "embeddings.create"}
"""Names of objects and of NNRP operations that look like rules."""


def ids_in_code(without: str = "") -> set[str]:
    files = [p for p in (ROOT / "validators").rglob("*.py") if p.parent.name != without]
    text = "\n".join(p.read_text(encoding="utf-8") for p in files)
    return set(LITERAL.findall(text)) - NAMES


def test_no_rule_is_declared_that_nothing_reports() -> None:
    """The detectors name rules, too, but only to say what they cost."""
    assert sorted(set(register()) - ids_in_code(without="detectors")) == []


def test_no_rule_is_reported_that_is_not_declared() -> None:
    assert sorted(ids_in_code() - set(register())) == []


def test_one_module_holds_the_register() -> None:
    """A second copy under a bare name would be a second truth."""
    copies = {
        name
        for name, module in sys.modules.items()
        if getattr(module, "register", None) is not None and name.endswith("validators.rules")
    }
    assert copies == {"teeline.validators.rules"}
