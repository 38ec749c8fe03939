"""``teeline audit show``: one exchange in full.

What belongs here: arguments and output. What doesn't: finding the record (proxy/audit), layout
(proxy/reports/records.py).
"""

from __future__ import annotations

from pathlib import Path

import click

from teeline.proxy.audit.files import LogName
from teeline.proxy.audit.lookup import GoneError, Lookup, upstream_url
from teeline.proxy.audit.query import Entry, Filters, beginning_with, search, violations
from teeline.proxy.audit.reproduce import reproduction
from teeline.proxy.cli import CANT_RUN
from teeline.proxy.cli.audit.options import (
    folder_option,
    format_option,
    opened,
    say,
    say_json,
    style,
)
from teeline.proxy.reports.records import listed, shown
from teeline.proxy.text import printable
from teeline.validators.rules import register

_CANDIDATES = 10


@click.command(name="show")
@click.argument("id_", metavar="ID")
@folder_option
@format_option
def command(id_: str, folder: Path, form: str) -> None:
    """One exchange in full: what it was, when what came, what it broke, how to do it again.

    ID is the exchange's, or its beginning, or the relay's request id.
    """
    with opened(folder) as index:
        found = beginning_with(index.db, id_, _CANDIDATES) or list(
            search(index.db, Filters(request_id=id_), _CANDIDATES)
        )
        if len(found) > 1:
            say(listed([(entry, violations(index.db, entry.n)) for entry in found]))
            raise click.UsageError(f"{printable(id_)} is the beginning of several ids")
        if not found:
            raise click.UsageError(f"no exchange has the id {printable(id_)}")
        try:
            _show(folder, found[0], form)
        except GoneError as error:
            click.echo(f"teeline: {error}", err=True)
            raise click.exceptions.Exit(CANT_RUN) from None


def _show(folder: Path, entry: Entry, form: str) -> None:
    lookup = Lookup(folder)
    try:
        record = lookup.record(entry)
        url = upstream_url(lookup.opening(entry), entry.upstream)
    finally:
        lookup.close()
    again = reproduction(folder, record.fields, url)
    name = LogName(entry.chain, entry.file).filename
    if form == "json":
        say_json(
            {
                "v": 1,
                "file": name,
                "line": entry.line,
                "intact": record.intact,
                "record": record.fields,
                "rules": {
                    rule.id: {"summary": rule.summary, "why": rule.why, "fix": rule.fix}
                    for broken in _rules(record.fields.get("violations"))
                    if (rule := register().get(broken)) is not None
                },
                "again": again._asdict(),
            }
        )
        return
    where = f"{name}, line {entry.line}"
    say(shown(record.fields, where, again, register(), style(), intact=record.intact))


def _rules(broken: object) -> list[str]:
    entries = broken if isinstance(broken, list) else []
    return [str(each["rule"]) for each in entries if isinstance(each, dict) and "rule" in each]
