"""One process's chain on the disk: appending, rotating, deleting, and going on after errors.

What belongs here: the order of what happens to files. What doesn't: the thread that calls this
(sink.py); the calls here block on the disk and come from one thread.

Durability: what was appended is with the system at once (a killed process loses nothing of it) and
with the disk (fdatasync) within a second of traffic, at each rotation, drain and close.

Errors: a write that fails is undone (the file is cut back to its last whole line) and may be tried
again with the same exchanges. Where even that fails, or the file has been deleted under the writer,
the chain goes on in a new file, whose first record says where the old one ended. What was lost
meanwhile is itself a record of the chain.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from teeline.proxy.audit import record as records
from teeline.proxy.audit import retention
from teeline.proxy.audit.anchor import INTERVAL, Anchor
from teeline.proxy.audit.bodies import BodyStore
from teeline.proxy.audit.chain import Chain
from teeline.proxy.audit.encode import Encoder, members
from teeline.proxy.audit.files import LogFile, LogName, OpenFile, is_packed, new_chain_id, prepare
from teeline.proxy.audit.record import Ended, Origin
from teeline.proxy.audit.retention import Keep
from teeline.proxy.audit.survey import unnamed_chains
from teeline.proxy.capture import Recording
from teeline.validators.model import Exchange

log = logging.getLogger("teeline.audit")

_SYNC = 1.0
_RETENTION = 3600.0
SHARE = 8
"""A file is at most this part of what may be kept."""


class Rotation(NamedTuple):
    """Bytes and seconds at which a file is closed and the next one opened."""

    max_bytes: int = 64 * 1024 * 1024
    max_age: float = 86400.0


Line = tuple[float, bytes]
"""A record's time in Unix seconds, and its JSON members."""


class Written(NamedTuple):
    """A line that stands in its file, without its newline; ``exchange`` None for the chain's own
    records.
    """

    at: float
    chain: str
    seq: int
    line: bytes
    exchange: Exchange | None


OnWritten = Callable[[Sequence[Written]], None]
"""Takes lines in the order of their chain, in the thread that writes it."""


class ChainWriter:
    """Writes the chain of this process into ``folder``; ``clock`` gives Unix seconds.

    ``pack`` is given each file that is closed for good, its successor on the disk. ``bodies`` takes
    what exchanges were asked to leave of their bodies; without it nothing is kept of them. ``on_written``
    is given every line of the chain behind its writing.
    """

    def __init__(
        self,
        folder: Path,
        origin: Origin,
        *,
        keep: Keep,
        clock: Callable[[], float],
        open_file: OpenFile,
        anchor: Anchor,
        rotation: Rotation | None = None,
        pack: Callable[[Path], None] = lambda _: None,
        bodies: BodyStore | None = None,
        on_written: OnWritten | None = None,
    ) -> None:
        self._on_written = on_written
        self._folder = folder
        self._origin = origin
        self._keep = keep
        self._clock = clock
        self._open_file = open_file
        self._anchor = anchor
        rotation = rotation or Rotation()
        self._file_bytes = min(rotation.max_bytes, max(1, keep.max_bytes // SHARE))
        self._file_age = rotation.max_age
        self._pack = pack
        self._bodies = bodies
        self.chain = Chain(new_chain_id(clock()))
        self._encoder = Encoder()
        self._file: LogFile | None = None
        self._name = LogName(self.chain.id, 0)
        self._after = "start"
        self._size = 0
        self._opened_at = self._synced_at = self._retained_at = self._anchored_at = 0.0
        self._dirty = False
        self._failing = False
        self._losses: Counter[str] = Counter()
        self.recorded = 0
        """Exchanges in the chain."""
        self._told_lost = 0

    @property
    def lost(self) -> int:
        """Exchanges that were reported lost, whether the chain says so already or not."""
        return self._told_lost + self._losses.total()

    def start(self) -> None:
        """Opens the first file and applies retention; OSError where the folder can't be written."""
        self._anchored_at = self._clock()
        self._open(unnamed_chains(self._folder) if self._folder.exists() else [])
        self._retain()
        # What processes that are gone have left; the first record names their ends as they are.
        for file in retention.stored_files(self._folder)[0]:
            self._hand_to_packing(file.path)

    def note_lost(self, reason: str, count: int) -> None:
        """Exchanges that won't be appended; the chain says so as soon as it can be written."""
        self._losses[reason] += count

    def append(self, exchanges: Sequence[Exchange]) -> bool:
        """Writes a record an exchange; False where none was written and all may be tried again."""
        try:
            self._make_ready()
            self._write_exchanges(exchanges)
        except OSError as error:
            self._failed(error)
            return False
        self._works_again()
        return True

    def tick(self, flush: bool) -> None:
        """What the clock makes due: losses, sync, heads, retention; ``flush`` does the first three now."""
        if self._losses:
            self.append(())
        now = self._clock()
        try:
            if self._dirty and (flush or abs(now - self._synced_at) >= _SYNC):
                self._sync()
            if flush or abs(now - self._anchored_at) >= INTERVAL:
                self._witness()
            if self._file is not None and abs(now - self._retained_at) >= _RETENTION:
                self._retain()
        except OSError as error:
            self._failed(error)

    def close(self) -> None:
        """Ends the chain with a record that says so; idempotent. Never raises OSError."""
        if self._after == "close":
            return
        try:
            self._make_ready()
            closing = records.close_record(self.recorded, self.lost)
            self._write([*self._lost_records(), self._line_now(closing)])
            self._settle(0)
            self._sync()
        except OSError as error:
            self._failed(error)
        self._witness()
        self._abandon("close")

    def _make_ready(self) -> None:
        """Sees to it that a file is open that may still grow."""
        if self._file is not None and self._is_full():
            self._sync()
            self._witness()
            self._abandon("rotation")
        if self._file is None:
            after, before = self._after, self._name
            self._open(())
            if after == "rotation":
                self._retain()
                self._hand_to_packing(self._folder / before.filename)

    def _hand_to_packing(self, path: Path) -> None:
        if not is_packed(path):
            self._pack(path)

    def _is_full(self) -> bool:
        return self._size >= self._file_bytes or self._clock() - self._opened_at >= self._file_age

    def _open(self, previous: Sequence[Ended]) -> None:
        prepare(self._folder)
        name = LogName(self.chain.id, self._name.number + 1)
        before = self._ended() if self._name.number else None
        opening = records.opening_record(self._origin, name.number, self._after, before, previous)
        path = self._folder / name.filename
        file = self._open_file(path)
        position = self.chain.position
        try:
            at = self._clock()
            line = self.chain.link(at, opening)
            _write_all(file, line)
        except OSError:
            self.chain.position = position
            self._discard(file, path, name)
            raise
        self._file, self._name, self._size = file, name, len(line)
        self._opened_at = self._clock()
        self._dirty = True
        self._give_out([Written(at, self.chain.id, self.chain.position.seq, line[:-1], None)])

    def _discard(self, file: LogFile, path: Path, name: LogName) -> None:
        """Takes a file back whose first line could not be written; that error is the one told."""
        with contextlib.suppress(OSError):
            file.close()
        try:
            path.unlink(missing_ok=True)
        except OSError:
            # It stays, as a file of which nothing is good; the next one has to say so.
            self._name, self._size = name, 0
            self._after = "error"

    def _ended(self) -> Ended:
        return Ended(*self._name, *self.chain.position, self._size)

    def _write_exchanges(self, exchanges: Sequence[Exchange]) -> None:
        lines: list[Line] = []
        recorded: list[Exchange] = []
        now = self._clock()
        record_of = self._encoder.exchange if self._bodies is None else self._record_of
        for exchange in exchanges:
            try:
                end = exchange.timing.end
                lines.append((now if end is None else end, record_of(exchange)))
                recorded.append(exchange)
            except Exception as error:  # noqa: BLE001  one bad exchange must not lose its batch
                log.error("audit: an exchange can't be recorded: %s", type(error).__name__)
        unwritable = len(exchanges) - len(recorded)
        lost = self._lost_records(unwritable) if unwritable or self._losses else []
        if lost or recorded:
            self._write([*lost, *lines], recorded)
            self._settle(len(recorded), unwritable)

    def _record_of(self, exchange: Exchange) -> bytes:
        written = self._encoder.exchange(exchange)
        if self._bodies is not None and isinstance(exchange.recording, Recording):
            kept = members({"capture": self._bodies.store(exchange.recording)})
            written = b"%b,%b" % (written, kept)
        return written

    def _settle(self, recorded: int, unwritable: int = 0) -> None:
        """What was written stands in the books: exchanges, and losses that the chain now names."""
        self.recorded += recorded
        self._told_lost += self._losses.total() + unwritable
        self._losses.clear()

    def _lost_records(self, unwritable: int = 0) -> list[Line]:
        reasons = self._losses + Counter(unwritable=unwritable)
        return [self._line_now(records.lost_record(reasons))] if reasons else []

    def _line_now(self, record: Mapping[str, Any]) -> Line:
        return self._clock(), members(record)

    def _write(self, lines: Sequence[Line], exchanges: Sequence[Exchange] = ()) -> None:
        """Appends one line a record, all or none; the last ones are those of ``exchanges``."""
        assert self._file is not None
        position = self.chain.position
        try:
            sealed = self.chain.seal(lines)
            data = b"".join(sealed)
            _write_all(self._file, data)
        except BaseException as error:
            self.chain.position = position
            if isinstance(error, OSError):
                self._undo()
            raise
        self._size += len(data)
        self._dirty = True
        if self._on_written is not None:
            whose = [*[None] * (len(lines) - len(exchanges)), *exchanges]
            first, chain = position.seq + 1, self.chain.id
            self._give_out(
                [
                    Written(at, chain, first + n, line[:-1], exchange)
                    for n, ((at, _), line, exchange) in enumerate(
                        zip(lines, sealed, whose, strict=True)
                    )
                ]
            )

    def _give_out(self, written: Sequence[Written]) -> None:
        if self._on_written is None:
            return
        try:
            self._on_written(written)
        except Exception as error:  # noqa: BLE001  the chain is what counts, and it is written
            log.error("audit: records can't be told: %s", type(error).__name__)

    def _undo(self) -> None:
        """Cuts what a failed write left off the file; where that fails too, the file is left."""
        assert self._file is not None
        try:
            self._file.truncate(self._size)
        except OSError:
            self._abandon("error")

    def _sync(self) -> None:
        if self._file is None:
            return
        self._synced_at = self._clock()
        if not self._file.present():
            log.error(
                "audit: %s was deleted or moved away; going on in a new file", self._name.filename
            )
            self._abandon("removed")
            self._make_ready()
            return
        try:
            self._file.sync()
        except OSError:
            # The system may have dropped what it couldn't write: this file is no place to go on.
            self._abandon("error")
            raise
        self._dirty = False

    def _witness(self) -> None:
        self._anchored_at = self._clock()
        if self.chain.position.seq:
            self._anchor.witness(self._anchored_at, self.chain.id, self.chain.position)

    def _retain(self) -> None:
        self._retained_at = now = self._clock()
        if self._bodies is not None:
            self._bodies.retain(now)
        stored, live = retention.stored_files(self._folder)
        doomed = retention.expired(
            (file for file in stored if file.name != self._name), live, now, self._keep
        )
        if not doomed:
            return
        # First said and on the disk, then done: a crash between leaves files, never a riddle.
        record = retention.record_of(self._folder, doomed)
        if record["deleted"]:
            self._write([self._line_now(record)])
            self._sync()
        for file in doomed:
            file.delete()

    def _abandon(self, after: str) -> None:
        file, self._file = self._file, None
        self._after = after
        self._dirty = False
        if file is not None:
            # What could fail has been synced, or its error is being told already.
            with contextlib.suppress(OSError):
                file.close()

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            log.error(
                "audit: %s can't be written: %s; records wait, then count as lost; traffic goes on",
                self._folder,
                error.strerror or type(error).__name__,
            )

    def _works_again(self) -> None:
        if self._failing:
            self._failing = False
            log.warning("audit: writing works again; %d exchanges lost so far", self.lost)


def _write_all(file: LogFile, data: bytes) -> None:
    written = file.write(data)
    while written < len(data):
        written += file.write(data[written:])
