"""Exchanges for tests of the inspector: the legal and faulty ones of tests/cases, and the rules' examples."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from teeline.validators.events import Found, Output
from teeline.validators.exchangefile import parse, replay
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Circumstances, Exchange
from teeline.validators.rules import register
from teeline.validators.rules.examples import exchange, over_http
from tests.validators.schemas import answer_schema_checks

CASES = Path(__file__).parents[1] / "cases"
NOW = 1_796_000_000.0
"""Behind the times in the cases and examples: late 2026."""

Cut = Callable[[bytes], list[bytes]]
Finding = tuple[str, str, tuple[object, ...], str, int, Circumstances]


def cases() -> dict[str, dict[str, Any]]:
    """The exchange files of tests/cases by name."""
    return {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in sorted(CASES.glob("*.json"))}


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """The bad and the good example of every rule that is about HTTP exchanges."""
    for rule in register().values():
        if not over_http(rule):
            continue
        yield f"{rule.id}/bad", exchange(rule.bad)
        yield f"{rule.id}/good", exchange(rule.good)


def inspect(
    document: dict[str, Any],
    cut: Cut | None = None,
    limits: Limits = DEFAULT_LIMITS,
    history: History | None = None,
) -> Exchange:
    """What an inspector says of an exchange that is fed in the pieces that ``cut`` makes."""
    inspector = Inspector(Exchange(id="test"), limits, history)
    outputs: list[Output] = list(replay(inspector, parse(document), NOW, cut=cut))
    outputs += answer_schema_checks(inspector, outputs, NOW)
    reported = [o.violation.rule.id for o in outputs if isinstance(o, Found)]
    assert reported == [v.rule.id for v in inspector.exchange.violations]
    return inspector.exchange


def findings(seen: Exchange) -> list[Finding]:
    """Everything that must not depend on how the bytes were cut, in the order in which it came to light."""
    return [
        (v.rule.id, v.severity.word, tuple(v.place), v.evidence, v.count, v.circumstances)
        for v in seen.violations
    ]


def whole(body: bytes) -> list[bytes]:
    return [body] if body else []


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[n : n + 1] for n in range(len(body))]


def partition(seed: int) -> Cut:
    """Cuts at random places, the same ones for the same seed and body."""

    def cut(body: bytes) -> list[bytes]:
        chance = random.Random(seed * 1_000_003 + len(body))
        cuts = sorted(chance.sample(range(len(body) + 1), min(len(body), chance.randint(1, 24))))
        bounds = [0, *cuts, len(body)]
        return [body[a:b] for a, b in pairwise(bounds) if a < b]

    return cut
