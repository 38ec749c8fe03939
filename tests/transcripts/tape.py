"""Recorded connections of real clients to real servers: where they lie, and what their bytes say.

A recording is a folder: ``request.bin`` and ``response.bin`` (raw HTTP/1.1 of one connection, several
exchanges where it was kept alive), ``request.N.bin`` and ``response.N.bin`` for further connections of
the case, ``timing.json`` with every read that the recorder made between the two, and ``meta.json``.
They were recorded on loopback, with the key ``sk-test-0000``, between the client and the server that the
folder names; nothing in them was edited.

What belongs here: reading recordings, and HTTP bytes as messages, however little of them is there.
What doesn't: playing them (tests/proxy/test_transcripts.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

# RFC 9110 7.6.1, and Host: what an intermediary may change.
_PER_HOP = frozenset(
    {
        *(b"connection", b"host", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
_BODYLESS = frozenset({204, 304})


class Step(NamedTuple):
    """One event on a connection. ``who`` is ``client`` or ``server``.

    ``data`` is what that side sent; empty where it ended the connection, by a RST where ``reset``.
    """

    who: str
    data: bytes
    reset: bool = False


class Tape(NamedTuple):
    """One recorded connection, as the steps to play in their order."""

    name: str
    steps: tuple[Step, ...]


class Parsed(NamedTuple):
    """A message, or as much of it as has arrived. ``fields`` keep order, case and repeats."""

    start: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    content: bytes
    complete: bool

    def value(self, name: bytes) -> bytes | None:
        """The value of the first field of this lower-case name."""
        return next((value for key, value in self.fields if key.lower() == name), None)

    @property
    def status(self) -> int:
        return int(self.start.split(b" ")[1])

    @property
    def end_to_end(self) -> Parsed:
        """The message without what may change on its way."""
        listed = (self.value(b"connection") or b"").lower().split(b",")
        dropped = _PER_HOP | {name.strip() for name in listed}
        return self._replace(fields=tuple(f for f in self.fields if f[0].lower() not in dropped))


def tapes(folder: Path) -> list[Tape]:
    """All connections of the recordings in ``SERVER/CASE`` folders, those without a byte left out."""
    found = [tape for meta in sorted(folder.glob("*/*/meta.json")) for tape in _of(meta.parent)]
    return [tape for tape in found if any(step.data for step in tape.steps)]


def _of(case: Path) -> Iterator[Tape]:
    connections = json.loads((case / "timing.json").read_bytes())["connections"]
    for number, rows in enumerate(connections):
        suffix = f".{number}" if number else ""
        sent = {
            "req": (case / f"request{suffix}.bin").read_bytes(),
            "res": (case / f"response{suffix}.bin").read_bytes(),
        }
        yield Tape(f"{case.parent.name}/{case.name}{suffix}", tuple(_steps(rows, sent)))


def _steps(rows: list[tuple[float, str, int, int]], sent: dict[str, bytes]) -> Iterator[Step]:
    """The steps to the first end; what the recorder saw after it is only its consequence."""
    for _, kind, offset, length in rows:
        if kind in sent:
            data = sent[kind][offset : offset + length]
            yield Step("client" if kind == "req" else "server", data)
        else:
            # A reset was always the client's; the recorder met it on reading or on writing.
            reset = kind.endswith("ConnectionResetError")
            yield Step("client" if reset or kind == "req-eof" else "server", b"", reset)
            return


def requests(data: bytes) -> list[Parsed]:
    """The requests in the bytes that a client sent; the last one may be incomplete."""
    found: list[Parsed] = []
    at = 0
    while (parsed := _message(data, at, bodyless=False, until_end=False)) is not None:
        message, at = parsed
        found.append(message)
        if not message.complete:
            break
    return found


def answers(data: bytes, asked: list[Parsed], *, ended: bool = False) -> list[Parsed]:
    """The answers in the bytes that a server sent to these requests.

    ``ended``: the server has closed the connection, which completes an answer without other framing.
    """
    found: list[Parsed] = []
    at = 0
    for request in asked:
        bodyless = request.start.startswith(b"HEAD ") or _status_at(data, at) in _BODYLESS
        parsed = _message(data, at, bodyless=bodyless, until_end=True)
        if parsed is None:
            break
        message, at = parsed
        unframed = not message.complete and not _framed(message)
        found.append(message._replace(complete=True) if unframed and ended else message)
        if not message.complete:
            break
    return found


def progress(messages: list[Parsed]) -> tuple[int, int, bool]:
    """How far a side has come; comparable with how far another has come with the same messages."""
    return (
        (len(messages), len(messages[-1].content), messages[-1].complete)
        if messages
        else (0, 0, False)
    )


def _status_at(data: bytes, at: int) -> int:
    line = data[at : data.find(b"\r\n", at)].split(b" ")
    return int(line[1]) if len(line) > 1 and line[1].isdigit() else 0


def _framed(message: Parsed) -> bool:
    return any(
        message.value(name) is not None for name in (b"transfer-encoding", b"content-length")
    )


def _message(data: bytes, at: int, *, bodyless: bool, until_end: bool) -> tuple[Parsed, int] | None:
    """The message that begins at an offset, and the offset behind it; None without a whole head."""
    end = data.find(b"\r\n\r\n", at)
    if end < 0:
        return None
    start, *lines = data[at:end].split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    head = Parsed(start, tuple((name, value.strip(b" \t")) for name, _, value in pairs), b"", True)
    body = end + 4
    if bodyless:
        return head, body
    if head.value(b"transfer-encoding") is not None:
        content, complete, behind = _dechunked(data, body)
    elif (length := head.value(b"content-length")) is not None:
        content = data[body : body + int(length)]
        complete, behind = len(content) == int(length), body + len(content)
    else:
        content = data[body:] if until_end else b""
        complete, behind = not until_end, body + len(content)
    return head._replace(content=content, complete=complete), behind


def _dechunked(data: bytes, at: int) -> tuple[bytes, bool, int]:
    """The content of chunks as far as it is there, whether their end is, and the offset behind."""
    content = b""
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].split(b";")[0], 16)
        if size == 0:
            end = data.find(b"\r\n", line + 2)
            return content, end >= 0, end + 2 if end >= 0 else len(data)
        content += data[line + 2 : line + 2 + size]
        at = line + 2 + size + 2
    return content, False, len(data)
