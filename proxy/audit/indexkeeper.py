"""An index that stays fresh by itself, beside traffic and whatever else happens to its file.

What belongs here: when it is caught up, by how much at a time, and what is done where its file was
deleted, replaced or damaged. What doesn't: what is indexed (index.py), tables (schema.py), questions
(query.py).

``teeline serve`` has one ``IndexKeeper`` for the folder of its log, whichever processes write there.
Commands catch up by themselves, at the same time if it comes to that.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from teeline.proxy.audit import schema
from teeline.proxy.audit.index import Index, Progress, Step
from teeline.proxy.background import Background

log = logging.getLogger("teeline.audit")

INTERVAL: Final = 0.5
"""Seconds between two looks at the files."""
_LINES: Final = 200
"""Lines of a step: about ten milliseconds, in which other threads get their turns."""
_REST: Final = 3.0
"""Times as long as a step took nothing is done behind it, so that a backlog (a log that was never
indexed) takes a quarter of a processor at most."""
_LONGEST_REST: Final = 0.5
_BUSY: Final = 1.0
"""Seconds that a command which writes is waited for; the next look tries again."""


class LastingIndex:
    """The index of a folder over a time in which its file may be deleted, replaced or damaged.

    Used from one thread. ``busy`` seconds are waited for others that write.
    """

    def __init__(self, folder: Path, *, busy: float = schema.BUSY_SECONDS) -> None:
        self._folder = folder
        self._path = folder / schema.FILENAME
        self._busy = busy
        self._index: Index | None = None
        self._file: tuple[int, int] | None = None

    @property
    def index(self) -> Index:
        """The index that stands under its name now; sqlite3.Error."""
        if self._index is not None and self._is_replaced():
            self.close()
        if self._index is None:
            # The file first: one that takes its place meanwhile is then seen to be another.
            self._file = schema.touch(self._path)
            self._index = Index(self._folder, schema.connect(self._folder, busy=self._busy))
        return self._index

    def steps(self, lines: int | None = None) -> Iterator[Step]:
        """Catches up step by step, from the start where the index is no use. OSError, sqlite3.Error."""
        try:
            yield from self._steps(lines)
        except sqlite3.Error as error:
            self.close()
            if not schema.is_damaged(error):
                raise
            log.warning("audit: the index %s is damaged; it is made anew", self._path)
            schema.delete(self._path)
            yield from self._steps(lines)

    def catch_up(self, progress: Progress = lambda done, of: None) -> int:
        """All steps; how many records they were. OSError, sqlite3.Error."""
        added = 0
        for step in self.steps():
            added += step.records
            progress(step.done, step.total)
        return added

    def close(self) -> None:
        """The next use opens it again."""
        if self._index is not None:
            self._index.db.close()
            self._index = None

    def _steps(self, lines: int | None) -> Iterator[Step]:
        index = self.index
        for step in index.steps() if lines is None else index.steps(lines):
            yield step
            if self.index is not index:
                # What was done is gone with its file.
                yield from self._steps(lines)
                return

    def _is_replaced(self) -> bool:
        if self._file is None:
            return False  # it is in memory
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return True
        return (found.st_dev, found.st_ino) != self._file


class IndexKeeper:
    """Keeps the index of the log in ``folder`` fresh, in a thread of its own.

    A look at the files every ``interval`` seconds; what is new is indexed in small steps with rests
    between them (``rest`` is given their seconds), so that a long backlog costs traffic little.
    Whatever goes wrong with the index costs the index alone: it is told once, and tried again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        interval: float = INTERVAL,
        rest: Callable[[float], None] | None = None,
    ) -> None:
        self._folder = folder
        self._ending = threading.Event()
        self._rest = rest or self._wait
        self._lasting = LastingIndex(folder, busy=_BUSY)
        self._failing = False
        self.behind = 0
        """Bytes of the log, about, that are not indexed yet."""
        self.records = 0
        """Records that were indexed here."""
        self._background: Background[None] = Background(
            "teeline-index",
            lambda _: True,
            capacity=1,
            batch=1,
            interval=interval,
            tick=self._look,
            finish=self._lasting.close,
        )

    def start(self) -> None:
        """Begins; the thread makes the index where there is none."""
        self._background.start()

    async def flush(self, deadline: float) -> None:
        """Returns when all that stood in the files before is indexed, or can't be.

        TimeoutError after ``deadline`` seconds.
        """
        await self._background.flush(deadline)

    async def stop(self, deadline: float) -> bool:
        """Ends behind the step under way; False where ``deadline`` seconds were not enough."""
        self._ending.set()
        return await self._background.stop(deadline)

    def _look(self, _: bool) -> None:
        if self._ending.is_set():
            return
        try:
            self._catch_up()
        except (OSError, sqlite3.Error) as error:
            self._failed(error)
        else:
            self.behind = 0
            self._works_again()

    def _catch_up(self) -> None:
        began = time.perf_counter()
        for step in self._lasting.steps(_LINES):
            self.records += step.records
            self.behind = step.total - step.done
            self._rest(min(_LONGEST_REST, _REST * (time.perf_counter() - began)))
            if self._ending.is_set():
                return
            began = time.perf_counter()

    def _wait(self, seconds: float) -> None:
        self._ending.wait(seconds)

    def _failed(self, error: OSError | sqlite3.Error) -> None:
        self._lasting.close()
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
            return  # a command writes; it catches up as well
        if not self._failing:
            self._failing = True
            reason = str(error) if isinstance(error, sqlite3.Error) else error.strerror
            log.warning(
                "audit: the index in %s can't be kept fresh: %s; the log itself is written",
                self._folder,
                reason or type(error).__name__,
            )

    def _works_again(self) -> None:
        if self._failing:
            self._failing = False
            log.warning("audit: the index in %s is fresh again", self._folder)
