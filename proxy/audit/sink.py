"""The audit sink: every closed exchange becomes a line of this process's chain.

What belongs here: the hand-over from the event loop to the writing thread, and counting what didn't
get through. What doesn't: files and the chain (writer.py), their contents (record.py).

On the event loop an exchange costs an append to a queue. A disk that is slow, full or gone fills
the queue; then exchanges are lost, counted, told of once a minute, and recorded in the chain as lost
when it can be written again. A killed process loses what closed in its last fifth of a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from teeline.proxy.audit.anchor import Anchor, Tell
from teeline.proxy.audit.bodies import BodyStore
from teeline.proxy.audit.bodies import Keep as KeepBodies
from teeline.proxy.audit.files import DiskFile, OpenFile, is_live, tail_of
from teeline.proxy.audit.packing import pack
from teeline.proxy.audit.record import Origin
from teeline.proxy.audit.retention import Keep
from teeline.proxy.audit.writer import ChainWriter, OnWritten, Rotation
from teeline.proxy.background import Background
from teeline.proxy.capture import Capture, Recording
from teeline.proxy.sinks import SinkError, ignored
from teeline.validators.events import Closed
from teeline.validators.model import Exchange

log = logging.getLogger("teeline.audit")

MAX_BYTES: Final = 1024**3
MAX_AGE_DAYS: Final = 7.0

_QUEUE = 8192
_BATCH = (
    64  # about a millisecond of the interpreter, so that the event loop never waits long for it
)
_INTERVAL = 0.2
_QUIET = 60.0
_PACKING = 10_000
"""Files that wait for being packed."""
_CLOSING = 5.0
"""Seconds that close waits for the disk."""


class AuditSink:
    """Writes the audit log in ``directory``.

    ``origin`` stands in each file's first line. ``max_bytes`` (all files together) and
    ``max_age_days`` bound what is kept. ``anchor`` is a file that gets the chain's heads, best on
    another machine; ``tell`` takes them, too. ``on_written`` is given the lines that were written.
    ``capture`` says which exchanges' bodies go, by ``keep_bodies``, into files beside the log. Closed
    files are packed where ``compress`` says so. ``clock`` gives Unix seconds. ``queue_size``
    exchanges may wait for the disk.
    """

    name = "audit"

    def __init__(
        self,
        directory: Path,
        *,
        origin: Origin,
        max_bytes: int = MAX_BYTES,
        max_age_days: float = MAX_AGE_DAYS,
        anchor: Path | None = None,
        tell: Tell | None = None,
        clock: Callable[[], float] = time.time,
        open_file: OpenFile = DiskFile,
        queue_size: int = _QUEUE,
        rotation: Rotation | None = None,
        compress: bool = True,
        capture: Capture | None = None,
        keep_bodies: KeepBodies | None = None,
        on_written: OnWritten | None = None,
    ) -> None:
        self._capture = capture
        self._packer: Background[Path] | None = None
        if compress:
            self._packer = Background(
                "teeline-packing", _pack, capacity=_PACKING, batch=1, interval=60.0, prompt=True
            )
        self._directory = directory
        self._writer = ChainWriter(
            directory,
            origin,
            keep=Keep(max_bytes, max_age_days * 86400.0),
            clock=clock,
            open_file=open_file,
            anchor=Anchor(anchor, tell),
            rotation=rotation,
            pack=self._hand_to_packing,
            bodies=BodyStore(directory, keep_bodies) if keep_bodies is not None else None,
            on_written=on_written,
        )
        self._background: Background[Exchange] = Background(
            "teeline-audit",
            self._write,
            capacity=queue_size,
            batch=_BATCH,
            interval=_INTERVAL,
            tick=self._tick,
            finish=self._finish,
        )
        self._overflow = 0
        self._overflow_noted = 0
        self._abandoned = 0
        self._clock = clock
        self._said_at: float | None = None
        self._started = False

    @property
    def chain(self) -> str:
        """The id of this process's chain."""
        return self._writer.chain.id

    @property
    def recorded(self) -> int:
        """Exchanges in the chain so far: the metric teeline.audit.records."""
        return self._writer.recorded

    @property
    def lost(self) -> int:
        """Exchanges that are not in the chain and won't be: the metric teeline.audit.lost."""
        pending = self._overflow - self._overflow_noted
        return self._writer.lost + pending + self._abandoned

    async def start(self) -> None:
        # On the loop: nothing is served yet, and an error must stop the start.
        try:
            self._writer.start()
        except OSError as error:
            raise SinkError(unwritable(self._directory, error)) from error
        self._started = True
        self._background.start()
        if self._packer is not None:
            self._packer.start()

    opened = ignored

    found = ignored

    def closed(self, event: Closed) -> None:
        exchange = event.exchange
        recording = exchange.recording
        if isinstance(recording, Recording) and not self._wanted(exchange):
            recording.release()
            exchange.recording = None
        if not self._background.offer(exchange):
            self._overflow += 1
            if isinstance(recording, Recording):
                recording.release()
            self._say_overflow()

    def _wanted(self, exchange: Exchange) -> bool:
        return self._capture is not None and self._capture.wants(exchange)

    def _hand_to_packing(self, path: Path) -> None:
        # What finds no room stays plain until a process starts here again.
        if self._packer is not None:
            self._packer.offer(path)

    async def drain(self, deadline: float) -> None:
        """Returns when all is on the disk; TimeoutError after ``deadline`` seconds."""
        await self._background.flush(deadline)

    async def close(self) -> None:
        if not self._started:
            return
        self._started = False
        in_time = await self._background.stop(_CLOSING)
        if self._packer is not None:
            await self._packer.stop(_CLOSING)
        waiting = self._background.waiting
        if not in_time:
            self._abandoned = waiting
        if waiting:
            log.error("audit: %d exchanges could not be written before the end", waiting)

    def _write(self, exchanges: list[Exchange]) -> bool:
        self._note_overflow()
        return self._writer.append(exchanges)

    def _tick(self, flush: bool) -> None:
        self._note_overflow()
        self._writer.tick(flush)

    def _finish(self) -> None:
        self._note_overflow()
        if self._background.waiting:
            self._writer.note_lost("unwritten", self._background.waiting)
        self._writer.close()

    def _say_overflow(self) -> None:
        """Once a minute: a queue at its bound is full and not full many times a second."""
        now = self._clock()
        if self._said_at is None or abs(now - self._said_at) >= _QUIET:
            self._said_at = now
            log.error("audit: the disk is too slow or fails; %d exchanges lost so far", self.lost)

    def _note_overflow(self) -> None:
        overflow = self._overflow
        if overflow > self._overflow_noted:
            self._writer.note_lost("queue-full", overflow - self._overflow_noted)
            self._overflow_noted = overflow


def unwritable(directory: Path, error: OSError) -> str:
    """What is said of a folder in which no log can be begun."""
    reason = error.strerror or type(error).__name__
    return (
        f"audit folder {directory} can't be written: {reason}; "
        "make it writable, or set another audit folder"
    )


def _pack(paths: list[Path]) -> bool:
    for path in paths:
        try:
            if not is_live(path):
                pack(path, tail_of(path).at)
        except FileNotFoundError:
            continue  # another process packed it, and its retention deleted it
        except OSError as error:
            why = error.strerror or type(error).__name__
            log.warning("audit: %s can't be packed: %s; it stays as it is", path, why)
    return True
