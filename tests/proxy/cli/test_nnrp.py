"""``teeline nnrp``: captures, capability documents, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.nnrp import command
from teeline.validators.model import Side
from teeline.validators.nnrp.examples import conversation, document
from teeline.validators.rules import register


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)))


def captured(folder: Path, example: object) -> Path:
    """An example as the two files of a capture."""
    sides = {Side.REQUEST: b"", Side.RESPONSE: b""}
    for side, data, _ in conversation(example).sent:  # type: ignore[arg-type]
        sides[side] += data
    (folder / "x_c2s.bin").write_bytes(sides[Side.REQUEST])
    (folder / "x_s2c.bin").write_bytes(sides[Side.RESPONSE])
    return folder


def test_a_clean_capture_is_clean(tmp_path: Path) -> None:
    result = run("check", captured(tmp_path, {"on": "nnrp-tools"}))
    assert (result.exit_code, "1 pass" in result.stdout) == (0, True)


def test_a_faulty_capture_is_named_and_fails(tmp_path: Path) -> None:
    folder = captured(tmp_path, register()["nnrp.tool-started-twice"].bad)
    result = run("check", folder, "--format", "json")
    assert result.exit_code == 1
    (exchange,) = json.loads(result.stdout)["exchanges"]
    assert (exchange["name"], exchange["verdict"]) == ("1/1", "fail")
    assert [v["rule"] for v in exchange["violations"]] == ["nnrp.tool-started-twice"]
    assert run("check", folder, "--ignore", "nnrp.tool-started-twice").exit_code == 0
    assert run("check", folder, "--fail-on", "never").exit_code == 0


def test_a_capability_document_at_hand_is_held_against_the_traffic(tmp_path: Path) -> None:
    rule = register()["nnrp.undeclared-mode-used"]
    file = tmp_path / "capabilities.json"
    file.write_text(str(rule.bad["capabilities"]))
    folder = captured(tmp_path, rule.bad)
    result = run("check", folder, "--capabilities", file, "--fail-on", "warn")
    assert result.exit_code == 1 and rule.id in result.stdout
    assert run("check", folder, "--fail-on", "warn").exit_code == 0


@pytest.mark.parametrize("missing", ["nothing_c2s.bin", "traffic.bin"])
def test_what_can_not_be_read_is_said(tmp_path: Path, missing: str) -> None:
    result = run("check", tmp_path / missing)
    assert (result.exit_code, missing.partition(".")[0][:7] in result.stderr) == (2, True)


def test_a_capability_document_is_checked_in_its_own_form(tmp_path: Path) -> None:
    file = tmp_path / "capabilities.json"
    for name in ("nnrp-capabilities", "nnrp-conformance"):
        file.write_bytes(document({"on": name})[0])
        assert run("capabilities", "check", file, "--fail-on", "warn").exit_code == 0
    result = run("capabilities", "check", file, "--as", "profile", "--show-info")
    assert "nnrp.capability-field-unknown" in result.stdout
    file.write_text("[]")
    result = run("capabilities", "check", file)
    assert (result.exit_code, "nnrp.capability-not-object" in result.stdout) == (1, True)


def test_a_capability_document_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "capabilities.json"
    file.write_bytes(document({"on": "nnrp-capabilities"})[0])
    shown = run("capabilities", "show", file).stdout
    assert "chat.completions.create: streaming, non_streaming, tool_calls" in shown
    told = json.loads(run("capabilities", "show", file, "--format", "json").stdout)
    assert (told["levels"], told["models"]) == ([1], ["gpt-4o-mini"])
    file.write_text("nothing")
    assert run("capabilities", "show", file).exit_code == 2


def test_a_wrong_address_is_a_usage_error() -> None:
    result = run("tap", "--listen", "nowhere", "--upstream", "127.0.0.1:1", "--no-audit")
    assert (result.exit_code, "HOST:PORT" in result.stderr) == (2, True)
