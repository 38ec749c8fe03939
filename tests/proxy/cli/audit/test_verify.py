"""``teeline audit verify`` says in exit codes and one line a finding whether a log is as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.audit.verify import command
from tests.proxy.audit.logs import edit, files, write_log


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(command, [*map(str, arguments)])


def test_an_intact_log_is_exit_code_0_and_its_tail_is_unwitnessed(tmp_path: Path) -> None:
    write_log(tmp_path)
    result = verify(tmp_path)
    assert result.exit_code == 0
    note, summary = result.stdout.splitlines()
    assert note == f"note: {files(tmp_path)[0]}: tail: tail not witnessed: no anchor given"
    assert summary == "intact: 1 chain, 1 file, 5 records; tail not witnessed in 1 chain"


def test_an_anchor_witnesses_the_tail(tmp_path: Path) -> None:
    write_log(tmp_path / "data", anchor=tmp_path / "anchor")
    result = verify(tmp_path / "data", "--anchor", tmp_path / "anchor")
    assert (result.exit_code, result.stdout) == (0, "intact: 1 chain, 1 file, 5 records\n")


def test_a_broken_log_is_exit_code_1_with_file_line_expected_and_found(tmp_path: Path) -> None:
    write_log(tmp_path)
    path = files(tmp_path)[0]
    edit(path, lambda lines: [lines[0], lines[1].replace(b"gpt", b"gqt"), *lines[2:]])
    result = verify(path)
    assert result.exit_code == 1
    first, *_, last = result.stdout.splitlines()
    assert first.startswith(f"{path}:2: edited: expected hash ")
    assert ", found " in first
    assert last.startswith("BROKEN: 1 finding in 1 chain, 1 file, 5 records")


def test_the_result_comes_as_json(tmp_path: Path) -> None:
    made = write_log(tmp_path)
    path = files(tmp_path)[0]
    edit(path, lambda lines: [*lines[:-1], b"x\n"])
    result = verify("--format", "json", tmp_path)
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["v"], report["intact"]) == (1, False)
    assert report["findings"] == [
        {
            "kind": "unreadable",
            "file": str(path),
            "line": 5,
            "message": "it doesn't end in a hash",
            "damage": "edited",
        }
    ]
    assert report["chains"][0]["chain"] == made.chain.id
    assert report["chains"][0]["records"] == 5


def test_the_default_is_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert verify().exit_code == 3
    write_log(tmp_path / "teeline-data")
    assert verify().exit_code == 0


def test_what_can_not_be_read_is_exit_code_3_on_stderr(tmp_path: Path) -> None:
    for arguments, words in [
        ([tmp_path / "go\nne"], "go\\x0ane can't be read: No such file or directory"),
        ([tmp_path], "there are no audit files"),
    ]:
        result = verify(*arguments)
        assert (result.exit_code, result.stdout) == (3, "")
        assert words in result.stderr
    write_log(tmp_path)
    assert verify(tmp_path, "--anchor", tmp_path / "none").exit_code == 3


def test_wrong_usage_is_exit_code_2() -> None:
    assert verify("--format", "xml").exit_code == 2


@pytest.mark.parametrize(
    ("change", "damage"),
    [
        (lambda ls: [*ls[:2], ls[2].replace(b"gpt", b"gqt"), *ls[3:]], "line 3: edited"),
        (lambda ls: [*ls[:2], *ls[3:]], "line 3: removed"),
        (lambda ls: [*ls[:2], ls[3], ls[2], *ls[4:]], "line 3: reordered"),
        (lambda ls: [*ls[:4], ls[4][:30]], "line 5: truncated"),
        (lambda ls: [*ls, ls[-1]], "line 9: added"),
    ],
    ids=["edited", "removed", "reordered", "truncated", "added"],
)
def test_the_first_damage_of_a_file_is_named(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], damage: str
) -> None:
    write_log(tmp_path, 6)
    path = files(tmp_path)[0]
    edit(path, change)
    result = verify(tmp_path)
    first = [line for line in result.stdout.splitlines() if line.startswith("first damage")]
    assert first == [f"first damage in {path}: record at {damage}"]
    (entry,) = json.loads(verify(tmp_path, "--format", "json").stdout)["first"]
    assert entry["damage"] == damage.partition(": ")[2]


def test_a_file_that_is_missing_is_named_with_its_chain(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    write_log(tmp_path / "data", 3, anchor=anchor)
    write_log(tmp_path / "other", 3)
    result = verify(tmp_path / "other", "--anchor", anchor)
    assert "the file as a whole: file missing" in result.stdout
