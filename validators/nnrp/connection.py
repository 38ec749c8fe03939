"""One connection: its sessions and frames, and which operation a packet belongs to.

What belongs here: ids, routing, and what is wrong with a packet whatever it is about. What doesn't:
bytes (wire/nnrp.py), operations by themselves, outputs and times (inspector.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from teeline.validators.limits import Limits
from teeline.validators.model import Side
from teeline.validators.nnrp.cancel import cancel, check_sequence, note_partial, note_time
from teeline.validators.nnrp.fast import FastText
from teeline.validators.nnrp.operation import Operation, Trail
from teeline.validators.nnrp.partial import check_partial
from teeline.validators.nnrp.submit import check_submit
from teeline.validators.nnrp.terminal import check_drop, check_error, check_result
from teeline.validators.wire.nnrp import (
    HEADER_BYTES,
    KNOWN_FLAGS,
    METADATA_LENGTHS,
    Message,
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    control_meta,
    error_meta,
    open_ack_meta,
    open_meta,
    partial_meta,
    result_meta,
    submit_meta,
)

Key = tuple[int, int]
"""Session and frame."""

OF_MANY: Final = frozenset(
    {Message.CLOSE, Message.SESSION_CLOSE, Message.ERROR, Message.CANCEL, Message.ABORT}
)
"""Messages that may be about other operations than that of their frame."""
_CONNECTION_SCOPE: Final = 0
_FRAME_SCOPE: Final = 2
_ENDS: Final = (Message.RESULT_PUSH, Message.RESULT_DROP, Message.RESULT_DROP_REASON)
_REGISTERED: Final = frozenset(map(int, Message))


@dataclass(slots=True)
class Session:
    """A session that SESSION_OPEN_ACK has assigned."""

    granted: int = 0
    control_sequence: int | None = None
    closed_by: Side | None = None


class Connection:
    """Takes packets of both sides in the order in which they were seen.

    ``open_operation`` makes the state of a new operation; ``trail`` is where faults of no operation go.
    """

    def __init__(
        self,
        limits: Limits,
        open_operation: Callable[[float], Operation],
        trail: Callable[[], Trail],
        retire: Callable[[Operation], None],
    ) -> None:
        self._limits = limits
        self._open = open_operation
        self._trail = trail
        self._retire = retire
        self.sessions: dict[int, Session] = {}
        self.operations: dict[Key, Operation] = {}
        self._gone: OrderedDict[Key, int] = OrderedDict()
        self._forgetful = False  # frames of another connection, or more than could be kept
        self.closed_by: Side | None = None
        self._asked_to_wait = False
        self._at = 0.0
        self._side = Side.REQUEST
        self._packet = Packet(0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
        self._breaches = 0  # of the packet's operation, before it
        self.fast = FastText(limits)

    # -- a packet --------------------------------------------------------------------------------------

    def packet(self, side: Side, packet: Packet, at: float) -> Operation | None:
        """Checks one packet; gives the operation that it was about."""
        self._side, self._packet, self._at = side, packet, at
        op = self.operations.get((packet.session, packet.frame))
        if side is Side.REQUEST and packet.type == Message.FRAME_SUBMIT:
            op = self._submitted(packet, at)
        if packet.type in OF_MANY:
            self.fast.disarm_all()
        if op is not None:
            self.fast.disarm(op)
            self._breaches = op.report.breaches
            op.look_at(side, packet, at)
        right = self._check_packet(op, packet)
        if op is not None and op.hints and packet.type != Message.FRAME_SUBMIT:
            note_time(op, at)
        handler = (_FROM_CLIENT if side is Side.REQUEST else _FROM_SERVER).get(packet.type)
        if handler is not None:
            handler(self, packet, op, right)
        return op

    def _report(self, op: Operation | None, rule: str, detail: str) -> None:
        """Reports on an operation, or on the connection where there is none."""
        trail: Trail = op if op is not None else self._trail()
        if op is None:
            trail.look_at(self._side, self._packet, self._at)
        trail.report(rule, detail=detail)

    def _check_packet(self, op: Operation | None, packet: Packet) -> bool:
        """The header, and the length of the metadata; whether the metadata can be read."""
        if packet.version != 1:
            self._report(op, "nnrp.version-wrong", f"version_major {packet.version}")
        if packet.wire_format:
            self._report(op, "nnrp.wire-format-wrong", f"wire_format {packet.wire_format}")
        if packet.flags & ~KNOWN_FLAGS:
            self._report(op, "nnrp.reserved-nonzero", f"header flags {packet.flags}")
        if HEADER_BYTES + packet.meta_bytes + packet.body_bytes > self._limits.packet:
            self._report(op, "nnrp.packet-too-large", f"{packet.size} bytes")
        if packet.type not in _REGISTERED:
            self._report(op, "nnrp.message-type-unknown", f"msg_type {packet.type}")
            return False
        length = METADATA_LENGTHS.get(packet.type)
        if length is not None and packet.meta_bytes != length:
            detail = f"{packet.meta_bytes} bytes of metadata, {length} for this message"
            self._report(op, "nnrp.metadata-length-wrong", detail)
            return False
        return packet.whole

    # -- sessions --------------------------------------------------------------------------------------

    def _session_opened(self, packet: Packet, _: Operation | None, right: bool) -> None:
        if not right:
            return
        meta = open_meta(packet.meta)
        if not meta.profile:
            self._report(None, "nnrp.session-profile-zero", "SESSION_OPEN with profile_id 0")
        if meta.reserved:
            self._report(None, "nnrp.reserved-nonzero", "reserved field of SESSION_OPEN")
        if meta.resume_bytes or meta.requested:
            self._forgetful = True

    def _session_acked(self, packet: Packet, _: Operation | None, right: bool) -> None:
        if not packet.session:
            self._report(None, "nnrp.session-rejected", "SESSION_OPEN_ACK with session_id 0")
            return
        if len(self.sessions) >= self._limits.sessions:
            self._forgetful = True
            self._trail().ctx.partial("session-limit")
            return
        self.sessions[packet.session] = Session(open_ack_meta(packet.meta).granted if right else 0)

    def _migrated(self, packet: Packet, _: Operation | None, right: bool) -> None:
        self._forgetful = True

    def _check_session(self, op: Operation | None, packet: Packet) -> None:
        if packet.session not in self.sessions and not self._forgetful:
            self._report(op, "nnrp.session-unknown", "a session that was not assigned")

    def _closing(self, packet: Packet, _: Operation | None, right: bool) -> None:
        """SESSION_CLOSE or CLOSE, from either side."""
        whole = packet.type == Message.CLOSE
        self.ended(self._side, None if whole else packet.session, self._at)

    def ended(self, side: Side, session: int | None, at: float) -> None:
        """A side ends a session, or the connection (None), in an orderly way."""
        self.fast.disarm_all()
        if session is None:
            self.closed_by = self.closed_by or side
        elif session in self.sessions:
            known = self.sessions[session]
            known.closed_by = known.closed_by or side
        for op in list(self.operations.values()):
            if session is not None and op.session != session:
                continue
            op.shutting_down = True
            first = self.closed_first(op) is Side.REQUEST
            if side is Side.REQUEST and first and op.active and not op.left:
                op.left = True
                op.report.at, op.report.side = at, side
                op.report("nnrp.close-instead-of-cancel", detail="the operation is active")

    def closed_first(self, op: Operation) -> Side | None:
        """Who ended the operation's session or connection first."""
        session = self.sessions.get(op.session)
        return (session.closed_by if session is not None else None) or self.closed_by

    # -- from the client -------------------------------------------------------------------------------

    def _submitted(self, packet: Packet, at: float) -> Operation:
        key = (packet.session, packet.frame)
        before = self.operations.get(key)
        op = self._open(at)
        op.session, op.frame = key
        op.reused = before is not None and before.active
        if before is not None:
            self._drop(before)
        self._make_room()
        op.asked_to_wait = False
        self.operations[key] = op
        return op

    def _make_room(self) -> None:
        """Retires what has ended first, then what is oldest."""
        if len(self.operations) < self._limits.operations:
            return
        ended = (op for op in self.operations.values() if op.terminal)
        op = next(ended, None) or next(iter(self.operations.values()))
        if not op.terminal:
            op.ctx.partial("operation-limit")
        self._drop(op)

    def _drop(self, op: Operation) -> None:
        """Nothing more is known of an operation than that it was there."""
        self.operations.pop((op.session, op.frame), None)
        self.fast.forget(op)
        self._gone[(op.session, op.frame)] = op.id
        if len(self._gone) > self._limits.operations:
            self._gone.popitem(last=False)
            self._forgetful = True
        self._retire(op)

    def retire_ended(self, before: float) -> None:
        """Lets go of operations that ended before a time."""
        for op in [o for o in self.operations.values() if o.terminal and o.terminal_at < before]:
            self._drop(op)

    def _submit(self, packet: Packet, op: Operation | None, right: bool) -> None:
        assert op is not None  # made before its packet was looked at
        self._check_session(op, packet)
        if not right:
            if not packet.whole:
                op.ctx.partial("body-limit")
            return
        meta = submit_meta(packet.meta)
        op.id = meta.operation
        others = [o for o in self._of_session(packet.session) if o is not op and o.active]
        if op.reused or (op.id and any(o.id == op.id for o in others)):
            op.report("nnrp.submit-id-reused", detail="an active operation has the id")
        session = self.sessions.get(packet.session)
        if session is not None and session.granted and len(others) >= session.granted:
            detail = f"{len(others) + 1} operations, {session.granted} granted"
            op.report("nnrp.submit-over-credit", detail=detail)
        check_submit(op, packet, meta)
        if op.request_id is not None and any(o.request_id == op.request_id for o in others):
            rule = "nnrp.envelope-request-id-repeated"
            op.report(rule, "/request_id", detail="another active operation has it")

    def _of_session(self, session: int) -> Iterator[Operation]:
        return (op for op in self.operations.values() if op.session == session)

    def _frame_cancel(self, packet: Packet, op: Operation | None, right: bool) -> None:
        self._check_session(op, packet)
        self._cancel(op, (packet.session, packet.frame))

    def _cancel(self, op: Operation | None, key: Key) -> None:
        if op is not None:
            cancel(op, self._at)
        elif key in self._gone:
            self._report(None, "nnrp.cancel-after-terminal", "the operation has ended")
        elif not self._forgetful:
            self._report(None, "nnrp.cancel-unknown-frame", "a frame that was not submitted")

    def _control(self, packet: Packet, op: Operation | None, right: bool) -> None:
        """CANCEL and ABORT: ``operation_id`` names the target, 0 a session or the header's frame."""
        self._check_session(op, packet)
        if not right:
            return
        meta = control_meta(packet.meta)
        named = next((o for o in self._of_session(packet.session) if o.id == meta.operation), None)
        target = named if meta.operation else op
        self._check_control(target, packet)
        if not meta.operation and not packet.frame:
            for each in self._of_session(packet.session):
                if each.active:
                    each.cancelled_at = self._at
            return
        if target is not None and packet.frame and packet.frame != target.frame:
            detail = "frame_id is not the frame of operation_id"
            self._report(target, "nnrp.cancel-frame-mismatch", detail)
        if meta.operation and target is None and meta.operation in self._gone.values():
            self._report(None, "nnrp.cancel-after-terminal", "the operation has ended")
            return
        self._cancel(target, (0, 0) if meta.operation else (packet.session, packet.frame))

    def _check_control(self, target: Operation | None, packet: Packet) -> None:
        meta = control_meta(packet.meta)
        if target is not None:
            target.look_at(self._side, packet, self._at)
        if meta.reserved or meta.flags & ~3:
            self._report(target, "nnrp.reserved-nonzero", "reserved field of a cancel")
        session = self.sessions.get(packet.session)
        if session is not None:
            check_sequence(
                session.control_sequence,
                meta.sequence,
                lambda rule, detail: self._report(target, rule, detail),
            )
            session.control_sequence = meta.sequence

    # -- from the server -------------------------------------------------------------------------------

    def _partial(self, packet: Packet, op: Operation | None, right: bool) -> None:
        if op is None:
            self._stray(packet)
            return
        meta = partial_meta(packet.meta) if right else None
        if meta is not None and not self._together(op, meta.operation):
            return
        note_partial(op, self._at)
        op.exchange.events += 1
        event = check_partial(op, packet, meta)
        if event is not None and meta is not None and op.report.breaches == self._breaches:
            self.fast.arm(op, packet, meta.operation, event)

    def _result(self, packet: Packet, op: Operation | None, right: bool) -> None:
        """RESULT_PUSH and both drops."""
        if op is None:
            self._stray(packet)
            return
        reasoned = right and packet.type == Message.RESULT_DROP_REASON
        control = control_meta(packet.meta) if reasoned else None
        if control is not None:
            if control.reserved or control.flags & ~3:
                op.report("nnrp.reserved-nonzero", detail="reserved field of RESULT_DROP_REASON")
            if not self._together(op, control.operation):
                return
        op.asked_to_wait = op.asked_to_wait or self._asked_to_wait
        if op.terminal:
            op.report("nnrp.terminal-twice", detail="the operation has ended before")
        elif packet.type == Message.RESULT_PUSH:
            check_result(op, packet, result_meta(packet.meta) if right else None)
        else:
            check_drop(op, control)

    def _stray(self, packet: Packet) -> None:
        """A result for a frame of which no more is known than that it was there, or not even that."""
        if (packet.session, packet.frame) in self._gone:
            partial = packet.type == Message.PARTIAL_RESULT
            rule = "nnrp.event-after-terminal" if partial else "nnrp.terminal-twice"
            self._report(None, rule, "the operation has ended before")
        elif not self._forgetful:
            self._report(None, "nnrp.result-for-unknown-frame", "a frame that was not submitted")

    def _together(self, op: Operation, named: int) -> bool:
        """Whether the operation_id of a result is that of its frame; 0 names none."""
        if not named or not op.id or named == op.id:
            return True
        op.report("nnrp.operation-frame-mismatch", detail="operation_id is not that of the frame")
        return False

    def _error(self, packet: Packet, op: Operation | None, right: bool) -> None:
        if not right:
            return
        meta = error_meta(packet.meta)
        if meta.scope == _FRAME_SCOPE:
            session = packet.session or meta.session
            op = self.operations.get((session, packet.frame or meta.frame))
            targets = [op] if op is not None else []
        elif meta.scope == _CONNECTION_SCOPE:
            targets = list(self.operations.values())
        else:
            targets = list(self._of_session(packet.session or meta.session))
        for target in targets:
            if not target.terminal:
                target.look_at(self._side, packet, self._at)
                target.asked_to_wait = target.asked_to_wait or self._asked_to_wait
                check_error(target, meta, alone=meta.scope == _FRAME_SCOPE)

    def _waits(self, packet: Packet, op: Operation | None, right: bool) -> None:
        """RETRY_AFTER, BACKPRESSURE and recoverable errors say how an overload stands."""
        if op is not None:
            op.asked_to_wait = True
        else:
            self._asked_to_wait = True


_Handler = Callable[[Connection, Packet, Operation | None, bool], None]
_FROM_CLIENT: Final[Mapping[int, _Handler]] = {
    Message.SESSION_OPEN: Connection._session_opened,
    Message.SESSION_MIGRATE: Connection._migrated,
    Message.SESSION_CLOSE: Connection._closing,
    Message.CLOSE: Connection._closing,
    Message.FRAME_SUBMIT: Connection._submit,
    Message.FRAME_CANCEL: Connection._frame_cancel,
    Message.CANCEL: Connection._control,
    Message.ABORT: Connection._control,
}
_FROM_SERVER: Final[Mapping[int, _Handler]] = {
    Message.SESSION_OPEN_ACK: Connection._session_acked,
    Message.SESSION_MIGRATE_ACK: Connection._migrated,
    Message.SESSION_CLOSE: Connection._closing,
    Message.CLOSE: Connection._closing,
    Message.ERROR: Connection._error,
    Message.RETRY_AFTER: Connection._waits,
    Message.BACKPRESSURE: Connection._waits,
    Message.ERROR_RECOVERABLE: Connection._waits,
    Message.PARTIAL_RESULT: Connection._partial,
    **dict.fromkeys(_ENDS, Connection._result),
}
"""What a message of a side does; other registered messages are none of the profile's business."""
