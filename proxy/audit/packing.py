"""Packed files: gzip of files that were closed, and reading them back.

What belongs here: the two directions. What doesn't: when a file is packed (writer.py, sink.py), how
files are called (files.py).

A file is packed beside itself and only then removed, so that a crash leaves at worst both forms of
the same lines. Packing takes CPU, not correctness: a file that can't be packed stays as it is.
"""

from __future__ import annotations

import fcntl
import io
import os
import zlib
from pathlib import Path
from typing import BinaryIO, Final

PACKED: Final = ".gz"

_MODE: Final = 0o600
_GZIP: Final = 31  # zlib's window bits for a gzip header and trailer
_LEVEL: Final = 6
_PIECE: Final = 256 * 1024


class DamagedError(OSError):
    """A packed file is cut or was edited; what came out before is as it was written."""

    def __init__(self, why: str) -> None:
        super().__init__(None, why)


class Unpacker(io.RawIOBase):
    """Reads what a gzip file of one member holds; closes the file beneath. Not seekable."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self._decoder = zlib.decompressobj(_GZIP)
        self._input = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fills a buffer; 0 at the end. Raises DamagedError."""
        data = b""
        while not data and not self._decoder.eof:
            piece = self._input or self._raw.read(_PIECE) or b""
            if not piece:
                raise DamagedError("the packed file breaks off")
            try:
                data = self._decoder.decompress(piece, len(buffer))
            except zlib.error:
                raise DamagedError("the packed data are damaged") from None
            self._input = self._decoder.unconsumed_tail
        if not data and (self._decoder.unused_data or self._raw.read(1)):
            raise DamagedError("something stands behind the packed data")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def pack(path: Path, at: float | None) -> bool:
    """Packs a closed file; False where another process is at it, or did it already. OSError.

    ``at`` is the time of its last line (Unix seconds), which becomes that of the packed file.
    """
    packed = path.with_name(path.name + PACKED)
    draft = packed.with_name(f".{packed.name}.part")
    with _locked(draft) as out:
        if out is None:
            return False
        try:
            with path.open("rb") as file:
                _write(file, out)
                modified = os.fstat(file.fileno()).st_mtime if at is None else at
            # Retention goes by it: a file is as old as its last line, in either form.
            os.utime(draft, (modified, modified))
            draft.replace(packed)
        except FileNotFoundError:
            draft.unlink(missing_ok=True)
            return False
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    path.unlink(missing_ok=True)
    return True


class _locked:
    """A draft that this process alone writes, whoever began it; None where another one does."""

    def __init__(self, draft: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._draft = draft
        self._fd = os.open(draft, flags, _MODE)

    def __enter__(self) -> BinaryIO | None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if not self._is_current():
            return None
        os.ftruncate(self._fd, 0)
        return os.fdopen(self._fd, "wb", closefd=False)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _is_current(self) -> bool:
        """Whether the file still is the draft: who had the lock before may have made it the log."""
        try:
            return os.path.samestat(os.fstat(self._fd), self._draft.lstat())
        except FileNotFoundError:
            return False


def _write(file: BinaryIO, out: BinaryIO) -> None:
    encoder = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    while piece := file.read(_PIECE):
        out.write(encoder.compress(piece))
    out.write(encoder.flush())
    out.flush()
    os.fsync(out.fileno())
