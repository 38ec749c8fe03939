"""Which recipes are run against a server that declares itself by a capability document.

What belongs here: selection by declared capabilities, and the plan as the public suite writes it. What
doesn't: running it (runner.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from teeline.proxy.nnrp.conformance.suite import STATUSES, Recipe
from teeline.validators.fields.nnrp import PROFILE, SCHEMA_VERSION, is_filled
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.wire.json import decode

UNNAMED: Final = "unnamed-adapter"
_INFORMATIONAL: Final = ("experimental", "deprecated")
_MODES: Final = ("streaming", "non_streaming", "tool_calls", "cancellation")


@dataclass(frozen=True, slots=True)
class Plan:
    """``selected`` are run; ``informational`` are only where that is asked for; the rest is not claimed."""

    adapter: str
    selected: Sequence[Recipe]
    informational: Sequence[Recipe]
    not_claimed: Sequence[Recipe]

    def document(self, results: str) -> dict[str, Any]:
        """The plan as an api-profile-execution-plan; ``results``: where the results will lie."""
        return {
            "profile": PROFILE,
            "schema_version": SCHEMA_VERSION,
            "adapter": self.adapter,
            "artifacts": {"results_path": results, "evidence_dir": ""},
            "coverage_matrix": self._coverage(),
            "cases": [_case(recipe) for recipe in self.selected],
        }

    def _coverage(self) -> list[dict[str, Any]]:
        """One row for each operation with the same required capabilities."""
        everything = [*self.selected, *self.informational, *self.not_claimed]
        keys = dict.fromkeys((recipe.operation, recipe.required) for recipe in everything)
        rows = []
        for operation, required in keys:
            same = [r for r in everything if (r.operation, r.required) == (operation, required)]
            selected = [recipe for recipe in same if recipe in self.selected]
            summary = {
                "selected_cases": len(selected),
                "not_claimed_cases": sum(recipe in self.not_claimed for recipe in same),
                "informational_cases": sum(recipe in self.informational for recipe in same),
            }
            rows.append(
                {
                    "feature": operation,
                    "required_capabilities": list(required),
                    "summary": summary,
                    "statuses": {
                        f"{status}_cases": sum(recipe.status == status for recipe in same)
                        for status in STATUSES
                    },
                    "case_ids": [recipe.id for recipe in selected],
                }
            )
        return rows


def _case(recipe: Recipe) -> dict[str, Any]:
    return {
        "id": recipe.id,
        "operation": recipe.operation,
        "status": recipe.status,
        "required_capabilities": list(recipe.required),
        "request": recipe.request,
        "expect": recipe.expect,
    }


def plan(recipes: Iterable[Recipe], declared: Capabilities, document: bytes) -> Plan:
    """The plan for a server; ``document`` is the text that ``declared`` was read from."""
    tokens = _tokens(declared, document)
    value = decode(document).value
    adapter = value.get("adapter") if isinstance(value, dict) else None
    made: Mapping[str, list[Recipe]] = {"selected": [], "informational": [], "not_claimed": []}
    for recipe in recipes:
        if not tokens.issuperset(recipe.required):
            made["not_claimed"].append(recipe)
        elif recipe.status in _INFORMATIONAL:
            made["informational"].append(recipe)
        else:
            made["selected"].append(recipe)
    return Plan(adapter if is_filled(adapter) else UNNAMED, **made)


def _tokens(declared: Capabilities, document: bytes) -> set[str]:
    """What a document declares, in the words of ``required_capabilities``."""
    tokens = {f"api.level{level}" for level in declared.levels}
    tokens |= {f"api.{name}" for name in declared.operations}
    value = decode(document).value
    operations = value.get("operations") if isinstance(value, dict) else None
    for entry in operations if isinstance(operations, list) else ():
        if isinstance(entry, dict):
            tokens |= {f"api.{mode}" for mode in _MODES if entry.get(mode) is True}
    extensions = value.get("extensions") if isinstance(value, dict) else None
    for entry in extensions if isinstance(extensions, list) else ():
        if isinstance(entry, dict) and is_filled(entry.get("name")):
            critical = entry.get("critical") is True
            tokens |= {f"api.extension.{entry['name']}{'.critical' if critical else ''}"}
    return tokens
