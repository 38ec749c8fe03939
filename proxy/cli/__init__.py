"""The command line: which commands there are, and what becomes of errors.

What belongs here: finding a command's module when it is used, exit codes, one line for an error.
What doesn't: the commands: one module each in this folder, with a click command that is named
``command`` or like the module.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from teeline.proxy.text import printable

USAGE: Final = 2
CANT_RUN: Final = 3
INTERRUPTED: Final = 130

TRACEBACK: Final = "TEELINE_TRACEBACK"
"""Set to anything, this variable shows where an internal error came from."""

COMMANDS: Final = {
    "serve": "Run the proxy.",
    "demo": "Show what teeline finds: no key, no network.",
    "probe": "Score a relay: does it really speak the OpenAI API?",
    "baseline": "Record a server's answers, and compare two recordings.",
    "check": "Check recorded exchanges offline.",
    "nnrp": "Check NNRP connections: live, recorded, and what an adapter declares.",
    "audit": "Look at the audit log.",
    "rules": "Explain what can be wrong, rule by rule.",
    "config": "Check a configuration, show what it comes to, or start one.",
    "healthcheck": "Ask a running proxy whether it is well.",
}


class LazyGroup(click.Group):
    """Imports a command's module when the command is used, and turns every error into one line.

    Exit codes: 2 usage or configuration, 3 could not run, 130 interrupted; commands set their own.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"teeline.proxy.cli.{cmd_name}")
        command: click.Command = getattr(module, "command", None) or getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table, so that --help imports nothing.
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            result = _report(error)
        sys.exit(result if isinstance(result, int) else 0)


def _report(error: Exception) -> int:
    """Says what went wrong and gives the exit code."""
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has enough; the interpreter must not complain on its way out.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        return CANT_RUN
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return USAGE
    if isinstance(error, click.ClickException):
        _say_click(error)
        return USAGE if isinstance(error, click.UsageError) else max(error.exit_code, USAGE)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
    # Its text may hold what a peer sent.
    click.echo(f"teeline: internal error: {where} (set {TRACEBACK}=1 for the rest)", err=True)
    return CANT_RUN


def _say_click(error: click.ClickException) -> None:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "teeline"
    words = printable(" ".join(error.format_message().split()), 1000)
    if isinstance(error, click.UsageError):
        words = f"{words.removesuffix('.')}. Try '{path} --help'."
    click.echo(f"{path}: {words}", err=True)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from teeline.proxy.reports.model import tool_version

        click.echo(f"teeline {tool_version()}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """A transparent proxy that checks OpenAI-compatible traffic against the protocol."""
