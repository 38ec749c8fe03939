"""One NNRP connection from its first byte to its last: bytes of both sides go in, what was found comes out.

What belongs here: exchanges, their outputs and facts, and the ends of directions. What doesn't: routing
(connection.py), rules of operations, everything that has a clock or a socket.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from teeline.validators.events import Closed, Found, Opened, Output, SchemaResult
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Side, Unit
from teeline.validators.nnrp.cancel import note_time
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.nnrp.carrier import Carrier, carrier_of
from teeline.validators.nnrp.connection import OF_MANY, Connection
from teeline.validators.nnrp.operation import Operation, Trail
from teeline.validators.nnrp.tools import close_tools
from teeline.validators.wire.nnrp import Lost, Message, Packet

CONNECTION = "connection"
"""The operation of the exchange that faults of no operation go to."""

_LOST_RULES = {Lost.MAGIC: "nnrp.magic-wrong", Lost.HEADER_LENGTH: "nnrp.header-length-wrong"}


class End(enum.Enum):
    """How a direction ended: as it should, by a reset, or where the recording does."""

    ORDERLY = enum.auto()
    LOST = enum.auto()
    UNKNOWN = enum.auto()


class _Direction:
    """What is known of one side's bytes."""

    def __init__(self) -> None:
        self.carrier: Carrier | None = None
        self.start = b""
        self.told = False
        self.over = False

    def begin(self, data: bytes, keep: int) -> Carrier | None:
        """Takes the first bytes in; what carries them, None where they are too few to tell."""
        self.start += data
        self.carrier = carrier_of(self.start, keep)
        if self.carrier is not None:
            self.carrier.push(self.start)
            self.start = b""
        return self.carrier

    @property
    def incomplete(self) -> bool:
        return bool(self.start) if self.carrier is None else self.carrier.incomplete


class NnrpInspector:
    """Checks one connection. Peer bytes never raise; each call gives what came to light through it.

    ``make`` gives a new exchange with its identity set. Faults of no operation go to ``connection`` where it
    is given, which the caller opens and closes, else to an exchange that they open. ``capabilities`` is what
    the adapter declares, None for no document at hand. ``timed`` false: times were made up, and rules that
    need them are off. Order of calls: ``feed`` as bytes were seen, ``finish`` once a side, ``close``;
    ``tick`` in between lets go of what is over. Times are Unix seconds that never step back.
    """

    def __init__(
        self,
        make: Callable[[], Exchange],
        limits: Limits = DEFAULT_LIMITS,
        capabilities: Capabilities | None = None,
        *,
        timed: bool = True,
        connection: Exchange | None = None,
    ) -> None:
        self._make = make
        self._limits = limits
        self._capabilities = capabilities
        self._timed = timed
        self._out: list[Output] = []
        self._at = 0.0
        self._given = connection
        self._own = Trail.of(connection, limits) if connection is not None else None
        self._connection = Connection(limits, self._opened, self._trail, self._retired)
        self._fast = self._connection.fast
        self._directions = {side: _Direction() for side in Side}
        self._lost = self._unknown = False
        self._waiting: dict[int, Trail] = {}
        self._ended = Ended.COMPLETE
        self._closed = False

    @property
    def pending(self) -> int:
        """Exchanges that wait for results of schema checks."""
        return len(self._waiting)

    # -- bytes -----------------------------------------------------------------------------------------

    def feed(self, side: Side, data: bytes, at: float) -> Sequence[Output]:
        """Bytes of one side, as they were read."""
        self._at = at
        direction = self._directions[side]
        carrier, fast = direction.carrier, self._fast
        answers = side is Side.RESPONSE
        if carrier is None:
            carrier = direction.begin(data, self._limits.body)
            if carrier is None:
                return ()
        elif answers and fast.armed:
            fast.at = at
            if carrier.through(data, fast.run):
                return ()
        else:
            carrier.push(data)
        while True:
            if answers and fast.armed:
                fast.at = at
                carrier.skim(fast.run)
            packet = carrier.next()
            if packet is None:
                break
            self._packet(side, packet, at)
        if carrier.faults or carrier.unread or carrier.lost:
            self._carrier_faults(side, direction, carrier)
        if carrier.closing and not direction.over:
            self._finish(side, End.ORDERLY)
        if self._own is not None:
            self._collect(self._own)
        return self._drained() if self._out else ()

    def _packet(self, side: Side, packet: Packet, at: float) -> None:
        op = self._connection.packet(side, packet, at)
        if op is not None:
            self._note(op, side, packet, at)
        if packet.type in OF_MANY:
            self._collect_all()
        elif op is not None:
            self._collect(op)

    def _note(self, op: Operation, side: Side, packet: Packet, at: float) -> None:
        exchange = op.exchange
        if side is Side.REQUEST:
            if packet.type == Message.FRAME_SUBMIT:
                exchange.request_bytes += packet.size
            return
        timing = exchange.timing
        exchange.response_bytes += packet.size
        if timing.first_byte is None:
            timing.first_byte = at
        if timing.first_event is None and exchange.events:
            timing.first_event = at
        if timing.last_byte is not None:
            timing.largest_gap = max(timing.largest_gap, at - timing.last_byte)
        timing.last_byte = at
        op.timeline.read(at, exchange.events, packet.size)

    def _carrier_faults(self, side: Side, direction: _Direction, carrier: Carrier) -> None:
        trail = self._trail()
        trail.report.at, trail.report.side = self._at, side
        for rule, detail, index, offset in carrier.faults:
            trail.report.place(Unit.PACKET, index, offset)
            trail.report(rule, detail=detail)
        carrier.faults.clear()
        trail.report.place(Unit.PACKET, carrier.next_index, carrier.offset)
        if direction.told:
            return
        if carrier.lost is not None:
            direction.told = True
            trail.report(_LOST_RULES[carrier.lost], detail="the next packet can't be found")
            trail.ctx.partial("framing-lost")
        elif carrier.unread == "encrypted":
            direction.told = True
            trail.exchange.inspection = "none (encrypted)"
        elif carrier.unread:
            direction.told = True
            trail.ctx.partial(carrier.unread)

    # -- exchanges -------------------------------------------------------------------------------------

    def _opened(self, at: float) -> Operation:
        op = Operation(self._make(), self._limits, at, self._capabilities)
        op.timed = self._timed
        op.exchange.operation = "other"
        op.timeline.mark(at, "request")
        self._out.append(Opened(op.exchange))
        return op

    def _trail(self) -> Trail:
        """The exchange of the connection itself, which is there once something is to be said of it."""
        if self._own is None:
            self._own = Trail(self._make(), self._limits, self._at)
            self._own.exchange.operation = CONNECTION
            self._own.exchange.path = CONNECTION
            self._out.append(Opened(self._own.exchange))
        return self._own

    def _retired(self, op: Operation) -> None:
        """An operation of which nothing more is expected."""
        if op.terminal:
            ended = Ended.COMPLETE
        elif self._lost:
            ended = Ended.UPSTREAM_ABORTED
        elif op.cancelled or op.left:
            ended = Ended.CLIENT_CLOSED
        else:
            ended = self._ended
        op.report.side = Side.RESPONSE
        close_tools(op, cut=False)
        self._end(op, ended)

    def _end(self, trail: Trail, ended: Ended) -> None:
        self._collect(trail)
        exchange = trail.exchange
        exchange.ended = ended
        exchange.timing.end = self._at
        trail.timeline.end(self._at, ended.value)
        if trail.ctx.waiting:
            self._waiting[id(exchange)] = trail
        else:
            self._out.append(Closed(exchange))

    def _collect(self, trail: Trail) -> None:
        if not trail.report.out:
            return
        for output in trail.report.drain():
            if isinstance(output, Found):
                trail.timeline.violation(self._at, output.violation.place.index)
            self._out.append(output)

    def _collect_all(self) -> None:
        for op in self._connection.operations.values():
            self._collect(op)

    def _drained(self) -> Sequence[Output]:
        out, self._out = self._out, []
        return out

    # -- time and the end ------------------------------------------------------------------------------

    def tick(self, at: float) -> Sequence[Output]:
        """Time has passed: exchanges that ended a grace window ago are closed, deadlines are looked at."""
        self._at = at
        self._fast.settle()
        for op in self._connection.operations.values():
            note_time(op, at)
        self._connection.retire_ended(at - self._limits.grace)
        self._collect_all()
        return self._drained()

    def finish(self, side: Side, at: float, end: End = End.ORDERLY) -> Sequence[Output]:
        """One side sends nothing more."""
        self._at = at
        if not self._directions[side].over:
            self._finish(side, end)
        return self._drained()

    def _finish(self, side: Side, end: End) -> None:
        at, direction = self._at, self._directions[side]
        other = self._directions[Side.RESPONSE if side is Side.REQUEST else Side.REQUEST]
        if direction.incomplete:
            trail = self._trail()
            trail.report.at, trail.report.side = at, side
            carrier = direction.carrier
            place = (carrier.next_index, carrier.offset) if carrier is not None else (1, 0)
            trail.report.place(Unit.PACKET, *place)
            cut = end is not End.ORDERLY or other.over
            rule = "nnrp.packet-cut-by-loss" if cut else "nnrp.packet-truncated"
            trail.report(rule, detail="the last packet is not complete")
            self._collect(trail)
        direction.over = True
        self._lost = self._lost or end is End.LOST
        self._unknown = self._unknown or end is End.UNKNOWN
        if end is End.ORDERLY:
            self._connection.ended(side, None, at)
            self._collect_all()

    def close(self, at: float, ended: Ended = Ended.COMPLETE) -> Sequence[Output]:
        """The connection is over; every exchange is closed but those that wait for schema checks.

        ``ended`` is what is said of operations whose end was not seen.
        """
        if self._closed:
            return ()
        self._fast.settle()
        self._closed, self._at, self._ended = True, at, ended
        connection = self._connection
        for op in list(connection.operations.values()):
            op.report.at = at
            note_time(op, at)
            if not op.terminal:
                self._unfinished(op)
            self._retired(op)
        connection.operations.clear()
        if self._own is not None and self._given is not None:
            self._collect(self._own)
        elif self._own is not None:
            self._end(self._own, Ended.UPSTREAM_ABORTED if self._lost else ended)
        return self._drained()

    def _unfinished(self, op: Operation) -> None:
        """An operation without an end when its connection has one: the server's to answer for."""
        op.report.side = Side.RESPONSE
        first = self._connection.closed_first(op)
        if self._lost and not op.cancelled:
            op.report("nnrp.transport-loss", detail="the operation was active")
        elif op.cancelled:
            if first is not None or not self._unknown:
                op.report("nnrp.cancel-without-terminal", detail="until the connection ended")
        elif first is Side.RESPONSE:
            told = op.completed_events or op.error_event or op.cancelled_event
            rule = "nnrp.terminal-native-missing" if told else "nnrp.terminal-missing"
            op.report(rule, detail="until the connection ended")
        elif first is None and self._unknown:
            op.ctx.partial("capture-end")

    # -- schema checks ---------------------------------------------------------------------------------

    def schema_result(
        self, exchange: Exchange, ticket: int, result: SchemaResult, at: float
    ) -> Sequence[Output]:
        """The result of a ``SchemaCheck``; closes its exchange where nothing else is waited for."""
        self._fast.settle()
        self._at = at
        trail = self._waiting.get(id(exchange)) or self._open_trail(exchange)
        if trail is None:
            return ()
        trail.report.at = at
        trail.ctx.schema_result(ticket, result)
        self._collect(trail)
        if id(exchange) in self._waiting and not trail.ctx.waiting:
            del self._waiting[id(exchange)]
            self._out.append(Closed(exchange))
        return self._drained()

    def _open_trail(self, exchange: Exchange) -> Trail | None:
        operations = self._connection.operations.values()
        return next((op for op in operations if op.exchange is exchange), None)

    def expire(self, at: float) -> Sequence[Output]:
        """Gives up waiting for results of schema checks."""
        self._at = at
        for trail in self._waiting.values():
            trail.ctx.partial("schema-timeout")
            self._out.append(Closed(trail.exchange))
        self._waiting.clear()
        return self._drained()
