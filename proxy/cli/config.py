"""``teeline config``: check a configuration, see what it comes to, and have a file to start from.

What belongs here: options and words on the terminal. What doesn't: what settings mean (config).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from teeline.config.effective import lines
from teeline.config.load import ConfigError, Setting, gathered, load
from teeline.config.reference import default_yaml, schema
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.text import printable


@click.group("config")
def command() -> None:
    """Check a configuration, show what it comes to, or start one."""


def _problems_are_lines(work: Callable[..., None]) -> Callable[..., None]:
    """Each problem of a configuration as a line, and exit code 2."""

    @wraps(work)
    def run(*args: Any, **options: Any) -> None:
        try:
            work(*args, **options)
        except ConfigError as error:
            for problem in error.problems:
                click.echo(printable(f"teeline config: {problem}", 1000), err=True)
            sys.exit(USAGE)

    return run


@command.command("check")
@click.argument("file", envvar="TEELINE_CONFIG", type=click.Path())
@_problems_are_lines
def check(file: str) -> None:
    """Check FILE, with the TEELINE__ variables over it, as `serve` would read it."""
    config = load(file, os.environ)
    names = [upstream.name for upstream in config.upstreams]
    count = "1 upstream" if len(names) == 1 else f"{len(names)} upstreams"
    click.echo(f"{printable(file, 1000)}: ok, {count}: {', '.join(names)}")


@command.command("show")
@click.option("--config", "file", metavar="FILE", envvar="TEELINE_CONFIG", help="A YAML file.")
@click.option("--upstream", metavar="URL", help="As `serve --upstream`.")
@_problems_are_lines
def show(file: str | None, upstream: str | None) -> None:
    """Show every setting as YAML, and where it was set."""
    flags = [Setting(("upstreams",), [{"url": upstream}], "--upstream")] if upstream else []
    config = load(file, os.environ, flags)
    for line in lines(config, gathered(file, os.environ, flags)):
        click.echo(printable(line, 1000))


@command.command("schema")
def show_schema() -> None:
    """Print the JSON Schema of a configuration file."""
    click.echo(json.dumps(schema(), indent=2))


@command.command("init")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="teeline.yaml")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def init(file: Path, force: bool) -> None:
    """Write a file to start from: every setting with its default [teeline.yaml]."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as target:
            target.write(default_yaml())
    except FileExistsError:
        raise click.UsageError(f"{file} is there already; --force overwrites it") from None
    except OSError as error:
        click.echo(f"teeline config: {file}: {os.strerror(error.errno or 0)}", err=True)
        sys.exit(CANT_RUN)
    click.echo(f"{file} is written; set `upstreams` in it, then: teeline serve --config {file}")
