"""Sums over the audit log for people and machines: statistics, and the scoreboard of relays.

What belongs here: layout, bars. What doesn't: counting (proxy/audit/statistics.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from teeline.proxy.audit.statistics import RuleTally, Score, Statistics, Tally, band
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.records import moment, severity
from teeline.proxy.text import printable

_BAR: Final = 30
_NAME: Final = 32
_HOURS: Final = 48
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_COLORS: Final = {"excellent": "green", "passed": "green", "marginal": "yellow", "failed": "red"}
_SEVERITY_COLORS: Final = {"fail": "bold red", "warn": "yellow", "info": "blue"}


def statistics(found: Statistics, style: Style) -> Iterator[Text]:
    """Totals, then a table each; hours as bars of their traffic, the failing part in red."""
    total = found.total
    line = Text.assemble((f"{total.exchanges} exchanges", "bold"))
    line.append(f", {total.failed} fail ({100 * total.failing:.1f} %), {total.warned} warn")
    if found.first is not None and found.last is not None:
        line.append(f", {moment(found.first)[:19]} to {moment(found.last)[:19]}", "dim")
    yield line
    if found.lost:
        yield Text(f"{found.lost} exchanges lost: the log could not be written", "bold red")
    if not total.exchanges:
        return
    for title, tallies in (("upstream", found.upstreams), ("model", found.models)):
        yield Text()
        yield from _tallies(title, tallies)
    yield Text()
    yield from _rules(found.rules)
    yield Text()
    yield from _hours(found.hours[-_HOURS:])


def statistics_object(found: Statistics) -> dict[str, Any]:
    """The same for machines."""
    return {
        "v": 1,
        "total": _object(found.total),
        "lost": found.lost,
        "first": None if found.first is None else moment(found.first),
        "last": None if found.last is None else moment(found.last),
        "upstreams": [_object(tally) for tally in found.upstreams],
        "models": [_object(tally) for tally in found.models],
        "hours": [
            {**_object(tally), "name": moment(int(tally.name) * 1_000_000)} for tally in found.hours
        ],
        "rules": [_rule_object(rule) for rule in found.rules],
    }


def scoreboard(scores: Sequence[Score], style: Style) -> Iterator[Text]:
    """A relay each: its band, its families, what it breaks most."""
    for number, score in enumerate(scores):
        if number:
            yield Text()
        word = band(score.share)
        line = Text.assemble((printable(score.upstream, _NAME), "bold"), "  ")
        line.append(f"{_percent(score.share)} {word}", _COLORS[word])
        yield line.append(f"  {score.exchanges - score.clean} of {score.exchanges} exchanges fail")
        for family in score.families:
            word = band(family.share)
            yield Text.assemble(
                f"  {family.family:<12} ",
                (_bar(family.share / 100, 20), _COLORS[word]),
                f" {_percent(family.share)}  ",
                (f"{word}, {family.exchanges} exchanges", "dim"),
            )
        for rule in score.rules[:5]:
            yield Text.assemble("  ", *_rule(rule))
    if not scores:
        yield Text("no exchanges")


def scoreboard_object(scores: Sequence[Score]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "v": 1,
        "upstreams": [
            {
                "upstream": score.upstream,
                "exchanges": score.exchanges,
                "without_fail": score.clean,
                "share": round(score.share, 2),
                "band": band(score.share),
                "families": [
                    {
                        "family": family.family,
                        "exchanges": family.exchanges,
                        "without_fail": family.clean,
                        "share": round(family.share, 2),
                        "band": band(family.share),
                    }
                    for family in score.families
                ],
                "rules": [_rule_object(rule) for rule in score.rules],
            }
            for score in scores
        ],
    }


def _tallies(title: str, tallies: Sequence[Tally]) -> Iterator[Text]:
    yield Text(f"{title:<{_NAME}} {'exchanges':>10} {'fail':>8} {'warn':>8}  failing", "dim")
    for tally in tallies:
        name = printable(tally.name or "-", _NAME)
        line = Text(f"{name:<{_NAME}} {tally.exchanges:>10} {tally.failed:>8} {tally.warned:>8}  ")
        line.append(f"{100 * tally.failing:5.1f} % ")
        yield line.append(_bar(tally.failing, 20), "red")


def _rules(rules: Sequence[RuleTally]) -> Iterator[Text]:
    yield Text(f"      {'rule':<40} exchanges  times", "dim")
    for rule in rules:
        yield Text.assemble(*_rule(rule))


def _rule(rule: RuleTally) -> list[tuple[str, str]]:
    word = severity(rule.severity)
    return [
        (f"{word:<6}", _SEVERITY_COLORS[word]),
        (f"{printable(rule.rule, 40):<40} {rule.exchanges:>9} {rule.times:>6}", ""),
    ]


def _hours(hours: Sequence[Tally]) -> Iterator[Text]:
    yield Text("hour (UTC)        exchanges   failing", "dim")
    most = max(tally.exchanges for tally in hours)
    for tally in hours:
        at = datetime.fromtimestamp(int(tally.name), UTC)
        failed = round(_BAR * tally.failed / most)
        rest = _bar((tally.exchanges - tally.failed) / most, _BAR).rstrip()
        line = Text(f"{at:%Y-%m-%d %H:00} {tally.exchanges:>10}  {100 * tally.failing:6.1f} %  ")
        yield line.append("█" * failed, "red").append(rest, "green")


def _bar(share: float, width: int) -> str:
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[part] if part else "")).ljust(width)


def _percent(share: float) -> str:
    # Cut, not rounded: 89.99 must not look excellent.
    return f"{int(share * 10) / 10:5.1f} %"


def _object(tally: Tally) -> dict[str, Any]:
    return {**tally._asdict(), "failing": round(tally.failing, 6)}


def _rule_object(rule: RuleTally) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "severity": severity(rule.severity),
        "exchanges": rule.exchanges,
        "count": rule.times,
    }
