"""The chain: how one line of the audit log is bound to the line before it.

What belongs here: the bytes of a line, its hash, its place in the chain, and reading a line back.
What doesn't: what a record says (record.py), files (files.py), what a broken chain means
(verify.py).

A line is one JSON object that ends in ``,"prev":"<64 hex>","hash":"<64 hex>"}``. ``hash`` is the
SHA-256 of the line's bytes before ``,"hash":``; ``prev`` is the hash of the line before, across
files; ``seq`` counts the lines of a chain from 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.audit.encode import members

VERSION: Final = 1
GENESIS: Final = "0" * 64
"""The ``prev`` of a chain's first line."""
MAX_LINE: Final = 1024 * 1024
"""Bytes of a line at most; record.py keeps far below."""

_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
_SEAL_LENGTH = len(b',"hash":"' + b"0" * 64 + b'"}')
_LINKS_LENGTH = _SEAL_LENGTH + len(b',"prev":"' + b"0" * 64 + b'"')
_SHA = hashlib.sha256
_TS_LENGTH = len("2026-11-30T12:01:07.250000Z")
_HEX = re.compile(r"[0-9a-f]{64}\Z")


class Position(NamedTuple):
    """Where a chain stands: the number and the hash of its last line."""

    seq: int = 0
    head: str = GENESIS


class Record(NamedTuple):
    """A line that was read back. ``kind`` is empty for the record of an exchange."""

    chain: str
    seq: int
    prev: str
    hash: str
    kind: str
    fields: Mapping[str, Any]


class LineError(ValueError):
    """Not a line of an audit log; the text says in a few words why."""


class Chain:
    """A chain under construction. ``position`` may be set back when lines could not be written."""

    def __init__(self, chain: str) -> None:
        self.id = chain
        self.position = Position()

    def link(self, at: float, fields: Mapping[str, Any]) -> bytes:
        """The next line, newline included; ``at`` is its time in Unix seconds.

        TypeError (of which orjson's error is one) where a value can't be written as JSON.
        """
        (line,) = self.seal([(at, members(fields))])
        return line

    def seal(self, written: Iterable[tuple[float, bytes]]) -> list[bytes]:
        """The next lines, as ``link``, of times and members that are JSON already."""
        opening, sealed = _opening(self.id), []
        seq, head = self.position
        for at, fields in written:
            seq += 1
            body = b"".join(
                (
                    f'{opening},"seq":{seq},"ts":"{timestamp(at)}",'.encode(),
                    fields,
                    f'{"," if fields else ""}"prev":"{head}"'.encode(),
                )
            )
            head = _SHA(body).hexdigest()
            sealed.append(body + f',"hash":"{head}"}}\n'.encode())
        self.position = Position(seq, head)
        return sealed


@lru_cache(maxsize=16)
def _opening(chain: str) -> str:
    return orjson.dumps({"v": VERSION, "chain": chain})[:-1].decode()


def timestamp(at: float) -> str:
    """Unix seconds as RFC 3339, UTC, with microseconds."""
    second, micro = divmod(int(at * 1e6 + 0.5), 1_000_000)
    # The digits that f"{micro:06}" gives, in two thirds of its time.
    return f"{_second(second)}.{str(1_000_000 + micro)[1:]}Z"


@lru_cache(maxsize=16)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")[:-6]


def seconds(ts: object) -> float | None:
    """The Unix seconds of a ``ts``; None where it isn't one."""
    try:
        return datetime.fromisoformat(ts).timestamp() if isinstance(ts, str) else None
    except ValueError:
        return None


def digest_of(line: bytes) -> str:
    """The hash that a line must carry (the line without its newline)."""
    return hashlib.sha256(line[:-_SEAL_LENGTH]).hexdigest()


def parse(line: bytes) -> Record:
    """Reads a line (without its newline); LineError where it isn't one. The hash isn't checked."""
    seal = _SEAL.search(line)
    if seal is None:
        raise LineError("it doesn't end in a hash")
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise LineError("it isn't JSON") from None
    if not isinstance(fields, dict):
        raise LineError("it isn't a JSON object")
    chain, seq, prev = fields.get("chain"), fields.get("seq"), fields.get("prev")
    kind = fields.get("kind", "")
    if not isinstance(chain, str) or not isinstance(kind, str):
        raise LineError("its chain or kind isn't a string")
    if not isinstance(seq, int) or isinstance(seq, bool) or seq < 1:
        raise LineError("its seq isn't a number from 1")
    if not isinstance(prev, str) or not _HEX.match(prev):
        raise LineError("its prev isn't a hash")
    return Record(chain, seq, prev, seal.group(1).decode(), kind, fields)


class Run(NamedTuple):
    """Lines that follow each other: how many, where the last one begins, where they end."""

    lines: int
    last: int
    end: int
    position: Position


def successors(data: bytes, begin: int, most: int, chain: str, after: Position) -> Run:
    """The lines from a byte of ``data`` on (``most`` of them) that are records of exchanges and come
    one behind the other after a position of a chain.

    Only bytes that this module wrote in this order are recognised; what ``parse`` says of the first
    other line is another matter. Checking a log then costs little more than its hashes.
    """
    opening, view, sha256 = b'{"v":1,"chain":"%b","seq":' % chain.encode(), memoryview(data), _SHA
    seq, prev, last = after.seq, after.head.encode(), begin
    most += seq
    while seq < most:
        end = data.find(b"\n", begin)
        start = b'%b%d,"ts":"' % (opening, seq + 1)
        kind = begin + len(start) + _TS_LENGTH
        if end < 0 or data[kind : kind + 7] != b'","id":' or not data.startswith(start, begin):
            break
        digest = sha256(view[begin : end - _SEAL_LENGTH]).hexdigest().encode()
        if data[end - _LINKS_LENGTH : end] != b',"prev":"%b","hash":"%b"}' % (prev, digest):
            break
        prev, last, begin = digest, begin, end + 1
        seq += 1
    return Run(seq - after.seq, last, begin, Position(seq, prev.decode()))


def intact(line: bytes) -> Record | None:
    """The record of a line whose hash holds; None for any other line."""
    try:
        record = parse(line)
    except LineError:
        return None
    return record if digest_of(line) == record.hash else None
