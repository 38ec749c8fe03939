"""Whether an audit log is as it was written: all files, all chains, and what anchors say of them.

What belongs here: how files and chains must fit together. What doesn't: lines within a file
(scan.py), the command line (cli/audit.py).

Beside the hashes three things bear witness: the next file's first record (where the file before
ended), the first record of a later chain (where the chains before it ended) and retention records
(which files were deleted on purpose). The newest lines have none of them; only an anchor shows that
they are all there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from teeline.proxy.audit.anchor import Witness, read_anchors
from teeline.proxy.audit.chain import GENESIS, Record
from teeline.proxy.audit.files import LogName, is_live, listed, parse_name
from teeline.proxy.audit.record import Ended, Retired, ended_in
from teeline.proxy.audit.scan import (
    ANYTHING,
    NOTHING,
    PART_OF_LINE,
    Bounds,
    Finding,
    Scan,
    Scanner,
)
from teeline.proxy.audit.survey import opening_of
from teeline.proxy.text import printable


class NotAuditFileError(ValueError):
    """A path that was given is no file of an audit log, or holds none; the text says which."""


class ChainSummary(NamedTuple):
    """A chain as it was found. ``witnessed`` is the last line that someone outside vouches for."""

    chain: str
    files: int
    records: int
    last_seq: int
    head: str
    state: str
    witnessed: int


@dataclass(slots=True)
class Result:
    """``findings`` break the log; ``notes`` are what should be known beside that."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    chains: list[ChainSummary] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        return not self.findings


def verify(
    paths: Sequence[Path],
    anchor: Path | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Result:
    """Checks folders and single files; OSError, NotAuditFileError where that can't be done.

    ``progress`` is told of lines as they are checked.
    """
    files, partial = _collected(paths)
    witnesses: list[Witness] = []
    result = Result()
    if anchor is not None:
        witnesses, unreadable = read_anchors(anchor)
        result.findings += [
            Finding("anchor", str(anchor), line, "this line of the anchor file can't be read")
            for line in unreadable
        ]
    _Check(files, witnesses, result, progress, partial=partial, anchored=anchor is not None).run()
    return result


def _collected(paths: Iterable[Path]) -> tuple[dict[LogName, Path], bool]:
    files: dict[LogName, Path] = {}
    partial = False
    for path in paths:
        found = listed(path) if path.is_dir() else [_single(path)]
        partial = partial or not path.is_dir()
        for name, file in found:
            if files.setdefault(name, file) != file:
                raise NotAuditFileError(f"{name.filename} was given twice")
    if not files:
        raise NotAuditFileError("there are no audit files")
    return files, partial


def _single(path: Path) -> tuple[LogName, Path]:
    name = parse_name(path.name)
    if name is None:
        path.stat()  # what isn't there is told as such
        raise NotAuditFileError(f"{printable(str(path), 1000)} isn't named like an audit file")
    return name, path


class _Check:
    """One run over all files. ``partial``: single files were given, others may lie beside them."""

    def __init__(
        self,
        files: dict[LogName, Path],
        witnesses: Sequence[Witness],
        result: Result,
        progress: Callable[[int], None],
        *,
        partial: bool,
        anchored: bool,
    ) -> None:
        self._files = files
        self._result = result
        self._progress = progress
        self._partial = partial
        self._anchored = anchored
        self._bounds: dict[LogName, Bounds] = {}
        self._awaited: defaultdict[tuple[str, int], list[Witness]] = defaultdict(list)
        self._witnessed: dict[str, int] = {}
        self._scans: defaultdict[str, list[Scan]] = defaultdict(list)
        self._retired: defaultdict[str, list[Retired]] = defaultdict(list)
        for witness in witnesses:
            self._awaited[witness.chain, witness.seq].append(witness)

    def run(self) -> None:
        for name in sorted(self._files):
            self._read_opening(name)
        for name in sorted(self._files):
            self._scan(name)
        for chain in sorted(self._scans):
            self._check_files(self._scans[chain])
        self._check_unseen()
        for chain in sorted(self._scans):
            self._summarise(chain, self._scans[chain])

    def _read_opening(self, name: LogName) -> None:
        opening = opening_of(self._files[name])
        if opening is None:
            return
        after = opening.fields.get("after")
        for ended in ended_in(opening.fields):
            file = LogName(ended.chain, ended.file)
            if ended.chain != name.chain:
                self._bounds[file] = Bounds(ended.size, PART_OF_LINE)
                self._await(ended, name)
            elif ended.file == name.number - 1:
                self._bounds[file] = Bounds(ended.size, ANYTHING if after == "error" else NOTHING)

    def _await(self, ended: Ended, source: LogName) -> None:
        if ended.seq > 0:
            witness = Witness(ended.chain, ended.seq, ended.head, source.filename)
            self._awaited[ended.chain, ended.seq].append(witness)

    def _scan(self, name: LogName) -> None:
        path = self._files[name]
        scan = Scanner(
            name,
            path,
            live=is_live(path),
            bounds=self._bounds.get(name),
            seen=self._seen,
            awaited={seq for chain, seq in self._awaited if chain == name.chain},
            progress=self._progress,
        ).run()
        self._scans[name.chain].append(scan)
        for retired in scan.retired:
            self._retired[retired.chain].append(retired)
        self._result.findings += scan.findings
        self._result.notes += scan.notes

    def _seen(self, record: Record, at: Finding) -> None:
        for witness in self._awaited.pop((record.chain, record.seq), ()):
            if witness.head == record.hash:
                self._witnessed[record.chain] = max(
                    record.seq, self._witnessed.get(record.chain, 0)
                )
            else:
                message = f"{witness.source} saw hash {witness.head}, found {record.hash}"
                self._result.findings.append(
                    at._replace(kind="rewritten", message=printable(message, 1000))
                )

    def _check_files(self, scans: Sequence[Scan]) -> None:
        """That the files of one chain follow each other."""
        number, last, trusted = 0, None, True
        for scan in scans:
            first = scan.first
            if scan.name.number != number + 1:
                self._check_gap(scan, number)
            elif first is not None and first.kind == "open":
                self._check_joint(scan, first, last, trusted)
            number = scan.name.number
            if scan.last is not None:
                last, trusted = scan.last, scan.tail_trusted

    def _check_gap(self, scan: Scan, number: int) -> None:
        """Files before this one aren't there: retention must have named the last of them."""
        missing = scan.name.number - 1
        prev = scan.first.prev if scan.first is not None else ""
        for retired in self._retired[scan.name.chain]:
            if retired.file == missing and retired.head in (prev, ""):
                return
        which = f"file {missing}" if missing == number + 1 else f"files {number + 1} to {missing}"
        message = f"{which} of its chain, before this one, can't be found"
        if self._partial and number == 0:
            self._note("partial", scan, f"{message} among the files given")
        else:
            self._find("missing-file", scan, message)

    def _check_joint(self, scan: Scan, first: Record, last: Record | None, trusted: bool) -> None:
        seq, head = (last.seq, last.hash) if last is not None else (0, GENESIS)
        if first.seq != seq + 1 and trusted:
            self._find(
                "missing",
                scan,
                f"it begins with record {first.seq}, the file before ends with {seq}",
            )
        elif first.prev != head and trusted:
            self._find(
                "replaced", scan, f"expected hash {first.prev} at the end before it, found {head}"
            )

    def _check_unseen(self) -> None:
        """Lines that someone vouches for and that weren't found."""
        for (chain, seq), witnesses in sorted(self._awaited.items()):
            if any(retired.seq >= seq for retired in self._retired[chain]):
                continue
            scans = self._scans.get(chain)
            source = f"{printable(witnesses[0].source, 1000)} saw record {seq}"
            if scans is None:
                if not self._partial:
                    message = f"{source} of chain {printable(chain, 64)}, of which no file is there"
                    self._result.findings.append(
                        Finding(
                            "missing-chain", LogName(printable(chain, 64), 1).filename, 0, message
                        )
                    )
            elif seq > _last_seq(scans):
                self._find(
                    "cut",
                    scans[-1],
                    f"{source}; it ends with record {_last_seq(scans)}: its tail or its newest file "
                    "is gone",
                )

    def _summarise(self, chain: str, scans: Sequence[Scan]) -> None:
        newest = scans[-1]
        last = next((scan.last for scan in reversed(scans) if scan.last is not None), None)
        last_seq = last.seq if last is not None else 0
        witnessed = self._witnessed.get(chain, 0)
        state = "being written" if newest.live else "closed" if newest.closed else "not closed"
        self._result.chains.append(
            ChainSummary(
                chain,
                len(scans),
                sum(scan.lines for scan in scans),
                last_seq,
                last.hash if last is not None else GENESIS,
                state,
                witnessed,
            )
        )
        if witnessed < last_seq:
            seen = f"the last record that was is {witnessed} of {last_seq}"
            why = (
                seen if witnessed else "no anchor names it" if self._anchored else "no anchor given"
            )
            self._note("tail", newest, f"tail not witnessed: {why}")
        if state == "not closed":
            self._note("open-end", newest, "the chain was never closed: its process was killed")

    def _find(self, kind: str, scan: Scan, message: str) -> None:
        self._result.findings.append(Finding(kind, str(scan.path), 0, message))

    def _note(self, kind: str, scan: Scan, message: str) -> None:
        self._result.notes.append(Finding(kind, str(scan.path), 0, message))


def _last_seq(scans: Sequence[Scan]) -> int:
    return max((scan.last.seq for scan in scans if scan.last is not None), default=0)
