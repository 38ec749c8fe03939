"""Where commands of ``teeline nnrp`` that watch live traffic tell what they find, and what of it.

What belongs here: their common options, and the sinks and the policy that these mean. What doesn't: what is
watched (nnrp.py, nnrpbridge.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from teeline.proxy.audit.record import Origin, ruleset_id
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.console import ConsoleSink
from teeline.proxy.reports.model import tool_version
from teeline.proxy.sinks import Sink
from teeline.proxy.telemetry.sink import TelemetrySink
from teeline.validators.rules import register

Command = TypeVar("Command", bound=Callable[..., Any])


def telling(command: Command) -> Command:
    """The options that say what is told, and whether an audit log is written."""
    for option in reversed(
        (
            click.option(
                "--select", multiple=True, metavar="PATTERN", help="Report these rules alone."
            ),
            click.option(
                "--ignore", multiple=True, metavar="PATTERN", help="Don't report these rules."
            ),
            click.option("--audit-dir", metavar="DIR", default="teeline-data", show_default=True),
            click.option("--no-audit", is_flag=True, help="Write no audit log."),
        )
    ):
        command = option(command)
    return command


def sinks_of(options: Mapping[str, Any]) -> list[Sink]:
    """Console, telemetry where the OTEL_* variables say where to, and audit log. Raises SinkError."""
    sinks: list[Sink] = [ConsoleSink(sys.stdout)]
    telemetry = TelemetrySink.from_environment(os.environ, version=tool_version(), servers={})
    if telemetry is not None:
        sinks.append(telemetry)
    if not options["no_audit"]:
        origin = Origin(tool_version(), ruleset_id(register()), ())
        sinks.append(AuditSink(Path(options["audit_dir"]), origin=origin))
    return sinks
