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
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from teeline.config.model import Config, ListenAddress, UpstreamConfig
from teeline.config.profiles import profiles
from teeline.proxy.accept import AT_ONCE, Acceptor, Room, bind, descriptor_room
from teeline.proxy.capture import Capture
from teeline.proxy.clock import Clock, SystemClock
from teeline.proxy.connection import ClientConnection, Clients
from teeline.proxy.fingerprint import Fingerprint
from teeline.proxy.forward import Forwarder
from teeline.proxy.handover import Handover
from teeline.proxy.head import upstream_target
from teeline.proxy.inspection import AsideInspector, SchemaChecker
from teeline.proxy.memory import Inspectors
from teeline.proxy.nnrp.capabilityfile import DocumentError, declared_in
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout, Sink, SinkError
from teeline.proxy.tls import TLSFilesError, towards_clients
from teeline.proxy.upstream import Upstream
from teeline.validators.policy import Policy
from teeline.validators.profiles import Profiles, Setting
from teeline.validators.rules import register

log = logging.getLogger("teeline.server")

_SINK_SECONDS = 5.0
"""What sinks get to flush in at least, however long the streams took."""


class ServeError(Exception):
    """The proxy can't start; the text is one line that says what to change."""


class Route(NamedTuple):
    """What a client's base URL is, and where it leads."""

    upstream: str
    base_url: str
    target: str


Bound = Mapping[ListenAddress, list[socket.socket]]
"""Sockets that are bound, by the address that the configuration names."""


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

    ``checker`` runs schema checks; without one they count as not checked. ``aside`` inspects large
    documents; without it that happens in place. Starting and closing both is the caller's.
    ``capture`` and ``fingerprint`` are those of the audit sink; ``handover`` is that of ``Observers``.
    An object serves once: start, then
    stop.
    """

    def __init__(
        self,
        config: Config,
        sinks: Sequence[Sink],
        checker: SchemaChecker | None = None,
        clock: Clock | None = None,
        aside: AsideInspector | None = None,
        capture: Capture | None = None,
        fingerprint: Fingerprint | None = None,
        handover: Handover | None = None,
    ) -> None:
        self._config = config
        self._aside = aside
        self._sinks = Fanout(sinks)
        rules = config.rules
        self._inspectors = inspectors = Inspectors(aside=aside is not None)
        self._observers = Observers(
            inspectors,
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
            aside=aside,
            limits=config.limits,
            schema_timeout=config.schema.timeout,
            listen=inspectors.socket,
            capture=capture,
            fingerprint=fingerprint,
            handover=handover,
        )
        self._forwarders: list[Forwarder] = []
        self._clients: list[Clients] = []
        self._acceptors: list[Acceptor] = []
        self._bound: Bound = {}
        self._tls: ssl.SSLContext | None = None
        self._room = Room(config.clients.connections or descriptor_room())
        self._stopped: asyncio.Future[None] | None = None

    @property
    def requests(self) -> int:
        """How many requests have come."""
        return sum(forwarder.requests for forwarder in self._forwarders)

    @property
    def sinks(self) -> Fanout:
        """Those that learn of exchanges, and which of them have failed."""
        return self._sinks

    async def start(self, inherited: Bound | None = None) -> list[Listener]:
        """Binds, starts the sinks, then accepts. Raises ServeError, with nothing left open.

        ``inherited`` sockets are bound already, and other processes accept from them, too.
        """
        self._bound = await bind_all(self._config) if inherited is None else inherited
        try:
            if self._config.listen_tls is not None:
                self._tls = towards_clients(self._config.listen_tls)
            self._inspectors.capabilities = declared_in(self._config.nnrp.capabilities)
            for address, upstreams in self._config.by_address():
                at_once = AT_ONCE if inherited is None else 1
                self._serve(address, [Upstream(config) for config in upstreams], at_once)
            await self._sinks.start()
        except (SinkError, TLSFilesError, DocumentError) as error:
            self._unbind()
            raise ServeError(str(error)) from None
        except BaseException:
            self._unbind()
            raise
        await self._accept()
        return listeners_of(self._config, self._bound)

    async def _accept(self) -> None:
        """Begins to listen, once everything that a connection needs is there."""
        try:
            for acceptor in self._acceptors:
                acceptor.start()
        except OSError as error:
            self._unbind()
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
        self._unbind()
        for forwarder, clients in zip(self._forwarders, self._clients, strict=True):
            forwarder.stopping = clients.stopping = True
        for connection in self.connections():
            connection.stop()
        if not await self._room.emptied(deadline):
            if late := sum(len(forwarder.active) for forwarder in self._forwarders):
                log.warning("%d open exchanges were cut off at shutdown", late)
            self._cut_off()
            await self._room.emptied(_SINK_SECONDS)
        inspection = 0.0 if self._aside is None else min(self._aside.longest, _SINK_SECONDS)
        await self._observers.settle(self._config.schema.timeout + 1 + inspection)
        await self._sinks.drain(_SINK_SECONDS)
        await self._sinks.close()

    def _cut_off(self) -> None:
        for forwarder in self._forwarders:
            for exchange in list(forwarder.active):
                exchange.cut_off()
        for connection in self.connections():
            connection.abort()

    def connections(self) -> list[ClientConnection]:
        """The connections of clients that are open."""
        return [connection for clients in self._clients for connection in clients.open]

    def _unbind(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        close_all(self._bound)

    def _serve(self, address: ListenAddress, upstreams: Sequence[Upstream], at_once: int) -> None:
        limits = self._config.clients
        forwarder = Forwarder(
            upstreams, self._observers, open_limit=limits.exchanges, head_limit=limits.head
        )
        clients = Clients(
            forwarder.begin,
            on_closed=self._room.give,
            head_limit=limits.head,
            head_timeout=limits.head_timeout,
        )
        sockets = self._bound[address]
        self._forwarders.append(forwarder)
        self._clients.append(clients)
        self._acceptors.append(Acceptor(sockets, clients, self._room, self._tls, at_once))


async def bind_all(config: Config) -> Bound:
    """The sockets of all addresses, not listening yet. Raises ServeError, with nothing left open."""
    bound: dict[ListenAddress, list[socket.socket]] = {}
    for address, _ in config.by_address():
        try:
            bound[address] = await bind(address.host, address.port)
        except OSError as error:
            close_all(bound)
            raise ServeError(f"can't listen on {address}: {_words(error)}") from None
    return bound


def close_all(bound: Bound) -> None:
    """Closes the sockets here; where other processes have them they stay open."""
    for sockets in bound.values():
        for sock in sockets:
            sock.close()


def listeners_of(config: Config, bound: Bound) -> list[Listener]:
    """What clients are told of the sockets."""
    scheme = "http" if config.listen_tls is None else "https"
    return [
        _listener(scheme, address.host, int(bound[address][0].getsockname()[1]), upstreams)
        for address, upstreams in config.by_address()
    ]


def _listener(scheme: str, host: str, port: int, upstreams: Sequence[UpstreamConfig]) -> Listener:
    # A client can't connect to "all addresses"; on this machine it connects to loopback.
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    origin = f"{scheme}://{ListenAddress(reachable, port)}"
    routes = []
    for upstream in upstreams:
        path, url = upstream.prefix + "/v1", upstream.url
        target = upstream_target(path.encode(), upstream.prefix.encode(), url.path.encode())
        base_url = f"{url.scheme}://{url.authority}{target.decode()}"
        routes.append(Route(upstream.name, origin + path, base_url))
    names = tuple(upstream.name for upstream in upstreams)
    return Listener(names, host, port, routes[0].base_url, tuple(routes))


def _words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; stop what listens there, or choose another with --listen"
    if error.errno is None or error.errno < 0:
        return "the host name can't be resolved"
    return os.strerror(error.errno)
