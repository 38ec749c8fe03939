"""Both ends of the wire without a library between: an upstream and a client of bare sockets.

What belongs here: sending given bytes, keeping received ones, and waiting for what a peer does. What
doesn't: what is promised about them (the tests).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from teeline.config.model import Config, ListenAddress, Timeouts, UpstreamConfig, UpstreamURL
from teeline.proxy import process
from teeline.proxy.server import ProxyServer
from teeline.proxy.sinks import Sink
from teeline.validators.events import Closed, Found, Opened, Output
from teeline.validators.model import Ended, Exchange

Result = TypeVar("Result")

_LIMIT = 128 * 1024
"""Bytes that an end reads ahead at most twice over; more than the longest head of a test."""
_PATIENCE = 30.0
"""Seconds after which a test that hangs fails."""


def run(test: Coroutine[Any, Any, Result]) -> Result:
    """Runs a test on an event loop of its own, the one that EVENT_LOOP names; one that hangs fails."""
    return process.run(asyncio.wait_for(test, _PATIENCE), process.event_loop(os.environ))


class Message(NamedTuple):
    """A message as it came: its head with the empty line, and its body with the framing in it."""

    head: bytes
    body: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.head.removesuffix(b"\r\n\r\n").split(b"\r\n")

    def value(self, name: bytes) -> bytes | None:
        """The value of the first field of this lower-case name."""
        for line in self.lines[1:]:
            key, _, value = line.partition(b":")
            if key.lower() == name:
                return value.strip()
        return None

    @property
    def status(self) -> int:
        return int(self.head[9:12])


class Wire:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        return await self.reader.readexactly(count)

    async def read_message(self, *, bodyless: bool = False, answer: bool = False) -> Message:
        """A whole message by its own framing; an answer without any ends with the connection."""
        message = Message(await self.read_head(), b"")
        if bodyless:
            return message
        if message.value(b"transfer-encoding") is not None:
            return message._replace(body=await self.read_chunks())
        length = message.value(b"content-length")
        if length is not None:
            return message._replace(body=await self.read(int(length)))
        return message._replace(body=await self.reader.read()) if answer else message

    async def read_chunks(self) -> bytes:
        body = b""
        while True:
            line = await self.reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            body += line
            if size == 0:
                break
            body += await self.read(size + 2)
        while line != b"\r\n":
            line = await self.reader.readuntil(b"\r\n")
            body += line
        return body

    async def ended(self) -> bytes:
        """Waits for the peer's end of the connection; gives what it sent before."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Ends the connection with a RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Wire], Awaitable[None]]


class RawUpstream:
    """Runs a script for each connection and keeps the connections in the order they came."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.port = 0
        self.wires: list[Wire] = []
        self.requests: list[Message] = []
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        wire = Wire(reader, writer)
        self.wires.append(wire)
        try:
            await self._script(wire)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The peer's end, or the test's; asyncio's callback for streams can't take a cancelled task.
            return
        finally:
            writer.close()


@asynccontextmanager
async def raw_upstream(script: Script) -> AsyncIterator[RawUpstream]:
    upstream = RawUpstream(script)
    server = await asyncio.start_server(upstream.accept, "127.0.0.1", 0, limit=_LIMIT, backlog=512)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
        await server.wait_closed()
        for task in upstream.tasks:
            task.cancel()
        await asyncio.gather(*upstream.tasks, return_exceptions=True)


@asynccontextmanager
async def answering(*answers: bytes, bodyless: bool = False) -> AsyncIterator[RawUpstream]:
    """An upstream that keeps each request and gives the answers one after the other, then again."""

    async def script(wire: Wire) -> None:
        while True:
            upstream.requests.append(await wire.read_message())
            answer = answers[(len(upstream.requests) - 1) % len(answers)]
            await wire.send(answer)
            if b"\r\nconnection: close\r\n" in answer.lower():
                return

    async with raw_upstream(script) as upstream:
        yield upstream


@asynccontextmanager
async def client(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LIMIT)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


class Proxy(NamedTuple):
    """A proxy under test: the object and its port."""

    server: ProxyServer
    port: int


@asynccontextmanager
async def proxy(
    url: str, *sinks: Sink, timeouts: Timeouts | None = None, **options: Any
) -> AsyncIterator[Proxy]:
    """teeline in front of an upstream. ``options`` go to the server."""
    upstream = UpstreamConfig(UpstreamURL.parse(url), "relay", timeouts=timeouts or Timeouts())
    config = Config(upstreams=(upstream,), listen=ListenAddress("127.0.0.1", 0))
    async with serving(config, *sinks, **options) as (server, ports):
        yield Proxy(server, ports[0])


@asynccontextmanager
async def serving(
    config: Config, *sinks: Sink, **options: Any
) -> AsyncIterator[tuple[ProxyServer, list[int]]]:
    server = ProxyServer(config, sinks, **options)
    listeners = await server.start()
    try:
        yield server, [listener.port for listener in listeners]
    finally:
        await server.stop(0)


class Recorder:
    """A sink that keeps what it is given. ``ended`` is the ends of exchanges in their order."""

    name = "recorder"

    def __init__(self) -> None:
        self.outputs: list[Output] = []

    @property
    def exchanges(self) -> list[Exchange]:
        return [output.exchange for output in self.outputs if isinstance(output, Closed)]

    @property
    def ended(self) -> list[Ended | None]:
        return [exchange.ended for exchange in self.exchanges]

    async def start(self) -> None: ...

    def opened(self, event: Opened) -> None:
        self.outputs.append(event)

    def found(self, event: Found) -> None:
        self.outputs.append(event)

    def closed(self, event: Closed) -> None:
        self.outputs.append(event)

    async def drain(self, deadline: float) -> None: ...

    async def close(self) -> None: ...


def code_of(answer: Message) -> str:
    """The code of an answer of teeline's own, from its body; its header says the same."""
    error = json.loads(answer.body)["error"]
    assert error["type"] == "teeline_error"
    assert answer.value(b"teeline-error") == error["code"].encode()
    return str(error["code"])


async def ask(port: int, request: bytes) -> Message:
    """The answer to one request on a connection of its own."""
    async with client(port) as wire:
        await wire.send(request)
        return await wire.read_message(answer=True)
