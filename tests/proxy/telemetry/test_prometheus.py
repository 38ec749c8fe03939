"""The page that Prometheus scrapes says the same numbers, in its own format."""

from __future__ import annotations

import re

from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.instruments import INSTRUMENTS
from teeline.proxy.telemetry.metrics import Meter, Recorder
from teeline.proxy.telemetry.prometheus import label_name, metric_name, render
from tests.proxy.samples import START, exchange, violation

_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_SAMPLE = re.compile(r'[a-z_]+(\{([a-z_]+="(\\.|[^"\\\n])*",?)*\})? [0-9.e+-]+\Z')


def test_counters_gauges_and_histograms_have_the_names_that_opentelemetry_gives_them() -> None:
    assert metric_name(instruments.EXCHANGES) == "teeline_exchanges_total"
    assert metric_name(instruments.OPEN_STREAMS) == "teeline_open_streams"
    assert metric_name(instruments.TOKEN_USAGE) == "gen_ai_client_token_usage"
    duration = metric_name(instruments.OPERATION_DURATION)
    assert duration == "gen_ai_client_operation_duration_seconds"


def test_all_names_are_names_to_prometheus() -> None:
    for instrument in INSTRUMENTS:
        assert _NAME.match(metric_name(instrument))
        assert all(_NAME.match(label_name(name)) for name in instrument.attributes)


def test_every_line_is_a_comment_or_a_sample() -> None:
    meter = Meter()
    recorder = Recorder(meter, {"my-relay": ("relay.example", 443)})
    recorder.exchanges([(exchange(violation(), inspection="partial (body-limit)"), START + 2)])
    recorder.violation(exchange(), violation())
    meter.observe(instruments.AUDIT_LOST, lambda: {(): 3})
    lines = render(meter.snapshot()).splitlines()
    assert all(line.startswith("# ") or _SAMPLE.match(line) for line in lines)
    assert "teeline_audit_lost_total 3" in lines


def test_buckets_are_cumulative_and_end_in_infinity() -> None:
    meter = Meter()
    for value in (0.001, 0.0011, 9.0):
        meter[instruments.INSPECTION_LAG].record(("r",), [value])
    page = render(meter.snapshot())
    name = "teeline_inspection_lag_seconds"
    assert f'{name}_bucket{{teeline_upstream="r",le="0.001"}} 1\n' in page
    assert f'{name}_bucket{{teeline_upstream="r",le="0.0025"}} 2\n' in page
    assert f'{name}_bucket{{teeline_upstream="r",le="+Inf"}} 3\n' in page
    assert f'{name}_count{{teeline_upstream="r"}} 3\n' in page


def test_bounds_are_exact_and_no_powers_of_ten() -> None:
    meter = Meter()
    key = ("r", *[None] * (len(instruments.TOKEN_USAGE.attributes) - 1))
    meter[instruments.TOKEN_USAGE].record(key, [1])
    bounds = re.findall(r'le="([^"]+)"', render(meter.snapshot()))
    assert bounds == [*(str(4**power) for power in range(14)), "+Inf"]


def test_hostile_values_stay_within_their_quotes() -> None:
    meter = Meter()
    meter[instruments.INSPECTION_SKIPPED].add(('a"b\\c\nd\ud800', "x"))
    (sample,) = (line for line in render(meter.snapshot()).splitlines() if line[0] != "#")
    assert r'teeline_upstream="a\"b\\c\nd?"' in sample
    assert _SAMPLE.match(sample)
