"""The threat model's claims are held by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(test_[a-z0-9_]+)`")
DEFINED = re.compile(r"^\s*(?:async )?def (test_[a-z0-9_]+)\(", re.M)


def test_each_test_that_the_threat_model_names_exists() -> None:
    named = set(NAMED.findall((ROOT / "docs/threat-model.md").read_text(encoding="utf-8")))
    defined: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        defined.update(DEFINED.findall(file.read_text(encoding="utf-8")))
    assert len(named) > 50
    assert sorted(named - defined) == []
