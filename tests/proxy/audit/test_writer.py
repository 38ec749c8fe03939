"""The chain goes on: across rotation, restarts, full disks and folders that vanish; losses are on record."""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from teeline.proxy.audit.anchor import read_anchors
from teeline.proxy.audit.retention import Keep
from teeline.proxy.audit.verify import verify
from teeline.proxy.audit.writer import Written
from tests.proxy.audit.logs import (
    KEEP,
    Clock,
    Disk,
    entries,
    entries_of,
    files,
    found,
    kill,
    kinds,
    noted,
    write_log,
    writer,
)
from tests.proxy.samples import exchange, violation


def test_a_chain_opens_with_its_origin_and_closes_with_its_count(tmp_path: Path) -> None:
    made = write_log(tmp_path / "data", 2)
    assert kinds(tmp_path / "data") == ["open", "exchange", "exchange", "close"]
    first, *_, last = entries(tmp_path / "data")
    assert first["file"] == 1
    assert first["after"] == "start"
    assert first["teeline"] == "1.2.3"
    assert first["rules"] == "0123456789abcdef"
    assert first["profiles"] == ["openrouter"]
    assert first["before"] is None
    assert first["previous"] == []
    assert (last["records"], last["lost"]) == (2, 0)
    assert (made.recorded, made.lost) == (2, 0)
    assert found(tmp_path / "data") == []


def test_a_record_has_the_time_at_which_its_exchange_ended(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    assert entries(tmp_path)[1]["ts"] == "2026-11-30T12:01:08.750000Z"


def test_rotation_carries_the_chain_over(tmp_path: Path) -> None:
    made = writer(tmp_path, keep=Keep(40_000, 1e9))
    made.start()
    for _ in range(12):
        made.append([exchange(violation())])
    made.close()
    assert len(files(tmp_path)) > 1
    seqs = [entry["seq"] for entry in entries(tmp_path)]
    assert seqs == list(range(1, len(seqs) + 1))
    opening = next(entry for entry in entries(tmp_path) if entry.get("file") == 2)
    assert opening["after"] == "rotation"
    assert opening["before"]["head"] == opening["prev"]
    assert opening["before"]["size"] == files(tmp_path)[0].stat().st_size
    assert found(tmp_path) == []


def test_a_file_is_closed_after_a_day(tmp_path: Path) -> None:
    clock = Clock()
    made = writer(tmp_path, clock)
    made.start()
    made.append([exchange()])
    clock.now += 86400
    made.append([exchange()])
    made.close()
    assert len(files(tmp_path)) == 2
    assert found(tmp_path) == []


def test_a_restart_begins_a_chain_that_names_the_one_before(tmp_path: Path) -> None:
    write_log(tmp_path)
    last = entries(tmp_path)[-1]
    made = write_log(tmp_path, clock=Clock(1_800_000_000.0))
    opening = next(e for e in entries(tmp_path) if e["chain"] == made.chain.id)
    (previous,) = opening["previous"]
    assert previous["chain"] == last["chain"]
    assert previous["head"] == last["hash"]
    third = write_log(tmp_path, clock=Clock(1_900_000_000.0))
    opening = next(e for e in entries(tmp_path) if e["chain"] == third.chain.id)
    assert [each["chain"] for each in opening["previous"]] == [made.chain.id]
    assert found(tmp_path) == []


def test_a_chain_that_is_being_written_is_not_taken_for_ended(tmp_path: Path) -> None:
    running = writer(tmp_path)
    running.start()
    other = write_log(tmp_path)
    opening = next(e for e in entries(tmp_path) if e["chain"] == other.chain.id)
    assert opening["previous"] == []
    running.append([exchange()])
    running.close()
    assert found(tmp_path) == []


@pytest.mark.parametrize("torn", [b"", b'{"v":1,"chai'])
def test_a_killed_processs_torn_line_is_named_by_the_next_start(
    tmp_path: Path, torn: bytes
) -> None:
    made = writer(tmp_path)
    made.start()
    made.append([exchange(), exchange()])
    kill(made)
    path = files(tmp_path)[0]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + torn)
    assert found(tmp_path) == (["torn"] if torn else [])
    write_log(tmp_path)
    result = verify([tmp_path])
    assert result.intact
    assert ("torn" in noted(result)) == bool(torn)
    assert "open-end" in noted(result)
    newest = next(path for path in files(tmp_path) if made.chain.id not in path.name)
    opening = entries_of(newest)[0]
    assert opening["previous"][0]["size"] == size


@pytest.mark.parametrize("content", [b"", b'{"v":1,"ch'])
def test_a_kill_between_a_file_and_its_first_line_is_named_too(
    tmp_path: Path, content: bytes
) -> None:
    made = writer(tmp_path)
    made.start()
    kill(made)
    first = files(tmp_path)[0]
    first.with_name(first.name.replace("000001", "000002")).write_bytes(content)
    assert found(tmp_path) == ["torn"]
    write_log(tmp_path, clock=Clock(1_900_000_000.0))
    assert found(tmp_path) == []


def test_a_full_disk_loses_nothing_that_may_be_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    made = writer(tmp_path, disk=disk)
    made.start()
    assert made.append([exchange()])
    disk.room = 300
    batch = [exchange(), exchange()]
    assert not made.append(batch)
    assert not made.append(batch)
    assert kinds(tmp_path) == ["open", "exchange"]
    disk.room = None
    made.note_lost("queue-full", 5)
    assert made.append(batch)
    made.close()
    assert kinds(tmp_path) == ["open", "exchange", "lost", "exchange", "exchange", "close"]
    lost = entries(tmp_path)[2]
    assert (lost["count"], lost["reasons"]) == (5, {"queue-full": 5})
    assert entries(tmp_path)[-1]["lost"] == 5
    assert (made.recorded, made.lost) == (3, 5)
    assert found(tmp_path) == []
    assert caplog.messages == [
        f"audit: {tmp_path} can't be written: No space left on device; "
        "records wait, then count as lost; traffic goes on",
        "audit: writing works again; 5 exchanges lost so far",
    ]


def test_every_way_a_write_can_break_off_leaves_an_intact_log(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    write_log(probe, 2)
    for room in range(0, files(probe)[0].stat().st_size + 200, 97):
        for truncate_fails in (False, True):
            folder = tmp_path / f"{room}-{truncate_fails}"
            disk = Disk()
            made = writer(folder, disk=disk)
            made.start()
            disk.room, disk.truncate_fails = room, truncate_fails
            batch = [exchange(violation()), exchange()]
            done = made.append(batch)
            disk.room, disk.truncate_fails = None, False
            assert done or made.append(batch)
            made.close()
            assert kinds(folder).count("exchange") >= 2
            assert found(folder) == []


def test_a_file_whose_first_line_can_not_be_written_is_taken_back(tmp_path: Path) -> None:
    disk = Disk()
    disk.room = 10
    made = writer(tmp_path, disk=disk)
    with pytest.raises(OSError, match="No space left"):
        made.start()
    assert files(tmp_path) == []
    disk.room = None
    assert made.append([exchange()])
    made.close()
    assert found(tmp_path) == []


def test_a_first_line_that_can_not_even_be_taken_back_is_disowned_by_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk = Disk()
    disk.room = 10
    made = writer(tmp_path, disk=disk)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", stuck)
        with pytest.raises(OSError, match="No space left"):
            made.start()
    disk.room = None
    assert made.append([exchange()])
    made.close()
    assert [path.stat().st_size == 10 for path in files(tmp_path)] == [True, False]
    assert found(tmp_path) == []


def test_losses_are_put_on_record_without_waiting_for_an_exchange(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.start()
    made.note_lost("queue-full", 3)
    made.tick(flush=False)
    assert kinds(tmp_path) == ["open", "lost"]
    made.close()


def test_an_exchange_that_can_not_be_recorded_is_a_loss_and_costs_its_batch_nothing(
    tmp_path: Path,
) -> None:
    made = writer(tmp_path)
    made.start()
    assert made.append([exchange(), exchange(timing=None), exchange()])
    made.close()
    assert kinds(tmp_path) == ["open", "lost", "exchange", "exchange", "close"]
    assert entries(tmp_path)[1]["reasons"] == {"unwritable": 1}
    assert made.lost == 1


def test_a_folder_that_is_deleted_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    clock = Clock()
    made = writer(folder, clock)
    made.start()
    made.append([exchange()])
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    clock.now += 2
    made.append([exchange()])
    made.tick(flush=False)
    made.append([exchange()])
    made.close()
    opening = entries(folder)[0]
    assert (opening["after"], opening["file"]) == ("removed", 2)
    assert "deleted or moved away" in caplog.text
    assert found(folder) == ["missing-file"]


def test_a_disk_that_fails_to_sync_is_left_for_a_new_file(tmp_path: Path) -> None:
    disk = Disk()
    made = writer(tmp_path, disk=disk)
    made.start()
    made.append([exchange()])
    disk.sync_fails = True
    made.tick(flush=True)
    disk.sync_fails = False
    assert made.append([exchange()])
    made.close()
    assert [entry.get("after") for entry in entries(tmp_path) if "after" in entry] == [
        "start",
        "error",
    ]
    assert found(tmp_path) == []


def test_nothing_is_synced_more_than_once_a_second_unless_asked(tmp_path: Path) -> None:
    clock, disk = Clock(), Disk()
    made = writer(tmp_path, clock, disk)
    made.start()
    made.tick(flush=True)
    before = disk.synced
    made.append([exchange()])
    made.tick(flush=False)
    assert disk.synced == before
    clock.now += 1
    made.tick(flush=False)
    assert disk.synced == before + 1
    made.tick(flush=False)
    made.tick(flush=True)
    assert disk.synced == before + 1
    made.append([exchange()])
    made.tick(flush=True)
    assert disk.synced == before + 2
    made.close()


def test_heads_go_to_the_log_and_to_the_anchor_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock, anchor = Clock(), tmp_path / "anchor"
    made = writer(tmp_path / "data", clock, anchor=anchor)
    made.start()
    made.append([exchange()])
    made.tick(flush=False)
    assert not anchor.exists()
    clock.now += 60
    made.tick(flush=False)
    made.tick(flush=True)
    made.close()
    witnesses, unreadable = read_anchors(anchor)
    assert [(w.chain, w.seq) for w in witnesses] == [(made.chain.id, 2), (made.chain.id, 3)]
    assert unreadable == []
    assert witnesses[-1].head == entries(tmp_path / "data")[-1]["hash"]
    assert sum("audit head" in message for message in caplog.messages) == 2


def test_an_anchor_file_that_can_not_be_written_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = writer(tmp_path / "data", anchor=tmp_path / "no" / "anchor")
    made.start()
    made.tick(flush=True)
    made.append([exchange()])
    made.close()
    assert sum("can't be written" in message for message in caplog.messages) == 1
    assert found(tmp_path / "data") == []


def test_closing_never_fails_and_may_be_repeated(tmp_path: Path) -> None:
    disk = Disk()
    made = writer(tmp_path, disk=disk)
    made.start()
    disk.room = 0
    disk.open_fails = OSError(errno.EACCES, "Permission denied")
    made.close()
    made.close()
    assert kinds(tmp_path) == ["open"]


def test_old_files_are_deleted_at_the_start_and_named_before(tmp_path: Path) -> None:
    write_log(tmp_path)
    last = entries(tmp_path)[-1]
    clock = Clock()
    clock.now += KEEP.max_age + 60
    made = write_log(tmp_path, clock=clock)
    assert [path.name for path in files(tmp_path)] == [f"audit-{made.chain.id}-000001.jsonl"]
    retention = next(e for e in entries(tmp_path) if e.get("kind") == "retention")
    assert retention["deleted"][0]["head"] == last["hash"]
    assert found(tmp_path) == []


def test_the_oldest_files_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    made = writer(tmp_path, keep=Keep(40_000, 1e9))
    made.start()
    for _ in range(200):
        made.append([exchange(violation())])
    made.close()
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 50_000
    assert files(tmp_path)[0].name.endswith("-000001.jsonl") is False
    assert found(tmp_path) == []


def test_two_writers_of_one_folder_keep_out_of_each_others_way(tmp_path: Path) -> None:
    keep = Keep(60_000, 1e9)
    one, two = writer(tmp_path, keep=keep), writer(tmp_path, keep=keep)
    one.start()
    two.start()
    for number in range(150):
        (one if number % 3 else two).append([exchange(violation())])
    assert found(tmp_path) == []
    one.close()
    two.close()
    assert found(tmp_path) == []
    assert {entry["chain"] for entry in entries(tmp_path)} == {one.chain.id, two.chain.id}


def test_every_line_is_given_out_once_as_it_stands_and_only_when_it_stands(tmp_path: Path) -> None:
    """What a full disk undid, and what was tried again, included."""
    clock, disk, given = Clock(), Disk(), list[Written]()
    made = writer(tmp_path, clock, disk, keep=Keep(40_000, 1e9), on_written=given.extend)
    made.start()
    closed = [exchange() for _ in range(12)]
    made.append(closed[:4])
    disk.room = 300
    assert not made.append(closed[4:6])
    assert [each.exchange for each in given] == [None, *closed[:4]]
    made.note_lost("queue-full", 3)
    disk.room = None
    assert made.append(closed[4:6])
    for each in closed[6:]:
        made.append([each])
    made.close()
    assert len(files(tmp_path)) > 1
    lines = [line for path in files(tmp_path) for line in path.read_bytes().splitlines()]
    assert [each.line for each in given] == lines
    assert [each.seq for each in given] == list(range(1, len(lines) + 1))
    assert [each.exchange for each in given if each.exchange is not None] == closed
    assert {each.chain for each in given} == {made.chain.id}


def test_a_listener_that_fails_costs_the_chain_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Sequence[Written]) -> None:
        raise RuntimeError("sk-planted")

    made = write_log(tmp_path, 3, on_written=fail)
    assert made.recorded == 3
    assert found(tmp_path) == []
    assert "sk-planted" not in caplog.text
    assert "records can't be told: RuntimeError" in caplog.text
