"""What the commands over the index share: the folder, the filters, opening and catching up, output.

What belongs here: options to ``Filters``, errors to lines and exit codes. What doesn't: what filters
mean (proxy/audit/query.py).
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
import orjson
from rich.text import Text

from teeline.proxy import fingerprint
from teeline.proxy.audit import schema
from teeline.proxy.audit.index import SEVERITIES, VERDICTS, Index
from teeline.proxy.audit.indexkeeper import LastingIndex
from teeline.proxy.audit.query import Filters
from teeline.proxy.cli import CANT_RUN
from teeline.proxy.cli.audit.progress import Progress
from teeline.proxy.cli.rules import nearest
from teeline.proxy.console import wants_color
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.text import drawn, terminal_width
from teeline.proxy.text import printable
from teeline.validators.rules import register

DEFAULT_FOLDER: Final = Path("teeline-data")
SECRET: Final = "fingerprint-secret"

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_AGO = re.compile(r"(\d{1,9})([smhdw])\Z")
_STATUS = re.compile(r"([1-5])xx\Z|([1-9]\d\d)\Z", re.IGNORECASE)

Function = TypeVar("Function", bound=Callable[..., Any])

folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Folder of the audit log.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or for machines.",
)


def _moment(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """``2h``, ``7d`` ago, or a time of RFC 3339; one without an offset is UTC."""
    if text is None:
        return None
    if ago := _AGO.match(text):
        return time.time() - int(ago[1]) * _UNITS[ago[2]]
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter("write 30m, 2h, 7d (ago) or 2026-11-30T12:00:00Z") from None


def _statuses(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[int, ...]:
    found = [_STATUS.match(text) for text in texts]
    if None in found:
        raise click.BadParameter("write a status like 429, or a class like 5xx")
    return tuple(int(match[1] or match[2]) for match in found if match is not None)


def _patterns(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    known = {name for rule in register().values() for name in (rule.id, rule.family)}
    for text in texts:
        if text.removesuffix(".*") not in known:
            hint = nearest(text, sorted(known))
            raise click.BadParameter(f"no rule or family is called {printable(text)!r}{hint}")
    return texts


_FILTERS: Final = (
    click.option("--since", callback=_moment, metavar="TIME", help="2h, 7d or RFC 3339."),
    click.option("--until", callback=_moment, metavar="TIME", help="The same, excluded."),
    click.option("--upstream", multiple=True, metavar="NAME", help="May be repeated, like most."),
    click.option("--model", multiple=True, metavar="NAME", help="As the request named it."),
    click.option("--operation", multiple=True, metavar="NAME", help="chat, responses, ..."),
    click.option(
        "--rule", "rules", multiple=True, metavar="PATTERN", callback=_patterns,
        help="A broken rule, or a family of rules.",
    ),
    click.option(
        "--severity", type=click.Choice(list(SEVERITIES)), default=None,
        help="A violation at least this bad.",
    ),
    click.option("--verdict", multiple=True, type=click.Choice(list(VERDICTS)), help="The relay's."),
    click.option(
        "--client-verdict", multiple=True, type=click.Choice(list(VERDICTS)),
        help="The client's side.",
    ),
    click.option("--status", multiple=True, metavar="CODE", callback=_statuses, help="429, 5xx."),
    click.option("--ended", multiple=True, metavar="HOW", help="complete, client_closed, ..."),
    click.option("--request-id", default="", metavar="ID", help="The relay's x-request-id."),
    click.option("--id", "id_", default="", metavar="ID", help="teeline's id of the exchange."),
    click.option("--key", multiple=True, metavar="DIGITS", help="A key's fingerprint."),
    click.option(
        "--key-env", multiple=True, metavar="NAME",
        help="A variable of the environment that holds the key.",
    ),
    click.option("--message", default="", metavar="TEXT", help="Part of a violation's message."),
)  # fmt: skip


def filter_options(function: Function) -> Function:
    """All filters, gathered into one argument ``filters`` by ``filters_of``."""
    for option in reversed(_FILTERS):
        function = option(function)
    return function


def filters_of(folder: Path, options: dict[str, Any]) -> Filters:
    """The filters that the options make; a usage error where a key's fingerprint can't be made."""
    keys = (*options["key"], *(_key(folder, name) for name in options["key_env"]))
    same = ("since", "until", "upstream", "model", "operation", "rules", "verdict", "status")
    more = ("client_verdict", "ended", "request_id", "message")
    return Filters(
        id=options["id_"],
        key=keys,
        severity=options["severity"] or "",
        **{name: options[name] for name in (*same, *more)},
    )


def _key(folder: Path, name: str) -> str:
    key = os.environ.get(name)
    if not key:
        raise click.UsageError(f"the variable {printable(name)} is not set")
    try:
        return fingerprint.load(folder / SECRET).of_key(key)
    except fingerprint.SecretError as error:
        raise click.UsageError(f"{error}; give the fingerprint with --key") from None


@contextmanager
def opened(folder: Path) -> Iterator[Index]:
    """The index of a log, caught up; what can't be read ends the command with exit code 3."""
    with lasting(folder) as found:
        yield found.index


@contextmanager
def lasting(folder: Path) -> Iterator[LastingIndex]:
    """The same for a command that goes on while the index may be deleted or made anew."""
    progress = Progress("indexing", "bytes")
    found = LastingIndex(folder)
    try:
        if not folder.is_dir():
            _fail(f"{printable(str(folder), 1000)} is no folder: no audit log is there")
        found.catch_up(progress.at)
        progress.close()
        yield found
    except OSError as error:
        _fail(f"{printable(str(error.filename or folder), 1000)} can't be read: {error.strerror}")
    except sqlite3.Error as error:
        _fail(_unusable(folder / schema.FILENAME, error))
    finally:
        found.close()
        progress.close()


def _unusable(path: Path, error: sqlite3.Error) -> str:
    shown = printable(str(path), 1000)
    if not schema.is_damaged(error):
        return f"the index {shown} can't be used: {error}; it may be deleted"
    # What it said before can't be taken back, so the command isn't simply done again.
    schema.delete(path)
    return f"the index {shown} was damaged and has been deleted; the next command makes it anew"


def _fail(line: str) -> NoReturn:
    click.echo(f"teeline: {line}", err=True)
    raise click.exceptions.Exit(CANT_RUN)


def style() -> Style:
    """How text for people is drawn on this stdout."""
    return Style(color=wants_color(sys.stdout, os.environ), width=terminal_width())


def say(lines: Iterable[Text]) -> None:
    """Lines for people to stdout."""
    text = drawn(list(lines), style())
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # A terminal in an 8-bit locale can't show every printable character.
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False)


def say_json(document: Any) -> None:
    """One JSON document to stdout, on one line."""
    click.echo(orjson.dumps(document))
