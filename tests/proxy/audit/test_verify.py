"""What was done to whole files and chains is found; what was done on purpose is not mistaken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeline.proxy.audit.retention import Keep
from teeline.proxy.audit.verify import NotAuditFileError, verify
from teeline.proxy.audit.writer import ChainWriter
from tests.proxy.audit.logs import (
    edit,
    files,
    found,
    kill,
    noted,
    write_log,
    writer,
)
from tests.proxy.samples import exchange, violation


def rotated(folder: Path, count: int = 20) -> ChainWriter:
    """A chain of at least three files."""
    made = writer(folder, keep=Keep(40_000, 1e9))
    made.start()
    for _ in range(count):
        made.append([exchange(violation())])
    made.close()
    assert len(files(folder)) >= 3
    return made


def test_a_whole_log_is_intact_and_its_tail_is_said_to_be_unwitnessed(tmp_path: Path) -> None:
    made = write_log(tmp_path, 3)
    result = verify([tmp_path])
    assert result.intact
    assert noted(result) == ["tail"]
    (chain,) = result.chains
    assert chain.chain == made.chain.id
    assert (chain.files, chain.records, chain.last_seq) == (1, 5, 5)
    assert (chain.head, chain.state, chain.witnessed) == (made.chain.position.head, "closed", 0)


def test_a_missing_file_in_the_middle_is_found(tmp_path: Path) -> None:
    rotated(tmp_path)
    files(tmp_path)[1].unlink()
    assert found(tmp_path) == ["missing-file"]


def test_a_missing_file_at_the_beginning_is_found(tmp_path: Path) -> None:
    rotated(tmp_path)
    files(tmp_path)[0].unlink()
    assert found(tmp_path) == ["missing-file"]


def test_records_cut_off_a_file_that_has_a_successor_are_found(tmp_path: Path) -> None:
    rotated(tmp_path)
    edit(files(tmp_path)[0], lambda lines: lines[:-1])
    assert found(tmp_path) == ["cut", "missing"]


def test_records_added_to_a_file_that_has_a_successor_are_found(tmp_path: Path) -> None:
    rotated(tmp_path)
    edit(files(tmp_path)[0], lambda lines: [*lines, lines[-1]])
    assert found(tmp_path) == ["appended"]


def test_files_that_changed_places_are_found(tmp_path: Path) -> None:
    rotated(tmp_path)
    first, second = files(tmp_path)[:2]
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    assert "misplaced" in found(tmp_path)


def test_a_file_replaced_by_another_writers_version_is_found(tmp_path: Path) -> None:
    """The whole file is forged, with right hashes; the next file knows its end."""
    made = rotated(tmp_path / "real")
    forged = writer(tmp_path / "forged")
    forged.chain.id = made.chain.id
    forged._name = forged._name._replace(chain=made.chain.id)
    forged.start()
    forged.append([exchange()])
    forged.close()
    (tmp_path / "real" / files(tmp_path / "forged")[0].name).write_bytes(
        files(tmp_path / "forged")[0].read_bytes()
    )
    assert {"missing", "replaced"} & set(found(tmp_path / "real"))


def test_a_chain_that_vanished_is_missed_by_the_chain_after_it(tmp_path: Path) -> None:
    write_log(tmp_path)
    write_log(tmp_path)
    oldest = min(files(tmp_path), key=lambda path: len(path.read_bytes()))
    oldest.unlink()
    assert found(tmp_path) == ["missing-chain"]


def test_an_ended_chain_that_was_cut_is_missed_by_the_chain_after_it(tmp_path: Path) -> None:
    first = write_log(tmp_path)
    write_log(tmp_path)
    path = next(path for path in files(tmp_path) if first.chain.id in path.name)
    edit(path, lambda lines: lines[:-2])
    assert found(tmp_path) == ["cut", "cut"]


def test_a_cut_tail_goes_unseen_without_an_anchor_and_is_found_with_it(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    write_log(tmp_path / "data", 3, anchor=anchor)
    assert verify([tmp_path / "data"], anchor).notes == []
    edit(files(tmp_path / "data")[0], lambda lines: lines[:-2])
    assert found(tmp_path / "data") == []
    assert "tail" in noted(verify([tmp_path / "data"]))
    assert found(tmp_path / "data", anchor=anchor) == ["cut"]


def test_a_chain_that_vanished_is_missed_by_an_anchor(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    write_log(tmp_path / "data", 3, anchor=anchor)
    write_log(tmp_path / "other", 3)
    assert found(tmp_path / "other", anchor=anchor) == ["missing-chain"]


def test_a_rewritten_chain_is_found_by_an_anchor(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    made = write_log(tmp_path / "data", 1, anchor=anchor)
    forged = writer(tmp_path / "forged")
    forged.chain.id = made.chain.id
    forged._name = forged._name._replace(chain=made.chain.id)
    forged.start()
    forged.append([exchange()])
    forged.close()
    assert found(tmp_path / "forged", anchor=anchor) == ["rewritten"]


def test_a_damaged_anchor_file_is_no_silence(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    write_log(tmp_path / "data", 3, anchor=anchor)
    anchor.write_bytes(anchor.read_bytes() + b"rubbish\n")
    assert found(tmp_path / "data", anchor=anchor) == ["anchor"]


def test_an_anchor_that_saw_a_part_says_which(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    made = writer(tmp_path / "data", anchor=anchor)
    made.start()
    made.append([exchange()])
    made.tick(flush=True)
    made.append([exchange()])
    kill(made)
    result = verify([tmp_path / "data"], anchor)
    assert result.intact
    assert [note.message for note in result.notes] == [
        "tail not witnessed: the last record that was is 2 of 3",
        "the chain was never closed: its process was killed",
    ]


def test_an_anchor_of_what_retention_deleted_is_no_finding(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    made = writer(tmp_path / "data", keep=Keep(40_000, 1e9), anchor=anchor)
    made.start()
    for _ in range(200):
        made.append([exchange(violation())])
        made.tick(flush=True)
    made.close()
    assert found(tmp_path / "data", anchor=anchor) == []


def test_a_file_that_retention_did_not_delete_is_missed_beside_those_it_did(tmp_path: Path) -> None:
    rotated(tmp_path, count=200)
    assert found(tmp_path) == []
    files(tmp_path)[0].unlink()
    assert found(tmp_path) == ["missing-file"]


def test_a_log_can_be_checked_while_it_is_written(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.start()
    made.append([exchange()])
    result = verify([tmp_path])
    assert result.intact
    assert result.chains[0].state == "being written"
    made.close()


def test_single_files_are_checked_without_missing_their_neighbours(tmp_path: Path) -> None:
    rotated(tmp_path)
    result = verify([files(tmp_path)[1]])
    assert result.intact
    assert "partial" in noted(result)
    assert set(found(*files(tmp_path)[::2])) == {"missing-file"}


def test_what_is_no_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotAuditFileError):
        verify([tmp_path])
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(NotAuditFileError):
        verify([tmp_path / "x.jsonl"])
    with pytest.raises(FileNotFoundError):
        verify([tmp_path / "gone"])


def test_a_chain_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path / "a")
    (tmp_path / "b").mkdir()
    path = files(tmp_path / "a")[0]
    (tmp_path / "b" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(NotAuditFileError):
        verify([tmp_path / "a", tmp_path / "b"])
    assert found(tmp_path / "a", path) == []


def test_flipping_any_byte_of_a_rotated_log_is_found(tmp_path: Path) -> None:
    made = writer(tmp_path, keep=Keep(16, 1e9))
    made._keep = Keep(10**9, 1e9)
    made.start()
    made.append([exchange()])
    made.close()
    assert len(files(tmp_path)) == 3
    unfound = []
    for path in files(tmp_path):
        whole = path.read_bytes()
        for index in range(len(whole)):
            changed = bytearray(whole)
            changed[index] ^= 0x01
            path.write_bytes(changed)
            if not found(tmp_path):
                unfound.append((path.name, index))
        path.write_bytes(whole)
    assert unfound == []
    assert found(tmp_path) == []
