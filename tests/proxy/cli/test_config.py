"""``teeline config``: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli import main

GOOD = "upstreams: [{name: relay, url: 'https://relay.example/v1'}]\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TEELINE_CONFIG", raising=False)


def test_a_good_file_is_ok() -> None:
    Path("good.yaml").write_text(GOOD, encoding="utf-8")
    result = run("check", "good.yaml")
    assert (result.exit_code, result.stdout) == (0, "good.yaml: ok, 1 upstream: relay\n")


def test_every_problem_is_a_line_with_its_place() -> None:
    Path("bad.yaml").write_text(GOOD + "limit: {}\nclients: {head: 0}\n", encoding="utf-8")
    result = run("check", "bad.yaml")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "teeline config: bad.yaml:2:1: unknown key `limit`, did you mean `limits`?",
        "teeline config: bad.yaml:3:17: `head`: is not a whole number above 0",
    ]


def test_variables_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("good.yaml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("TEELINE__SHUTDOWN__DEADLINE", "soon")
    result = run("check", "good.yaml")
    assert result.exit_code == 2
    assert "TEELINE__SHUTDOWN__DEADLINE" in result.stderr


def test_show_needs_no_file_where_an_upstream_is_given() -> None:
    result = run("show", "--upstream", "https://relay.example/v1")
    assert result.exit_code == 0
    assert "url: https://relay.example/v1" in result.stdout
    assert "# --upstream" in result.stdout


def test_the_schema_is_json() -> None:
    result = run("schema")
    assert result.exit_code == 0
    assert set(json.loads(result.stdout)["properties"]) >= {"upstreams", "limits", "audit"}


def test_a_file_to_start_from_is_written_once() -> None:
    assert run("init").exit_code == 0
    before = Path("teeline.yaml").read_text(encoding="utf-8")
    again = run("init")
    assert again.exit_code == 2 and "--force" in again.stderr
    Path("teeline.yaml").write_text(before + GOOD, encoding="utf-8")
    assert run("check", "teeline.yaml").exit_code == 0
    assert run("init", "--force").exit_code == 0
    assert Path("teeline.yaml").read_text(encoding="utf-8") == before


def test_a_folder_that_is_not_there_is_one_line() -> None:
    result = run("init", "missing/teeline.yaml")
    assert result.exit_code == 3
    assert result.stderr == "teeline config: missing/teeline.yaml: No such file or directory\n"
