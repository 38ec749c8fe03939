"""``teeline audit``: commands over the audit log.

What belongs here: arguments, output and exit codes. What doesn't: how a log is checked
(proxy/audit).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import orjson

from teeline.proxy.audit.scan import Finding
from teeline.proxy.audit.verify import NotAuditFileError, Result, verify
from teeline.proxy.text import printable

DEFAULT_FOLDER: Final = Path("teeline-data")

INTACT: Final = 0
BROKEN: Final = 1
CANT_READ: Final = 3


@click.group(name="audit")
def command() -> None:
    """Look at the audit log."""


@command.command(name="verify")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[DIR|FILE]...")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Heads that were kept elsewhere; they show whether the newest records are all there.",
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the result is written.",
)
@click.pass_context
def verify_command(
    ctx: click.Context, paths: tuple[Path, ...], anchor: Path | None, layout: str
) -> None:
    """Check that no record was edited, removed, moved or added.

    Without arguments the folder ./teeline-data is checked. Exit codes: 0 intact, 1 broken, 2 usage,
    3 something can't be read.
    """
    try:
        result = verify(paths or (DEFAULT_FOLDER,), anchor)
    except OSError as error:
        name = printable(str(error.filename), 1000)
        click.echo(f"teeline: {name} can't be read: {error.strerror}", err=True)
        ctx.exit(CANT_READ)
    except NotAuditFileError as error:
        click.echo(f"teeline: {error}", err=True)
        ctx.exit(CANT_READ)
    if layout == "json":
        click.echo(orjson.dumps(_report(result)))
    else:
        for line in _lines(result):
            click.echo(line)
    ctx.exit(INTACT if result.intact else BROKEN)


def _lines(result: Result) -> Iterator[str]:
    for finding in result.findings:
        yield finding.text
    for note in result.notes:
        yield f"note: {note.text}"
    chains, files = len(result.chains), sum(chain.files for chain in result.chains)
    counted = (
        f"{_count(chains, 'chain')}, {_count(files, 'file')}, "
        f"{_count(sum(chain.records for chain in result.chains), 'record')}"
    )
    unwitnessed = sum(chain.witnessed < chain.last_seq for chain in result.chains)
    tail = f"; tail not witnessed in {_count(unwitnessed, 'chain')}" if unwitnessed else ""
    if result.intact:
        yield f"intact: {counted}{tail}"
    else:
        yield f"BROKEN: {_count(len(result.findings), 'finding')} in {counted}{tail}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _report(result: Result) -> dict[str, Any]:
    return {
        "v": 1,
        "intact": result.intact,
        "findings": [_entry(finding) for finding in result.findings],
        "notes": [_entry(note) for note in result.notes],
        "chains": [chain._asdict() for chain in result.chains],
    }


def _entry(finding: Finding) -> dict[str, Any]:
    return {**finding._asdict(), "file": printable(finding.file, 1000)}
