"""WebSocket frames by hand, and a connection whose responses are inspected.

What belongs here: masking, lengths, fragments, and feeding both sides. What doesn't: what is found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from teeline.validators.events import Closed, Found, Opened, Output, RequestHead, ResponseHead
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.wsresponses import Message, SocketResponses

Cut = Callable[[bytes], Iterable[bytes]]
MASK = b"\x11\x22\x33\x44"
HEAD = RequestHead("GET", "/v1/responses", (("Host", "h"), ("Upgrade", "websocket")))
ANSWER = ResponseHead(101, (("Upgrade", "websocket"),))
ASKED: Mapping[str, Any] = {"type": "response.create", "model": "gpt-4o-mini", "input": "Hi"}
NOW = 1_790_000_000.0


def frame(data: bytes, *, opcode: int = 1, final: bool = True, masked: bool = False) -> bytes:
    size = len(data)
    first, flag = opcode | (0x80 if final else 0), 0x80 if masked else 0
    if size < 126:
        head = bytes((first, flag | size))
    elif size < 65536:
        head = bytes((first, flag | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, flag | 127)) + size.to_bytes(8, "big")
    if not masked:
        return head + data
    return head + MASK + bytes(byte ^ MASK[n % 4] for n, byte in enumerate(data))


def told(value: Any, **more: Any) -> bytes:
    """A server's frame; bytes stand for themselves."""
    return frame(value if isinstance(value, bytes) else json.dumps(value).encode(), **more)


def asked(value: Any = ASKED, **more: Any) -> bytes:
    """A client's frame."""
    return told(value, masked=True, **more)


def at_once(data: bytes) -> Iterable[bytes]:
    return (data,)


def single_bytes(data: bytes) -> Iterable[bytes]:
    return (data[n : n + 1] for n in range(len(data)))


class Socket:
    """One connection under inspection: what was found, and where."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, cut: Cut = at_once) -> None:
        self.connection = Exchange(id="connection")
        self.made: list[Exchange] = []
        self.outputs: list[Output] = []
        self.kept: list[tuple[str, Message]] = []
        self.inspector = SocketResponses(
            self.connection, self._new, HEAD, ANSWER, limits, keep=self._keep
        )
        self._cut = cut
        self._at = NOW

    def _new(self) -> Exchange:
        self.made.append(Exchange(id=f"response {len(self.made) + 1}"))
        return self.made[-1]

    def _keep(self, exchange: Exchange, message: Message) -> None:
        self.kept.append((exchange.id, message))

    def client(self, *frames: bytes) -> None:
        self._at += 1
        for piece in self._cut(b"".join(frames)):
            self.outputs += self.inspector.client_bytes(piece, self._at)

    def server(self, *frames: bytes) -> None:
        self._at += 1
        for piece in self._cut(b"".join(frames)):
            self.outputs += self.inspector.server_bytes(piece, self._at)

    def end(self, ended: Ended = Ended.COMPLETE) -> None:
        self.outputs += self.inspector.end(ended, self._at + 1)

    @property
    def opened(self) -> list[str]:
        return [output.exchange.id for output in self.outputs if isinstance(output, Opened)]

    @property
    def closed(self) -> list[str]:
        return [output.exchange.id for output in self.outputs if isinstance(output, Closed)]

    @property
    def found(self) -> list[tuple[str, str]]:
        """Which exchange, which rule: in the order in which it came to light."""
        return [
            (output.exchange.id, output.violation.rule.id)
            for output in self.outputs
            if isinstance(output, Found)
        ]
