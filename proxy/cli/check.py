"""``teeline check``: recorded exchanges are held against the protocol, without any network.

What belongs here: which files are read, the replay of each, exit codes. What doesn't: the formats of
recordings (proxy/inputs), the looks of a report (proxy/reports).
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import click

from teeline.config.profiles import profiles
from teeline.proxy.audit.files import open_log
from teeline.proxy.cli.rules import nearest
from teeline.proxy.console import wants_color
from teeline.proxy.inputs.items import Item, Problem
from teeline.proxy.inputs.reading import read
from teeline.proxy.reports import RENDERERS
from teeline.proxy.reports.model import Report, ReportedExchange, Style
from teeline.proxy.reports.text import terminal_width
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.text import printable
from teeline.validators.events import Closed, Output, SchemaCheck
from teeline.validators.exchangefile import RecordedExchange, replay
from teeline.validators.inspector import Inspector
from teeline.validators.model import Exchange, Severity
from teeline.validators.policy import Policy, UnknownRuleError
from teeline.validators.profiles import AUTO, NONE, ProfileError, Profiles, Setting
from teeline.validators.rules import register

FINDINGS: Final = 1
USAGE: Final = 2
INTERNAL: Final = 3

STDIN: Final = "-"
_PACKED: Final = ".jsonl.gz"
"""What the audit log's closed files are called."""
_SUFFIXES: Final = (".json", ".jsonl", ".har", _PACKED)

_SCHEMA_TIMEOUT: Final = 5.0
_SCHEMA_PATIENCE: Final = 60.0
"""Seconds for a schema check and its wait: longer than live, for nobody waits for a stream here."""


@dataclass(slots=True)
class Outcome:
    """What came of the files: exchanges in order, and what was not checked."""

    exchanges: list[ReportedExchange] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


@click.command()
@click.argument("paths", metavar="FILE|FOLDER|-...", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(RENDERERS)),
    default="text",
    show_default=True,
    help="The form of the report.",
)
@click.option("--output", metavar="FILE", help="Write the report there instead of to stdout.")
@click.option(
    "--profile",
    metavar="NAME|auto|none",
    default=AUTO,
    show_default=True,
    help="The vendor whose known deviations weigh less; auto: by the marks of each answer.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "fail", "never"]),
    default="fail",
    show_default=True,
    help="Exit with 1 where a finding is at least this bad, on the relay's or the client's side.",
)
@click.option("--select", multiple=True, metavar="PATTERN", help="Report these rules alone.")
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Don't report these rules.")
@click.option("--show-info", is_flag=True, help="List info findings, too.")
@click.option("--quiet", is_flag=True, help="No passing exchanges, no summary, no chatter.")
def check(
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    profile: str,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    show_info: bool,
    quiet: bool,
) -> None:
    """Check recorded exchanges offline.

    Exchange files, JSON Lines of them, HAR files of browsers and debugging proxies, and teeline's own
    audit logs are told apart by what they hold; - is stdin. Folders are searched for *.json, *.jsonl,
    *.har and *.jsonl.gz. A PATTERN is a rule (chatstream.done-missing) or a family (chatstream).

    Exit status: 0 clean, 1 findings at or above --fail-on, 2 wrong usage or something that is no
    recording (the rest is checked), 3 an error of teeline's own.
    """
    policy = policy_of(select, ignore, profile)
    outcome = asyncio.run(check_files(paths, policy, time.time()))
    report = Report(
        outcome.exchanges,
        register(),
        profile=None if profile == NONE else profile,
        problems=outcome.problems,
        threshold=None if fail_on == "never" else Severity.parse(fail_on),
    )
    write_report(RENDERERS[form](report, style_of(output, show_info, quiet)), output)
    for line in (*map(told, outcome.problems), *outcome.broken):
        click.echo(f"teeline check: {line}", err=True)
    sys.exit(exit_code(report, outcome))


def policy_of(select: tuple[str, ...], ignore: tuple[str, ...], profile: str) -> Policy:
    """What the options make of findings; a usage error names the nearest word that is known."""
    try:
        chosen = Profiles(profiles().values(), default=Setting(profile))
    except ProfileError:
        known = {*profiles(), *(n for p in profiles().values() for n in p.names), AUTO, NONE}
        hint = nearest(profile, sorted(known)) or f"; known: {', '.join(sorted(known))}"
        raise click.UsageError(f"no profile is called {printable(profile)!r}{hint}") from None
    try:
        return Policy(register(), split(select), split(ignore), profiles=chosen)
    except UnknownRuleError as error:
        raise _unknown(str(error)) from None


def told(problem: Problem) -> str:
    """A problem in one line."""
    return f"{printable(problem.file, 4096)}: {printable(problem.text, 1000)}"


def _unknown(pattern: str) -> click.UsageError:
    known = {*register(), *(rule.family for rule in register().values())}
    hint = nearest(pattern, sorted(known))
    return click.UsageError(f"no rule or family is called {printable(pattern)!r}{hint}")


def split(patterns: Iterable[str]) -> list[str]:
    """The patterns of an option that may be repeated and may list several behind commas."""
    return [word for text in patterns for part in text.split(",") if (word := part.strip())]


def style_of(output: str | None, show_info: bool, quiet: bool) -> Style:
    """How a report for people is drawn."""
    return Style(
        color=output is None and wants_color(sys.stdout, os.environ),
        width=terminal_width(),
        show_info=show_info,
        quiet=quiet,
    )


def write_report(text: str, output: str | None) -> None:
    """Writes a report to a file, to stdout for None."""
    if output is None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        # A terminal in an 8-bit locale can't show every printable character.
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{printable(output)}: {error.strerror}") from None


def exit_code(report: Report, outcome: Outcome) -> int:
    """What the command ends with."""
    if outcome.broken:
        return INTERNAL
    if outcome.problems:
        return USAGE
    worst = report.worst()
    if report.threshold is None or worst is None:
        return 0
    return FINDINGS if worst >= report.threshold else 0


async def check_files(paths: Sequence[str], policy: Policy, at: float) -> Outcome:
    """Checks files and folders, one after the other.

    ``at`` (Unix seconds) is the time of those exchanges whose own was not recorded.
    """
    outcome = Outcome()
    pool = SchemaPool(timeout=_SCHEMA_TIMEOUT, patience=_SCHEMA_PATIENCE)
    try:
        for path in _files(paths, outcome.problems):
            await _check_file(path, pool, policy, at, outcome)
    finally:
        await pool.close()
    return outcome


async def _check_file(
    path: str, pool: SchemaPool, policy: Policy, at: float, outcome: Outcome
) -> None:
    try:
        with _opened(path) as stream:
            for found in read(stream, path, at):
                if isinstance(found, Problem):
                    outcome.problems.append(found)
                else:
                    await _check_item(found, pool, policy, at, outcome)
    except OSError as error:
        outcome.problems.append(Problem(path, error.strerror or type(error).__name__))


async def _check_item(
    item: Item, pool: SchemaPool, policy: Policy, at: float, outcome: Outcome
) -> None:
    try:
        exchange = await judge(item.source, pool, policy, at)
    except Exception as error:  # noqa: BLE001  one exchange's trouble must not hide others' findings
        where = f": {printable(item.name)}" if item.name else ""
        outcome.broken.append(
            f"{printable(item.file, 4096)}{where}: internal error: {_where(error)}"
        )
        return
    outcome.exchanges.append(ReportedExchange(item.name, item.file, exchange, item.line))


async def judge(
    source: RecordedExchange | Exchange, pool: SchemaPool, policy: Policy, at: float
) -> Exchange:
    """The exchange as its inspector leaves it, schema checks answered, findings after policy.

    An exchange whose bytes were not recorded goes through the policy alone.
    """
    exchange = source if isinstance(source, Exchange) else await _inspected(source, pool, at)
    # Policy judges the exchange at its end; what came before is of no interest offline.
    policy.apply([Closed(exchange)])
    return exchange


async def _inspected(recorded: RecordedExchange, pool: SchemaPool, at: float) -> Exchange:
    inspector = Inspector(Exchange())
    outputs: Sequence[Output] = replay(inspector, recorded, at)
    while checks := [output for output in outputs if isinstance(output, SchemaCheck)]:
        answered: list[Output] = []
        for wanted in checks:
            result = await pool.check(wanted.schema, wanted.document)
            answered += inspector.schema_result(wanted.ticket, result, at)
        outputs = answered
    return inspector.exchange


def _where(error: Exception) -> str:
    """Type and line of an error, for a report of it; its text may hold what a peer sent."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def _files(paths: Sequence[str], problems: list[Problem]) -> Iterator[str]:
    """The files that are named, and those in the folders that are."""
    for path in paths:
        # Path.is_dir raises for a path that can't be looked at; reading it says why.
        if path == STDIN or not os.path.isdir(path):  # noqa: PTH112
            yield path
            continue
        found = sorted(_in_folder(path, problems))
        if not found:
            suffixes = ", ".join(f"*{suffix}" for suffix in _SUFFIXES)
            problems.append(Problem(path, f"no {suffixes} in this folder"))
        yield from found


def _in_folder(folder: str, problems: list[Problem]) -> Iterator[str]:
    def unreadable(error: OSError) -> None:
        problems.append(Problem(str(error.filename), error.strerror or type(error).__name__))

    for where, _, names in os.walk(folder, onerror=unreadable):
        for name in names:
            path = os.path.join(where, name)  # noqa: PTH118  the path as found: Path would tidy it
            # A pipe or a device that lies in a folder would never end.
            if name.endswith(_SUFFIXES) and _is_regular(path):
                yield path


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        # A dangling link: reading it says so.
        return True


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    if path == STDIN:
        return nullcontext(sys.stdin.buffer)
    return open_log(Path(path)) if path.endswith(_PACKED) else Path(path).open("rb")
