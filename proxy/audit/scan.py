"""One file of an audit log, line by line: what in it is broken, and what it says of other files.

What belongs here: everything that one file alone can show. What doesn't: how files and chains fit
together (verify.py).

After a broken line the scan goes on as if it had been the one expected, so that one edit is one
finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from teeline.proxy.audit.chain import MAX_LINE, LineError, Record, digest_of, parse
from teeline.proxy.audit.files import LogName
from teeline.proxy.audit.record import CLOSE, OPEN, RETENTION, Retired, retired_in
from teeline.proxy.text import printable

MAX_FINDINGS: Final = 100
"""Findings that are told one by one for a file; more are counted."""


class Finding(NamedTuple):
    """Something that is not as it was written. ``line`` is 1-based, 0 for the file as a whole."""

    kind: str
    file: str
    line: int
    message: str

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


class Scanner:
    """Scans one file; ``seen`` is called with each intact record and its line."""

    def __init__(
        self,
        name: LogName,
        path: Path,
        *,
        live: bool,
        bounds: Bounds | None,
        seen: Callable[[Record, Finding], None],
    ) -> None:
        self._scan = Scan(name, path, live)
        self._bounds = bounds
        self._seen = seen
        self._expected = 0

    def run(self) -> Scan:
        """OSError where the file can't be read."""
        scan = self._scan
        # A file that is being written is looked at as it is now.
        size = scan.path.stat().st_size
        with scan.path.open("rb") as file:
            self._lines(file, self._limit(size))
            if self._bounds is not None and size > self._bounds.size:
                self._behind(file, self._bounds)
        if scan.untold:
            self._add("more", 0, f"{scan.untold} more findings in this file")
        return scan

    def _limit(self, size: int) -> int:
        bounds = self._bounds
        if bounds is None:
            if size == 0 and not self._scan.live:
                self._find("torn", 0, "it is empty: a start was cut off, or the file was")
            return size
        if size < bounds.size:
            self._find("cut", 0, f"it ends at byte {size}, the next file says {bounds.size}")
        return min(size, bounds.size)

    def _lines(self, file: BinaryIO, limit: int) -> None:
        offset = number = 0
        while offset < limit:
            line = file.readline(min(MAX_LINE + 1, limit - offset))
            if not line:
                break
            offset += len(line)
            number += 1
            if line.endswith(b"\n"):
                self._line(line[:-1], number)
            elif len(line) > MAX_LINE:
                self._bad("unreadable", number, "it is longer than any line of an audit log")
                offset += _skip_line(file, limit - offset)
            else:
                self._torn(line, number)
        self._scan.lines = number

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
        file.seek(bounds.size)
        debris = file.read(MAX_LINE)
        whole_line = b"\n" in debris
        if bounds.debris == NOTHING or (bounds.debris == PART_OF_LINE and whole_line):
            self._find("appended", 0, f"it goes on behind byte {bounds.size}, where it had ended")
        else:
            message = (
                f"a write was cut off here, as a later record says; {len(debris)} bytes don't count"
            )
            self._note("torn", self._scan.lines + 1, message)

    def _line(self, line: bytes, number: int) -> None:
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
            if record.kind != OPEN or record.fields.get("file") != scan.name.number:
                self._find("opening", 1, "it isn't the first line of this file")
            return
        if record.kind == OPEN:
            self._find("opening", number, "a first line in the middle of a file")
        if scan.closed:
            self._find("appended", number, "it stands behind the end of its chain")
        if self._expected and record.seq != self._expected:
            self._find(*_out_of_order(number, self._expected, record.seq))
        elif scan.tail_trusted and scan.last is not None and record.prev != scan.last.hash:
            self._find(
                "replaced",
                number - 1,
                f"the next line expects hash {record.prev}, found {scan.last.hash}",
            )

    def _keep(self, record: Record, number: int) -> None:
        scan = self._scan
        scan.first = scan.first or record
        scan.last = record
        scan.tail_trusted = True
        scan.closed = record.kind == CLOSE
        self._expected = record.seq + 1
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


def _out_of_order(number: int, expected: int, found: int) -> tuple[str, int, str]:
    if found > expected:
        return (
            "missing",
            number,
            f"expected record {expected}, found {found}: {found - expected} gone",
        )
    return "order", number, f"expected record {expected}, found {found}: moved or repeated"


def _skip_line(file: BinaryIO, room: int) -> int:
    """Reads on to the end of an overlong line; the bytes that were skipped."""
    skipped = 0
    while skipped < room:
        part = file.readline(min(MAX_LINE, room - skipped))
        skipped += len(part)
        if not part or part.endswith(b"\n"):
            break
    return skipped
