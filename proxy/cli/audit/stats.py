"""``teeline audit stats``: sums over the log.

What belongs here: arguments and output. What doesn't: counting (proxy/audit/statistics.py), layout
(proxy/reports/statistics.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from teeline.proxy.audit.statistics import statistics
from teeline.proxy.cli.audit.options import (
    filter_options,
    filters_of,
    folder_option,
    format_option,
    opened,
    say,
    say_json,
    style,
)
from teeline.proxy.reports import statistics as layout


@click.command(name="stats")
@folder_option
@filter_options
@format_option
def command(folder: Path, form: str, **options: Any) -> None:
    """Exchanges by upstream, model, rule and hour, with the share that fails."""
    filters = filters_of(folder, options)
    with opened(folder) as index:
        found = statistics(index.db, filters)
    if form == "json":
        say_json(layout.statistics_object(found))
    else:
        say(layout.statistics(found, style()))
