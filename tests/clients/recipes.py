"""Runs the recipes of docs/recipes.md as they stand there: ``python -m tests.clients.recipes [NAME]``.

What belongs here: installing a recipe's client in a folder of its own, the demo's relay behind a real
``teeline serve``, and what serve recorded of the recipe. What doesn't: the recipes (the page).

A recipe is a block behind ``<!-- recipe: NAME; pip|npm PACKAGES; OPERATION -->``. It is run with the port
of this run's proxy and a model of the demo's relay that answers cleanly: code as a program, TOML as the
configuration of codex, which is asked once and sends as many requests as it likes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from teeline.proxy.demo.relay import Relay
from tests.clients.peers import Loop, program, serving
from tests.house.pages import DOCS, blocks
from tests.ports import free_port

PAGE = DOCS / "recipes.md"
MODEL = "clean"
_SERVE = "from teeline.proxy.cli import main; main()"
_FILES = {"python": "recipe.py", "javascript": "recipe.mjs", "toml": "config.toml"}
_ASK_CODEX = ("exec", "--skip-git-repo-check", "Hi")
_INSTALL_PATIENCE = 600.0
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe of the page. ``operation`` is what its exchanges must be."""

    name: str
    installer: str
    packages: tuple[str, ...]
    operation: str
    language: str
    code: str

    @property
    def is_agent(self) -> bool:
        return self.language == "toml"


class RecipeError(Exception):
    """A recipe did not do what the page says of it."""


def recipes() -> dict[str, Recipe]:
    found = {}
    for block in blocks(PAGE):
        if block.word == "recipe":
            name, install, operation = (part.strip() for part in block.argument.split(";"))
            installer, *packages = install.split()
            made = Recipe(name, installer, tuple(packages), operation, block.language, block.text)
            found[name] = made
    return found


class Serve:
    """``teeline serve`` in front of a relay, and the audit log that it writes."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self._folder = folder

    def records(self) -> list[dict[str, Any]]:
        """The exchanges recorded; complete once serve has ended."""
        lines = [
            json.loads(line)
            for file in sorted(self._folder.glob("audit-*.jsonl"))
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        return [line for line in lines if "kind" not in line]


@contextmanager
def serve(upstream: str, folder: Path) -> Iterator[Serve]:
    """Serves until the context is left, and has then written everything. Starts with a list of models."""
    port = free_port()
    command = [sys.executable, "-c", _SERVE, "serve", "--upstream", upstream]
    command += ["--listen", f"127.0.0.1:{port}", "--admin", "off", "--audit-dir", str(folder)]
    with serving(command, port, folder.parent / f"{folder.name}.log"):
        yield Serve(port, folder)


def install(recipe: Recipe, folder: Path) -> list[str]:
    """Puts a recipe's client into a folder; the command that runs the recipe there, but for its file."""
    folder.mkdir(parents=True, exist_ok=True)
    if recipe.installer == "npm":
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        _succeeds([program("npm"), "install", "--no-audit", "--no-fund", *recipe.packages], folder)
        codex = str(folder / "node_modules" / ".bin" / "codex")
        return [codex, *_ASK_CODEX] if recipe.is_agent else [program("node")]
    _succeeds([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    python = str(folder / "venv" / "bin" / "python")
    _succeeds([python, "-m", "pip", "install", "-q", *recipe.packages], folder)
    return [python]


def _succeeds(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_PATIENCE, check=False
    )
    if done.returncode:
        raise RecipeError(f"{' '.join(command)}: {done.stderr[-2000:]}")


def run(recipe: Recipe, runner: list[str], folder: Path, upstream: str) -> str:
    """Runs a recipe's code; what it printed. RecipeError: it failed, or serve saw something else."""
    file = folder / _FILES[recipe.language]
    command = runner if recipe.is_agent else [*runner, str(file)]
    log = folder / "audit"
    with serve(upstream, log) as up:
        code = recipe.code.replace("127.0.0.1:8787", f"127.0.0.1:{up.port}")
        file.write_text(code.replace("your-model", MODEL), encoding="utf-8")
        done = subprocess.run(
            command,
            cwd=folder,
            env={**_environment(), "CODEX_HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    if done.returncode or not done.stdout.strip():
        raise RecipeError(f"status {done.returncode}: {done.stdout}{done.stderr}"[-2000:])
    judge(recipe, [record for record in up.records() if record["operation"] != "models"])
    return done.stdout


def judge(recipe: Recipe, records: list[dict[str, Any]]) -> None:
    """RecipeError unless all exchanges are of the recipe's operation, clean and looked at in full.

    There must be one; an agent has as many turns as it takes.
    """
    if not records or (len(records) > 1 and not recipe.is_agent):
        raise RecipeError(f"serve saw {len(records)} exchanges")
    for record in records:
        seen = {name: record.get(name) for name in _CLEAN}
        if seen != {**_CLEAN, "operation": recipe.operation}:
            raise RecipeError(f"serve saw {seen}, {record['violations']}")


_CLEAN = {
    "operation": "",
    "stream": True,
    "status": 200,
    "verdict": "pass",
    "client_verdict": "pass",
    "inspection": "full",
}


def _environment() -> Mapping[str, str]:
    """Without what would lead a client elsewhere, or this tree's packages into its environment."""
    gone = ("OPENAI", "PYTHONPATH", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    kept = {k: v for k, v in os.environ.items() if not k.upper().startswith(gone)}
    return {**kept, "OPENAI_API_KEY": "sk-test-0000"}


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Install and run the recipes of docs/recipes.md, all or those named; needs PyPI and npm."""
    known = recipes()
    if unknown := set(names) - set(known):
        raise click.UsageError(
            f"no recipe {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    failed = 0
    loop, relay = Loop(), Relay()
    upstream = loop.run(relay.start())
    with tempfile.TemporaryDirectory(prefix="teeline-recipes-") as folder:
        for name in names or known:
            recipe, place = known[name], Path(folder) / name
            try:
                said = run(recipe, install(recipe, place), place, upstream)
            except (RecipeError, subprocess.TimeoutExpired) as error:
                failed += 1
                click.echo(f"FAILED {name}: {error}", err=True)
            else:
                click.echo(f"ok {name}: clean ({recipe.operation}), and it said {said.strip()!r}")
    loop.run(relay.stop())
    loop.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
