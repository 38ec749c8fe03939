"""Limits of time: each runs when it should, and none when it isn't set."""

from __future__ import annotations

import asyncio

import pytest

from teeline.config.model import Timeouts
from teeline.proxy.timers import Timers
from tests.proxy.raw import run


async def fired(timeouts: Timeouts, *steps: str) -> bool:
    """Whether a limit of 10 ms is over 50 ms after these steps."""
    late: list[int] = []
    timers = Timers(timeouts, lambda: late.append(1))
    for step in steps:
        getattr(timers, step)()
    await asyncio.sleep(0.05)
    timers.cancel()
    assert len(late) <= 1
    return bool(late)


@pytest.mark.parametrize(
    ("limit", "steps", "expected"),
    [
        ("total", [], True),
        ("total", ["request_ended", "answered"], True),
        ("total", ["cancel"], False),
        ("first_byte", [], False),
        ("first_byte", ["request_ended"], True),
        ("first_byte", ["request_ended", "answered"], False),
        ("idle", ["request_ended"], False),
        ("idle", ["request_ended", "answered"], True),
        ("idle", ["answered", "cancel"], False),
    ],
)
def test_a_limit_runs_from_its_step_on(limit: str, steps: list[str], expected: bool) -> None:
    assert run(fired(Timeouts(**{limit: 0.01}), *steps)) is expected


def test_pieces_that_keep_coming_are_not_too_late() -> None:
    async def test() -> None:
        late: list[int] = []
        timers = Timers(Timeouts(idle=0.1), lambda: late.append(1))
        timers.answered()
        for _ in range(15):
            await asyncio.sleep(0.02)
            timers.progress()
        assert not late
        await asyncio.sleep(0.2)
        assert late

    run(test())
