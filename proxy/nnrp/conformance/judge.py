"""What came against what a recipe expects.

What belongs here: the public suite's rules for a passed case. What doesn't: what else is wrong on the wire,
which the rules of family nnrp name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from teeline.proxy.nnrp.conformance.suite import Expected, Recipe
from teeline.proxy.nnrp.observed import Observed


class Verdict(NamedTuple):
    """``reasons`` are empty where the case passed; they quote no peer."""

    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.reasons


def judge(recipe: Recipe, observed: Observed) -> Verdict:
    """Whether what came is what the recipe expects."""
    reasons: list[str] = []
    if not observed.end:
        reasons.append(observed.notes[-1] if observed.notes else "no end came")
    elif observed.terminal != recipe.terminal:
        reasons.append(f"the end is {observed.terminal}, not {recipe.terminal}")
    reasons += [note for note in observed.notes if note.endswith("no JSON object")]
    at = 0
    for expected in recipe.events:
        reason, at = _missed(expected, observed, at)
        if reason:
            reasons.append(reason)
    return Verdict(tuple(dict.fromkeys(reasons)))


def _missed(expected: Expected, observed: Observed, at: int) -> tuple[str, int]:
    """Why an expected event was missed, empty for not; and where the next one may be."""
    kinds = [event.get("type") for event in observed.events]
    count = kinds.count(expected.type)
    if count < expected.min_count:
        return f"{count} {expected.type}, at least {expected.min_count} are due", at
    if not expected.min_count and not (expected.optional and count):
        return "", at
    if expected.type not in kinds[at:]:
        return ("", at) if expected.optional else (f"{expected.type} came out of order", at)
    found = kinds.index(expected.type, at)
    if not contains(observed.events[found], expected.fields):
        return f"{expected.type} has not the fields that are due", found + 1
    return "", found + 1


def contains(value: Any, expected: Any) -> bool:
    """Whether a value has all that is expected: objects by their members, all else as equal."""
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(
            name in value and contains(value[name], member) for name, member in expected.items()
        )
    return type(value) is type(expected) and bool(value == expected)
