"""Every error of the command line is one line and an exit code, never a traceback."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli import COMMANDS, TRACEBACK, main


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="teeline")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """``teeline rules`` raises what is put here."""
    errors: list[BaseException] = []

    @click.command("rules")
    def command() -> None:
        raise errors[0]

    monkeypatch.setattr("teeline.proxy.cli.rules.command", command, raising=False)
    return errors


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: teeline {name}")


def test_help_names_every_command_and_imports_none() -> None:
    code = (
        "import sys; from teeline.proxy.cli import main\n"
        "try: main(['--help'], 'teeline')\n"
        "finally: print(sorted(m for m in sys.modules if m.startswith('teeline.proxy.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_the_version_is_said() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout.split()[0]) == (0, "teeline")


def test_no_command_shows_the_help_and_is_wrong_usage() -> None:
    result = invoke()
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: teeline")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["srve"], "teeline: No such command 'srve'"),
        (["--nope"], "teeline: No such option '--nope'"),
        (["serve", "--upsteam", "x"], "teeline serve: No such option '--upsteam'"),
        (["serve", "--listen"], "teeline: Option '--listen' requires an argument"),
        (["serve", "\x1b[31m"], "teeline serve: Got unexpected extra argument (\\x1b[31m)"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], line: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("--help'.\n")


def test_an_interrupt_ends_with_130_and_no_word(failing: list[BaseException]) -> None:
    failing.append(KeyboardInterrupt())
    result = invoke("rules")
    assert result.exit_code == 130
    assert result.stderr.strip() == ""


def test_an_error_of_our_own_is_its_kind_and_place_without_its_text(
    failing: list[BaseException],
) -> None:
    failing.append(LookupError("sk-secret"))
    result = invoke("rules")
    assert result.exit_code == 3
    assert result.stderr.startswith("teeline: internal error: LookupError at test_cli.py:")
    assert "sk-secret" not in result.output
    assert result.stderr.count("\n") == 1


def test_an_error_of_our_own_shows_its_traceback_when_asked_to(
    failing: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing.append(LookupError("all of it"))
    monkeypatch.setenv(TRACEBACK, "1")
    assert invoke("rules").exception is failing[0]


def test_an_error_with_an_exit_code_keeps_it_unless_it_would_read_as_findings(
    failing: list[BaseException],
) -> None:
    failing.append(click.ClickException("can't"))
    result = invoke("rules")
    assert (result.exit_code, result.stderr) == (2, "teeline: can't\n")


def test_output_that_nobody_reads_is_no_error() -> None:
    """As in ``teeline rules | head -1``."""
    code = "from teeline.proxy.cli import main; main(prog_name='teeline')"
    command = [sys.executable, "-c", code, "rules"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
