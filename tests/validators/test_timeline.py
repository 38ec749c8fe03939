"""An exchange's course in at most 64 entries that hold what a reader wants to see."""

from __future__ import annotations

from teeline.validators.timeline import MAX_ENTRIES, Timeline


def kinds(timeline: Timeline) -> list[tuple[str, float]]:
    return [(entry.kind, entry.at) for entry in timeline.entries]


def test_a_short_exchange_is_kept_whole() -> None:
    timeline = Timeline()
    timeline.mark(0, "request")
    timeline.mark(1, "head", 0, 200)
    timeline.read(2, 1, 10)
    timeline.end(3, "complete")
    assert kinds(timeline) == [("request", 0), ("head", 1), ("read", 2), ("complete", 3)]


def test_a_violation_keeps_the_reads_around_it() -> None:
    timeline = Timeline()
    for n in range(100):
        timeline.read(n, n, 10)
        if n == 50:
            timeline.violation(n, n)
    around = [at for kind, at in kinds(timeline) if 40 < at < 60]
    assert around == [48, 49, 50, 50, 51, 52]


def test_the_end_and_the_reads_before_it_always_have_a_place() -> None:
    timeline = Timeline()
    for n in range(1000):
        timeline.read(n, n, 10)
        timeline.violation(n, n)
    for n in range(1000, 1010):
        timeline.read(n, n, 10)
    timeline.end(1010, "complete")
    assert len(timeline.entries) <= MAX_ENTRIES
    assert kinds(timeline)[-3:] == [("read", 1008), ("read", 1009), ("complete", 1010)]


def test_entries_are_in_the_order_of_time() -> None:
    timeline = Timeline()
    for n in range(200):
        timeline.read(n, n, 10)
        if n % 30 == 0:
            timeline.violation(n, n)
    timeline.end(200, "complete")
    times = [at for _, at in kinds(timeline)]
    assert times == sorted(times)
