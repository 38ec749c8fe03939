"""``teeline baseline``: a server's answers in a file, and how two such files differ.

What belongs here: options, file names, exit codes, the words of a comparison. What doesn't: the check
(proxy/probe), the comparison itself (validators/baseline.py).
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import click

from teeline.proxy.cli.probe import load, run, settings_of, target_of, target_options, write
from teeline.proxy.probe import recording
from teeline.proxy.text import printable
from teeline.validators import baseline
from teeline.validators.baseline import Comparison

DIFFERENT: Final = 1
_FOLDER: Final = Path("teeline-data") / "baselines"
_WIRE_APIS: Final = {"both": "auto", "responses": "responses", "chat": "chat-completions"}


@click.group("baseline")
def command() -> None:
    """Record a server's answers, and compare two recordings."""


@command.command("capture")
@target_options
@click.option(
    "--wire-api",
    type=click.Choice(list(_WIRE_APIS)),
    default="both",
    show_default=True,
    help="The protocols to ask.",
)
@click.option(
    "--probe-set", type=click.Choice(["smoke", "full"]), default="full", show_default=True
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The file to write [a dated one under teeline-data/baselines].",
)
def capture(**options: Any) -> None:
    """Ask a server everything once and keep its answers in a file.

    The file holds the answers in full and the key masked.

    Exit status: 0 written, 2 wrong usage, 3 unreachable or not authorised.
    """
    target = target_of(options, os.environ)
    outcome = run(
        target, settings_of(options | {"protocol": _WIRE_APIS[options["wire_api"]]}), options
    )
    document = recording.record(outcome, options["wire_api"])
    path = options["output"] or str(_dated(document))
    _save(recording.dumps(document), Path(path))
    for note in outcome.notes:
        click.echo(f"teeline baseline: {printable(note, 600)}", err=True)
    click.echo(f"{len(document['probes'])} answers written to {printable(path, 4096)}", err=True)


def _dated(document: dict[str, Any]) -> Path:
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", document["base_url"].partition("://")[2]).strip("-")
    model = re.sub(r"[^A-Za-z0-9._-]+", "-", document["model"]).strip("-")
    moment = re.sub(r"[^0-9T]", "", document["captured_at"][:19])
    return _FOLDER / f"{moment}-{host[:60]}-{model[:60]}.json"


def _save(text: str, path: Path) -> None:
    """Writes a file that its owner alone can read: it holds answers."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent == _FOLDER:
            ignore = _FOLDER.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.UsageError(f"{printable(str(path), 4096)}: {error.strerror}") from None


@command.command("compare")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--output", metavar="FILE", help="Write there instead of to stdout.")
def compare(first: str, second: str, form: str, output: str | None) -> None:
    """Show how the answers in B differ from those in A in structure.

    Members, types, words of the protocol, the order of events and the header fields that are there
    count; values that may differ from call to call don't.

    Exit status: 0 no difference, 1 differences, 2 wrong usage or a file that is no baseline.
    """
    found = baseline.compare(load(first), load(second))
    write(as_json(found) if form == "json" else as_text(found), output)
    sys.exit(DIFFERENT if found.changed else 0)


def as_text(found: Comparison) -> str:
    """A comparison for people."""
    lines = [printable(line, 600) for line in baseline.told(found.changed)]
    for words, names in (("only in A", found.only_first), ("only in B", found.only_second)):
        if names:
            lines.append(f"{words}: {printable(', '.join(names), 600)}")
    count = len(found.changed)
    lines.append(f"{found.compared} probes compared, {count} difference{'s' if count != 1 else ''}")
    return "\n".join(lines) + "\n"


def as_json(found: Comparison) -> str:
    """A comparison for machines."""
    document = {
        "v": 1,
        "compared": found.compared,
        "differences": [
            {"probe": changed.probe, **changed.difference._asdict()} for changed in found.changed
        ],
        "only_first": list(found.only_first),
        "only_second": list(found.only_second),
    }
    return json.dumps(document, indent=1) + "\n"
