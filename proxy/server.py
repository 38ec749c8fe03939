"""The proxy as one object: listening sockets, forwarders, observers and sinks, from start to stop.

What belongs here: what is put together, the order of starting, and the order of stopping. What
doesn't: configuration from files and flags (config), the command line (cli/serve.py), forwarding
(forward.py).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from teeline.config.model import Config, ListenAddress
from teeline.config.profiles import profiles
from teeline.proxy.clock import Clock, SystemClock
from teeline.proxy.connection import ClientConnection, ClientServer
from teeline.proxy.forward import Forwarder
from teeline.proxy.head import upstream_target
from teeline.proxy.memory import Inspectors
from teeline.proxy.sinks import Fanout, Sink, SinkError
from teeline.proxy.tee import Observers, SchemaChecker
from teeline.proxy.upstream import Upstream
from teeline.validators.model import Ended
from teeline.validators.policy import Policy
from teeline.validators.profiles import Profiles, Setting
from teeline.validators.rules import register

log = logging.getLogger("teeline.server")

_BACKLOG = 1024
_SINK_SECONDS = 5.0
"""What sinks get to flush in at least, however long the streams took."""


class ServeError(Exception):
    """The proxy can't start; the text is one line that says what to change."""


class Route(NamedTuple):
    """What a client's base URL is, and where it leads."""

    upstream: str
    base_url: str
    target: str


class Listener(NamedTuple):
    """One listening socket. ``base_url`` is the first route's."""

    upstreams: tuple[str, ...]
    host: str
    port: int
    base_url: str
    routes: tuple[Route, ...]


def vendor_settings(config: Config) -> dict[str, Setting]:
    """How each upstream's vendor profile is chosen: by name, or by its answers' marks and its host."""
    return {
        upstream.name: Setting(upstream.profile, upstream.url.host) for upstream in config.upstreams
    }


class ProxyServer:
    """A transparent proxy for the upstreams of one configuration.

    ``checker`` runs schema checks; without one they count as not checked. Starting and closing it
    is the caller's. An object serves once: start, then stop.
    """

    def __init__(
        self,
        config: Config,
        sinks: Sequence[Sink],
        checker: SchemaChecker | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._sinks = Fanout(sinks)
        rules = config.rules
        self._observers = Observers(
            Inspectors(),
            Policy(
                register(),
                rules.select,
                rules.ignore,
                rules.severity,
                Profiles(profiles().values(), vendor_settings(config)),
            ),
            self._sinks,
            clock or SystemClock(),
            checker=checker,
            limits=config.limits,
            schema_timeout=config.schema.timeout,
        )
        self._forwarders: list[Forwarder] = []
        self._clients: list[ClientServer] = []
        self._sockets: list[asyncio.Server] = []
        self._stopped: asyncio.Future[None] | None = None

    @property
    def requests(self) -> int:
        """How many requests have come."""
        return sum(forwarder.requests for forwarder in self._forwarders)

    async def start(self) -> list[Listener]:
        """Binds, starts the sinks, then accepts. Raises ServeError, with nothing left open."""
        try:
            listeners = [
                await self._bind(address, [Upstream(config) for config in upstreams])
                for address, upstreams in self._config.by_address()
            ]
            await self._sinks.start()
        except SinkError as error:
            await self._unbind()
            raise ServeError(str(error)) from None
        except BaseException:
            await self._unbind()
            raise
        await self._accept()
        return listeners

    async def _accept(self) -> None:
        """Begins to listen, once everything that a connection needs is there."""
        try:
            for server in self._sockets:
                await server.start_serving()
        except OSError as error:
            await self._unbind()
            await self._sinks.close()
            raise ServeError(f"can't listen: {_words(error)}") from None

    async def stop(self, deadline: float) -> None:
        """Ends everything: no new connections, idle ones closed, open exchanges by ``deadline``
        seconds.

        What is still open then is aborted (ended: shutdown). A second call waits for the first; with
        a deadline of 0 it has it end at once.
        """
        if self._stopped is not None:
            if deadline <= 0:
                self._cut_off()
            await asyncio.shield(self._stopped)
            return
        self._stopped = asyncio.get_running_loop().create_future()
        try:
            await self._stop(deadline)
        finally:
            self._stopped.set_result(None)

    async def _stop(self, deadline: float) -> None:
        end = asyncio.get_running_loop().time() + deadline
        for forwarder in self._forwarders:
            forwarder.stopping = True
        for server in self._sockets:
            server.close()
        for connection in self.connections():
            if connection.idle:
                connection.force_close()
        await self._end_transfers(end)
        await self._end_connections(end)
        await self._unbind()
        await self._observers.settle(self._config.schema.timeout + 1)
        await self._sinks.drain(_SINK_SECONDS)
        await self._sinks.close()

    async def _end_transfers(self, end: float) -> None:
        transfers = [t for forwarder in self._forwarders for t in forwarder.active]
        late = await _wait({t.task for t in transfers}, end)
        for transfer in transfers:
            if transfer.task in late:
                transfer.abort(Ended.SHUTDOWN)
        if late:
            log.warning("%d open exchanges were cut off at shutdown", len(late))
            await asyncio.wait(late)

    async def _end_connections(self, end: float) -> None:
        """Lets what was written go out, as long as there is time."""
        connections = self.connections()
        await _wait({connection.gone for connection in connections}, end)
        for connection in connections:
            connection.abort()

    def _cut_off(self) -> None:
        for forwarder in self._forwarders:
            for transfer in forwarder.active:
                transfer.abort(Ended.SHUTDOWN)
        for connection in self.connections():
            connection.abort()

    def connections(self) -> list[ClientConnection]:
        """The connections of clients that are open."""
        return [connection for clients in self._clients for connection in clients.open]

    async def _unbind(self) -> None:
        for server in self._sockets:
            server.close()
            await server.wait_closed()
        for clients in self._clients:
            await clients.shutdown(_SINK_SECONDS)

    async def _bind(self, address: ListenAddress, upstreams: Sequence[Upstream]) -> Listener:
        forwarder = Forwarder(upstreams, self._observers)
        clients = ClientServer(forwarder.handle)
        try:
            server = await asyncio.get_running_loop().create_server(
                clients, address.host, address.port, backlog=_BACKLOG, start_serving=False
            )
        except OSError as error:
            raise ServeError(f"can't listen on {address}: {_words(error)}") from None
        self._forwarders.append(forwarder)
        self._clients.append(clients)
        self._sockets.append(server)
        return _listener(address.host, server.sockets[0].getsockname()[1], upstreams)


async def _wait(what: set[Any], end: float) -> set[Any]:
    """Waits for all until a time of the loop's clock; gives those that are still pending then."""
    if not what:
        return what
    left = max(0.0, end - asyncio.get_running_loop().time())
    return (await asyncio.wait(what, timeout=left))[1]


def _listener(host: str, port: int, upstreams: Sequence[Upstream]) -> Listener:
    # A client can't connect to "all addresses"; on this machine it connects to loopback.
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    origin = f"http://{ListenAddress(reachable, port)}"
    routes = []
    for upstream in upstreams:
        path = upstream.prefix.decode() + "/v1"
        target = upstream_target(path.encode(), upstream.prefix, upstream.base).decode()
        url = upstream.url
        routes.append(
            Route(upstream.name, origin + path, f"{url.scheme}://{url.authority}{target}")
        )
    names = tuple(upstream.name for upstream in upstreams)
    return Listener(names, host, port, routes[0].base_url, tuple(routes))


def _words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; stop what listens there, or choose another with --listen"
    if error.errno is None or error.errno < 0:
        return "the host name can't be resolved"
    return os.strerror(error.errno)
