"""Anchors: heads of chains, kept elsewhere, that show what a chain alone can't.

What belongs here: writing heads to a file and to the log, and reading that file. What doesn't:
comparing them with the chains (verify.py).

A chain can't show that its newest file is gone or that it was cut off at the end of a line. An
anchor file on another machine or in an append-only place can: each line is a JSON object with
``v``, ``ts``, ``chain``, ``seq`` and ``head``. The same goes out as a log record of
``teeline.audit``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.audit.chain import MAX_LINE, VERSION, Position, timestamp
from teeline.proxy.audit.files import FILE_MODE

log = logging.getLogger("teeline.audit")

INTERVAL: Final = 60.0
"""Seconds between two heads of a chain that is being written."""


class Witness(NamedTuple):
    """Someone outside a chain who saw ``head`` as the hash of line ``seq``; ``source`` says who."""

    chain: str
    seq: int
    head: str
    source: str


Tell = Callable[[float, str, int, str], None]
"""Takes a head's time in Unix seconds, its chain, its line's number and its hash."""


class Anchor:
    """Heads to the log and, where they are given, to a file and to ``tell``.

    A failing file is no error. ``tell`` is called in the thread that writes the chain.
    """

    def __init__(self, path: Path | None, tell: Tell | None = None) -> None:
        self._path = path
        self._tell = tell
        self._last: Position | None = None
        self._failing = False

    def witness(self, at: float, chain: str, position: Position) -> None:
        """Gives the head out, unless it is the one given out before."""
        if position == self._last:
            return
        self._last = position
        log.info("audit head: chain %s seq %d hash %s", chain, position.seq, position.head)
        if self._tell is not None:
            self._tell(at, chain, *position)
        if self._path is not None:
            line = {"v": VERSION, "ts": timestamp(at), "chain": chain, **position._asdict()}
            self._append(self._path, orjson.dumps(line) + b"\n")

    def _append(self, path: Path, line: bytes) -> None:
        # Opened each time: the file may be moved away, and processes share it by O_APPEND.
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
            try:
                os.write(fd, line)
                os.fdatasync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            if not self._failing:
                self._failing = True
                log.error("audit: the anchor file %s can't be written: %s", path, error.strerror)
        else:
            self._failing = False


def read_anchors(path: Path) -> tuple[list[Witness], list[int]]:
    """The heads in an anchor file, and the numbers of lines that can't be read; OSError."""
    witnesses: list[Witness] = []
    unreadable: list[int] = []
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            witness = _witness(line, f"{path}:{number}")
            if witness is not None:
                witnesses.append(witness)
            else:
                unreadable.append(number)
    return witnesses, unreadable


def _witness(line: bytes, source: str) -> Witness | None:
    try:
        entry: Any = orjson.loads(line)
        chain, seq, head = entry["chain"], entry["seq"], entry["head"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if not (isinstance(chain, str) and isinstance(seq, int) and isinstance(head, str)):
        return None
    return Witness(chain, seq, head, source)
