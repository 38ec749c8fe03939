"""Audit logs for the tests: written by the real writer, with a clock and, if wanted, a disk of the test's."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from teeline.proxy.audit.anchor import Anchor
from teeline.proxy.audit.files import DiskFile, LogFile
from teeline.proxy.audit.record import Origin
from teeline.proxy.audit.retention import Keep
from teeline.proxy.audit.verify import Result, verify
from teeline.proxy.audit.writer import ChainWriter, OnWritten
from tests.proxy.samples import START, exchange, violation

ORIGIN = Origin("1.2.3", "0123456789abcdef", ("openrouter",))
KEEP = Keep(1024**3, 7 * 86400.0)


class Clock:
    """A time that the test moves."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Disk:
    """Opens real files, and fails as it is told: ``room`` bytes are left, and the switches below."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.truncate_fails = False
        self.sync_fails = False
        self.open_fails: OSError | None = None
        self.synced = 0

    def open(self, path: Path) -> LogFile:
        if self.open_fails is not None:
            raise self.open_fails
        return FaultyFile(self, path)


class FaultyFile:
    """A file on a ``Disk``."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._file = DiskFile(path)

    def write(self, data: bytes) -> int:
        room = self._disk.room
        if room is None:
            return self._file.write(data)
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._file.write(data[:room])
        self._disk.room = room - written
        return written

    def truncate(self, size: int) -> None:
        if self._disk.truncate_fails:
            raise OSError(errno.EIO, "Input/output error")
        self._file.truncate(size)

    def sync(self) -> None:
        if self._disk.sync_fails:
            raise OSError(errno.EIO, "Input/output error")
        self._disk.synced += 1
        self._file.sync()

    def present(self) -> bool:
        return self._file.present()

    def close(self) -> None:
        self._file.close()


def writer(
    folder: Path,
    clock: Callable[[], float] | None = None,
    disk: Disk | None = None,
    keep: Keep = KEEP,
    anchor: Path | None = None,
    on_written: OnWritten | None = None,
) -> ChainWriter:
    return ChainWriter(
        folder,
        ORIGIN,
        keep=keep,
        clock=clock or Clock(),
        open_file=DiskFile if disk is None else disk.open,
        anchor=Anchor(anchor),
        on_written=on_written,
    )


def write_log(folder: Path, count: int = 3, **options: Any) -> ChainWriter:
    """A chain of ``count`` exchanges, closed."""
    made = writer(folder, **options)
    made.start()
    made.append([exchange(violation()) for _ in range(count)])
    made.close()
    return made


def kill(made: ChainWriter) -> None:
    """What the end of the process does to its files: they are closed, and nothing else happens."""
    assert made._file is not None
    made._file.close()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("audit-*.jsonl"))


def entries(folder: Path) -> list[dict[str, Any]]:
    """All records of a folder, as JSON; torn lines are left out."""
    return [entry for path in files(folder) for entry in entries_of(path)]


def entries_of(path: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    lines = path.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def kinds(folder: Path) -> list[str]:
    """The kind of each record; ``exchange`` where there is none."""
    return [entry.get("kind", "exchange") for entry in entries(folder)]


def found(*paths: Path, anchor: Path | None = None) -> list[str]:
    """The kinds of what a check finds."""
    return [finding.kind for finding in verify(paths, anchor).findings]


def noted(result: Result) -> list[str]:
    return [note.kind for note in result.notes]


def edit(path: Path, change: Callable[[list[bytes]], Sequence[bytes]]) -> None:
    """Changes the lines of a file (with their newlines)."""
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
