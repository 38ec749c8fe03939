"""Under load, with clients that leave and a server that drops, breaks and restarts, every end is proper."""

from __future__ import annotations

from tests.proxy.nnrp.soak import soak
from tests.proxy.raw import run


def test_two_hundred_mixed_operations_end_properly() -> None:
    tally = run(soak(200, seed=1))
    assert tally.faults == []
    assert sum(tally.ends.values()) == 200
    assert tally.restarts == 5
    assert tally.ends["answer"] and tally.ends["error"] and tally.ends["left"]
    assert tally.cancels
