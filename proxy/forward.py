"""Which upstream a request goes to, and which exchanges are open.

What belongs here: routes, the bound on open exchanges, and requests that go nowhere. What doesn't:
the course of an exchange (transfer.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from teeline.proxy import answers, head
from teeline.proxy.connection import ClientConnection, Exchange
from teeline.proxy.head import RequestHead
from teeline.proxy.parse import MAX_HEAD
from teeline.proxy.tee import Observers
from teeline.proxy.transfer import Transfer
from teeline.proxy.tunnel import Tunnel
from teeline.proxy.upstream import Upstream
from teeline.validators import events


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
        self._open_limit = open_limit
        self._head_limit = head_limit
        self._routes = sorted(upstreams, key=lambda upstream: -len(upstream.prefix))

    def begin(self, client: ClientConnection, request: RequestHead, rest: bytes) -> bytes:
        """Starts the exchange of a request; ``rest`` is what stands behind its head."""
        self.requests += 1
        route = self._route(request)
        tee = self._observers.open(
            "" if isinstance(route, answers.Answer) else route.name, client.host, request.trace
        )
        if isinstance(route, answers.Answer):
            tee.request_head(_for_inspector(request), tee.now())
            client.transport.write(route.encode(body=request.method != b"HEAD"))
            client.close(linger=request.body() is not None)
            tee.end(route.ended)
            return b""
        transfer = Transfer(self, route, client, request, tee, self._head_limit)
        self.active.add(transfer)
        client.exchange = transfer
        return transfer.start(rest)

    def over(self, transfer: Transfer) -> None:
        self.active.discard(transfer)

    def tunnel_opened(self, tunnel: Tunnel) -> None:
        self.active.add(tunnel)

    def tunnel_over(self, tunnel: Tunnel) -> None:
        self.active.discard(tunnel)

    def _route(self, request: RequestHead) -> Upstream | answers.Answer:
        if self.stopping:
            return answers.SHUTTING_DOWN
        if request.method == b"CONNECT":
            return answers.BAD_TARGET
        if self._open_limit is not None and len(self.active) >= self._open_limit:
            return answers.OVERLOADED
        path = head.origin_form(request.target)
        for upstream in self._routes:
            if not upstream.prefix or head.begins_with(path, upstream.prefix):
                return upstream
        return answers.NO_ROUTE


def _for_inspector(request: RequestHead) -> events.RequestHead:
    return events.RequestHead(
        str(request.method, "latin-1"),
        str(request.target, "latin-1"),
        request.headers,
    )
