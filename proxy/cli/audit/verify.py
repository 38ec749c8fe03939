"""``teeline audit verify``: whether the log is as it was written.

What belongs here: arguments, output and exit codes. What doesn't: how a log is checked
(proxy/audit/verify.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import orjson

from teeline.proxy.audit.scan import Finding
from teeline.proxy.audit.verify import NotAuditFileError, Result, verify
from teeline.proxy.cli.audit.options import DEFAULT_FOLDER
from teeline.proxy.cli.audit.progress import Progress
from teeline.proxy.text import printable

INTACT: Final = 0
BROKEN: Final = 1
CANT_READ: Final = 3
_WHOLE: Final = 1 << 62


@click.command(name="verify")
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
def command(ctx: click.Context, paths: tuple[Path, ...], anchor: Path | None, layout: str) -> None:
    """Check that no record was edited, removed, moved or added.

    Without arguments the folder ./teeline-data is checked. Exit codes: 0 intact, 1 broken, 2 usage,
    3 something can't be read.
    """
    progress = Progress("checking", "records")
    try:
        result = verify(paths or (DEFAULT_FOLDER,), anchor, progress.add)
    except OSError as error:
        name = printable(str(error.filename), 1000)
        click.echo(f"teeline: {name} can't be read: {error.strerror}", err=True)
        ctx.exit(CANT_READ)
    except NotAuditFileError as error:
        click.echo(f"teeline: {error}", err=True)
        ctx.exit(CANT_READ)
    finally:
        progress.close()
    if layout == "json":
        click.echo(orjson.dumps(_report(result)))
    else:
        for line in _lines(result):
            click.echo(line)
    ctx.exit(INTACT if result.intact else BROKEN)


def _lines(result: Result) -> Iterator[str]:
    for finding in result.findings:
        yield finding.text
    for first in first_bad(result.findings):
        where = f"record at line {first.line}" if first.line else "the file as a whole"
        yield f"first damage in {printable(first.file, 1000)}: {where}: {first.damage}"
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


def first_bad(findings: Iterable[Finding]) -> list[Finding]:
    """Of each file that is damaged the first bad record, or what befell it as a whole."""
    first: dict[str, Finding] = {}
    for finding in findings:
        if finding.damage:
            known = first.setdefault(finding.file, finding)
            if (finding.line or _WHOLE) < (known.line or _WHOLE):
                first[finding.file] = finding
    return list(first.values())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _report(result: Result) -> dict[str, Any]:
    return {
        "v": 1,
        "intact": result.intact,
        "findings": [_entry(finding) for finding in result.findings],
        "first": [_entry(finding) for finding in first_bad(result.findings)],
        "notes": [_entry(note) for note in result.notes],
        "chains": [chain._asdict() for chain in result.chains],
    }


def _entry(finding: Finding) -> dict[str, Any]:
    file = printable(finding.file, 1000)
    return {**finding._asdict(), "file": file, "damage": finding.damage or None}
