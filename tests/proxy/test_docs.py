"""The generated pages are as fresh as the declarations, and can be made anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from teeline.proxy.docs import main, pages, readme_is_stale, stale, with_table, write

README = Path(__file__).parents[2] / "README.md"
DOCS = README.parent / "docs"


def test_the_pages_in_the_repository_are_fresh() -> None:
    """Otherwise run ``python -m teeline.proxy.docs``."""
    assert list(stale(DOCS)) == []
    assert not readme_is_stale(DOCS)
    assert "| [chatstream](docs/rules/chatstream.md) |" in with_table(README.read_text("utf-8"))


def test_the_table_of_rules_in_a_readme_is_written_and_nothing_beside_it(tmp_path: Path) -> None:
    readme, folder = tmp_path / "README.md", tmp_path / "docs"
    readme.write_text("before\n<!-- rules (made) -->\nold\n<!-- /rules -->\nafter\n")
    result = CliRunner().invoke(main, [str(folder), "--check"])
    assert (result.exit_code, "README.md is stale" in result.stderr) == (1, True)
    write(folder)
    lines = readme.read_text().splitlines()
    assert lines[:2] == ["before", "<!-- rules (made) -->"]
    assert lines[2].startswith("| family |")
    assert lines[-2:] == ["<!-- /rules -->", "after"]
    assert "old" not in lines
    assert CliRunner().invoke(main, [str(folder), "--check"]).exit_code == 0


def test_what_was_written_is_fresh_and_complete(tmp_path: Path) -> None:
    assert set(stale(tmp_path)) == set(pages())
    write(tmp_path)
    assert list(stale(tmp_path)) == []


def test_a_changed_page_and_one_of_a_family_that_is_gone_are_stale(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "profiles.md").write_text("x")
    (tmp_path / "rules" / "gone.md").write_text("x")
    assert list(stale(tmp_path)) == ["profiles.md", "rules/gone.md"]
    write(tmp_path)
    assert list(stale(tmp_path)) == []
    assert not (tmp_path / "rules" / "gone.md").exists()


def test_check_names_what_is_stale_and_writes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path), "--check"])
    assert result.exit_code == 1
    assert f"{tmp_path}/profiles.md is stale: run python -m teeline.proxy.docs" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_and_then_finds_all_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, []).exit_code == 0
    assert CliRunner().invoke(main, ["--check"]).exit_code == 0
    assert (tmp_path / "docs" / "rules" / "index.md").is_file()
