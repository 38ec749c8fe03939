"""Percentiles from buckets are within their promised error, and can be added up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.monitor.latency import LAST, SMALLEST, bucket, quantile

TIMES = st.floats(SMALLEST, 1500.0)


@given(st.lists(TIMES, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_percentile_is_within_five_percent_of_the_value_it_stands_for(
    times: list[float], share: float
) -> None:
    ordered = sorted(times)
    exact = ordered[max(1, -int(-share * len(ordered) // 1)) - 1]
    found = quantile(Counter(map(bucket, times)), share)
    assert found is not None
    assert abs(found - exact) <= 0.05 * exact


@given(st.lists(TIMES, max_size=50), st.lists(TIMES, max_size=50))
def test_sums_of_two_processes_say_what_one_would_have_said(
    ours: list[float], theirs: list[float]
) -> None:
    apart = Counter(map(bucket, ours)) + Counter(map(bucket, theirs))
    assert quantile(apart, 0.95) == quantile(Counter(map(bucket, ours + theirs)), 0.95)


def test_nothing_has_no_percentile_and_any_number_has_a_bucket() -> None:
    assert quantile({}, 0.5) is None
    for odd in (0.0, -1.0, float("nan"), 1e-300):
        assert bucket(odd) == 0
    assert bucket(1e300) == bucket(float("1e9")) == LAST
