"""Bodies that the user asked to keep: files named by the SHA-256 of what they hold.

What belongs here: storing, finding, erasing them. What doesn't: which exchanges are kept
(proxy/capture.py), the record that refers to them (writer.py).

They lie in ``bodies/<first two digits>/<digest>`` beside the log. A record names them by digest and
size, so that a body can be erased (by retention or by hand) without breaking a chain, and one that
was changed is told from what was recorded. They aren't synced to the disk one by one: a power cut may
cost the last ones, which then show as changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from teeline.proxy.audit.files import FILE_MODE, FOLDER_MODE
from teeline.proxy.capture import Kept, Recording
from teeline.proxy.text import printable

log = logging.getLogger("teeline.audit")

FOLDER: Final = "bodies"
COMPLETE: Final = "complete"
PARTIAL: Final = "partial"
LOST: Final = "lost"
WEBSOCKET: Final = "websocket"
"""What a record says of bodies that were messages (``Recording.message``)."""

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_DRAFT: Final = ".part"


class Keep(NamedTuple):
    """How much is kept: bytes of all bodies together, and seconds since a body was last recorded."""

    max_bytes: int
    max_age: float


class _Found(NamedTuple):
    at: float
    size: int
    path: Path


class BodyStore:
    """The bodies beside one log; used from one thread of each process."""

    def __init__(self, folder: Path, keep: Keep) -> None:
        self._folder = folder / FOLDER
        self._keep = keep
        self._failing = False

    def store(self, recording: Recording) -> Mapping[str, Any]:
        """Writes what is held of an exchange and gives it up; what the record says of it.

        A disk that fails costs the bodies, never the record. A second call says the same again.
        """
        if recording.stored is None:
            recording.stored = self._store(recording)
        return recording.stored

    def _store(self, recording: Recording) -> dict[str, Any]:
        try:
            request, response = self._body(recording.request), self._body(recording.response)
        except OSError as error:
            self._failed(error)
            return {"state": LOST}
        finally:
            recording.release()
        self._failing = False
        partial = recording.request.partial or recording.response.partial
        return {
            "state": PARTIAL if partial else COMPLETE,
            **({"carrier": WEBSOCKET} if recording.on_socket else {}),
            "target": printable(recording.target, 4096),
            "request": request,
            "response": response,
        }

    def retain(self, now: float) -> None:
        """Erases the oldest until the rest may stay."""
        try:
            self._erase(now)
        except OSError as error:
            self._failed(error)

    def _erase(self, now: float) -> None:
        found = sorted(_files(self._folder))
        total = sum(each.size for each in found)
        for each in found:
            if total <= self._keep.max_bytes and now - each.at <= self._keep.max_age:
                break
            each.path.unlink(missing_ok=True)
            total -= each.size

    def _body(self, kept: Kept) -> dict[str, Any]:
        data = b"".join(kept.pieces)
        digest = hashlib.sha256(data).hexdigest()
        if data:
            self._write(digest, data)
        return {
            "sha256": digest,
            "size": len(data),
            "headers": [[printable(name), printable(value, 256)] for name, value in kept.headers],
        }

    def _write(self, digest: str, data: bytes) -> None:
        path = _path(self._folder, digest)
        try:
            if path.stat().st_size == len(data):
                os.utime(path)  # the same again: it stays as long as its last recording
                return
        except FileNotFoundError:
            pass
        for folder in (self._folder, path.parent):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        draft = path.with_name(f".{digest}.{os.getpid()}{_DRAFT}")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        draft.replace(path)

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            why = error.strerror or type(error).__name__
            log.error("audit: bodies can't be kept: %s; records and traffic go on", why)


class Body(NamedTuple):
    """A body that was looked for. ``data`` is None where it is gone or changed; ``why`` says which."""

    data: bytes | None
    why: str = ""


def load(folder: Path, digest: object, size: object) -> Body:
    """The body that a record of the log in ``folder`` names."""
    if not isinstance(digest, str) or not _DIGEST.match(digest) or not isinstance(size, int):
        return Body(None, "the record names none")
    if size == 0:
        return Body(b"")
    try:
        data = _path(folder / FOLDER, digest).read_bytes()
    except FileNotFoundError:
        return Body(None, "erased")
    except OSError as error:
        return Body(None, f"can't be read: {error.strerror}")
    if hashlib.sha256(data).hexdigest() != digest:
        return Body(None, "not what was recorded: the file was changed or is cut")
    return Body(data)


def _path(folder: Path, digest: str) -> Path:
    return folder / digest[:2] / digest


def _files(folder: Path) -> Iterator[_Found]:
    with contextlib.suppress(FileNotFoundError):
        for shelf in list(folder.iterdir()):
            for path in list(shelf.iterdir()) if shelf.is_dir() else ():
                # Drafts of killed processes, too: they are as old as any body.
                with contextlib.suppress(FileNotFoundError):
                    stat = path.stat()
                    yield _Found(stat.st_mtime, stat.st_size, path)
