"""One client's connection to an NNRP server: its handshake, sessions and operations.

What belongs here: which packet is answered with which, the life of operations, cancelling. What doesn't:
carriers (server.py), answers as packets (serverreply.py), what an operation does (a ``Service``).
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Mapping
from typing import Final

from teeline.proxy.nnrp import documents
from teeline.proxy.nnrp.documents import INTERNAL, OVERLOADED, FailedError, refused
from teeline.proxy.nnrp.serverlimits import Room, ServerLimits
from teeline.proxy.nnrp.serverreply import Link, Reply, Service
from teeline.proxy.nnrp.submit import MalformedError, Submit, payload_of
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    METADATA_LENGTHS,
    Message,
    Packet,
    Splitter,
)
from teeline.validators.wire.nnrpcodes import (
    DropReason,
    ErrorCode,
    ErrorScope,
    InFlight,
    SessionStatus,
)
from teeline.validators.wire.nnrpcontrol import close_meta
from teeline.validators.wire.nnrplayout import (
    control_meta,
    open_meta,
    submit_meta,
)

log = logging.getLogger("teeline.nnrp")

MAX_UNANSWERED: Final = 4096
"""Packets that are taken from a client that reads no answers."""
_CANCELLED_STATUS: Final = 499
_UNSERVED: Final = frozenset(
    {Message.SESSION_PATCH, Message.SESSION_MIGRATE, Message.TRANSPORT_PROBE, Message.CACHE_PUT}
)
"""Messages that wait for an answer which this server has none of."""


class Why(enum.Enum):
    """Why an operation is broken off."""

    CANCEL = "the client cancelled the operation"
    ABORT = "the client aborted the operation"
    SHUTDOWN = "the server is shutting down"
    GONE = "the client has gone"


class _Operation:
    """An operation that is open."""

    def __init__(self, submit: Submit, reply: Reply) -> None:
        self.submit, self.reply = submit, reply
        self.task: asyncio.Task[None] | None = None
        self.why: Why | None = None

    def break_off(self, why: Why) -> None:
        if self.why is None and self.task is not None and not self.reply.ended:
            self.why = why
            self.task.cancel()


class _Session:
    """A session by the operations that are open in it; ``closing``: the client has closed it."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.operations: dict[int, _Operation] = {}
        self.closing: int | None = None

    def by_id(self, operation: int) -> _Operation | None:
        found = (o for o in self.operations.values() if o.submit.operation == operation)
        return next(found, None)


class ServerConnection:
    """Takes a client's bytes in, answers on its link. ``lost`` is called once, when the client has gone."""

    def __init__(self, link: Link, service: Service, limits: ServerLimits, room: Room) -> None:
        self._link, self._service = link, service
        self._limits, self._room = limits, room
        self._splitter = Splitter(limits.body)
        self._greeted = False
        self._over = False
        self._unanswered = 0
        self._sessions: dict[int, _Session] = {}
        self._opened = 0
        self._tasks: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._handshake = loop.call_later(limits.handshake, self._too_slow)
        self._answers: Mapping[int, Callable[[Packet], None]] = {
            Message.CLIENT_HELLO: self._hello,
            Message.SESSION_OPEN: self._open,
            Message.FRAME_SUBMIT: self._submit,
            Message.CANCEL: self._cancel,
            Message.ABORT: self._cancel,
            Message.FRAME_CANCEL: self._cancel,
            Message.SESSION_CLOSE: self._close_session,
            Message.PING: self._ping,
            Message.CLOSE: lambda _: self._end(),
        }

    @property
    def between(self) -> bool:
        """Whether the client's bytes end with a packet."""
        return not self._splitter.incomplete

    def feed(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._over:
            return
        for packet in self._splitter.feed(data):
            self._unanswered = 0 if self._link.writable else self._unanswered + 1
            if self._unanswered > MAX_UNANSWERED:
                # Not paused instead: a cancel must come through, however much waits to be read.
                self._link.abort()
                return
            self._packet(packet)
            if self._over:
                return
        if self._splitter.lost is not None:
            self._give_up(ErrorCode.MALFORMED_HEADER, "no packet begins here")

    def _packet(self, packet: Packet) -> None:
        if packet.version != 1 or packet.wire_format != 0:
            self._give_up(ErrorCode.UNSUPPORTED_VERSION, "NNRP/1 in wire format 0 is spoken here")
        elif packet.type not in METADATA_LENGTHS and packet.type != Message.CLOSE:
            self._give_up(ErrorCode.MALFORMED_HEADER, "the message type is not registered")
        elif packet.meta_bytes != METADATA_LENGTHS.get(packet.type, packet.meta_bytes):
            self._give_up(ErrorCode.MALFORMED_HEADER, "the metadata has not the length of its type")
        elif not packet.whole and packet.type != Message.FRAME_SUBMIT:
            self._give_up(ErrorCode.LIMIT, "the packet is too large")
        elif not self._greeted and packet.type != Message.CLIENT_HELLO:
            self._give_up(ErrorCode.INVALID_STATE, "CLIENT_HELLO comes first")
        elif packet.type in _UNSERVED:
            code = ErrorCode.UNSUPPORTED_CAPABILITY
            self._tell(code, ErrorScope.SESSION, packet, "not served here")
        elif (answer := self._answers.get(packet.type)) is not None:
            answer(packet)

    # -- handshake and sessions ------------------------------------------------------------------------

    def _hello(self, packet: Packet) -> None:
        lowest, highest = packet.meta[:2]
        if self._greeted:
            self._give_up(ErrorCode.INVALID_STATE, "CLIENT_HELLO comes once")
        elif not lowest <= 1 <= highest:
            self._give_up(ErrorCode.UNSUPPORTED_VERSION, "NNRP/1 is spoken here")
        else:
            self._greeted = True
            ack = encode.server_hello_ack(self._limits.in_flight, self._limits.body)
            self._link.write(ack)

    def _open(self, packet: Packet) -> None:
        meta = open_meta(packet.meta)
        if meta.profile != encode.SESSION_PROFILE:
            status, code = SessionStatus.REJECTED, ErrorCode.UNSUPPORTED_CAPABILITY
            self._link.write(
                encode.session_refused(status, code, b"requested profile is not served")
            )
            return
        if len(self._sessions) >= self._limits.sessions:
            status = SessionStatus.RETRY_LATER
            refusal = encode.session_refused(status, ErrorCode.LIMIT, b"too many sessions are open")
            self._link.write(refusal)
            return
        self._handshake.cancel()
        self._opened += 1
        self._sessions[self._opened] = _Session(self._opened)
        # What was asked for is granted up to our own bound; that bound alone is held to.
        granted = min(meta.in_flight or 1, self._limits.in_flight)
        self._link.write(encode.session_open_ack(self._opened, granted))

    def _ping(self, packet: Packet) -> None:
        self._link.write(encode.pong(packet.session))

    def _close_session(self, packet: Packet) -> None:
        session = self._sessions.get(packet.session)
        if session is None:
            self._no_session(packet)
            return
        meta = close_meta(packet.meta)
        session.closing = meta.last
        if meta.policy == InFlight.ABORT:
            for operation in list(session.operations.values()):
                operation.break_off(Why.ABORT)
        self._close_if_done(session)

    def _close_if_done(self, session: _Session) -> None:
        """A closing session is acknowledged once its operations are over."""
        if session.closing is not None and not session.operations:
            del self._sessions[session.id]
            self._link.write(encode.session_close_ack(session.id, session.closing))

    # -- operations ------------------------------------------------------------------------------------

    def _submit(self, packet: Packet) -> None:
        session = self._sessions.get(packet.session)
        if session is None or session.closing is not None:
            self._no_session(packet)
            return
        meta = submit_meta(packet.meta) if packet.whole else None
        operation_id = meta.operation if meta is not None else 0
        if packet.frame in session.operations or (
            meta is not None and (not operation_id or session.by_id(operation_id) is not None)
        ):
            detail = "frame and operation ids are not zero, and not those of open operations"
            self._tell(ErrorCode.INVALID_STATE, ErrorScope.FRAME, packet, detail)
            return
        submit = Submit(session.id, packet.frame, operation_id, b"")
        reply = Reply(self._link, submit, self._limits.patience)
        try:
            if meta is None:
                raise refused("request_too_large", "The request is too large.", 413)
            submit = submit._replace(payload=payload_of(packet, meta))
        except MalformedError as error:
            self._tell(ErrorCode.MALFORMED_BODY, ErrorScope.FRAME, packet, str(error))
            return
        except FailedError as error:
            reply.fail(error.problem)
            return
        if len(session.operations) >= self._limits.in_flight or not self._room.take():
            reply.fail(OVERLOADED)
            return
        self._begin(session, _Operation(submit, reply))

    def _begin(self, session: _Session, operation: _Operation) -> None:
        session.operations[operation.submit.frame] = operation
        task = asyncio.get_running_loop().create_task(self._operate(operation))
        operation.task = task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(session, operation, done))

    def _ended(self, session: _Session, operation: _Operation, task: asyncio.Task[None]) -> None:
        """Told here and not in the task: one that is cancelled before it runs never runs at all."""
        self._tasks.discard(task)
        self._room.leave()
        session.operations.pop(operation.submit.frame, None)
        if operation.why is not None:
            _broken_off(operation.reply, operation.why)
        operation.reply.fail(INTERNAL)
        self._close_if_done(session)

    async def _operate(self, operation: _Operation) -> None:
        try:
            await self._service.serve(operation.submit, operation.reply)
        except Exception as error:  # noqa: BLE001  it costs this operation alone
            # The type alone: an exception's text may hold what a peer sent.
            log.error("an operation failed: %s", type(error).__name__)

    def _cancel(self, packet: Packet) -> None:
        """CANCEL, ABORT and FRAME_CANCEL. One for an operation that is over comes too late: no matter."""
        session = self._sessions.get(packet.session)
        if session is None:
            self._no_session(packet)
            return
        why = Why.ABORT if packet.type == Message.ABORT else Why.CANCEL
        if packet.type == Message.FRAME_CANCEL:
            operation = session.operations.get(packet.frame)
        else:
            meta = control_meta(packet.meta)
            operation = session.by_id(meta.operation)
            if not meta.operation:
                for each in list(session.operations.values()):
                    each.break_off(why)
        if operation is not None:
            operation.break_off(why)

    # -- ends ------------------------------------------------------------------------------------------

    def _no_session(self, packet: Packet) -> None:
        detail = "no such session is open"
        self._tell(ErrorCode.INVALID_STATE, ErrorScope.SESSION, packet, detail)

    def _tell(self, code: ErrorCode, scope: ErrorScope, packet: Packet, detail: str) -> None:
        frame = packet.frame if scope is ErrorScope.FRAME else 0
        self._link.write(
            encode.error(code, scope, packet.session, frame, detail.encode(), fatal=False)
        )

    def _give_up(self, code: ErrorCode, detail: str) -> None:
        """The client can't be understood: ERROR, and the end of the connection."""
        self._link.write(encode.error(code, ErrorScope.CONNECTION, diagnostic=detail.encode()))
        self._end()

    def _too_slow(self) -> None:
        self._give_up(ErrorCode.LIMIT, "no session was opened in time")

    def _end(self) -> None:
        self._over = True
        self._handshake.cancel()
        self._break_off(Why.GONE)
        self._link.close()

    def lost(self) -> None:
        """The client has gone: what it asked for is no longer wanted."""
        self._over = True
        self._handshake.cancel()
        self._break_off(Why.GONE)

    def _break_off(self, why: Why) -> None:
        for session in self._sessions.values():
            for operation in list(session.operations.values()):
                operation.break_off(why)

    async def shut_down(self, deadline: float) -> None:
        """Lets operations end for so many seconds, gives up the others, and closes."""
        self._handshake.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=deadline)
        self._break_off(Why.SHUTDOWN)
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        if not self._over:
            self._over = True
            self._link.write(encode.close())
            self._link.close()


def _broken_off(reply: Reply, why: Why) -> None:
    """Tells a client that is still there how its operation ended."""
    if why is Why.CANCEL:
        reply.end(documents.cancelled(why.value), _CANCELLED_STATUS)
    elif why is Why.ABORT:
        reply.drop(DropReason.PEER_CANCELLED, why.value)
    elif why is Why.SHUTDOWN:
        reply.drop(DropReason.TRANSPORT_CLOSED, why.value)
    else:
        reply.ended = True
