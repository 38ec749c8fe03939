"""``teeline probe``: whether a relay really speaks the OpenAI API, in a minute.

What belongs here: options, the key's ways in, progress, exit codes. What doesn't: the check itself
(proxy/probe), scores (validators/scoring.py), the looks of reports (proxy/probe/report).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from teeline.proxy.console import wants_color
from teeline.proxy.probe import plan, recording
from teeline.proxy.probe.client import DEFAULT_TIMEOUT, OpenAIClient
from teeline.proxy.probe.judge import Judge
from teeline.proxy.probe.outcome import CheckOutcome, passes
from teeline.proxy.probe.plan import Settings
from teeline.proxy.probe.report import RENDERERS
from teeline.proxy.probe.runner import CantCheckError, Progress, Runner
from teeline.proxy.probe.target import (
    DEFAULT_BASE_URL,
    Target,
    TargetError,
    find_key,
    with_version,
)
from teeline.proxy.reports.model import Style
from teeline.proxy.reports.text import terminal_width
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.text import printable
from teeline.validators import baseline
from teeline.validators.detectors.model import ProbeSet
from teeline.validators.model import Severity
from teeline.validators.policy import UnknownRuleError

BELOW: Final = 1
CANT_CHECK: Final = 3
_SETS: Final = [probe_set.name.lower() for probe_set in ProbeSet]
_SCHEMA_TIMEOUT: Final = 5.0
_SCHEMA_PATIENCE: Final = 60.0

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say who is checked; ``target_of`` reads them."""
    options: tuple[Decorator, ...] = (
        click.option(
            "--base-url",
            metavar="URL",
            default=DEFAULT_BASE_URL,
            show_default=True,
            help="The API's base URL, with or without /v1.",
        ),
        click.option("--api-key", metavar="KEY", help="The key [OPENAI_API_KEY, or .env]."),
        click.option("--api-key-file", metavar="FILE", help="A file whose first line is the key."),
        click.option("--model", metavar="M", required=True, help="The model to ask."),
        click.option(
            "--header", multiple=True, metavar="NAME:VALUE", help="A header field of each request."
        ),
        click.option(
            "--auth-header",
            metavar="NAME",
            default="Authorization",
            show_default=True,
            help="The field that carries the key; any other than Authorization without Bearer.",
        ),
        click.option(
            "--query",
            multiple=True,
            metavar="NAME=VALUE",
            help="A query parameter of each request.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0.1),
            default=DEFAULT_TIMEOUT,
            show_default=True,
            help="Seconds for one exchange.",
        ),
        click.option(
            "--concurrency",
            type=click.IntRange(1, 64),
            default=2,
            show_default=True,
            help="Requests at a time.",
        ),
        click.option(
            "--max-requests", type=click.IntRange(min=1), help="Requests in all, at most."
        ),
        click.option("--quiet", is_flag=True, help="No progress, no chatter."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def target_of(options: Mapping[str, Any], environ: Mapping[str, str]) -> Target:
    """The target that the options describe; raises UsageError."""
    try:
        key = find_key(options["api_key"], options["api_key_file"], environ, Path.cwd())
        return Target(
            with_version(options["base_url"]),
            key,
            tuple(_pair(text, ":", "--header", "NAME:VALUE") for text in options["header"]),
            _field_name(options["auth_header"]),
            tuple(_pair(text, "=", "--query", "NAME=VALUE") for text in options["query"]),
        )
    except (TargetError, ValueError) as error:
        raise click.UsageError(str(error)) from None


def _pair(text: str, mark: str, option: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(mark)
    if not found or not name.strip():
        raise TargetError(f"{option} is {form}")
    if mark == ":":
        _field_name(name.strip())
        if any(not (" " <= c < "\x7f") for c in value):
            raise TargetError(f"{option}: the value holds characters that a field can't")
    return name.strip(), value.strip()


def _field_name(name: str) -> str:
    if not name or not all(c.isascii() and (c.isalnum() or c in "!#$%&'*+-.^_`|~") for c in name):
        raise TargetError("a header field's name is letters, digits and dashes")
    return name


@click.command("probe")
@target_options
@click.option(
    "--protocol",
    type=click.Choice(list(plan.PROTOCOLS)),
    default="auto",
    show_default=True,
    help="What to check; auto: both, but the one that is not there.",
)
@click.option(
    "--probe-set", type=click.Choice(_SETS), default="full", show_default=True, help="How much."
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Send everything N times, and say how often each rule was broken.",
)
@click.option("--embedding-model", metavar="M", help="The model of the embeddings probes.")
@click.option(
    "--baseline", "compared_with", metavar="FILE", help="Say how the answers differ from these."
)
@click.option(
    "--format", "form", type=click.Choice(sorted(RENDERERS)), default="text", show_default=True
)
@click.option("--output", metavar="FILE", help="Write the report there instead of to stdout.")
@click.option("--show-info", is_flag=True, help="List info findings, too.")
@click.option("--select", multiple=True, metavar="PATTERN", help="Judge by these rules alone.")
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Don't judge by these rules.")
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 100),
    default=80.0,
    show_default=True,
    help="Exit with 1 below this total.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "fail", "never"]),
    default="fail",
    show_default=True,
    help="Exit with 1 where the result is at least this bad.",
)
def command(**options: Any) -> None:
    """Check whether a server really speaks the OpenAI API, and score it.

    The key comes from --api-key, --api-key-file, OPENAI_API_KEY or a file .env, in this order.

    Exit status: 0 the total is at or above --fail-under and nothing is as bad as --fail-on, 1
    otherwise, 2 wrong usage, 3 unreachable or not authorised.
    """
    target = target_of(options, os.environ)
    settings = settings_of(options)
    recorded = load(options["compared_with"]) if options["compared_with"] else None
    if not options["quiet"]:
        expected = plan.estimate(settings)
        click.echo(
            f"teeline probe: {target.base_url}, key {target.masked or 'none'}: about "
            f"{expected.requests} requests, {expected.tokens} tokens",
            err=True,
        )
    outcome = run(target, settings, options)
    if recorded is not None:
        found = baseline.compare(recorded, recording.record(outcome, settings.protocol))
        outcome.differences = baseline.told(found.changed)
    _report(outcome, options)
    severity = None if options["fail_on"] == "never" else Severity.parse(options["fail_on"])
    sys.exit(0 if passes(outcome, options["fail_under"], severity) else BELOW)


def settings_of(options: Mapping[str, Any]) -> Settings:
    """How the check runs, as the options say."""
    return Settings(
        model=options["model"],
        protocol=options["protocol"],
        probe_set=ProbeSet.parse(options["probe_set"]),
        repeat=options.get("repeat", 1),
        concurrency=options["concurrency"],
        timeout=options["timeout"],
        max_requests=options["max_requests"],
        embedding_model=options.get("embedding_model") or "",
    )


def run(target: Target, settings: Settings, options: Mapping[str, Any]) -> CheckOutcome:
    """The whole check; exits with 3 where there is nothing to judge."""
    progress = None if options["quiet"] else told_on_stderr()
    try:
        return asyncio.run(_run(target, settings, options, progress))
    except UnknownRuleError as error:
        raise click.UsageError(f"no rule or family is called {printable(str(error))!r}") from None
    except CantCheckError as error:
        click.echo(f"teeline: {printable(str(error), 600)}", err=True)
        sys.exit(CANT_CHECK)


async def _run(
    target: Target, settings: Settings, options: Mapping[str, Any], progress: Progress | None
) -> CheckOutcome:
    pool = SchemaPool(timeout=_SCHEMA_TIMEOUT, patience=_SCHEMA_PATIENCE)
    patterns = (_split(options.get("select", ())), _split(options.get("ignore", ())))
    try:
        async with OpenAIClient.to(target, settings.timeout) as client:
            return await Runner(client, Judge(pool, *patterns), settings, progress).run()
    finally:
        await pool.close()


def _split(patterns: tuple[str, ...]) -> list[str]:
    return [word for text in patterns for part in text.split(",") if (word := part.strip())]


def told_on_stderr() -> Progress:
    """One line that is written over on a terminal; nothing where nobody watches."""
    watched = sys.stderr.isatty()

    def tell(name: str, done: int, total: int) -> None:
        if watched:
            end = "\n" if done >= total else ""
            click.echo(f"\r\x1b[K{done}/{total} {name}{end}", nl=False, err=True)

    return tell


def load(path: str) -> dict[str, Any]:
    """A baseline of a file; raises UsageError."""
    shown = printable(path, 4096)
    try:
        with Path(path).open("rb") as file:
            return baseline.loads(file.read(baseline.MAX_BYTES + 1))
    except OSError as error:
        raise click.UsageError(f"{shown}: {error.strerror}") from None
    except baseline.BaselineError as error:
        raise click.UsageError(f"{shown}: {error}") from None


def _report(outcome: CheckOutcome, options: Mapping[str, Any]) -> None:
    output = options["output"]
    style = Style(
        color=output is None and wants_color(sys.stdout, os.environ),
        width=terminal_width(),
        show_info=options["show_info"],
        quiet=options["quiet"],
    )
    write(RENDERERS[options["form"]](outcome, style), output)


def write(text: str, output: str | None) -> None:
    """Text to a file, or to stdout in the terminal's encoding."""
    if output is None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{printable(output)}: {error.strerror}") from None
