"""What a starting process finds in the folder: chains of processes that are gone.

What belongs here: finding them, so that the new chain's first record can name their heads. With
that the deletion of a whole old chain shows, and so does where a crash cut one off. What doesn't:
deleting old files (retention.py), checking them (verify.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final

from teeline.proxy.audit.chain import MAX_LINE, Record, intact
from teeline.proxy.audit.files import LogName, ended_chain, is_live, listed, open_log
from teeline.proxy.audit.packing import DamagedError
from teeline.proxy.audit.record import OPEN, Ended, ended_in

MAX_NAMED: Final = 256
"""Chains that one opening record names; the next start names the rest."""


def opening_of(path: Path) -> Record | None:
    """The first record of a file, where it is an intact opening record; OSError."""
    line = b""
    with suppress(DamagedError), open_log(path) as file:
        line = file.readline(MAX_LINE)
    record = intact(line.removesuffix(b"\n")) if line.endswith(b"\n") else None
    return record if record is not None and record.kind == OPEN else None


def unnamed_chains(folder: Path) -> list[Ended]:
    """The ends of the chains that no process writes any more and that no chain has named yet."""
    chains = _by_chain(folder)
    named = _named_in(files[0] for files in chains.values())
    dead: list[Ended] = []
    for chain, files in chains.items():
        if chain in named or is_live(files[-1][1]) or len(dead) == MAX_NAMED:
            continue
        try:
            dead.append(ended_chain(files))
        except FileNotFoundError:
            continue  # another process's retention was faster
    return dead


def _named_in(first_files: Iterable[tuple[LogName, Path]]) -> set[str]:
    named: set[str] = set()
    for name, path in first_files:
        try:
            record = opening_of(path) if name.number == 1 else None
        except FileNotFoundError:
            continue
        if record is not None:
            named.update(ended.chain for ended in ended_in(record.fields))
    return named


def _by_chain(folder: Path) -> dict[str, list[tuple[LogName, Path]]]:
    grouped = groupby(listed(folder), key=lambda item: item[0].chain)
    return {chain: list(files) for chain, files in grouped}
