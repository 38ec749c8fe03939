"""The numbers behind the metrics are exact, bounded, and never estimated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from teeline.proxy.telemetry import instruments, metrics
from teeline.proxy.telemetry.instruments import INSTRUMENTS, Instrument, Kind
from teeline.proxy.telemetry.metrics import (
    OVERFLOW,
    SERIES,
    Key,
    Meter,
    MetricsSink,
    Numbers,
    Recorder,
    Value,
    attributes_of,
    reported_tokens,
    time_per_chunk,
)
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Ended, Exchange, Severity, Timing
from tests.proxy.samples import START, exchange, violation

SERVERS = {"my-relay": ("relay.example", 443)}


def recorded(*batches: Sequence[Exchange]) -> Meter:
    meter = Meter()
    recorder = Recorder(meter, SERVERS)
    for batch in batches:
        recorder.exchanges([(each, START + 2) for each in batch])
    return meter


def values(meter: Meter, instrument: Instrument) -> dict[Any, Value]:
    return dict(meter[instrument].snapshot().values)


def only(meter: Meter, instrument: Instrument) -> tuple[dict[str, Any], Value]:
    ((key, value),) = values(meter, instrument).items()
    return attributes_of(instrument, key), value


def counted(value: Value) -> tuple[int, float]:
    assert isinstance(value, tuple)
    return sum(value[0]), value[1]


def much(value: Value) -> int:
    return value if isinstance(value, int) else sum(value[0])


def test_an_exchange_is_counted_by_what_became_of_it() -> None:
    meter = recorded([exchange(), exchange(violation()), exchange()], [])
    passed = ("my-relay", "chat", "gpt-4o-mini", "pass", "pass", "complete")
    failed = ("my-relay", "chat", "gpt-4o-mini", "fail", "pass", "complete")
    assert values(meter, instruments.EXCHANGES) == {passed: 2, failed: 1}


def test_genai_histograms_have_the_conventions_attributes() -> None:
    meter = recorded([exchange()])
    who = {
        "teeline.upstream": "my-relay",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "server.address": "relay.example",
        "server.port": 443,
    }
    found, value = only(meter, instruments.OPERATION_DURATION)
    assert (found, counted(value)) == (who, (1, 1.5))
    found, value = only(meter, instruments.TIME_TO_FIRST_CHUNK)
    assert (found, counted(value)) == (who, (1, 0.25))
    found, value = only(meter, instruments.TIME_PER_OUTPUT_CHUNK)
    assert found == who
    assert counted(value)[1] == pytest.approx((1.4 - 0.25) / 11)
    tokens = {key[-1]: value for key, value in values(meter, instruments.TOKEN_USAGE).items()}
    assert {kind: counted(value) for kind, value in tokens.items()} == {
        "input": (1, 9.0),
        "output": (1, 12.0),
    }


def test_buckets_are_those_of_the_conventions() -> None:
    assert instruments.TOKEN_USAGE.bounds[:3] == (1, 4, 16)
    assert instruments.TOKEN_USAGE.bounds[-1] == 67108864
    assert instruments.OPERATION_DURATION.bounds[0] == 0.01
    assert instruments.OPERATION_DURATION.bounds[-1] == 81.92


def test_a_value_on_a_bound_falls_into_the_bucket_below() -> None:
    numbers = Numbers(instruments.TOKEN_USAGE)
    for value in (1, 1.5, 4, 10**9):
        numbers.record(("k",), [value])
    ((buckets, _),) = numbers.snapshot().values.values()  # type: ignore[misc]
    assert buckets[:3] == [1, 2, 0]
    assert buckets[-1] == 1


@pytest.mark.parametrize("usage", [{}, {"total_tokens": 9}, {"prompt_tokens": -1}])
def test_tokens_that_were_not_reported_are_not_estimated(usage: dict[str, int]) -> None:
    assert values(recorded([exchange(usage=usage)]), instruments.TOKEN_USAGE) == {}


def test_tokens_are_read_in_the_words_of_either_api() -> None:
    assert dict(reported_tokens({"input_tokens": 1, "output_tokens": 2})) == {
        "input": 1,
        "output": 2,
    }


def test_what_is_no_stream_has_no_times_of_chunks() -> None:
    meter = recorded([exchange(stream=False)])
    assert values(meter, instruments.TIME_TO_FIRST_CHUNK) == {}
    assert values(meter, instruments.TIME_PER_OUTPUT_CHUNK) == {}
    assert time_per_chunk(exchange(events=1)) is None
    assert time_per_chunk(exchange(timing=Timing(START))) is None


def test_a_failure_is_told_by_its_type_and_other_operations_are_no_genai() -> None:
    meter = recorded([exchange(status=429), exchange(operation="models")])
    found, _ = only(meter, instruments.OPERATION_DURATION)
    assert found["error.type"] == "429"
    assert len(values(meter, instruments.EXCHANGES)) == 2


def test_models_that_a_client_made_up_fold_into_one() -> None:
    made = [exchange(model=f"made-up-{n}", status=404, response_model=None) for n in range(500)]
    meter = recorded(made)
    ((key, count),) = values(meter, instruments.EXCHANGES).items()
    assert (key[2], count) == ("other", 500)


def test_models_of_a_relay_that_serves_every_name_fold_beyond_a_hundred() -> None:
    meter = recorded([exchange(model=f"model-{n}") for n in range(500)])
    found = {key[2] for key in values(meter, instruments.EXCHANGES)}
    assert len(found) <= 101
    assert "other" in found


@pytest.mark.parametrize("kind", [Kind.COUNTER, Kind.HISTOGRAM])
def test_series_beyond_the_bound_go_into_one_that_says_so(kind: Kind) -> None:
    numbers = Numbers(Instrument("n", kind, "", "", ("a",), (1.0,)))
    for n in range(SERIES + 50):
        if kind is Kind.COUNTER:
            numbers.add((str(n),))
        else:
            numbers.record((str(n),), [0.5])
    taken = numbers.snapshot().values
    assert len(taken) == SERIES + 1
    assert taken[OVERFLOW] in (50, ([50, 0], 25.0))
    assert attributes_of(numbers.instrument, OVERFLOW) == {"otel.metric.overflow": True}


def test_what_was_not_inspected_is_counted_by_its_reason() -> None:
    meter = recorded(
        [
            exchange(inspection="partial (body-limit)"),
            exchange(inspection="none (unknown-coding)"),
            exchange(),
        ]
    )
    assert values(meter, instruments.INSPECTION_SKIPPED) == {
        ("my-relay", "body-limit"): 1,
        ("my-relay", "unknown-coding"): 1,
    }


def test_what_is_known_of_one_exchange_never_counts_for_another() -> None:
    """One recorder for all of them gives what a recorder each gives, however they come in batches."""
    changes: list[dict[str, Any]] = [
        {"upstream": "other-relay"},
        {"operation": "responses"},
        {"model": "other-model"},
        {"response_model": None},
        {"status": 201},
        {"error_type": "server_error"},
        {"ended": Ended.TIMEOUT},
        {"inspection": "partial (body-limit)"},
        {"violations": [violation(severity=Severity.WARN)]},
        {"stream": False},
        {"usage": {}},
        {"timing": Timing(START)},
    ]
    made = [exchange(), *(exchange(**change) for change in changes)]
    made += reversed(made)
    apart: Counter[Any] = Counter()
    for each in made:
        apart.update(amounts(recorded([each])))
    assert amounts(recorded(made)) == apart
    assert amounts(recorded(*([each] for each in made))) == apart


def amounts(meter: Meter) -> Counter[Any]:
    """What the series hold, by metric and key."""
    found: Counter[Any] = Counter()
    for series in meter.snapshot():
        for key, value in series.values.items():
            found[series.instrument.name, key] = much(value)
    return found


def test_a_model_that_folded_counts_by_its_name_once_it_is_served() -> None:
    refused = {"model": "new", "status": 404, "response_model": None}
    meter = recorded([exchange(**refused)], [exchange(model="new")], [exchange(**refused)])
    counts = {key[2]: count for key, count in values(meter, instruments.EXCHANGES).items()}
    assert counts == {"other": 1, "new": 2}


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_KEPT", 3)
    recorder = Recorder(Meter(), SERVERS)
    for status in range(200, 220):
        recorder.exchanges([(exchange(status=status), START)])
        assert len(recorder._known) <= 3


def test_an_observed_metric_is_asked_when_a_snapshot_is_taken() -> None:
    meter = Meter()
    numbers: dict[Key, int] = {("traces",): 1}
    meter.observe(instruments.EXPORT_DROPPED, lambda: numbers)
    numbers[("traces",)] = 5
    (series,) = meter.snapshot()
    assert series.values == {("traces",): 5}


def test_names_are_declared_once() -> None:
    assert len({instrument.name for instrument in INSTRUMENTS}) == len(INSTRUMENTS)


def test_the_sink_counts_what_is_open_which_of_it_streams_and_what_was_found() -> None:
    async def go() -> None:
        sink = MetricsSink(SERVERS, clock=lambda: START + 1.75)
        await sink.start()
        made = exchange(violation(severity=Severity.WARN), ended=Ended.CLIENT_CLOSED)
        streaming = exchange(event_stream=True)
        for each in (made, exchange(), streaming):
            sink.opened(Opened(each))
        sink.found(Found(made, made.violations[0]))
        sink.closed(Closed(made))
        await sink.drain(10)
        assert sink.open == 2
        taken = {series.instrument: series.values for series in sink.meter.snapshot()}
        assert taken[instruments.OPEN_STREAMS] == {("my-relay",): 1}
        key = ("my-relay", "chatstream.done-missing", "warn", "response")
        assert taken[instruments.VIOLATIONS] == {key: 1}
        assert counted(taken[instruments.INSPECTION_LAG][("my-relay",)]) == (1, 0.25)
        sink.closed(Closed(streaming))
        taken = {series.instrument: series.values for series in sink.meter.snapshot()}
        assert taken[instruments.OPEN_STREAMS] == {("my-relay",): 0}
        assert sink.open == 1
        await sink.close()

    asyncio.run(go())


def test_what_the_queue_refuses_is_counted() -> None:
    async def go() -> None:
        sink = MetricsSink(queue_size=2)
        for _ in range(5):
            sink.closed(Closed(exchange()))
        assert sink.dropped == 3
        await sink.close()

    asyncio.run(go())
