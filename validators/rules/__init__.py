"""The register: every rule that can be reported, read from the TOML files beside this module.

A rule is declared once, in the file of its family; nothing else in teeline repeats its severity or its
words. What belongs here: reading and checking the declarations. What doesn't: finding breaches (checks/),
turning examples into exchanges (examples.py).
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from teeline.validators.model import Rule, RuleSource, Severity

_HEADS = frozenset({"severity", "summary", "why", "fix", "source", "bad", "good"})
_OPTIONAL = frozenset({"core", "seed", "deduction", "side"})
_SIDES = frozenset({"", "client", "server", "either"})


class RuleDeclarationError(ValueError):
    """A declaration lacks a head, has an unknown one, or repeats an id: our own mistake, found at start."""


def _rule(rule_id: str, heads: Mapping[str, Any], family: str) -> Rule:
    missing = _HEADS - heads.keys()
    unknown = heads.keys() - _HEADS - _OPTIONAL
    if missing or unknown:
        raise RuleDeclarationError(
            f"{rule_id}: missing {sorted(missing)}, unknown {sorted(unknown)}"
        )
    if heads.get("side", "") not in _SIDES:
        raise RuleDeclarationError(f"{rule_id}: unknown side")
    if rule_id.partition(".")[0] != family:
        raise RuleDeclarationError(f"{rule_id} is declared in the file of family {family}")
    return Rule(
        id=rule_id,
        severity=Severity.parse(heads["severity"]),
        summary=heads["summary"],
        why=heads["why"],
        fix=heads["fix"],
        source=RuleSource(heads["source"], heads.get("seed", ""), heads.get("deduction", 0)),
        bad=heads["bad"],
        good=heads["good"],
        core=heads.get("core", False),
        blames=heads.get("side", ""),
    )


@functools.cache
def register() -> Mapping[str, Rule]:
    """All rules by id, families in the order of their file names."""
    rules: dict[str, Rule] = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".toml") or file.name.startswith("_"):
            continue
        # A large family has several files, chat_a.toml and chat_b.toml.
        family = file.name.removesuffix(".toml").partition("_")[0]
        for rule_id, heads in tomllib.loads(file.read_text(encoding="utf-8")).items():
            if rule_id in rules:
                raise RuleDeclarationError(f"{rule_id} is declared twice")
            rules[rule_id] = _rule(rule_id, heads, family)
    return rules
