"""The numbers of several processes add up, and never fall when one of them dies."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.metrics import OVERFLOW, Key, Meter, Recorder
from teeline.proxy.telemetry.sums import Changes, Part, Sums
from tests.proxy.samples import START, exchange, violation

SERVERS = {"my-relay": ("relay.example", 443)}
PASSED = ("my-relay", "chat", "gpt-4o-mini", "pass", "pass", "complete")


class Process:
    """A process with numbers of its own, which tells them as JSON."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.recorder = Recorder(self.meter, SERVERS)
        self.changes = Changes(self.meter)
        self.part = Part()

    def tells(self) -> Any:
        return json.loads(json.dumps(self.changes.take()))


def test_counters_and_histograms_are_those_of_all_processes_together() -> None:
    sums, alone = Sums(), Process()
    processes = [Process(), Process(), Process()]
    for number, process in enumerate(processes):
        for _ in range(number + 1):
            made = exchange(violation()) if number == 2 else exchange()
            for each in (process, alone):
                each.recorder.exchanges([(made, START + 2 + number)])
        sums.take(process.part, process.tells())
    assert sums.values(instruments.EXCHANGES)[PASSED] == 3
    assert [series.instrument for series in sums.snapshot()] == [
        series.instrument for series in alone.meter.snapshot()
    ]
    for series in alone.meter.snapshot():
        assert sums.values(series.instrument) == series.values


def test_only_what_changed_is_told_and_told_as_a_total() -> None:
    sums, process = Sums(), Process()
    process.recorder.exchanges([(exchange(), START + 2)])
    first = process.tells()
    assert "teeline.exchanges" in first
    sums.take(process.part, first)
    assert process.tells() == {}
    process.recorder.exchanges([(exchange(), START + 2)])
    assert process.tells()["teeline.exchanges"] == [[list(PASSED), 2]]


def test_a_total_that_comes_twice_counts_once() -> None:
    sums, process = Sums(), Process()
    process.recorder.exchanges([(exchange(), START + 2)])
    told = process.tells()
    for _ in range(2):
        sums.take(process.part, told)
    assert sums.values(instruments.EXCHANGES) == {PASSED: 1}


def test_what_a_dead_process_counted_stays_and_what_it_had_open_does_not() -> None:
    sums, dead, heir = Sums(), Process(), Process()
    for process, open_streams in ((dead, 5), (heir, 2)):
        streams: dict[Key, int] = {("my-relay",): open_streams}
        process.meter.observe(instruments.OPEN_STREAMS, functools.partial(dict, streams))
        process.recorder.exchanges([(exchange(), START + 2)])
        sums.take(process.part, process.tells())
    assert sums.values(instruments.OPEN_STREAMS) == {("my-relay",): 7}
    duration = sums.values(instruments.OPERATION_DURATION)
    sums.retire(dead.part)
    assert sums.values(instruments.OPEN_STREAMS) == {("my-relay",): 2}
    assert sums.values(instruments.EXCHANGES) == {PASSED: 2}
    assert sums.values(instruments.OPERATION_DURATION) == duration


def test_series_beyond_the_bound_are_one_and_no_counter_falls() -> None:
    sums, process = Sums(limit=2), Process()
    numbers = process.meter[instruments.VIOLATIONS]
    totals = []
    for round_ in range(3):
        for number in range(5):
            numbers.add(("my-relay", f"rule-{number}", "fail", "response"), round_ + 1)
        sums.take(process.part, process.tells())
        values = sums.values(instruments.VIOLATIONS)
        assert len(values) == 3
        totals.append((values[OVERFLOW], sum(v for v in values.values() if isinstance(v, int))))
    assert totals == [(3, 5), (9, 15), (18, 30)]


def test_numbers_of_our_own_take_the_place_of_what_processes_tell() -> None:
    sums = Sums()
    own: dict[Key, int] = {(): 2}
    sums.observe(instruments.WORKERS, lambda: own)
    assert sums.values(instruments.WORKERS) == {(): 2}
    assert [series.instrument for series in sums.snapshot()] == [instruments.WORKERS]


@pytest.mark.parametrize(
    "told",
    [
        [],
        {"no.such.metric": []},
        {"teeline.exchanges": 5},
        {"teeline.exchanges": [5]},
        {"teeline.exchanges": [[]]},
        {"teeline.exchanges": [[["a"], 1]]},
        {"teeline.exchanges": [[list(PASSED), "1"]]},
        {"teeline.exchanges": [[list(PASSED), [[1], 1.0]]]},
        {"teeline.inspection.lag": [[["a"], 1]]},
        {"teeline.inspection.lag": [[["a"], [[1, 2], 1.0]]]},
    ],
)
def test_what_are_no_numbers_is_refused_and_counts_nothing(told: Any) -> None:
    sums = Sums()
    with pytest.raises(ValueError, match=r"."):
        sums.take(Part(), told)
    assert sums.snapshot() == []
