"""``teeline check``: recorded exchanges are held against the protocol, without any network.

What belongs here: which files are read, the replay of each, exit codes. What doesn't: the format of
a recording (validators/exchangefile.py), the looks of a report (proxy/reports).
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from teeline.proxy.cli.rules import nearest
from teeline.proxy.console import wants_color
from teeline.proxy.reports import RENDERERS
from teeline.proxy.reports.model import Report, ReportedExchange, Style
from teeline.proxy.reports.text import terminal_width
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.text import printable
from teeline.validators.events import Closed, Output, SchemaCheck
from teeline.validators.exchangefile import (
    MAX_BYTES,
    ExchangeFileError,
    RecordedExchange,
    loads,
    replay,
)
from teeline.validators.inspector import Inspector
from teeline.validators.model import Exchange, Severity
from teeline.validators.policy import Policy, UnknownRuleError
from teeline.validators.rules import register

FINDINGS: Final = 1
USAGE: Final = 2
INTERNAL: Final = 3

_SCHEMA_TIMEOUT: Final = 5.0
_SCHEMA_PATIENCE: Final = 60.0
"""Seconds for a schema check and its wait: longer than live, for nobody waits for a stream here."""


@dataclass(slots=True)
class Outcome:
    """What came of the files: exchanges in order, and a line for each that was not checked."""

    exchanges: list[ReportedExchange] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


@click.command()
@click.argument("paths", metavar="FILE|FOLDER...", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted(RENDERERS)),
    default="text",
    help="The form of the report.",
)
@click.option("--output", metavar="FILE", help="Write the report there instead of to stdout.")
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "fail", "never"]),
    default="fail",
    show_default=True,
    help="Exit with 1 where a finding is at least this bad, on the relay's or the client's side.",
)
@click.option("--select", multiple=True, metavar="PATTERN", help="Report these rules alone.")
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Don't report these rules.")
@click.option("--show-info", is_flag=True, help="List info findings, too (text).")
@click.option("--quiet", is_flag=True, help="No passing exchanges, no summary, no chatter.")
def check(
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    show_info: bool,
    quiet: bool,
) -> None:
    """Check recorded exchanges (exchange files) offline.

    Folders are searched for *.json. A PATTERN is a rule (chatstream.done-missing) or a family
    (chatstream).

    Exit status: 0 clean, 1 findings at or above --fail-on, 2 wrong usage or a file that is no
    exchange file (the others are checked), 3 an error of teeline's own.
    """
    try:
        policy = Policy(register(), split(select), split(ignore))
    except UnknownRuleError as error:
        raise _unknown(str(error)) from None
    outcome = asyncio.run(check_files(paths, policy, time.time()))
    report = Report(outcome.exchanges, register())
    _write(RENDERERS[form](report, _style(output, show_info, quiet)), output)
    for line in (*outcome.refused, *outcome.broken):
        click.echo(f"teeline check: {line}", err=True)
    sys.exit(_exit_code(report, outcome, fail_on))


def _unknown(pattern: str) -> click.UsageError:
    known = {*register(), *(rule.family for rule in register().values())}
    hint = nearest(pattern, sorted(known))
    return click.UsageError(f"no rule or family is called {printable(pattern)!r}{hint}")


def split(patterns: Iterable[str]) -> list[str]:
    """The patterns of an option that may be repeated and may list several behind commas."""
    return [word for text in patterns for part in text.split(",") if (word := part.strip())]


def _style(output: str | None, show_info: bool, quiet: bool) -> Style:
    return Style(
        color=output is None and wants_color(sys.stdout, os.environ),
        width=terminal_width(),
        show_info=show_info,
        quiet=quiet,
    )


def _write(text: str, output: str | None) -> None:
    if output is None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        # A terminal in an 8-bit locale can't show every printable character.
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{printable(output)}: {error.strerror}") from None


def _exit_code(report: Report, outcome: Outcome, fail_on: str) -> int:
    if outcome.broken:
        return INTERNAL
    if outcome.refused:
        return USAGE
    worst = report.worst()
    if fail_on == "never" or worst is None:
        return 0
    return FINDINGS if worst >= Severity.parse(fail_on) else 0


async def check_files(paths: Sequence[str], policy: Policy, at: float) -> Outcome:
    """Checks files and folders, one after the other, all at the time ``at`` (Unix seconds)."""
    outcome = Outcome()
    pool = SchemaPool(timeout=_SCHEMA_TIMEOUT, patience=_SCHEMA_PATIENCE)
    try:
        for path in _files(paths, outcome.refused):
            await _check_file(path, pool, policy, at, outcome)
    finally:
        await pool.close()
    return outcome


async def _check_file(
    path: str, pool: SchemaPool, policy: Policy, at: float, outcome: Outcome
) -> None:
    shown = printable(path, 4096)
    try:
        recorded = loads(_bytes(path))
    except OSError as error:
        outcome.refused.append(f"{shown}: {error.strerror or type(error).__name__}")
        return
    except ExchangeFileError as error:
        outcome.refused.append(f"{shown}: not an exchange file: {error}")
        return
    try:
        exchange = await judge(recorded, pool, policy, at)
    except Exception as error:  # noqa: BLE001  one file's trouble must not hide the others' findings
        outcome.broken.append(f"{shown}: internal error: {_where(error)}")
        return
    outcome.exchanges.append(ReportedExchange(recorded.name, path, exchange))


async def judge(
    recorded: RecordedExchange, pool: SchemaPool, policy: Policy, at: float
) -> Exchange:
    """The exchange as its inspector leaves it, schema checks answered, findings after policy."""
    inspector = Inspector(Exchange())
    outputs: Sequence[Output] = replay(inspector, recorded, at)
    while checks := [output for output in outputs if isinstance(output, SchemaCheck)]:
        answered: list[Output] = []
        for wanted in checks:
            result = await pool.check(wanted.schema, wanted.document)
            answered += inspector.schema_result(wanted.ticket, result, at)
        outputs = answered
    # Policy judges the exchange at its end; what came before is of no interest offline.
    policy.apply([Closed(inspector.exchange)])
    return inspector.exchange


def _where(error: Exception) -> str:
    """Type and line of an error, for a report of it; its text may hold what a peer sent."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def _files(paths: Sequence[str], refused: list[str]) -> Iterator[str]:
    """The files that are named, and those in the folders that are."""
    for path in paths:
        # Path.is_dir raises for a path that can't be looked at; reading it says why.
        if not os.path.isdir(path):  # noqa: PTH112
            yield path
            continue
        found = sorted(_in_folder(path, refused))
        if not found:
            refused.append(f"{printable(path, 4096)}: no *.json in this folder")
        yield from found


def _in_folder(folder: str, refused: list[str]) -> Iterator[str]:
    def unreadable(error: OSError) -> None:
        refused.append(f"{printable(str(error.filename), 4096)}: {error.strerror}")

    for where, _, names in os.walk(folder, onerror=unreadable):
        for name in names:
            path = os.path.join(where, name)  # noqa: PTH118  the path as found: Path would tidy it
            # A pipe or a device that lies in a folder would never end.
            if name.endswith(".json") and _is_regular(path):
                yield path


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        # A dangling link: reading it says so.
        return True


def _bytes(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)
