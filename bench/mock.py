"""The upstream of every target: answers at once, with bytes that were made before.

``python -m bench.mock [SIZE]`` listens on a loopback port, writes it, and ends when its input ends. ``SIZE``
is that of an answer's text, in characters. A second one plays the OTLP collector: whatever is not a
chat request gets ``{}``.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import time
from collections.abc import Sequence
from typing import cast

from bench.process import raise_descriptor_limit, serve_until_input_ends
from bench.traffic import EXACT, STREAM_HEAD, Shape, numbered, pieces, stamp, whole_answer

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.I)
_DOCUMENT = whole_answer()
_EXACT = f"\r\nUser-Agent: {EXACT}\r\n".encode()
_numbers = itertools.count(1)
_ELSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Mock(asyncio.Protocol):
    """One connection; requests follow each other, as every client of this package sends them."""

    def __init__(self, document: bytes = _DOCUMENT) -> None:
        self._document = document
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._needed = 0
        self._pieces: Sequence[bytes] = ()
        self._next = 0
        self._shape = Shape()
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < self._needed:
            return
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._received, 0, end + 2)
        self._needed = end + 4 + (int(length[1]) if length else 0)
        if len(self._received) >= self._needed:
            received, self._received, self._needed = bytes(self._received), bytearray(), 0
            self._answer(received)

    def _answer(self, request: bytes) -> None:
        if b"/chat/completions " not in request[:64]:
            self._transport.write(_ELSE)
            return
        self._number = 0 if _EXACT in request[:512] else next(_numbers)
        if (shape := Shape.asked(request)) is not None:
            self._shape, self._pieces, self._next = shape, pieces(shape), 0
            self._transport.write(numbered(STREAM_HEAD, self._number))
            self._send()
        else:
            self._transport.write(numbered(self._document, self._number))

    def _send(self) -> None:
        """The next event, as a write of its own."""
        if self._transport.is_closing():
            return
        piece = numbered(self._pieces[self._next], self._number)
        if self._shape.stamped:
            piece = stamp(piece, time.monotonic_ns())
        self._transport.write(piece)
        self._next += 1
        if self._next == len(self._pieces):
            return
        if self._shape.pace:
            self._loop.call_later(self._shape.pace, self._send)
        else:
            self._loop.call_soon(self._send)


async def main(size: int = 500) -> None:
    raise_descriptor_limit()
    document = whole_answer(size)
    server = await asyncio.get_running_loop().create_server(
        lambda: Mock(document), "127.0.0.1", 0, backlog=4096
    )
    await serve_until_input_ends(server.sockets[0].getsockname()[1])


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
