"""Where a body ends in the bytes that carry it, read strictly (RFC 9112 6 and 7).

What belongs here: one scanner a way of framing. It says how many of the bytes given belong to the
body, and gives the content among them for the copy. What doesn't: which framing a message has
(head.py), and what is done with bytes behind a body (transfer.py). Bytes are never changed here:
what is forwarded is what came, chunk sizes, extensions and trailers included.
"""

from __future__ import annotations

import re
from typing import Final

# Bounded: nothing is to be said in thousands of bytes here, and nobody reads them.
_EXTENSION: Final = rb"(?:;[^\x00-\x08\x0a-\x1f\x7f]{0,4096})?"
# A size of sixteen digits could overflow the counter of another implementation.
_REQUEST_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})" + _EXTENSION + rb"\r\n")
# Old servers pad sizes with blanks; every client skips them, so they make nothing ambiguous.
_ANSWER_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]{0,16}" + _EXTENSION + rb"\r\n")
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n")
_BEGUN_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{0,15}[ \t]{0,16}" + _EXTENSION + rb"\r?")
_BEGUN_TRAILER: Final = re.compile(
    rb"\r|[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?::[^\x00-\x08\x0a-\x1f\x7f]*\r?)?"
)

_SIZE_LINE: Final = 8
"""Bytes of a size line that is remembered, at most."""
_MAX_SIZES: Final = 4096
_sizes: dict[bytes, int] = {}
"""Size lines that hold nothing but digits, and what they say, once one was read. Bounded."""

MAX_TRAILERS: Final = 64 * 1024
"""Bytes of all trailers of a body."""


class Body:
    """A body as it comes: ``take`` pieces until ``done``, or until one shows that it is ``broken``.

    ``taken``: how many bytes of the last piece belong to the body; where it breaks, how many still made
    sense. Nothing of a piece is kept, for a stream may stay open for long. This class is a body that ends
    with its connection.
    """

    __slots__ = ("broken", "done", "taken")

    def __init__(self) -> None:
        self.done = False
        self.broken = False
        self.taken = 0

    def take(self, data: bytes) -> bytes:
        """The content in a piece."""
        self.taken = len(data)
        return data


class LengthBody(Body):
    """A body of so many bytes."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self.broken = False
        self.taken = 0
        self._left = length
        self.done = length == 0

    def take(self, data: bytes) -> bytes:
        size, left = len(data), self._left
        if size < left:
            self._left = left - size
            self.taken = size
            return data
        self._left = 0
        self.done = True
        self.taken = left
        return data if size == left else data[:left]


class ChunkedBody(Body):
    """A body in chunked coding, its trailers included."""

    __slots__ = ("_between", "_end", "_left", "_line", "_size", "_trailers")

    def __init__(self, *, answer: bool = False) -> None:
        super().__init__()
        self._size = _ANSWER_SIZE if answer else _REQUEST_SIZE
        self._left = 0  # content of the open chunk that is still to come
        self._end = 0  # bytes of the line end behind that content, still to come
        self._line = b""  # the beginning of a line whose end has not come
        self._trailers = -1  # bytes of trailers so far; -1 before the last chunk
        self._between = True  # whether the next byte is the first of a chunk

    def take(self, data: bytes) -> bytes:
        if self._between:  # one chunk in one piece is what streams are made of
            begin = data.find(b"\r\n", 0, _SIZE_LINE) + 2
            size = _sizes.get(data[:begin])
            if size is not None and begin + size + 2 == len(data) and data.endswith(b"\r\n"):
                self.taken = len(data)
                return data[begin:-2]
        pieces: list[bytes] = []
        self.taken = self._read(data, pieces)
        open_chunk = self._left or self._end or self._line
        self._between = not open_chunk and self._trailers < 0 and not self.broken
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read(self, data: bytes, pieces: list[bytes]) -> int:
        """Takes what belongs to the body, and puts the content in it to ``pieces``."""
        at, size = 0, len(data)
        while at < size and not self.done and not self.broken:
            if self._left or self._end:
                at = self._content(data, at, pieces)
                continue
            if self._trailers < 0 and not self._line:
                at = _whole_chunks(data, at, pieces)
                if at == size:
                    break
            behind_last = self._trailers >= 0
            match = None if behind_last or self._line else self._size.match(data, at)
            if match is None:
                at = self._slow_line(data, at)
            else:
                at = match.end()
                self._open(int(match[1], 16))
                _remember(match[0], self._left)
        return at

    def _open(self, size: int) -> None:
        self._left = size
        self._end = 2 if size else 0
        if not size:
            self._trailers = 0

    def _content(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Content of the open chunk, and the line end behind it."""
        if self._left:
            piece = data[at : at + self._left]
            pieces.append(piece)
            self._left -= len(piece)
            at += len(piece)
        while self._end and at < len(data):
            if data[at] != b"\n\r"[self._end - 1]:
                self.broken = True
                return at
            self._end -= 1
            at += 1
        return at

    def _slow_line(self, data: bytes, at: int) -> int:
        """A line of which only a part may be here: a size or a trailer."""
        cut = data.find(b"\n", at) + 1
        line = self._line + (data[at:cut] if cut else data[at:])
        if not self._fits(line, whole=cut > 0):
            self.broken = True
            return at
        if not cut:
            self._line = line
            return len(data)
        self._line = b""
        if self._trailers < 0:
            match = self._size.match(line)
            assert match is not None
            self._open(int(match[1], 16))
        elif line == b"\r\n":
            self.done = True
        else:
            self._trailers += len(line)
        return cut

    def _fits(self, line: bytes, *, whole: bool) -> bool:
        """Whether a line is what stands here, or may become that."""
        if self._trailers < 0:
            pattern = self._size if whole else _BEGUN_SIZE
            return pattern.fullmatch(line) is not None
        if line == b"\r\n":
            return True
        pattern = _TRAILER if whole else _BEGUN_TRAILER
        return self._trailers + len(line) <= MAX_TRAILERS and pattern.fullmatch(line) is not None


def _whole_chunks(data: bytes, at: int, pieces: list[bytes]) -> int:
    """Takes chunks that came whole, the usual case, as far as their sizes have been seen before.

    Gives where the first one begins that is none of these, the last chunk of a body at the latest.
    """
    known = _sizes
    while True:
        begin = data.find(b"\r\n", at, at + _SIZE_LINE) + 2
        size = known.get(data[at:begin])
        if size is None:
            return at
        end = begin + size
        if data[end : end + 2] != b"\r\n":
            return at
        pieces.append(data[begin:end])
        at = end + 2


def _remember(line: bytes, size: int) -> None:
    """Keeps what a size line says that a whole pattern has taken."""
    if size and line[:-2].isalnum() and len(line) <= _SIZE_LINE and len(_sizes) < _MAX_SIZES:
        _sizes[line] = size
