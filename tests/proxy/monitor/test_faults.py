"""Faults of one kind are one line, and any number of kinds is bounded."""

from __future__ import annotations

from teeline.proxy.monitor.faults import KINDS, LISTED, Faults, Kind, tendency

NOW = 1_800_000_000.0


def kind(rule: str = "usage.x", severity: str = "fail", model: str = "m") -> Kind:
    return Kind(rule, severity, "main", model)


def test_one_kind_is_one_line_with_its_count_and_its_times() -> None:
    faults = Faults()
    for minute in range(20):
        faults.add(kind(), 2, NOW + 60 * minute, f"exchange-{minute}")
    (line,) = faults.listed(NOW + 60 * 19)
    assert line["count"] == 30
    assert line["trend"] == [2] * 15
    assert (line["first"], line["last"]) == (NOW, NOW + 60 * 19)
    assert line["exchange"] == "exchange-19"
    assert line["tendency"] == "steady"


def test_the_worst_and_most_frequent_come_first() -> None:
    faults = Faults()
    faults.add(kind("usage.warned", "warn"), 90, NOW, "")
    faults.add(kind("usage.rare"), 1, NOW, "")
    faults.add(kind("usage.often"), 5, NOW, "")
    rules = [line["rule"] for line in faults.listed(NOW)]
    assert rules == ["usage.often", "usage.rare", "usage.warned"]


def test_what_was_not_seen_for_a_quarter_of_an_hour_is_not_listed() -> None:
    faults = Faults()
    faults.add(kind(), 1, NOW, "")
    assert faults.listed(NOW + 14 * 60)
    assert faults.listed(NOW + 16 * 60) == []


def test_kinds_beyond_the_bound_push_out_those_not_seen_for_longest() -> None:
    faults = Faults()
    for number in range(KINDS):
        faults.add(kind(model=str(number)), 1, NOW, "")
    faults.add(kind(model="0"), 1, NOW, "")
    faults.add(kind(model="new"), 1, NOW, "")
    assert faults.forgotten == 1
    assert len(faults.listed(NOW)) == LISTED
    faults.add(kind(model="0"), 1, NOW, "")
    counts = {line["model"]: line["count"] for line in faults.listed(NOW)}
    assert counts["0"] == 3
    assert "1" not in counts


def test_a_trend_has_a_word() -> None:
    assert tendency([0] * 10 + [1, 1, 1, 1, 1]) == "rising"
    assert tendency([0] * 5 + [4] * 5 + [1] * 5) == "falling"
    assert tendency([3] * 15) == "steady"
    faults = Faults()
    faults.add(kind(), 1, NOW, "")
    assert faults.listed(NOW + 1)[0]["tendency"] == "new"
