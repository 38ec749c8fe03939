"""A file, whatever it is, to the exchanges that it holds.

What belongs here: telling the formats apart by content, reading within bounds, and the lines of files
with one exchange a line. What doesn't: what an entry of a format means (its own module), folders and
names on the command line (proxy/cli/check.py).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

from teeline.proxy.inputs import auditlog, har
from teeline.proxy.inputs.items import Item, Problem
from teeline.validators.exchangefile import MAX_BYTES, ExchangeFileError, loads
from teeline.validators.rules import register

MAX_DOCUMENT: Final = 256 * 1024 * 1024
"""Bytes of a HAR. An exchange file, and one line of JSON Lines, is bounded by MAX_BYTES."""

Lines = Iterator[tuple[int, bytes]]
"""Lines that are not blank, with their numbers in the file."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"


def read(stream: BinaryIO, file: str, now: float) -> Iterator[Item | Problem]:
    """The exchanges of an open file that is called ``file``, and what can't be read in it.

    ``now`` in Unix seconds. OSError where the file can't be read; nothing else is raised, whatever
    it holds.
    """
    number, line = _first_line(stream)
    document = _json(line)
    if auditlog.is_record(document):
        lines = itertools.chain([(number, line)], _lines(stream, number + 1))
        yield from _bounded(lines, file, lambda some: auditlog.items(some, file, register()))
        return
    if har.is_har(document):
        yield from har.items(document, file, now)
        return
    more = next(_lines(stream, number + 1), None) if isinstance(document, dict) else None
    if more is None:
        yield from _document(stream, line, file, now)
        return
    lines = itertools.chain([(number, line), more], _lines(stream, more[0] + 1))
    yield from _bounded(lines, file, lambda some: _exchanges(some, file))


def _first_line(stream: BinaryIO) -> tuple[int, bytes]:
    """The first line that is not blank, with its number; a byte order mark is taken off."""
    for number, line in enumerate(iter(lambda: stream.readline(MAX_DOCUMENT + 1), b""), 1):
        bare = line.removeprefix(_BOM) if number == 1 else line
        if bare.strip(_BLANK):
            return number, bare
    return 1, b""


def _lines(stream: BinaryIO, start: int) -> Lines:
    """The further lines that are not blank, with their numbers."""
    for number, line in enumerate(iter(lambda: stream.readline(MAX_BYTES + 1), b""), start):
        if line.strip(_BLANK):
            yield number, line


def _bounded(
    lines: Lines, file: str, parse: Callable[[Lines], Iterator[Item | Problem]]
) -> Iterator[Item | Problem]:
    """What ``parse`` makes of the lines up to one that is too long: its end can't be told from a line."""
    too_long: list[int] = []

    def within() -> Lines:
        for number, line in lines:
            if len(line) > MAX_BYTES:
                too_long.append(number)
                return
            yield number, line

    yield from parse(within())
    for number in too_long:
        text = f"line {number}: larger than {MAX_BYTES} bytes; it and what follows is not read"
        yield Problem(file, text, number)


def _json(data: bytes) -> Any:
    """The document that the bytes hold; None where they are none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _document(stream: BinaryIO, start: bytes, file: str, now: float) -> Iterator[Item | Problem]:
    """A file that is one document: an exchange file or a HAR."""
    data = start + stream.read(max(MAX_DOCUMENT + 1 - len(start), 0))
    if len(data) > MAX_DOCUMENT:
        yield Problem(file, f"larger than {MAX_DOCUMENT} bytes")
        return
    # Only a HAR says "log" at its top; an exchange file is parsed once, strictly.
    document = _json(data) if b'"log"' in data[:4096] or len(data) > MAX_BYTES else None
    if har.is_har(document):
        yield from har.items(document, file, now)
        return
    try:
        recorded = loads(data)
    except ExchangeFileError as error:
        yield Problem(file, f"not an exchange file: {error}")
        return
    yield Item(file, recorded.name, recorded)


def _exchanges(lines: Lines, file: str) -> Iterator[Item | Problem]:
    """JSON Lines of exchange files."""
    for number, line in lines:
        try:
            recorded = loads(line)
        except ExchangeFileError as error:
            yield Problem(file, f"line {number}: not an exchange file: {error}", number)
            continue
        yield Item(file, recorded.name or f"line {number}", recorded, number)
