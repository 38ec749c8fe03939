"""Progress of long work, on stderr: nothing for what is done at once.

What belongs here: when something is said, and how. What doesn't: the work.
"""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

_PATIENCE: Final = 1.0
_TERMINAL: Final = 0.2
_PLAIN: Final = 10.0


class Progress:
    """Says how far something is: one line that is rewritten on a terminal, a line now and then where
    stderr is a file. ``close`` clears what stands there.
    """

    def __init__(self, what: str, unit: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._unit = unit
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._done = 0
        self._next = time.monotonic() + _PATIENCE
        self._drawn = False

    def at(self, done: int, of: int | None = None) -> None:
        """``done`` of ``of`` units are done."""
        self._done = done
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_TERMINAL if self._terminal else _PLAIN)
        share = f", {100 * done // of} %" if of else ""
        text = f"teeline: {self._what}: {done} {self._unit}{share}"
        self._drawn = True
        self._stream.write(f"\r{text}\x1b[K" if self._terminal else text + "\n")
        self._stream.flush()

    def add(self, more: int) -> None:
        """So many units more."""
        self.at(self._done + more)

    def close(self) -> None:
        if self._drawn and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
