"""The upstream of every target: answers at once, with bytes that were made before.

``python -m bench.mock`` listens on a loopback port, writes it, and ends when its input ends. A second
one plays the OTLP collector: whatever is not a chat request gets ``{}``.
"""

from __future__ import annotations

import asyncio
import re
from typing import cast

from bench.process import serve_until_input_ends
from bench.traffic import PACE, PACED, STREAM_HEAD, chunked, events, whole_answer

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.I)
_DOCUMENT = whole_answer()
_PIECES = [chunked(event) for event in events()]
_PIECES[-1] += chunked(b"")
_ELSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Mock(asyncio.Protocol):
    """One connection; requests follow each other, as every client of this package sends them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._next = 0
        self._pace = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        if not separator or len(body) < (int(length[1]) if length else 0):
            return
        self._received = b""
        if not head.startswith(b"POST /v1/chat/completions "):
            self._transport.write(_ELSE)
        elif b'"stream":true' in body:
            self._begin(PACE if PACED in body else 0.0)
        else:
            self._transport.write(_DOCUMENT)

    def _begin(self, pace: float) -> None:
        self._next, self._pace = 0, pace
        self._transport.write(STREAM_HEAD)
        self._send()

    def _send(self) -> None:
        """The next event, as a write of its own."""
        if self._transport.is_closing():
            return
        self._transport.write(_PIECES[self._next])
        self._next += 1
        if self._next == len(_PIECES):
            return
        if self._pace:
            self._loop.call_later(self._pace, self._send)
        else:
            self._loop.call_soon(self._send)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Mock, "127.0.0.1", 0, backlog=1024)
    await serve_until_input_ends(server.sockets[0].getsockname()[1])


if __name__ == "__main__":
    asyncio.run(main())
