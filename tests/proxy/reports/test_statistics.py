"""Charts and shares are drawn for what is there, and for nothing at all."""

from __future__ import annotations

from teeline.proxy.audit.statistics import FamilyScore, Score, Statistics, Tally
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.statistics import scoreboard, statistics
from teeline.proxy.reports.text import drawn


def test_an_hour_s_bar_shows_traffic_and_its_failing_part() -> None:
    hours = [Tally("0", 30, 15, 0), Tally("3600", 15, 0, 0)]
    found = Statistics(Tally("", 45, 15, 0), 3, 0, 1, [], [], hours, [])
    lines = drawn(list(statistics(found, Style())), Style()).splitlines()
    assert "3 exchanges lost: the log could not be written" in lines
    assert lines[-2] == "1970-01-01 00:00         30    50.0 %  " + "█" * 30
    assert lines[-1] == "1970-01-01 01:00         15     0.0 %  " + "█" * 15


def test_nothing_is_said_to_be_nothing() -> None:
    empty = Statistics(Tally("", 0, 0, 0), 0, None, None, [], [], [], [])
    assert drawn(list(statistics(empty, Style())), Style()) == (
        "0 exchanges, 0 fail (0.0 %), 0 warn\n"
    )
    assert drawn(list(scoreboard([], Style())), Style()) == "no exchanges\n"


def test_a_share_is_never_shown_above_what_it_is() -> None:
    """89.99 is in the second band, and must not be printed as 90."""
    score = Score("relay", 10_000, 8999, [FamilyScore("chat", 10_000, 8999)], [])
    first, second = drawn(list(scoreboard([score], Style())), Style()).splitlines()
    assert "89.9 % passed" in first
    assert "89.9 %  passed" in second
