"""An upstream's numbers are those of its window, however they came in."""

from __future__ import annotations

import random

import pytest

from teeline.proxy.monitor.latency import bucket
from teeline.proxy.monitor.traffic import SLOT, SLOTS, Traffic

NOW = 1_800_000_000.0


def test_rates_are_those_of_a_minute_and_shares_those_of_the_window() -> None:
    traffic = Traffic(NOW)
    for second in range(600):
        traffic.add(NOW + second, [2, 2, 1, 0, 20], {bucket(0.2): 2})
    card = traffic.card(NOW + 599)
    assert card["rate"] == pytest.approx(2, rel=0.05)
    assert card["tokens_rate"] == pytest.approx(20, rel=0.05)
    assert (card["closed"], card["failed"], card["warned"]) == (1200, 600, 0)
    assert card["p50"] == card["p95"] == pytest.approx(0.2, rel=0.05)


def test_what_has_left_the_window_is_counted_no_more() -> None:
    traffic = Traffic(NOW)
    traffic.add(NOW, [5, 5, 5, 0, 0], {3: 5})
    traffic.add(NOW + SLOT * SLOTS, [1, 1, 0, 0, 0], {})
    card = traffic.card(NOW + SLOT * SLOTS)
    assert (card["closed"], card["failed"], card["p50"]) == (1, 0, None)
    assert traffic.card(NOW + 2 * SLOT * SLOTS)["closed"] == 0
    assert traffic.series() == []


def test_the_sums_are_those_of_the_slots_whatever_came_and_went() -> None:
    traffic = Traffic(NOW)
    dice = random.Random(7)
    now = NOW
    for _ in range(2000):
        now += dice.choice([0.1, 1.0, 7.0, -2.0])
        traffic.add(now, [1, 1, dice.randint(0, 1), 0, 3], {dice.randint(0, 9): 1})
    card = traffic.card(now)
    slots = traffic.series()
    assert len(slots) <= SLOTS
    assert card["closed"] == sum(slot[2] for slot in slots)
    assert card["failed"] == sum(slot[3] for slot in slots)


def test_a_proxy_that_has_just_begun_is_not_slower_than_it_is() -> None:
    traffic = Traffic(NOW)
    for second in range(10):
        traffic.add(NOW + second, [3, 3, 0, 0, 0], {})
    assert traffic.card(NOW + 10)["rate"] == pytest.approx(3, rel=0.1)
