"""``teeline audit tail``: exchanges as they are recorded.

What belongs here: arguments, waiting, output. What doesn't: indexing (proxy/audit/index.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from teeline.proxy.audit.index import Index
from teeline.proxy.audit.indexkeeper import LastingIndex
from teeline.proxy.audit.query import Entry, Filters, following, search, violations
from teeline.proxy.cli.audit.options import (
    filter_options,
    filters_of,
    folder_option,
    format_option,
    lasting,
    say,
    say_json,
)
from teeline.proxy.reports.records import row, summary


@click.command(name="tail")
@folder_option
@filter_options
@click.option("-n", "--lines", type=click.IntRange(0, 10_000), default=10, show_default=True)
@click.option("--no-follow", is_flag=True, help="End behind what is there now.")
@click.option(
    "--interval", type=click.FloatRange(0.05, 3600), default=1.0, show_default=True,
    help="Seconds between two looks.",
)  # fmt: skip
@format_option
def command(
    folder: Path, lines: int, no_follow: bool, interval: float, form: str, **options: Any
) -> None:
    """The last exchanges, then each new one as it is recorded; ends with Ctrl-C."""
    filters = filters_of(folder, options)
    with lasting(folder) as log:
        index = log.index
        last = _newest(index)
        for entry in reversed(list(search(index.db, filters, lines)) if lines else []):
            _say(index, entry, form)
        if no_follow:
            return
        for index, entry in _follow(log, filters, last, _clock(interval)):
            _say(index, entry, form)


def _clock(interval: float) -> Iterator[None]:
    while True:
        time.sleep(interval)
        yield


def _follow(
    log: LastingIndex, filters: Filters, last: int, ticks: Iterable[None]
) -> Iterator[tuple[Index, Entry]]:
    """What is indexed from now on, looked for at each tick."""
    index, at = log.index, _latest(log.index)
    for _ in ticks:
        log.catch_up()
        wanted = filters
        if log.index is not index or _newest(log.index) < last:
            # The index was made again and numbers the records anew: the time says which are new.
            index, last = log.index, 0
            wanted = replace(filters, since=max(filters.since or 0.0, (at + 1) / 1e6))
        newest = _newest(index)
        for entry in following(index.db, last, wanted):
            yield index, entry
        last, at = newest, _latest(index)


def _newest(index: Index) -> int:
    return int(index.db.execute("SELECT coalesce(max(n), 0) FROM exchanges").fetchone()[0])


def _latest(index: Index) -> int:
    return int(index.db.execute("SELECT coalesce(max(at), 0) FROM exchanges").fetchone()[0])


def _say(index: Index, entry: Entry, form: str) -> None:
    broken = violations(index.db, entry.n)
    if form == "json":
        say_json(summary(entry, broken))
    else:
        say([row(entry, broken)])
