"""Packed files hold the same lines; what was done to a packed file shows."""

from __future__ import annotations

import fcntl
import gzip
import os
from pathlib import Path

import pytest

from teeline.proxy.audit.files import listed, open_log, tail_of
from teeline.proxy.audit.packing import DamagedError, pack
from teeline.proxy.audit.retention import Keep, stored_files
from teeline.proxy.audit.verify import verify
from tests.proxy.audit.logs import Clock, files, found, write_log, writer
from tests.proxy.samples import START, exchange, violation


def packed(path: Path) -> Path:
    assert pack(path, START)
    return path.with_name(path.name + ".gz")


def test_a_packed_file_has_the_same_bytes_and_the_time_of_its_last_line(tmp_path: Path) -> None:
    write_log(tmp_path)
    path = files(tmp_path)[0]
    data, tail = path.read_bytes(), tail_of(path)
    gz = packed(path)
    assert not path.exists()
    assert gzip.decompress(gz.read_bytes()) == data
    assert (gz.stat().st_mode & 0o777, gz.stat().st_mtime) == (0o600, START)
    assert tail_of(gz) == tail
    with open_log(path) as file:  # under the name that someone listed before
        assert file.read() == data


def test_a_chain_across_packed_and_plain_files_is_intact(tmp_path: Path) -> None:
    made = writer(tmp_path, keep=Keep(40_000, 1e9))
    made.start()
    for _ in range(30):
        made.append([exchange(violation())])
    made.close()
    first, second, *rest = files(tmp_path)
    assert rest
    packed(first)
    packed(second)
    result = verify([tmp_path])
    assert result.intact
    assert result.chains[0].last_seq == made.chain.position.seq


def test_a_start_packs_what_dead_processes_left_and_rotation_what_it_closed(tmp_path: Path) -> None:
    write_log(tmp_path)
    handed: list[Path] = []
    made = writer(tmp_path, keep=Keep(40_000, 1e9))
    made._pack = handed.append
    made.start()
    assert handed == [path for path in files(tmp_path) if made.chain.id not in path.name]
    for _ in range(12):
        made.append([exchange(violation())])
    own = sorted(path for path in files(tmp_path) if made.chain.id in path.name)
    assert handed[1:] == own[:-1] != []
    made.close()


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_packed_file_that_was_cut_is_truncated(tmp_path: Path, cut: int) -> None:
    write_log(tmp_path, 50)
    gz = packed(files(tmp_path)[0])
    gz.write_bytes(gz.read_bytes()[:-cut])
    (finding,) = verify([tmp_path]).findings
    assert (finding.kind, finding.damage) == ("torn", "truncated")


def test_an_edit_within_a_packed_file_is_found_like_one_in_a_plain_file(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    gz = packed(files(tmp_path)[0])
    lines = gzip.decompress(gz.read_bytes()).splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"fail"', b'"pass"')
    gz.write_bytes(gzip.compress(b"".join(lines)))
    (finding,) = verify([tmp_path]).findings
    assert (finding.kind, finding.line) == ("edited", 3)


@pytest.mark.parametrize("flip", [30, 300, -6])
def test_flipped_bits_of_a_packed_file_are_found(tmp_path: Path, flip: int) -> None:
    write_log(tmp_path, 50)
    gz = packed(files(tmp_path)[0])
    data = bytearray(gz.read_bytes())
    data[flip] ^= 0x10
    gz.write_bytes(bytes(data))
    assert found(tmp_path) != []


def test_what_stands_behind_the_packed_data_is_found(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    gz = packed(files(tmp_path)[0])
    gz.write_bytes(gz.read_bytes() + gzip.compress(b"more\n"))
    assert found(tmp_path) == ["torn"]
    with pytest.raises(DamagedError, match="behind"), open_log(gz) as file:
        file.read()


def test_a_crash_behind_packing_leaves_both_forms_and_one_log(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    path = files(tmp_path)[0]
    data = path.read_bytes()
    packed(path)
    path.write_bytes(data)
    assert [p for _, p in listed(tmp_path)] == [path]
    assert found(tmp_path) == []
    (stored,), _ = stored_files(tmp_path)
    stored.delete()
    assert listed(tmp_path) == []


def test_a_draft_of_a_killed_process_is_taken_over_and_one_under_way_is_left(
    tmp_path: Path,
) -> None:
    write_log(tmp_path, 5)
    path = files(tmp_path)[0]
    draft = path.with_name(f".{path.name}.gz.part")
    draft.write_bytes(b"half of it")
    fd = os.open(draft, os.O_WRONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert not pack(path, None)
    os.close(fd)
    assert pack(path, None)
    assert not draft.exists()
    assert found(tmp_path) == []


def test_who_comes_late_for_the_lock_leaves_the_packed_file_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The draft that two processes opened is the log by the time the second one gets its lock."""
    write_log(tmp_path, 5)
    path = files(tmp_path)[0]
    data = path.read_bytes()
    lock = fcntl.flock

    def late(fd: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        assert pack(path, START)
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert not pack(path, START)
    (left,) = tmp_path.glob("*.jsonl*")
    assert gzip.decompress(left.read_bytes()) == data
    assert list(tmp_path.glob(".*.part")) == []


def test_age_of_a_packed_file_is_that_of_its_last_line(tmp_path: Path) -> None:
    write_log(tmp_path, clock=Clock(START - 1000))
    path = files(tmp_path)[0]
    assert pack(path, tail_of(path).at)
    (file,), _ = stored_files(tmp_path)
    assert file.at == START - 1000
    assert file.last.seq == 5
