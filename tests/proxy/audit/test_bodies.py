"""Bodies are found by what they hold, once each; erasing them breaks no chain."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path

import pytest

from teeline.proxy.audit.bodies import BodyStore, Keep, load
from teeline.proxy.capture import Budget, Recording
from tests.proxy.audit.logs import Disk, entries, found, writer
from tests.proxy.samples import exchange

KEEP = Keep(1 << 30, 1e9)


def recording(request: bytes = b"", response: bytes = b"", limit: int = 1000) -> Recording:
    made = Recording(limit, Budget(10_000))
    made.request_body(request)
    made.response_body(response)
    return made


def stored(folder: Path) -> list[Path]:
    return [path for path in (folder / "bodies").rglob("*") if path.is_file()]


def test_a_body_is_named_by_its_digest_and_for_its_owner_alone(tmp_path: Path) -> None:
    said = BodyStore(tmp_path, KEEP).store(recording(b"ask", b"answer"))
    assert said["state"] == "complete"
    digest = hashlib.sha256(b"ask").hexdigest()
    assert (said["request"]["sha256"], said["request"]["size"]) == (digest, 3)
    path = tmp_path / "bodies" / digest[:2] / digest
    assert path.read_bytes() == b"ask"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "bodies").stat().st_mode & 0o777 == 0o700
    assert load(tmp_path, digest, 3).data == b"ask"


def test_the_same_body_is_stored_once_and_stays_as_long_as_its_last_recording(
    tmp_path: Path,
) -> None:
    store = BodyStore(tmp_path, KEEP)
    store.store(recording(b"same"))
    (path,) = stored(tmp_path)
    os.utime(path, (1, 1))
    store.store(recording(b"same"))
    assert stored(tmp_path) == [path]
    assert path.stat().st_mtime > 1


def test_an_empty_body_needs_no_file(tmp_path: Path) -> None:
    said = BodyStore(tmp_path, KEEP).store(recording())
    assert load(tmp_path, said["request"]["sha256"], 0).data == b""
    assert not (tmp_path / "bodies").exists()


def test_a_body_beyond_the_limit_is_said_to_be_partial(tmp_path: Path) -> None:
    assert BodyStore(tmp_path, KEEP).store(recording(b"x" * 11, limit=10))["state"] == "partial"


def test_what_was_erased_or_changed_is_told_apart(tmp_path: Path) -> None:
    said = BodyStore(tmp_path, KEEP).store(recording(b"ask"))["request"]
    (path,) = stored(tmp_path)
    path.write_bytes(b"another")
    assert "not what was recorded" in load(tmp_path, said["sha256"], said["size"]).why
    path.unlink()
    assert load(tmp_path, said["sha256"], said["size"]).why == "erased"
    for digest in ("../../etc/passwd", None, 3, "0" * 63):
        assert load(tmp_path, digest, 3).data is None


def test_retention_goes_by_age_and_by_size_oldest_first(tmp_path: Path) -> None:
    for number in range(4):
        BodyStore(tmp_path, KEEP).store(recording(b"%d" % number * 10))
    for path in stored(tmp_path):
        at = 100 + int(path.read_bytes()[:1])
        os.utime(path, (at, at))
    BodyStore(tmp_path, Keep(1000, 5.0)).retain(106.5)
    assert sorted(path.read_bytes()[:1] for path in stored(tmp_path)) == [b"2", b"3"]
    BodyStore(tmp_path, Keep(10, 1e9)).retain(106.5)
    assert [path.read_bytes()[:1] for path in stored(tmp_path)] == [b"3"]


def test_a_disk_that_fails_costs_the_bodies_and_never_the_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.joinpath("bodies").touch()
    caplog.set_level(logging.ERROR)
    made = writer(tmp_path)
    made._bodies = BodyStore(tmp_path, KEEP)
    made.start()
    made.append([exchange(recording=recording(b"ask")), exchange(recording=recording(b"ask"))])
    made.close()
    assert [e["capture"] for e in entries(tmp_path) if "id" in e] == [{"state": "lost"}] * 2
    assert len([m for m in caplog.messages if "bodies can't be kept" in m]) == 1


def test_erasing_all_bodies_breaks_no_chain(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made._bodies = BodyStore(tmp_path, KEEP)
    made.start()
    made.append([exchange(recording=recording(b"ask", b"answer"))])
    made.close()
    shutil.rmtree(tmp_path / "bodies")
    assert found(tmp_path) == []


def test_a_record_that_is_tried_again_names_the_same_bodies(tmp_path: Path) -> None:
    """The log's disk refuses a line behind bodies that were stored already."""
    disk = Disk()
    made = writer(tmp_path, disk=disk)
    made._bodies = BodyStore(tmp_path, KEEP)
    made.start()
    each = exchange(recording=recording(b"ask", b"answer"))
    disk.room = 10
    assert not made.append([each])
    disk.room = None
    assert made.append([each])
    made.close()
    (record,) = [entry for entry in entries(tmp_path) if "id" in entry]
    assert record["capture"]["state"] == "complete"
    assert (record["capture"]["request"]["size"], record["capture"]["response"]["size"]) == (3, 6)
