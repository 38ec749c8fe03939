"""Recordings of NNRP connections: the raw bytes of both directions, in two files that belong together.

What belongs here: which files make a recording, and its replay. What doesn't: what is wrong with the bytes
(validators/nnrp), reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from teeline.proxy.inputs.items import Problem
from teeline.validators.events import Opened, Output, SchemaCheck, SchemaResult
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Ended, Exchange, Side
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.nnrp.inspector import End, NnrpInspector
from teeline.validators.nnrp.order import interleaved

MAX_BYTES: Final = 256 * 1024 * 1024
"""Of one file."""

_SIDE: Final = re.compile(r"(?:\A|(?<=[^A-Za-z0-9]))(c2s|s2c|client|server)(?=[^A-Za-z0-9]|\Z)")
_OURS: Final = ("c2s", "client")


class Recording(NamedTuple):
    """Two files of one connection; None for one that is not there. ``name`` is what they share."""

    name: str
    client: Path | None
    server: Path | None


def recordings(paths: Sequence[str], problems: list[Problem]) -> Iterator[Recording]:
    """The recordings that files and folders hold, in the order of their names.

    A file's direction is in its name: c2s or client, s2c or server, as a word of its own.
    """
    found: dict[str, dict[bool, Path]] = {}
    for path in _files(paths, problems):
        match = _SIDE.search(path.name)
        if match is None:
            text = "its name says no direction (c2s, s2c)"
            problems.append(Problem(str(path), text))
            continue
        shared = path.name[: match.start(1)] + "*" + path.name[match.end(1) :]
        found.setdefault(str(path.parent / shared), {})[match[1] in _OURS] = path
    for name, files in sorted(found.items()):
        yield Recording(name, files.get(True), files.get(False))


def _files(paths: Sequence[str], problems: list[Problem]) -> Iterator[Path]:
    for text in paths:
        path = Path(text)
        if not path.is_dir():
            yield path
            continue
        inside = sorted(p for p in path.rglob("*.bin") if p.is_file() and _SIDE.search(p.name))
        if not inside:
            problems.append(Problem(text, "no *.bin of a direction (c2s, s2c) in this folder"))
        yield from inside


def read(path: Path | None) -> bytes:
    """The bytes of a direction, none for a file that is not there; OSError."""
    if path is None:
        return b""
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(0, f"larger than {MAX_BYTES} bytes")
    return data


def replay(
    client: bytes, server: bytes, capabilities: Capabilities | None, at: float
) -> list[Exchange]:
    """The exchanges of a connection whose times were not recorded."""
    inspector = NnrpInspector(Exchange, DEFAULT_LIMITS, capabilities, timed=False)
    outputs: list[Output] = []
    for side, data in interleaved(client, server, DEFAULT_LIMITS.body):
        outputs += inspector.feed(side, data, at)
    for side in Side:
        outputs += inspector.finish(side, at, End.UNKNOWN)
    outputs += inspector.close(at, Ended.SHUTDOWN)
    for output in [o for o in outputs if isinstance(o, SchemaCheck)]:
        result = SchemaResult(unchecked="unavailable")
        outputs += inspector.schema_result(output.exchange, output.ticket, result, at)
    return [output.exchange for output in outputs if isinstance(output, Opened)]
