"""A secret's file is made once, whole, and for its owner alone."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from teeline.proxy import secretfile


def test_it_holds_a_secret_that_nobody_else_can_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret"
    secretfile.make(path)
    assert re.fullmatch(r"[0-9a-f]{64}\n", path.read_text(encoding="ascii"))
    assert path.stat().st_mode & 0o777 == 0o600


def test_one_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("mine", encoding="ascii")
    secretfile.make(path)
    assert path.read_text(encoding="ascii") == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_that_make_it_one_wins_and_none_sees_half(tmp_path: Path) -> None:
    path = tmp_path / "secret"

    def seen(_: int) -> str:
        secretfile.make(path)
        return path.read_text(encoding="ascii")

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(seen, range(64)))
    assert len(found) == 1 and len(found.pop()) == 65
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_a_file_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):
        secretfile.make(tmp_path / "file" / "secret")
