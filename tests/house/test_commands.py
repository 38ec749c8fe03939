"""Command lines and configurations that the documentation names are ones that teeline takes."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from teeline.config.load import load
from teeline.proxy.cli import COMMANDS, LazyGroup
from tests.house.pages import DOCS, ROOT, Block, blocks, pages

RECIPES = DOCS / "recipes.md"
_CALL = re.compile(
    r"^\s*(?:-?\s*run:\s*|ExecStart=/\S*/|sudo\s+|(?:[A-Z_]+=\S+\s+)+)?(teeline\s.*)$", re.M
)


def called(text: str) -> Iterator[list[str]]:
    """The arguments of each ``teeline`` command of a block; lines that end in a backslash go on."""
    for call in _CALL.findall(text.replace("\\\n", " ")):
        words = shlex.split(call, comments=True)
        yield words[1 : next((n for n, w in enumerate(words) if w in ("&&", "|", "||")), None)]


def calls() -> list[tuple[str, list[str]]]:
    languages = ("sh", "yaml", "ini")
    return [
        (f"{page.relative_to(ROOT)}:{block.line}", arguments)
        for page in pages()
        for block in blocks(page)
        if block.language in languages
        for arguments in called(block.text)
    ]


def parse(arguments: list[str]) -> None:
    """Reads a command line as the program does, without running it; click.UsageError."""
    command: click.Command = LazyGroup(name="teeline", commands={})
    context = click.Context(command, info_name="teeline")
    rest = list(arguments)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no command {name}")
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_parser(context).parse_args(rest)


@pytest.mark.parametrize(
    ("where", "arguments"), calls(), ids=lambda x: x if isinstance(x, str) else ""
)
def test_every_command_line_of_the_documentation_is_taken(where: str, arguments: list[str]) -> None:
    parse(arguments)


def test_a_command_line_that_is_wrong_is_found() -> None:
    assert {c[0] for _, c in calls()} >= {"serve", "check", "probe", "audit", "baseline", "config"}
    assert list(
        called("- run: teeline check a --bogus\nx teeline\nsudo teeline rules \\\n  -x")
    ) == [
        ["check", "a", "--bogus"],
        ["rules", "-x"],
    ]
    for wrong in (["check", "a", "--bogus"], ["nothing"], ["audit", "nothing"]):
        with pytest.raises(click.UsageError):
            parse(wrong)
    assert set(COMMANDS) >= {"serve", "demo"}


def configs(kind: str) -> list[Block]:
    return [b for b in blocks(RECIPES) if b.word == "config" and b.argument == kind]


def test_every_configuration_of_the_recipes_is_one(tmp_path: Path) -> None:
    for block in configs("teeline"):
        file = tmp_path / "teeline.yaml"
        file.write_text(block.text, encoding="utf-8")
        assert load(str(file)).upstreams
    assert len(configs("teeline")) == 2


def test_every_file_of_the_recipes_can_be_read() -> None:
    (codex,) = [b for b in blocks(RECIPES) if b.language == "toml"]
    assert tomllib.loads(codex.text)["model_providers"]["relay"]["wire_api"] == "responses"
    (workflow,) = configs("yaml")
    jobs = yaml.safe_load(workflow.text)["jobs"]
    assert [len(job["steps"]) for job in jobs.values()] == [6, 5]
    (unit,) = configs("systemd")
    parser = configparser.RawConfigParser(strict=True)
    parser.read_string(unit.text)
    assert parser.sections() == ["Unit", "Service", "Install"]


def test_the_sidecar_runs_commands_that_exist_and_as_no_root() -> None:
    (block,) = configs("kubernetes")
    pod = yaml.safe_load(block.text)["spec"]["template"]["spec"]
    (sidecar,) = [c for c in pod["containers"] if c["name"] == "teeline"]
    parse(sidecar["args"])
    for probe in ("readinessProbe", "livenessProbe"):
        program, *arguments = sidecar[probe]["exec"]["command"]
        assert program == "teeline"
        parse(arguments)
    assert _held(sidecar["securityContext"])
    assert {m["name"] for m in sidecar["volumeMounts"]} == {v["name"] for v in pod["volumes"]}


def _held(context: dict[str, Any]) -> bool:
    return (
        context["runAsNonRoot"]
        and context["readOnlyRootFilesystem"]
        and not context["allowPrivilegeEscalation"]
        and context["capabilities"] == {"drop": ["ALL"]}
    )
