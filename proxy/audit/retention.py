"""Retention: which files are too old or too many, and what must be said before they go.

What belongs here: choosing files, and the record that names their heads, so that a checker can tell
them from files that someone took away. What doesn't: when this happens (writer.py).

Files are deleted oldest first, by the time of their last line. A retention record may itself stand
in a file that is deleted later; what it said is then carried over, as long as something in the
folder still refers to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from teeline.proxy.audit.chain import MAX_LINE, intact
from teeline.proxy.audit.files import (
    LogName,
    both_forms,
    is_live,
    is_packed,
    listed,
    open_log,
    tail_of,
)
from teeline.proxy.audit.packing import DamagedError
from teeline.proxy.audit.record import RETENTION, Retired, ended_in, retention_record, retired_in
from teeline.proxy.audit.survey import opening_of

_KIND = b'"kind":"retention"'


class Keep(NamedTuple):
    """How much is kept: bytes of all files together, and seconds since a file's last line."""

    max_bytes: int
    max_age: float


class Stored(NamedTuple):
    """A file of the log as retention sees it; ``at`` is the time of its last line."""

    name: LogName
    path: Path
    size: int
    at: float

    @property
    def last(self) -> Retired:
        """The last line that the file holds; OSError."""
        seq, head = tail_of(self.path).position or (0, "")
        return Retired(self.name.chain, self.name.number, seq, head)

    def delete(self) -> None:
        """Deletes it, in whichever form it is by now; OSError."""
        for path in both_forms(self.path):
            path.unlink(missing_ok=True)


def stored_files(folder: Path) -> tuple[list[Stored], int]:
    """The files that nobody writes, and the bytes of those that are being written; OSError."""
    stored, live = [], 0
    for name, path in listed(folder):
        try:
            stat = path.stat()
            if is_live(path):
                live += stat.st_size
                continue
            at = None if is_packed(path) else tail_of(path).at
        except FileNotFoundError:
            continue  # another process's retention was faster
        # A packed file isn't unpacked for its time: packing kept that of the last line.
        stored.append(Stored(name, path, stat.st_size, stat.st_mtime if at is None else at))
    return stored, live


def expired(stored: Iterable[Stored], live: int, now: float, keep: Keep) -> list[Stored]:
    """The files to delete, oldest first; ``live`` bytes count but can't be deleted."""
    oldest = sorted(stored, key=lambda file: (file.at, file.name))
    total = live + sum(file.size for file in oldest)
    doomed = []
    for file in oldest:
        if total <= keep.max_bytes and now - file.at <= keep.max_age:
            break
        doomed.append(file)
        total -= file.size
    return doomed


def record_of(folder: Path, doomed: Sequence[Stored]) -> dict[str, Any]:
    """The retention record to be written before ``doomed`` are deleted; OSError.

    Files that are gone by now are not in it: another process's retention was faster, and said so.
    """
    gone = {file.path for file in doomed}
    wanted = _referred_to(path for _, path in listed(folder) if path not in gone)
    deleted: list[Retired] = []
    said: list[Retired] = []
    for file in doomed:
        with suppress(FileNotFoundError):
            last = file.last
            said += _said_in(file.path)
            deleted.append(last)
    newest: dict[str, Retired] = {}
    for retired in said:
        if retired.chain in wanted and retired.seq >= newest.get(retired.chain, retired).seq:
            newest[retired.chain] = retired
    for retired in deleted:
        newest.pop(retired.chain, None)
    return retention_record(deleted, newest.values())


def _referred_to(paths: Iterable[Path]) -> set[str]:
    """The chains that the files kept belong to, or name in their first records."""
    chains: set[str] = set()
    for path in paths:
        try:
            opening = opening_of(path)
        except FileNotFoundError:
            continue
        if opening is not None:
            chains.add(opening.chain)
            chains.update(ended.chain for ended in ended_in(opening.fields))
    return chains


def _said_in(path: Path) -> list[Retired]:
    said: list[Retired] = []
    # Of a damaged file what can be read.
    with suppress(DamagedError), open_log(path) as file:
        while line := file.readline(MAX_LINE):
            if _KIND in line:
                record = intact(line.removesuffix(b"\n"))
                if record is not None and record.kind == RETENTION:
                    said += retired_in(record.fields)
    return said
