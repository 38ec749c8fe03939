"""Which upstream a request goes to, and which exchanges are open.

What belongs here: routes, the bound on open exchanges, and requests that go nowhere. What doesn't:
the course of an exchange (transfer.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from teeline.proxy import answers, head
from teeline.proxy.connection import ClientConnection, Exchange
from teeline.proxy.head import RequestHead
from teeline.proxy.observers import Observers
from teeline.proxy.parse import MAX_HEAD
from teeline.proxy.transfer import Transfer
from teeline.proxy.tunnel import Tunnel
from teeline.proxy.upstream import Upstream
from teeline.validators import events

Route = tuple[Upstream, bytes]
"""An upstream, and the target there."""

_ROUTES = 1024
"""Targets whose routes are remembered."""


class Forwarder:
    """Takes the requests of one listening address.

    ``upstreams`` are told apart by their prefixes, the longest first. While ``stopping`` is set,
    answers end their connection and new requests get a 503. ``requests`` counts all that came.
    ``open_limit`` bounds the exchanges open at once, ``head_limit`` the heads of answers.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        observers: Observers,
        *,
        open_limit: int | None = None,
        head_limit: int = MAX_HEAD,
    ) -> None:
        self.stopping = False
        self.requests = 0
        self.active: set[Exchange] = set()
        self._observers = observers
        self._open_limit = sys.maxsize if open_limit is None else open_limit
        self.head_limit = head_limit
        self._upstreams = sorted(upstreams, key=lambda upstream: -len(upstream.prefix))
        self._routes: dict[bytes, Route] = {}

    def begin(self, client: ClientConnection, request: RequestHead, rest: bytes) -> bytes:
        """Starts the exchange of a request; ``rest`` is what stands behind its head."""
        self.requests += 1
        form, active = request.form, self.active
        route = self._routes.get(form.target) or self._route(form.target)
        full = len(active) >= self._open_limit
        if route is None or full or self.stopping or form.method == b"CONNECT":
            self._refuse(client, request, self._why_not(form.method, full=full))
            return b""
        upstream, target = route
        trace = request.trace if form.trace_at else ()
        tee = self._observers.open(upstream.name, client.host, trace)
        transfer = Transfer(self, upstream, target, client, request, tee)
        active.add(transfer)
        client.exchange = transfer
        return transfer.start(rest)

    def _why_not(self, method: bytes, *, full: bool) -> answers.Answer:
        if self.stopping:
            return answers.SHUTTING_DOWN
        if method == b"CONNECT":
            return answers.BAD_TARGET
        return answers.OVERLOADED if full else answers.NO_ROUTE

    def _refuse(
        self, client: ClientConnection, request: RequestHead, answer: answers.Answer
    ) -> None:
        tee = self._observers.open("", client.host, request.trace)
        method, target = str(request.form.method, "latin-1"), str(request.form.target, "latin-1")
        hand = tee.handover.hand
        hand(tee.request_head, events.RequestHead(method, target, request.headers), tee.now())
        client.transport.write(answer.encode(body=request.form.method != b"HEAD"))
        client.close(linger=request.has_body)
        hand(tee.end, answer.ended, tee.now())

    def _route(self, target: bytes) -> Route | None:
        """Where a target leads, None where nowhere. Usual ones are remembered: there are few."""
        path = head.origin_form(target)
        for upstream in self._upstreams:
            if not upstream.prefix or head.begins_with(path, upstream.prefix):
                route = upstream, head.upstream_target(target, upstream.prefix, upstream.base)
                # A query may hold a key, and differs each time.
                if b"?" not in target and len(target) <= 128 and len(self._routes) < _ROUTES:
                    self._routes[target] = route
                return route
        return None

    def over(self, transfer: Transfer) -> None:
        self.active.discard(transfer)

    def tunnel_opened(self, tunnel: Tunnel) -> None:
        self.active.add(tunnel)

    def tunnel_over(self, tunnel: Tunnel) -> None:
        self.active.discard(tunnel)
