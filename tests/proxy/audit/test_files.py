"""Files are named so that processes can share a folder, private, locked while written, read from the end."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from teeline.proxy.audit.chain import GENESIS, Chain, Position
from teeline.proxy.audit.files import (
    DiskFile,
    LogName,
    ended_chain,
    is_live,
    listed,
    new_chain_id,
    parse_name,
    prepare,
    tail_of,
)
from teeline.proxy.audit.record import Ended
from tests.proxy.samples import START

CHAIN = "20261130T120107Z-0123456789ab"


def test_names_are_read_back_and_others_are_not() -> None:
    name = LogName(CHAIN, 7)
    assert name.filename == f"audit-{CHAIN}-000007.jsonl"
    assert parse_name(name.filename) == name
    assert parse_name(f"{name.filename}.gz") == name
    for other in ("audit.jsonl", f"audit-{CHAIN}-0000007.jsonl", f"{name.filename}.bz2", "x"):
        assert parse_name(other) is None


def test_ids_begin_with_the_time_and_never_repeat() -> None:
    ids = {new_chain_id(START) for _ in range(100)}
    assert len(ids) == 100
    assert all(each.startswith("20261130T120107Z-") for each in ids)
    assert all(parse_name(LogName(each, 1).filename) is not None for each in ids)


def test_the_folder_and_its_files_are_private_and_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "teeline-data"
    prepare(folder)
    prepare(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / ".gitignore").read_text() == "*\n"
    file = DiskFile(folder / "x")
    file.close()
    assert stat.S_IMODE((folder / "x").stat().st_mode) == 0o600


def test_a_file_is_never_opened_twice_nor_through_a_link(tmp_path: Path) -> None:
    DiskFile(tmp_path / "a").close()
    with pytest.raises(FileExistsError):
        DiskFile(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        DiskFile(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_is_live_until_it_is_closed(tmp_path: Path) -> None:
    file = DiskFile(tmp_path / "a")
    assert is_live(tmp_path / "a")
    file.close()
    file.close()
    assert not is_live(tmp_path / "a")
    assert not is_live(tmp_path / "gone")


def test_a_file_that_was_moved_or_replaced_is_not_present(tmp_path: Path) -> None:
    file = DiskFile(tmp_path / "a")
    assert file.present()
    (tmp_path / "a").rename(tmp_path / "b")
    assert not file.present()
    (tmp_path / "a").write_text("another")
    assert not file.present()
    file.close()


def test_the_end_of_a_file_is_its_last_whole_line(tmp_path: Path) -> None:
    chain = Chain(CHAIN)
    lines = chain.link(START, {}) + chain.link(START + 1, {})
    path = tmp_path / "a"
    path.write_bytes(lines)
    assert tail_of(path) == (chain.position, len(lines), 0, START + 1)
    path.write_bytes(lines + b'{"torn')
    assert tail_of(path) == (chain.position, len(lines), 6, START + 1)
    path.write_bytes(b"damaged\n")
    assert tail_of(path) == (None, 8, 0, None)
    path.write_bytes(b"")
    assert tail_of(path) == (None, 0, 0, None)


def test_a_chain_whose_newest_file_has_no_line_ended_in_the_file_before(tmp_path: Path) -> None:
    chain = Chain(CHAIN)
    names = [LogName(CHAIN, 1), LogName(CHAIN, 2)]
    (tmp_path / names[0].filename).write_bytes(chain.link(START, {}))
    (tmp_path / names[1].filename).write_bytes(b"{to")
    (tmp_path / "other").write_bytes(b"")
    found = listed(tmp_path)
    assert [name for name, _ in found] == names
    assert ended_chain(found) == Ended(CHAIN, 2, *chain.position, 0)
    assert ended_chain(found[1:]) == Ended(CHAIN, 2, 0, "", 0)
    assert chain.position != Position(0, GENESIS)
