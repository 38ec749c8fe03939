"""The index is made where there is none, made again where it is no use, and never costs the log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teeline.proxy.audit.index import Index
from teeline.proxy.audit.schema import FILENAME, VERSION, connect, version_of
from tests.proxy.audit.logs import write_log


def indexed(folder: Path) -> int:
    db = connect(folder)
    try:
        Index(folder, db).catch_up()
        return int(db.execute("SELECT count(*) FROM exchanges").fetchone()[0])
    finally:
        db.close()


def test_an_index_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    write_log(tmp_path)
    assert indexed(tmp_path) == 3
    assert (tmp_path / FILENAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b""])
def test_a_file_that_is_no_index_is_made_anew(tmp_path: Path, content: bytes) -> None:
    write_log(tmp_path)
    (tmp_path / FILENAME).write_bytes(content)
    assert indexed(tmp_path) == 3


def test_an_index_of_another_version_is_made_anew(tmp_path: Path) -> None:
    write_log(tmp_path)
    indexed(tmp_path)
    db = connect(tmp_path)
    db.execute(f"PRAGMA user_version={VERSION + 1}")
    db.execute("DROP TABLE violations")
    db.close()
    assert indexed(tmp_path) == 3
    db = connect(tmp_path)
    assert version_of(db) == VERSION
    db.close()


def test_a_deleted_index_is_rebuilt(tmp_path: Path) -> None:
    write_log(tmp_path)
    indexed(tmp_path)
    for path in tmp_path.glob(f"{FILENAME}*"):
        path.unlink()
    assert indexed(tmp_path) == 3


def test_a_folder_that_can_not_be_written_gets_an_index_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path)

    def refuse(path: object, flags: int, *mode: int) -> int:
        raise PermissionError("read-only")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        db = connect(tmp_path)
    assert Index(tmp_path, db).catch_up() == 3
    db.close()
    assert not (tmp_path / FILENAME).exists()
