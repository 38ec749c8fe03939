"""The index that commands share may be damaged or busy; the log is what counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from teeline.proxy.audit import schema
from teeline.proxy.cli.audit import listing
from tests.proxy.cli.audit.logs import IDS, answer, audit, log


def test_an_index_that_is_damaged_is_made_anew_by_the_next_command(tmp_path: Path) -> None:
    folder = log(tmp_path)
    answer("list", "--dir", folder)
    with closing(schema.connect(folder)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = folder / schema.FILENAME
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xee" * (path.stat().st_size - 100))
    found = answer("list", "--dir", folder, "--oldest")
    assert [each["id"] for each in found["exchanges"]] == IDS


@pytest.mark.parametrize(
    ("code", "words", "kept"),
    [
        (sqlite3.SQLITE_CORRUPT, "was damaged and has been deleted; the next command", False),
        (sqlite3.SQLITE_FULL, "can't be used: no; it may be deleted", True),
    ],
)
def test_what_shows_only_while_it_is_asked_is_said_and_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str, kept: bool
) -> None:
    """Half an answer may be out already, so the command isn't simply done again."""

    def search(*_: object, **__: object) -> None:
        error = sqlite3.DatabaseError("no")
        error.sqlite_errorcode = code
        raise error

    folder = log(tmp_path)
    monkeypatch.setattr(listing, "search", search)
    result = audit("list", "--dir", folder)
    assert result.exit_code == 3
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert (folder / schema.FILENAME).exists() is kept
    monkeypatch.undo()
    assert len(answer("list", "--dir", folder)["exchanges"]) == len(IDS)
