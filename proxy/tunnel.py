"""What follows a WebSocket handshake: bytes pass both ways until a side ends it.

What belongs here: passing them on; the tee gets each piece after its write. What doesn't: the
handshake (transfer.py), and what frames hold (validators).
"""

from __future__ import annotations

from typing import Protocol

from teeline.proxy.connection import ClientConnection, say_failed
from teeline.proxy.tee import Tee
from teeline.proxy.upstream import UpstreamConnection
from teeline.validators.model import Ended


class Registry(Protocol):
    """Who has to know which tunnels are open."""

    def tunnel_opened(self, tunnel: Tunnel) -> None: ...

    def tunnel_over(self, tunnel: Tunnel) -> None: ...


class Tunnel:
    """One switched connection pair; to both connections it is the exchange under way."""

    __slots__ = (
        "_client",
        "_hand",
        "_open",
        "_registry",
        "_tee",
        "_wire",
        "received",
        "uploading",
    )

    def __init__(
        self, client: ClientConnection, wire: UpstreamConnection, tee: Tee, registry: Registry
    ) -> None:
        self._client = client
        self._wire = wire
        self._tee = tee
        self._hand = tee.handover.hand
        self.received = 0
        """Grows with what the client is sent."""
        self._registry = registry
        self._open = True
        self.uploading = True

    def start(self, received: bytes) -> None:
        """Begins, with what either side has sent ahead; ``received`` is with the client."""
        self._client.exchange = self
        self._wire.exchange = self
        self._registry.tunnel_opened(self)
        if received:
            self._returned(received)
        if held := self._client.take_held():
            self.request_bytes(held)
        if self._client.half_closed:
            self.client_eof()

    # -- the client's side -------------------------------------------------------------------------

    def request_bytes(self, data: bytes) -> bytes:
        self._wire.transport.write(data)
        self._hand(self._tee.sent, data, self._tee.now(), len(data))
        return b""

    def client_eof(self) -> bool:
        self._hand(self._tee.client_left, None, self._tee.now())
        if self._wire.transport.can_write_eof():
            self._wire.transport.write_eof()
            return True
        self._end(Ended.COMPLETE)
        return False

    def client_lost(self) -> None:
        self._hand(self._tee.client_left, None, self._tee.now())
        self._end(Ended.COMPLETE)

    # -- the upstream's side -----------------------------------------------------------------------

    def connected(self, upstream: UpstreamConnection) -> None:
        """Never told: a tunnel begins with its connection."""

    def not_connected(self, answer: object) -> None:
        """Never told, as above."""

    def answer_bytes(self, data: bytes) -> None:
        self._client.transport.write(data)
        self._returned(data)

    def _returned(self, data: bytes) -> None:
        self.received += 1
        self._hand(self._tee.returned, data, self._tee.now(), len(data))

    def answer_eof(self) -> None:
        """The upstream sends no more; its connection is closed with that."""

    def upstream_lost(self, exc: BaseException | None) -> None:
        # After a handshake either side may end the connection; a reset is one that broke.
        self._end(Ended.COMPLETE if exc is None else Ended.UPSTREAM_ABORTED)

    # -- ends --------------------------------------------------------------------------------------

    def cut_off(self) -> None:
        self._end(Ended.SHUTDOWN)

    def failed(self, error: Exception) -> None:
        say_failed(self._client.host, error)
        self._end(Ended.SHUTDOWN)

    def _end(self, ended: Ended) -> None:
        if not self._open:
            return
        self._open = False
        self._client.exchange = None
        if not self._wire.lost:
            self._wire.exchange = None
        self._registry.tunnel_over(self)
        self._client.break_off(reset=ended is Ended.UPSTREAM_ABORTED)
        self._hand(self._tee.end, ended, self._tee.now())
