"""``teeline audit list``: which exchanges were recorded.

What belongs here: arguments and output. What doesn't: filters (options.py), layout
(proxy/reports/records.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from teeline.proxy.audit.query import search, violations
from teeline.proxy.cli.audit.options import (
    filter_options,
    filters_of,
    folder_option,
    format_option,
    opened,
    say,
    say_json,
)
from teeline.proxy.reports.records import listed, summary


@click.command(name="list")
@folder_option
@filter_options
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True)
@click.option("--oldest", is_flag=True, help="The oldest first.")
@format_option
def command(folder: Path, limit: int, oldest: bool, form: str, **options: Any) -> None:
    """Which exchanges were recorded, newest first.

    Filters exclude each other's rest; a filter that is repeated takes any of its values. Those on
    violations (rule, severity, message) must hold for one violation.
    """
    filters = filters_of(folder, options)
    with opened(folder) as index:
        entries = search(index.db, filters, limit + 1, newest=not oldest)
        rows = [(entry, violations(index.db, entry.n)) for entry in entries]
    more = len(rows) > limit
    rows = rows[:limit]
    if form == "json":
        say_json({"v": 1, "exchanges": [summary(*row) for row in rows], "more": more})
    elif rows:
        say(listed(rows))
    if form == "text" and (more or not rows):
        told = f"there are more; --limit {limit}" if more else "no exchanges"
        click.echo(f"teeline: {told}", err=True)
