"""What an upstream showed is known to its own later exchanges, and to no other upstream's."""

from __future__ import annotations

from teeline.proxy.memory import Inspectors
from teeline.validators.exchangefile import parse, replay
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.rules.examples import exchange

NOW = 1_796_000_000.0


def repeated(inspectors: Inspectors, upstream: str) -> bool:
    seen = Exchange(upstream=upstream)
    replay(inspectors(seen, DEFAULT_LIMITS), parse(exchange({"on": "chat"})), NOW)
    return "cross.duplicate-id" in {v.rule.id for v in seen.violations}


def test_an_upstream_that_repeats_an_id_is_found() -> None:
    inspectors = Inspectors()
    assert [repeated(inspectors, "a") for _ in range(3)] == [False, True, True]


def test_upstreams_and_servers_have_memories_of_their_own() -> None:
    inspectors = Inspectors()
    assert not repeated(inspectors, "a")
    assert not repeated(inspectors, "b")
    assert not repeated(Inspectors(), "a")
