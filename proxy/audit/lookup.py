"""From an entry of the index back to the record in its file.

What belongs here: reading single lines. What doesn't: finding entries (query.py).

The index is no evidence: what is shown or exported comes from the files, and says whether the line's
own hash holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from teeline.proxy.audit.chain import MAX_LINE, intact
from teeline.proxy.audit.files import LogName, open_log
from teeline.proxy.audit.query import Entry
from teeline.proxy.audit.survey import opening_of

_PIECE: Final = 1024 * 1024


class GoneError(Exception):
    """The record isn't where the index says; the text is one line."""


class Found(NamedTuple):
    """A line as it stands in its file. ``intact``: its own hash holds."""

    line: bytes
    fields: Mapping[str, Any]
    intact: bool


class Lookup:
    """Reads records of one log. Entries in the order of their files are read in one go each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name: LogName | None = None
        self._file: BinaryIO | None = None
        self._offset = 0
        self._openings: dict[LogName, Mapping[str, Any]] = {}

    def record(self, entry: Entry) -> Found:
        """The record of an entry; GoneError, OSError."""
        try:
            file = self._at(LogName(entry.chain, entry.file), entry.offset)
        except FileNotFoundError:
            raise GoneError(f"record {entry.id} is in a file that was deleted") from None
        line = file.read(entry.length)
        self._offset += len(line)
        record = intact(line.removesuffix(b"\n"))
        if record is not None:
            return Found(line, record.fields, True)
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError:
            fields = None
        whole = line.startswith(b"{") and line.endswith(b"}\n")
        if not whole or not isinstance(fields, dict) or fields.get("id") != entry.id:
            raise GoneError(f"record {entry.id} isn't where it was: the file was changed")
        return Found(line, fields, False)

    def opening(self, entry: Entry) -> Mapping[str, Any]:
        """The first record of an entry's file; empty where there is none. OSError."""
        name = LogName(entry.chain, entry.file)
        if name not in self._openings:
            record = opening_of(self._folder / name.filename)
            self._openings[name] = record.fields if record is not None else {}
        return self._openings[name]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = self._name = None

    def _at(self, name: LogName, offset: int) -> BinaryIO:
        file = self._file
        if file is None or name != self._name or (offset < self._offset and not file.seekable()):
            self.close()
            file = self._file = open_log(self._folder / name.filename)
            self._name, self._offset = name, 0
        if file.seekable():
            self._offset = file.seek(offset)
        while self._offset < offset:
            piece = file.read(min(_PIECE, offset - self._offset))
            if not piece:
                break
            self._offset += len(piece)
        return file


def upstream_url(opening: Mapping[str, Any], upstream: str) -> str | None:
    """The base URL that an upstream had when a file was opened; None where it isn't on record."""
    with contextlib.suppress(AttributeError):
        url = opening.get("upstreams", {}).get(upstream)
        return url if isinstance(url, str) and len(url) < MAX_LINE else None
    return None
