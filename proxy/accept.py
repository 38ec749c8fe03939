"""Listening sockets: taking connections in, and not more of them than there is room for.

What belongs here: binding, accepting, and pausing while there is no room or no descriptor. What
doesn't: what happens on a connection (connection.py). Connections that are not accepted wait in the
kernel's queue, as they would before any busy server; none is taken in to be closed at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

log = logging.getLogger("teeline.accept")

BACKLOG: Final = 1024
AT_ONCE: Final = 64
"""Connections that are taken in before others are served; one where processes share a socket, so that
none takes all of a burst."""
_PAUSE: Final = 0.25
"""Seconds until accepting is tried again where the system has no more to give."""
_RESERVE: Final = 128
"""Descriptors that are not for connections: files of logs, exporters, schema processes."""
_HANDSHAKE: Final = 30.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Room:
    """How many connections may be open at once, over all listening sockets."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._waiting: list[Callable[[], None]] = []
        self._empty: list[asyncio.Future[None]] = []

    def take(self) -> bool:
        """Room for one more; False where there is none."""
        if self.taken >= self.limit:
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        """A connection has ended."""
        self.taken -= 1
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()
        if not self.taken:
            for future in self._empty:
                if not future.done():
                    future.set_result(None)
            self._empty.clear()

    def when_free(self, resume: Callable[[], None]) -> None:
        """Calls ``resume`` once there is room again."""
        self._waiting.append(resume)

    async def emptied(self, deadline: float) -> bool:
        """Waits until no connection is open; False where that took longer than so many seconds."""
        if not self.taken:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._empty.append(future)
        return bool((await asyncio.wait((future,), timeout=max(0.0, deadline)))[0])


def descriptor_room() -> int:
    """Connections of clients that fit into this process's descriptors, each with its upstream's."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    return max(1, (soft - min(_RESERVE, soft // 2)) // 2)


def raise_descriptor_limit() -> None:
    """Takes as many descriptors as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def bind(host: str, port: int) -> list[socket.socket]:
    """The sockets of an address, bound and not listening yet. Raises OSError, nothing left open."""
    infos = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # A free port is chosen once for all families of a name.
            chosen = sockets[0].getsockname()[1] if port == 0 and len(sockets) > 1 else port
            sock.bind((address[0], chosen, *address[2:]))
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


class Accepted(asyncio.BaseProtocol):
    """What is made for a connection; it gives the room back when the connection ends."""

    __slots__ = ("accepted",)

    accepted: bool
    """Whether it has been given its transport."""


class Acceptor:
    """Accepts connections of one address and makes a protocol for each."""

    def __init__(
        self,
        sockets: list[socket.socket],
        make: Callable[[], Accepted],
        room: Room,
        tls: ssl.SSLContext | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        self._at_once = at_once
        self._sockets = sockets
        self._make = make
        self._room = room
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._listening = False
        self._said = False

    def start(self) -> None:
        """Begins to listen. Raises OSError."""
        for sock in self._sockets:
            sock.listen(BACKLOG)
        self._listening = True
        self._resume()

    def close(self) -> None:
        """Accepts no more; connections that were accepted are not touched."""
        self._pause()
        self._listening = False
        if self._retry is not None:
            self._retry.cancel()
        for task in self._tasks:
            task.cancel()
        for sock in self._sockets:
            sock.close()

    def _resume(self) -> None:
        self._retry = None
        if self._listening:
            for sock in self._sockets:
                self._loop.add_reader(sock, self._accept, sock)

    def _pause(self) -> None:
        if self._listening:
            for sock in self._sockets:
                self._loop.remove_reader(sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(self._at_once):
            if not self._room.take():
                self._say(f"{self._room.limit} connections are open; more wait until one closes")
                self._pause()
                self._room.when_free(self._resume)
                return
            try:
                accepted, _ = sock.accept()
            except BlockingIOError:
                self._room.give()
                return
            except OSError as error:
                self._not_accepted(error)
                return
            accepted.setblocking(False)
            self._run(self._serve(accepted))

    def _not_accepted(self, error: OSError) -> None:
        self._pause()
        if error.errno in _EXHAUSTED:
            self._say("the system has no descriptors left; new connections wait")
            self._retry = self._loop.call_later(_PAUSE, self._resume)
        else:
            self._resume()  # nobody is there any more, or the connection broke before it was taken
        self._room.give()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        """Hands a connection to its protocol, which gives the room back when it ends."""
        protocol = self._make()
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE,
            )
        except BaseException as error:
            if not protocol.accepted:
                self._room.give()
                accepted.close()
            if not isinstance(error, OSError | asyncio.CancelledError):
                raise
            log.info("a connection was not set up: %s", type(error).__name__)

    def _say(self, words: str) -> None:
        """Once: under a load that is too high every connection would bring the line anew."""
        if not self._said:
            self._said = True
            log.warning("%s", words)
