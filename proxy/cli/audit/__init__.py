"""``teeline audit``: commands over the audit log.

What belongs here: which commands there are; one module each in this folder, with a click command that
is named ``command``, or like the function that the table names. What doesn't: what they do.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "list": ("listing", "Which exchanges were recorded, newest first."),
    "show": ("show", "One exchange in full, and how to do it again."),
    "stats": ("stats", "Sums by upstream, model, rule and hour."),
    "score": ("score", "How each relay did, family by family."),
    "tail": ("tail", "Exchanges as they are recorded."),
    "verify": ("verify", "Whether the log is whole and unchanged."),
    "export": ("export", "Exchange files, HAR or JSON Lines of records."),
}


class AuditGroup(click.Group):
    """Imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"teeline.proxy.cli.audit.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@click.group(name="audit", cls=AuditGroup)
def command() -> None:
    """Look at the audit log."""
