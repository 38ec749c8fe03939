"""``teeline audit export``: records in forms that other tools read.

What belongs here: arguments, the output file, what is said of records that were left out. What
doesn't: the forms (proxy/audit/export.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from teeline.proxy.audit.export import Export, Source
from teeline.proxy.audit.files import FILE_MODE
from teeline.proxy.audit.lookup import GoneError, Lookup, upstream_url
from teeline.proxy.audit.query import Entry, in_files
from teeline.proxy.cli.audit.options import (
    filter_options,
    filters_of,
    folder_option,
    opened,
    say_json,
)
from teeline.proxy.cli.audit.progress import Progress
from teeline.proxy.text import printable


@click.command(name="export")
@folder_option
@filter_options
@click.option(
    "--as", "kind", type=click.Choice(["jsonl", "exchanges", "har"]), default="jsonl",
    show_default=True, help="Records as they stand; JSON Lines of exchange files; HAR 1.2.",
)  # fmt: skip
@click.option("--output", metavar="FILE", help="Write there (0600) instead of to stdout.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How the summary is written: to stderr, or with --output as JSON to stdout.",
)  # fmt: skip
def command(folder: Path, kind: str, output: str | None, form: str, **options: Any) -> None:
    """Records, file by file, in a form that other tools read.

    Exchange files need the bodies of both sides, which are kept only where `capture` was on; records
    without them are left out and counted. `teeline check` reads all three forms.
    """
    if form == "json" and output is None:
        raise click.UsageError("--format json needs --output: stdout has the records")
    filters = filters_of(folder, options)
    export, lookup = Export(folder), Lookup(folder)
    progress = Progress("exporting", "records")
    forms = {"jsonl": export.lines, "exchanges": export.exchanges, "har": export.har}
    try:
        with opened(folder) as index, _stream(output) as out:
            entries = in_files(index.db, filters)
            for piece in forms[kind](_sources(lookup, entries, export, progress)):
                out.write(piece)
    finally:
        lookup.close()
        progress.close()
    _summarise(export, form)


def _sources(
    lookup: Lookup, entries: Iterable[Entry], export: Export, progress: Progress
) -> Iterator[Source]:
    for entry in entries:
        progress.add(1)
        try:
            found = lookup.record(entry)
            url = upstream_url(lookup.opening(entry), entry.upstream)
        except GoneError:
            export.left_out["the record is gone or was changed"] += 1
            continue
        yield Source(found, url)


@contextmanager
def _stream(output: str | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        # Records are as confidential as the log itself.
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise click.UsageError(f"{printable(output)}: {error.strerror}") from None
    with os.fdopen(fd, "wb") as file:
        yield file


def _summarise(export: Export, form: str) -> None:
    if form == "json":
        say_json({"v": 1, "written": export.written, "left_out": dict(export.left_out)})
        return
    click.echo(f"teeline: {export.written} records written", err=True)
    for why, count in export.left_out.most_common():
        click.echo(f"teeline: {count} left out: {why}", err=True)
