"""One file of an audit log, line by line: what in it is broken, and what it says of other files.

What belongs here: everything that one file alone can show. What doesn't: how files and chains fit
together (verify.py).

After a broken line the scan goes on as if it had been the one expected, so that one edit is one
finding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from teeline.proxy.audit.chain import (
    MAX_LINE,
    LineError,
    Position,
    Record,
    digest_of,
    intact,
    parse,
    successors,
)
from teeline.proxy.audit.files import LogName, open_log
from teeline.proxy.audit.packing import DamagedError
from teeline.proxy.audit.record import CLOSE, OPEN, RETENTION, Retired, retired_in
from teeline.proxy.text import printable

MAX_FINDINGS: Final = 100
"""Findings that are told one by one for a file; more are counted."""
_PIECE: Final = 1024 * 1024


_DAMAGE: Final = {
    "edited": "edited",
    "replaced": "edited",
    "rewritten": "edited",
    "unreadable": "edited",
    "missing": "removed",
    "order": "reordered",
    "opening": "removed",
    "misplaced": "reordered",
    "torn": "truncated",
    "cut": "truncated",
    "missing-file": "file missing",
    "missing-chain": "file missing",
    "appended": "added",
    "foreign": "added",
}


class Finding(NamedTuple):
    """Something that is not as it was written. ``line`` is 1-based, 0 for the file as a whole."""

    kind: str
    file: str
    line: int
    message: str

    @property
    def damage(self) -> str:
        """What was done, in a word: edited, removed, reordered, truncated, file missing, added.

        Empty where it is no damage of the log itself.
        """
        return _DAMAGE.get(self.kind, "")

    @property
    def text(self) -> str:
        where = (
            f"{printable(self.file, 1000)}:{self.line}" if self.line else printable(self.file, 1000)
        )
        return f"{where}: {self.kind}: {self.message}"


class Bounds(NamedTuple):
    """How far the file is good, as a later opening record says.

    ``debris`` is what may stand behind that: nothing, part of a line, or anything.
    """

    size: int
    debris: str


NOTHING: Final = "nothing"
PART_OF_LINE: Final = "part of a line"
ANYTHING: Final = "anything"


@dataclass(slots=True)
class Scan:
    """What one file holds. ``first`` and ``last`` are its first and last readable records."""

    name: LogName
    path: Path
    live: bool
    first: Record | None = None
    last: Record | None = None
    tail_trusted: bool = True
    lines: int = 0
    retired: list[Retired] = field(default_factory=list)
    closed: bool = False
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    untold: int = 0


class Gap(NamedTuple):
    """Records that weren't where they should be; ``finding`` says so, by its place in the list."""

    finding: int
    first: int
    last: int
    found: set[int]


class Lines:
    """The lines of a file in batches, up to a size where one is given.

    ``offset`` is how far it was read, ``torn`` what stood behind the last newline. Of a line that is
    too long a piece stands for it that is too long, too.
    """

    def __init__(self, file: BinaryIO, limit: int | None) -> None:
        self._file = file
        self._limit = limit
        self._skipping = False
        self.offset = 0
        self.torn = b""

    def batch(self) -> bytes:
        """The next whole lines, newlines included; empty at the end. OSError."""
        while piece := self._read():
            if self._skipping:
                _, newline, piece = piece.partition(b"\n")
                if not newline:
                    continue
                self._skipping = False
            end = piece.rfind(b"\n") + 1
            lines = self.torn + piece[:end] if end else b""
            self.torn = piece[end:] if end else self.torn + piece
            if len(self.torn) > MAX_LINE:
                lines += self.torn + b"\n"
                self.torn = b""
                self._skipping = True
            if lines:
                return lines
        return b""

    def _read(self) -> bytes:
        room = _PIECE if self._limit is None else min(_PIECE, self._limit - self.offset)
        piece = self._file.read(room)
        self.offset += len(piece)
        return piece


class Scanner:
    """Scans one file. ``seen`` is called with each intact record that is no exchange, or whose number
    is ``awaited``, and its line; ``progress`` now and then with the lines since its last call.
    """

    def __init__(
        self,
        name: LogName,
        path: Path,
        *,
        live: bool,
        bounds: Bounds | None,
        seen: Callable[[Record, Finding], None],
        awaited: Iterable[int] = (),
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._scan = Scan(name, path, live)
        self._bounds = bounds
        self._seen = seen
        self._awaited = sorted(awaited)
        self._progress = progress
        self._expected = 0
        self._gaps: list[Gap] = []
        self._offset = 0
        self._unread: bytes | None = None
        self._hash = ""

    def run(self) -> Scan:
        """OSError where the file can't be read."""
        scan, bounds = self._scan, self._bounds
        try:
            with open_log(scan.path) as file:
                self._lines(file)
                if bounds is not None and self._offset >= bounds.size:
                    self._behind(file, bounds)
        except DamagedError as error:
            why = f"{error.strerror}, behind its line {scan.lines}"
            self._bad("torn", scan.lines + 1, why)
        else:
            self._check_size()
        self._settle_gaps()
        if scan.untold:
            self._add("more", 0, f"{scan.untold} more findings in this file")
        return scan

    def _check_size(self) -> None:
        bounds, size = self._bounds, self._offset
        if bounds is not None and size < bounds.size:
            self._find("cut", 0, f"it ends at byte {size}, the next file says {bounds.size}")
        elif bounds is None and size == 0 and not self._scan.live:
            self._find("torn", 0, "it is empty: a start was cut off, or the file was")

    def _lines(self, file: BinaryIO) -> None:
        reader = Lines(file, self._bounds.size if self._bounds is not None else None)
        while data := reader.batch():
            before = self._scan.lines
            self._batch(data)
            self._progress(self._scan.lines - before)
        self._read_last()
        self._offset = reader.offset
        if reader.torn:
            self._scan.lines += 1
            self._torn(reader.torn, self._scan.lines)

    def _batch(self, data: bytes) -> None:
        """Looks at whole lines."""
        begin = 0
        while begin < len(data):
            begin = self._going_on(data, begin)
            if begin < len(data):
                self._read_last()
                self._scan.lines += 1
                end = data.find(b"\n", begin)
                self._line(data[begin:end], self._scan.lines)
                begin = end + 1

    def _going_on(self, data: bytes, begin: int) -> int:
        """Passes over the exchanges that are due: their bytes say so without being parsed.

        Nearly all lines are such. Records that somebody vouches for are looked at one by one.
        """
        scan = self._scan
        if scan.closed or not scan.tail_trusted or not self._hash:
            return begin
        nearest = bisect_left(self._awaited, self._expected)
        most = len(data)
        if nearest < len(self._awaited):
            most = self._awaited[nearest] - self._expected
        run = successors(
            data, begin, most, scan.name.chain, Position(self._expected - 1, self._hash)
        )
        if run.lines:
            self._expected, self._hash = run.position.seq + 1, run.position.head
            self._unread = data[run.last : run.end - 1]
            scan.lines += run.lines
        return run.end

    def _read_last(self) -> None:
        """Makes the last line that was only compared the last record."""
        line, self._unread = self._unread, None
        if line is not None:
            self._scan.last = intact(line) or self._scan.last

    def _torn(self, line: bytes, number: int) -> None:
        if self._scan.live and self._bounds is None:
            self._note("live", number, "the last line is being written")
            return
        self._bad(
            "torn",
            number,
            f"the last line breaks off after {len(line)} bytes: a crash, or it was cut "
            "(the next start in this folder puts a crash on record)",
        )

    def _behind(self, file: BinaryIO, bounds: Bounds) -> None:
        """Looks at what stands behind the end that a later record names."""
        debris = file.read(MAX_LINE)
        if not debris:
            return
        whole_line = b"\n" in debris
        if bounds.debris == NOTHING or (bounds.debris == PART_OF_LINE and whole_line):
            self._find("appended", 0, f"it goes on behind byte {bounds.size}, where it had ended")
        else:
            message = (
                f"a write was cut off here, as a later record says; {len(debris)} bytes don't count"
            )
            self._note("torn", self._scan.lines + 1, message)

    def _line(self, line: bytes, number: int) -> None:
        if len(line) > MAX_LINE:
            self._bad("unreadable", number, "it is longer than any line of an audit log")
            return
        try:
            record = parse(line)
        except LineError as error:
            self._bad("unreadable", number, str(error))
            return
        actual = digest_of(line)
        if actual != record.hash:
            self._bad("edited", number, f"expected hash {actual}, found {record.hash}")
            return
        if record.chain != self._scan.name.chain:
            self._bad("foreign", number, f"it belongs to chain {printable(record.chain, 64)}")
            return
        self._follow(record, number)
        self._keep(record, number)

    def _follow(self, record: Record, number: int) -> None:
        scan = self._scan
        if number == 1:
            if record.kind != OPEN:
                self._find("opening", 1, "it isn't the first line of a file: that one is gone")
            elif record.fields.get("file") != scan.name.number:
                self._find("misplaced", 1, "it is the first line of another file")
            return
        if record.kind == OPEN:
            self._find("misplaced", number, "a first line in the middle of a file")
        if scan.closed:
            self._find("appended", number, "it stands behind the end of its chain")
        if self._expected and record.seq != self._expected:
            self._displaced(record, number)
        elif scan.tail_trusted and scan.last is not None and record.prev != scan.last.hash:
            self._find(
                "replaced",
                number - 1,
                f"the next line expects hash {record.prev}, found {scan.last.hash}",
            )

    def _displaced(self, record: Record, number: int) -> None:
        expected, found = self._expected, record.seq
        if found < expected:
            for gap in self._gaps:
                if gap.first <= found <= gap.last:
                    gap.found.add(found)
            message = f"expected record {expected}, found {found}: moved or repeated"
            self._find("order", number, message)
            return
        if len(self._scan.findings) < MAX_FINDINGS:
            self._gaps.append(Gap(len(self._scan.findings), expected, found - 1, set()))
        message = f"expected record {expected}, found {found}: {found - expected} gone"
        self._find("missing", number, message)

    def _settle_gaps(self) -> None:
        """Records that turned up further down were moved, not removed."""
        findings = self._scan.findings
        for gap in self._gaps:
            wanted = gap.last - gap.first + 1
            if len(gap.found) == wanted:
                before = findings[gap.finding]
                message = f"expected record {gap.first}, found {gap.last + 1}: moved up"
                findings[gap.finding] = before._replace(kind="order", message=message)

    def _keep(self, record: Record, number: int) -> None:
        scan = self._scan
        if self._expected and record.seq < self._expected:
            # One that was moved here says nothing of what comes next.
            scan.tail_trusted = False
        else:
            scan.first = scan.first or record
            scan.last = record
            scan.tail_trusted = True
            scan.closed = record.kind == CLOSE
            self._expected = record.seq + 1
            self._hash = record.hash
        if record.kind == RETENTION:
            scan.retired += retired_in(record.fields)
        self._seen(record, Finding("", str(scan.path), number, ""))

    def _bad(self, kind: str, number: int, message: str) -> None:
        self._scan.tail_trusted = False
        if self._expected:
            self._expected += 1
        self._find(kind, number, message)

    def _find(self, kind: str, number: int, message: str) -> None:
        if len(self._scan.findings) >= MAX_FINDINGS:
            self._scan.untold += 1
        else:
            self._add(kind, number, message)

    def _add(self, kind: str, number: int, message: str) -> None:
        self._scan.findings.append(Finding(kind, str(self._scan.path), number, message))

    def _note(self, kind: str, number: int, message: str) -> None:
        self._scan.notes.append(Finding(kind, str(self._scan.path), number, message))
