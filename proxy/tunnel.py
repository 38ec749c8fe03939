"""What follows a WebSocket handshake: bytes pass both ways until a side ends it.

What belongs here: passing them on, and where an inspector of frames can be hung in: it gets each
piece after its write, with its side and time. What doesn't: the handshake (transfer.py).
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

    __slots__ = ("_client", "_open", "_registry", "_tee", "_wire", "uploading")

    def __init__(
        self, client: ClientConnection, wire: UpstreamConnection, tee: Tee, registry: Registry
    ) -> None:
        self._client = client
        self._wire = wire
        self._tee = tee
        self._registry = registry
        self._open = True
        self.uploading = True

    def start(self, received: int) -> None:
        """Begins, with what either side has sent ahead; ``received`` bytes are with the client."""
        self._client.exchange = self
        self._wire.exchange = self
        self._registry.tunnel_opened(self)
        if received:
            self._tee.tunnelled(0, received)
        if held := self._client.take_held():
            self.request_bytes(held)
        if self._client.half_closed:
            self.client_eof()

    @property
    def received(self) -> int:
        return self._tee.received

    # -- the client's side -------------------------------------------------------------------------

    def request_bytes(self, data: bytes) -> bytes:
        self._wire.transport.write(data)
        self._tee.tunnelled(len(data), 0)
        return b""

    def client_eof(self) -> bool:
        if self._wire.transport.can_write_eof():
            self._wire.transport.write_eof()
            return True
        self._end(Ended.COMPLETE)
        return False

    def client_lost(self) -> None:
        self._end(Ended.COMPLETE)

    # -- the upstream's side -----------------------------------------------------------------------

    def connected(self, upstream: UpstreamConnection) -> None:
        """Never told: a tunnel begins with its connection."""

    def not_connected(self, answer: object) -> None:
        """Never told, as above."""

    def answer_bytes(self, data: bytes) -> None:
        self._client.transport.write(data)
        self._tee.tunnelled(0, len(data))

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
        self._tee.end(ended)
