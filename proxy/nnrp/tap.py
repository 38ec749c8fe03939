"""A tap between NNRP clients and a server: every byte goes on at once, a copy is inspected.

What belongs here: accepting, forwarding, half closes and resets, starting and stopping. What doesn't: what
the bytes mean (validators/nnrp), observers (watch.py), addresses (address.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from typing import Final

from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.watch import Watch
from teeline.proxy.sockets import keep_alive, reset_on_close
from teeline.validators.model import Ended, Side
from teeline.validators.nnrp.inspector import End

log = logging.getLogger("teeline.nnrp")

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

    def _accepted(self) -> asyncio.BaseProtocol:
        """A client is there; its first bytes wait until the server is, too."""
        return _Leg(Side.REQUEST, self._begin)

    def _begin(self, client: _Leg) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._connection(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, client: _Leg) -> None:
        peer = client.transport.get_extra_info("peername")
        watch = self._watch(str(peer[0]) if isinstance(peer, tuple) else "unix")
        self._watches.add(watch)
        server = _Leg(Side.RESPONSE)
        client.join(server, watch)
        ended = Ended.SHUTDOWN
        try:
            ended = await self._forwarded(client, server)
        except asyncio.CancelledError:
            client.abort()
            server.abort()
        finally:
            self._watches.discard(watch)
            await watch.close(ended)

    async def _forwarded(self, client: _Leg, server: _Leg) -> Ended:
        """Connects the two and waits until both are gone."""
        try:
            connecting = self._upstream.connect(lambda: server, self._connect_tls)
            await asyncio.wait_for(connecting, _CONNECT)
        except (OSError, TimeoutError) as error:
            log.warning("%s: no connection: %s", self._upstream, type(error).__name__)
            client.abort()
            return Ended.REFUSED
        client.transport.resume_reading()
        orderly = await asyncio.gather(client.gone, server.gone)
        return Ended.COMPLETE if all(orderly) else Ended.UPSTREAM_ABORTED


class _Leg(asyncio.Protocol):
    """The connection to one of the two: what it sends goes to the other one at once, then is watched.

    ``begin`` is called once it is there, reading paused. ``gone`` tells whether it ended as it should.
    """

    transport: asyncio.Transport
    _other: _Leg
    _watch: Watch

    def __init__(self, side: Side, begin: Callable[[_Leg], None] | None = None) -> None:
        self.gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._side, self._begin = side, begin
        self._connected = False
        self._over = False  # it sends nothing more

    def join(self, other: _Leg, watch: Watch) -> None:
        """The two belong together from now on."""
        self._other, other._other = other, self
        self._watch, other._watch = watch, watch

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self._connected = transport, True
        keep_alive(transport)
        if self._begin is not None:
            transport.pause_reading()
            self._begin(self)

    def data_received(self, data: bytes) -> None:
        target = self._other.transport
        if not target.is_closing():
            target.write(data)
        self._watch.feed(self._side, data)

    def eof_received(self) -> bool:
        """Half a close is carried on; with the second half both connections end."""
        self._end(End.ORDERLY)
        other = self._other
        if other._over or not other.transport.can_write_eof():
            # TLS has no half close: its end is that of the connection.
            other.transport.close()
        elif not other.transport.is_closing():
            other.transport.write_eof()
        return self.transport.can_write_eof() and not other._over

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self, "_other"):
            self._end(End.ORDERLY if error is None else End.LOST)
            other = self._other
            if other._connected and error is not None:
                other.abort()
            elif other._connected:
                other.transport.close()
        if not self.gone.done():
            self.gone.set_result(error is None)

    def pause_writing(self) -> None:
        self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self._other.transport.is_closing():
            self._other.transport.resume_reading()

    def _end(self, end: End) -> None:
        if not self._over:
            self._over = True
            self._watch.finish(self._side, end)

    def abort(self) -> None:
        """Ends the connection as one that broke."""
        if self._connected and not self.transport.is_closing():
            with contextlib.suppress(OSError):
                reset_on_close(self.transport)
            self.transport.abort()
