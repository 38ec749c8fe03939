"""Retention deletes the oldest first, never what is being written, and says what before it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeline.proxy.audit import retention
from teeline.proxy.audit.files import LogName
from teeline.proxy.audit.retention import Keep, Stored, expired, record_of, stored_files
from tests.proxy.audit.logs import KEEP, Clock, entries, files, found, write_log, writer
from tests.proxy.samples import START, exchange, violation

CHAIN = "20261130T120107Z-0123456789ab"


def stored(number: int, size: int, at: float) -> Stored:
    name = LogName(CHAIN, number)
    return Stored(name, Path(name.filename), size, at)


def test_files_go_by_age() -> None:
    old, new = stored(1, 10, 100.0), stored(2, 10, 190.0)
    assert expired([new, old], 0, 200.0, Keep(1000, 50.0)) == [old]
    assert expired([new, old], 0, 150.0, Keep(1000, 50.0)) == []


def test_files_go_by_size_until_the_rest_fits() -> None:
    made = [stored(number, 10, float(number)) for number in range(1, 6)]
    assert expired(made, 0, 5.0, Keep(30, 1e9)) == made[:2]
    assert expired(made, 25, 5.0, Keep(30, 1e9)) == made
    assert expired(made, 0, 5.0, Keep(50, 1e9)) == []


def test_what_is_being_written_counts_and_stays(tmp_path: Path) -> None:
    write_log(tmp_path)
    running = writer(tmp_path)
    running.start()
    kept, live = stored_files(tmp_path)
    assert [file.name.chain for file in kept] != [running.chain.id]
    assert live == (tmp_path / LogName(running.chain.id, 1).filename).stat().st_size
    running.close()


def test_age_is_that_of_the_last_line_not_of_the_file(tmp_path: Path) -> None:
    write_log(tmp_path, clock=Clock(START - 1000))
    (file,), _ = stored_files(tmp_path)
    assert file.at == START - 1000


def test_a_damaged_file_can_be_deleted_too(tmp_path: Path) -> None:
    write_log(tmp_path)
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes() + b"damaged\n")
    (file,), _ = stored_files(tmp_path)
    assert (file.last.seq, file.last.head) == (0, "")
    assert file.at == path.stat().st_mtime


def test_what_a_deleted_file_said_of_deleted_files_is_carried_over(tmp_path: Path) -> None:
    """The chain ``second`` names ``first`` and outlives the record of its deletion."""
    first = write_log(tmp_path)
    second = writer(tmp_path)
    second.start()
    head = next(e for e in reversed(entries(tmp_path)) if e["chain"] == first.chain.id)["hash"]
    later = Clock(START + KEEP.max_age + 100)
    third = write_log(tmp_path, clock=later)
    assert first.chain.id not in {path.name[6:35] for path in files(tmp_path)}
    assert found(tmp_path) == []
    later.now += KEEP.max_age + 100
    fourth = write_log(tmp_path, clock=later)
    assert len(files(tmp_path)) == 2
    (retention,) = [e for e in entries(tmp_path) if e.get("kind") == "retention"]
    assert retention["chain"] == fourth.chain.id
    assert [each["chain"] for each in retention["deleted"]] == [third.chain.id]
    assert [(each["chain"], each["head"]) for each in retention["carried"]] == [
        (first.chain.id, head)
    ]
    second.append([exchange(violation())])
    second.close()
    assert found(tmp_path) == []


def test_what_nothing_refers_to_any_more_is_forgotten(tmp_path: Path) -> None:
    later = Clock(START)
    for _ in range(5):
        write_log(tmp_path, clock=later)
        later.now += KEEP.max_age + 100
    retention = [e for e in entries(tmp_path) if e.get("kind") == "retention"]
    assert [each["carried"] for each in retention] == [[]]


def test_a_record_names_the_last_line_of_each_file(tmp_path: Path) -> None:
    write_log(tmp_path)
    last = entries(tmp_path)[-1]
    kept, _ = stored_files(tmp_path)
    assert record_of(tmp_path, kept)["deleted"] == [
        {"chain": last["chain"], "file": 1, "seq": last["seq"], "head": last["hash"]}
    ]


def test_a_file_that_another_process_deleted_meanwhile_is_left_to_that_one(tmp_path: Path) -> None:
    write_log(tmp_path)
    write_log(tmp_path)
    one, two = stored_files(tmp_path)[0]
    one.delete()
    record = record_of(tmp_path, [one, two])
    assert [each["chain"] for each in record["deleted"]] == [two.name.chain]
    two.delete()
    assert record_of(tmp_path, [one, two])["deleted"] == []


def test_two_processes_that_delete_the_same_files_leave_a_log_that_verifies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both see the same old files; the second comes to each when the first has deleted it."""
    write_log(tmp_path, clock=Clock(START - 1000))
    keep = Keep(1024**3, 500.0)
    seen = retention.stored_files

    def overtaken(folder: Path) -> tuple[list[Stored], int]:
        found = seen(folder)
        monkeypatch.setattr(retention, "stored_files", seen)
        first.start()
        return found

    first, second = writer(tmp_path, keep=keep), writer(tmp_path, keep=keep)
    monkeypatch.setattr(retention, "stored_files", overtaken)
    second.start()
    assert {path.name for path in files(tmp_path)} == {
        LogName(made.chain.id, 1).filename for made in (first, second)
    }
    for made in (first, second):
        made.close()
    assert found(tmp_path) == []
    assert [entry.get("kind") for entry in entries(tmp_path)].count("retention") == 1
