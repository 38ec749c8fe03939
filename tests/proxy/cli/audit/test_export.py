"""``teeline audit export`` writes what other tools read, and says what it left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from teeline.proxy.cli.check import check
from tests.proxy.cli.audit.logs import PLANTED, answer, audit, log


def test_records_go_to_stdout_and_the_summary_to_stderr(tmp_path: Path) -> None:
    result = audit("export", "--dir", log(tmp_path), "--upstream", "my-relay")
    assert [json.loads(line)["upstream"] for line in result.stdout.splitlines()] == ["my-relay"] * 2
    assert result.stderr == "teeline: 2 records written\n"
    assert PLANTED not in result.output


def test_a_file_is_for_its_owner_alone_and_check_reads_it(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    folder = log(tmp_path / "log")
    said = answer("export", "--dir", folder, "--as", "exchanges", "--output", out)
    assert said == {"v": 1, "written": 1, "left_out": {"no bodies were captured": 5}}
    assert out.stat().st_mode & 0o777 == 0o600
    report = CliRunner().invoke(check, [str(out), "--format", "json"])
    assert len(json.loads(report.stdout)["exchanges"]) == 1


@pytest.mark.parametrize("kind", ["jsonl", "har"])
def test_check_reads_the_other_forms_too(tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"out.{kind}"
    audit("export", "--dir", log(tmp_path / "log"), "--as", kind, "--output", out)
    report = CliRunner().invoke(check, [str(out), "--format", "json", "--fail-on", "never"])
    assert len(json.loads(report.stdout)["exchanges"]) == 6


def test_the_summary_as_json_needs_stdout_for_itself(tmp_path: Path) -> None:
    assert audit("export", "--dir", log(tmp_path), "--format", "json").exit_code == 2
    unwritable = audit("export", "--dir", tmp_path, "--output", tmp_path / "no" / "x")
    assert (unwritable.exit_code, "No such file" in unwritable.stderr) == (2, True)
