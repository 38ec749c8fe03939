"""``teeline audit score``: how each relay did, by the traffic that went through.

What belongs here: arguments and output. What doesn't: counting (proxy/audit/statistics.py), layout
(proxy/reports/statistics.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from teeline.proxy.audit.statistics import scores
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
from teeline.proxy.reports.statistics import scoreboard, scoreboard_object


@click.command(name="score")
@folder_option
@filter_options
@format_option
def command(folder: Path, form: str, **options: Any) -> None:
    """For each relay the share of exchanges without a fail, family by family, in bands.

    90 % and more is excellent, 80 passed, 60 marginal. Only what clients asked for is seen; `teeline
    probe` asks questions of its own.
    """
    filters = filters_of(folder, options)
    with opened(folder) as index:
        found = scores(index.db, filters)
    if form == "json":
        say_json(scoreboard_object(found))
    else:
        say(scoreboard(found, style()))
