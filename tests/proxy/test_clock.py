"""The time of an exchange begins at the wall clock's and never steps back."""

from __future__ import annotations

import time

import pytest

from teeline.proxy.clock import SystemClock


def test_an_exchange_keeps_its_time_when_the_wall_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall, monotonic = 1_000_000.0, 50.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic)
    now = SystemClock().start()
    assert now() == 1_000_000.0
    wall, monotonic = 500_000.0, 51.5
    assert now() == 1_000_001.5


def test_the_next_exchange_takes_the_wall_clock_as_it_is_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    clock = SystemClock()
    clock.start()
    wall = 2_000_000.0
    assert clock.start()() == 2_000_000.0
