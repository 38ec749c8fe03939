"""The generated pages are as fresh as the declarations, and can be made anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from teeline.proxy.docs import main, pages, stale, write

DOCS = Path(__file__).parents[2] / "docs"


def test_the_pages_in_the_repository_are_fresh() -> None:
    """Otherwise run ``python -m teeline.proxy.docs``."""
    assert list(stale(DOCS)) == []


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
