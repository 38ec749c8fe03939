"""A WebSocket on an HTTP port that turns out to carry NNRP: recognised by its first bytes, then inspected.

What belongs here: the decision, and the inspector in the form that WebSockets are inspected in. What
doesn't: NNRP itself (inspector.py), the handshake. There is no subprotocol to go by: a connection carries
NNRP where the client's first message begins like a packet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from teeline.validators.events import Output, SchemaCheck, SchemaResult
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Side
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.nnrp.inspector import CONNECTION, End, NnrpInspector
from teeline.validators.wire.nnrp import MAGIC
from teeline.validators.wire.websocket import Frames

UNREAD: Final = "none (websocket)"
"""What is said of a connection that carries something else, or nothing."""
MOST_HELD: Final = 64 * 1024
"""Bytes that wait for the client's first message; where a server says this much before, it is no NNRP."""

_END_OF_HEAD: Final = b"\r\n\r\n"
_HEADS: Final = {
    Side.REQUEST: b"GET / HTTP/1.1" + _END_OF_HEAD,
    Side.RESPONSE: b"HTTP/1.1 101 " + _END_OF_HEAD,
}
"""What stands for the heads, which others have read."""


class UpgradedSocket:
    """One connection after its handshake. Peer bytes never raise.

    Operations are exchanges that ``new`` makes; faults of none go to ``connection``, which the caller closes
    after ``end``. ``pending`` are schema checks without a result by then, until ``expire`` at the latest.
    ``capabilities`` are what the server declares, where that is known.
    """

    def __init__(
        self,
        connection: Exchange,
        new: Callable[[], Exchange],
        limits: Limits = DEFAULT_LIMITS,
        capabilities: Capabilities | None = None,
    ) -> None:
        self.connection = connection
        self._new = new
        self._capabilities = capabilities
        self._limits = replace(limits, body=min(limits.body, limits.packet_in_place))
        self._inspector: NnrpInspector | None = None
        self._first: Frames | None = Frames()
        self._first.feed(_END_OF_HEAD)
        self._start = b""  # of the client's first message
        self._held: list[tuple[Side, bytes, float]] = []
        self._size = 0
        self._late: list[Output] = []
        self._tickets: dict[int, tuple[Exchange, int]] = {}
        self._given = 0
        self._at = 0.0

    @property
    def pending(self) -> int:
        return len(self._tickets)

    @property
    def ticks(self) -> bool:
        """Whether time matters: not for what is no NNRP."""
        return self._inspector is not None or self._first is not None

    # -- bytes -----------------------------------------------------------------------------------------

    def client_bytes(self, data: bytes, at: float) -> Sequence[Output]:
        """What the client sent, as it came."""
        return self._bytes(Side.REQUEST, data, at)

    def server_bytes(self, data: bytes, at: float) -> Sequence[Output]:
        """What the server sent, as it came."""
        return self._bytes(Side.RESPONSE, data, at)

    def _bytes(self, side: Side, data: bytes, at: float) -> Sequence[Output]:
        self._at = at
        if self._inspector is not None:
            found = self._inspector.feed(side, data, at)
            return self._numbered(found) if found else ()
        if self._first is None:
            return ()
        self._held.append((side, data, at))
        self._size += len(data)
        known = self._recognised(data) if side is Side.REQUEST else None
        if known is False or (known is None and self._size > MOST_HELD):
            self._give_up()
        return self._begin() if known else ()

    def _recognised(self, data: bytes) -> bool | None:
        """Whether the client's first message begins like a packet; None where it is too short to tell."""
        assert self._first is not None  # nothing is decided yet
        for piece in self._first.feed(data):
            self._start += piece.data[: len(MAGIC)]
            if len(self._start) >= len(MAGIC) or piece.last:
                return self._start.startswith(MAGIC)
        gone = self._first.fault is not None or self._first.closing
        return False if gone or not MAGIC.startswith(self._start) else None

    def _begin(self) -> Sequence[Output]:
        self.connection.operation = CONNECTION
        inspector = NnrpInspector(
            self._new, self._limits, self._capabilities, connection=self.connection
        )
        self._inspector, self._first = inspector, None
        held, self._held = self._held, []
        found: list[Output] = []
        for side, head in _HEADS.items():
            found += inspector.feed(side, head, held[0][2])
        for side, data, at in held:
            found += inspector.feed(side, data, at)
        return self._numbered(found)

    def _give_up(self) -> None:
        self._first = None
        self._held.clear()
        self.connection.inspection = UNREAD

    # -- time and the end ------------------------------------------------------------------------------

    def tick(self, at: float) -> Sequence[Output]:
        """Time has passed."""
        return () if self._inspector is None else self._numbered(self._inspector.tick(at))

    def client_left(self) -> None:
        """The client ends the connection; what that shows comes out at the end."""
        if self._inspector is not None:
            self._late += self._inspector.finish(Side.REQUEST, self._at)

    def end(self, ended: Ended, at: float) -> Sequence[Output]:
        """The connection is over, and with it what was open. Its own exchange is closed by the caller."""
        inspector = self._inspector
        if inspector is None:
            self._give_up()
            return ()
        found, self._late = self._late, []
        if ended is not Ended.SHUTDOWN:
            # Who was first has finished before; of the others the server is.
            how = End.LOST if ended is Ended.UPSTREAM_ABORTED else End.ORDERLY
            for side in (Side.RESPONSE, Side.REQUEST):
                found += inspector.finish(side, at, how)
        found += inspector.close(at, ended)
        return self._numbered(found)

    # -- schema checks ---------------------------------------------------------------------------------

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]:
        """The result of a ``SchemaCheck``; one that nobody waits for any more is dropped."""
        if self._inspector is None or ticket not in self._tickets:
            return ()
        exchange, inner = self._tickets.pop(ticket)
        return self._numbered(self._inspector.schema_result(exchange, inner, result, at))

    def expire(self, at: float) -> Sequence[Output]:
        """Gives up waiting for results of schema checks."""
        self._tickets.clear()
        return () if self._inspector is None else self._inspector.expire(at)

    def _numbered(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Gives schema checks tickets of the connection: each operation counts its own."""
        return [self._ticket(o) if isinstance(o, SchemaCheck) else o for o in outputs]

    def _ticket(self, check: SchemaCheck) -> SchemaCheck:
        self._given += 1
        self._tickets[self._given] = (check.exchange, check.ticket)
        return SchemaCheck(check.exchange, self._given, check.schema, check.document)
