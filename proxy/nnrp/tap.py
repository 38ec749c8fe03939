"""A tap between NNRP clients and a server: every byte goes on at once, a copy is inspected.

What belongs here: accepting, forwarding, half closes and resets, starting and stopping. What doesn't: what
the bytes mean (validators/nnrp), observers (watch.py), addresses (address.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import Callable
from typing import Final

from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.watch import Watch
from teeline.proxy.sockets import keep_alive, reset_on_close
from teeline.validators.model import Ended, Side
from teeline.validators.nnrp.inspector import End

log = logging.getLogger("teeline.nnrp")

_READ: Final = 256 * 1024
_TICK: Final = 1.0
_CONNECT: Final = 10.0


class TapError(Exception):
    """The tap can't start; the text is one line that says what to change."""


class NnrpTap:
    """Forwards connections from one address to another. An object serves once: start, then stop.

    ``watch`` makes the observer of a connection, from the client's address.
    """

    def __init__(
        self,
        listen: Address,
        upstream: Address,
        watch: Callable[[str], Watch],
        *,
        accept_tls: ssl.SSLContext | None = None,
        connect_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listen, self._upstream = listen, upstream
        self._watch = watch
        self._accept_tls, self._connect_tls = accept_tls, connect_tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: set[Watch] = set()
        self._ticker: asyncio.Task[None] | None = None
        self.connections = 0

    async def start(self) -> Address:
        """Begins to accept; where. Raises TapError."""
        try:
            self._server = await self._listen.listen(self._accepted, self._accept_tls)
        except OSError as error:
            raise TapError(f"can't listen on {self._listen}: {error.strerror}") from None
        self._ticker = asyncio.create_task(self._tick())
        if self._listen.path:
            return self._listen
        port: int = self._server.sockets[0].getsockname()[1]
        return Address(self._listen.host, port, tls=self._accept_tls is not None)

    async def stop(self) -> None:
        """Accepts no more, and ends what is open."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ticker is not None:
            self._ticker.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            for watch in list(self._watches):
                watch.tick()

    async def _accepted(self, reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None  # asyncio calls this in a task of its own
        self._tasks.add(task)
        self.connections += 1
        peer = writer.get_extra_info("peername")
        watch = self._watch(str(peer[0]) if isinstance(peer, tuple) else "unix")
        self._watches.add(watch)
        ended = Ended.COMPLETE
        try:
            ended = await self._connection(reader, writer, watch)
        except asyncio.CancelledError:
            ended = Ended.SHUTDOWN
        finally:
            _abort(writer) if ended is not Ended.COMPLETE else writer.close()
            self._watches.discard(watch)
            await watch.close(ended)
            self._tasks.discard(task)

    async def _connection(self, reader: Reader, writer: Writer, watch: Watch) -> Ended:
        try:
            connecting = self._upstream.connect(self._connect_tls)
            upstream = await asyncio.wait_for(connecting, _CONNECT)
        except (OSError, TimeoutError) as error:
            log.warning("%s: no connection: %s", self._upstream, type(error).__name__)
            return Ended.REFUSED
        for side in (writer, upstream[1]):
            keep_alive(side.transport)
        ways = (
            _Way(Side.REQUEST, reader, upstream[1], watch),
            _Way(Side.RESPONSE, upstream[0], writer, watch),
        )
        try:
            orderly = await asyncio.gather(*(way.run() for way in ways))
        except BaseException:
            _abort(upstream[1])
            raise
        upstream[1].close()
        return Ended.COMPLETE if all(orderly) else Ended.UPSTREAM_ABORTED


class _Way:
    """One direction of a connection."""

    def __init__(self, side: Side, source: Reader, target: Writer, watch: Watch) -> None:
        self._side, self._source, self._target, self._watch = side, source, target, watch

    async def run(self) -> bool:
        """Forwards until the source ends; whether it ended in an orderly way."""
        source, target, watch, side = self._source, self._target, self._watch, self._side
        try:
            while data := await source.read(_READ):
                target.write(data)
                watch.feed(side, data)
                await target.drain()
        except OSError:
            watch.finish(side, End.LOST)
            _abort(target)
            return False
        watch.finish(side, End.ORDERLY)
        with contextlib.suppress(OSError):
            # TLS has no half close: its end is that of the connection.
            target.write_eof() if target.can_write_eof() else target.close()
        return True


def _abort(writer: Writer) -> None:
    """Ends a connection as one that broke."""
    if not writer.transport.is_closing():
        with contextlib.suppress(OSError):
            reset_on_close(writer.transport)
        writer.transport.abort()
