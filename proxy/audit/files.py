"""The files of an audit log: names, locks, reading their ends.

What belongs here: everything that knows how a file is called or opened. What doesn't: what stands
in a record (record.py), when a file is closed and the next one opened (writer.py).

A file is called ``audit-<chain>-<number>.jsonl``, and ``.jsonl.gz`` once it was closed and packed
(packing.py). Sizes and offsets are always those of the lines, not of their packed form. The
chain's id begins with the time at which it was begun and ends in random digits, so that any number
of processes may share a folder. Whoever writes a file holds a lock (flock) on it until it is closed,
by whatever death: that tells a chain that is being written from one whose process is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from teeline.proxy.audit.chain import MAX_LINE, Position, intact, seconds
from teeline.proxy.audit.packing import PACKED, DamagedError, Unpacker
from teeline.proxy.audit.record import Ended

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700

_NAME = re.compile(r"audit-(\d{8}T\d{6}Z-[0-9a-f]{12})-(\d{6,9})\.jsonl(\.gz)?\Z")
_BUFFER = 256 * 1024


class LogName(NamedTuple):
    """What a file's name says: its chain, and its number in the chain from 1."""

    chain: str
    number: int

    @property
    def filename(self) -> str:
        return f"audit-{self.chain}-{self.number:06d}.jsonl"


def parse_name(filename: str) -> LogName | None:
    """The parts of a file's name; None where it isn't named like a file of an audit log."""
    match = _NAME.match(filename)
    if match is None:
        return None
    name = LogName(match[1], int(match[2]))
    return name if name.filename == filename.removesuffix(PACKED) else None


def new_chain_id(at: float) -> str:
    """An id that no other process picks; ``at`` in Unix seconds."""
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}"


def listed(folder: Path) -> list[tuple[LogName, Path]]:
    """The files of a folder, by chain and number; OSError where it can't be read.

    Of a file that lies there in both forms (a crash behind its packing) the plain one.
    """
    found: dict[LogName, Path] = {}
    for path in folder.iterdir():
        name = parse_name(path.name)
        if name is not None and (name not in found or not is_packed(path)):
            found[name] = path
    return sorted(found.items())


def is_packed(path: Path) -> bool:
    """Whether a path is that of a packed file."""
    return path.suffix == PACKED


def both_forms(path: Path) -> tuple[Path, Path]:
    """The plain and the packed path of a file of the log."""
    plain = path.with_name(path.name.removesuffix(PACKED))
    return plain, plain.with_name(plain.name + PACKED)


def open_log(path: Path) -> BinaryIO:
    """Opens a file for reading its lines, in whichever form it is by now; OSError.

    Reading a packed file raises DamagedError (an OSError) where it is cut or was edited.
    """
    plain, packed = both_forms(path)
    try:
        raw = path.open("rb", buffering=0)
    except FileNotFoundError:
        # Whoever listed the folder may come behind the one that packs it.
        path = packed if path == plain else plain
        raw = path.open("rb", buffering=0)
    if is_packed(path):
        return io.BufferedReader(Unpacker(raw), _BUFFER)
    return io.BufferedReader(raw, _BUFFER)


def prepare(folder: Path) -> None:
    """Makes the folder where it isn't there, and keeps it out of version control; OSError."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")


class LogFile(Protocol):
    """A file that is being written. All methods raise OSError."""

    def write(self, data: bytes) -> int:
        """Appends; may write less than all, and says how much."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Returns when the disk has what was written."""

    def present(self) -> bool:
        """Whether the file still stands under its name."""

    def close(self) -> None:
        """May be called twice."""


OpenFile = Callable[[Path], LogFile]


class DiskFile:
    """A new file of the log, locked. FileExistsError where there is one of that name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, FILE_MODE)
        # Shared locks of readers that look whether the file is live last microseconds.
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        _sync_folder(path.parent)

    def write(self, data: bytes) -> int:
        return os.write(self._fd, data)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def present(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _sync_folder(folder: Path) -> None:
    """Makes the new name itself durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_live(path: Path) -> bool:
    """Whether some process holds the file's lock; False where the file is gone."""
    if is_packed(path):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class Tail(NamedTuple):
    """The end of a file: its last whole line, and how much of the file is good.

    ``position`` is None where the file holds no whole line, or where the last one is damaged.
    ``size`` counts the bytes up to and with the last newline, ``torn`` those behind it. ``at`` is
    the time of the last line, Unix seconds.
    """

    position: Position | None
    size: int
    torn: int
    at: float | None


def tail_of(path: Path) -> Tail:
    """Reads the end of a file; OSError."""
    with open_log(path) as file:
        start, data = _last_bytes(file)
    end = start + len(data)
    newline = data.rfind(b"\n")
    size = 0 if newline < 0 else start + newline + 1
    record = intact(data[data.rfind(b"\n", 0, newline) + 1 : newline]) if newline >= 0 else None
    if record is None:
        return Tail(None, size, end - size, None)
    position = Position(record.seq, record.hash)
    return Tail(position, size, end - size, seconds(record.fields.get("ts")))


def _last_bytes(file: BinaryIO) -> tuple[int, bytes]:
    """What stands at the end of a file, enough for its last line, and where that begins."""
    room = 2 * MAX_LINE
    if file.seekable():
        start = max(0, file.seek(0, os.SEEK_END) - room)
        file.seek(start)
        return start, file.read(room)
    size, data = 0, b""
    # Of a damaged file what can be read.
    with contextlib.suppress(DamagedError):
        while piece := file.read(MAX_LINE):
            size += len(piece)
            data = (data + piece)[-room:]
    return size - len(data), data


def ended_chain(files: list[tuple[LogName, Path]]) -> Ended:
    """Where a chain ended whose files these are (at least one, in order); OSError.

    A process that was killed between opening a file and writing its first line leaves one without a
    whole line: the chain then ended in the file before.
    """
    name, path = files[-1]
    tail = tail_of(path)
    position = tail.position
    if position is None and tail.size == 0 and len(files) > 1:
        position = tail_of(files[-2][1]).position
    if position is None:
        position = Position(0, "")
    return Ended(name.chain, name.number, position.seq, position.head, tail.size)
