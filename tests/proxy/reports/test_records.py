"""A record is shown whatever it holds: a log may come from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from teeline.proxy.audit.record import exchange_record
from teeline.proxy.audit.reproduce import Reproduction
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.records import shown
from teeline.proxy.reports.text import drawn
from teeline.validators.rules import register
from tests.proxy.samples import exchange, violation

ODD: tuple[Any, ...] = (None, [], {}, "\x1b[31mred\u202e", 7, -1.5, True, [[]], [{}], {"a": [1]})


def text(fields: dict[str, Any], **style: Any) -> str:
    again = Reproduction("curl relay", "curl official", "as it was sent")
    lines = shown(fields, "file, line 2", again, register(), Style(**style), intact=True)
    return drawn(list(lines), Style(**style))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member of a document, as its holder and its key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def record() -> dict[str, Any]:
    return {
        "ts": "2026-11-30T12:00:00Z",
        **exchange_record(exchange(violation(), violation("x.y"))),
    }


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_value_of_any_member_is_an_obstacle_or_reaches_the_terminal_raw(odd: Any) -> None:
    count = len(list(places(record())))
    for number in range(count):
        fields = record()
        holder, key = list(places(fields))[number]
        holder[key] = odd
        drawn_text = text(fields)
        assert "\x1b" not in drawn_text
        assert "\u202e" not in drawn_text


def test_a_rule_that_this_version_does_not_know_is_said_to_be() -> None:
    assert "this version of teeline has no such rule" in text(record())


def test_colour_is_for_terminals_alone() -> None:
    assert "\x1b[" in text(record(), color=True)
    assert "\x1b[" not in text(record())


def test_two_rules_at_one_place_are_two_lines_of_the_timeline() -> None:
    """Each with its own name, in the order in which they were found."""
    fields = record()
    start = fields["timing"]["start"]
    index = fields["violations"][0]["place"]["index"]
    fields["timeline"] = [[start, "read", index, 10], *([[start, "violation", index, 0]] * 2)]
    lines = [line for line in text(fields).splitlines() if "  violation  " in line]
    assert [line.split()[-1] for line in lines] == [v["rule"] for v in fields["violations"]]
