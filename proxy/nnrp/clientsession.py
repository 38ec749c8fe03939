"""One connection to an NNRP server with one session on it, and the operations that it carries.

What belongs here: the handshake, ids, what each packet does, back-pressure, the close. What doesn't: carriers
(clientlink.py), which connection an operation goes to (client.py), what events say (proxy/nnrp/bridge).

A peer is believed in nothing: a packet of a wrong length ends its operation, lost framing the connection,
and what comes for an operation that has ended is dropped.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final

from teeline.proxy.nnrp.clientlink import Endpoint, Link
from teeline.proxy.nnrp.clientoperation import (
    Cancelled,
    Dropped,
    Ending,
    Failed,
    Lost,
    Operation,
    Result,
)
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    METADATA_LENGTHS,
    Message,
    Packet,
    Splitter,
)
from teeline.validators.wire.nnrpcodes import (
    CancelReason,
    CloseReason,
    ErrorScope,
    InFlight,
    SessionStatus,
)
from teeline.validators.wire.nnrpcontrol import close_meta, retry_after_ms
from teeline.validators.wire.nnrplayout import (
    PRELUDE_BYTES,
    STRUCTURED_EVENT,
    control_meta,
    descriptors_of,
    error_meta,
    open_ack_meta,
    partial_meta,
    payload_start,
    prelude_of,
    result_meta,
)

_DIAGNOSTIC: Final = 512
"""Bytes of a peer's diagnostic text that are kept."""
_LAST_FRAME: Final = 2**32 - 1


class SessionError(Exception):
    """The session did not come about; the text is one line that quotes no peer.

    ``busy``: the server said to try later. ``refused``: it said no, and will again.
    """

    def __init__(self, text: str, *, busy: bool = False, refused: bool = False) -> None:
        super().__init__(text)
        self.busy, self.refused = busy, refused


class ClientSession:
    """Made by ``open``. ``changed`` is called when an operation ends and when the session is over."""

    def __init__(
        self, in_flight: int, max_packet: int, changed: Callable[[ClientSession], None]
    ) -> None:
        self._asked = self._granted = in_flight
        self._splitter = Splitter(max_packet)
        self._changed = changed
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Who opened it may be gone by then, and asyncio would complain.
        self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link: Link | None = None
        self._session = 0
        self._operations: dict[int, Operation] = {}
        self._frames = self._controls = 0
        self._full: set[Operation] = set()
        self._greeted = self._draining = False

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        context: ssl.SSLContext | None,
        *,
        in_flight: int,
        max_packet: int,
        changed: Callable[[ClientSession], None],
    ) -> ClientSession:
        """Connects and opens a session of ``in_flight`` operations. Raises LinkError, SessionError.

        A packet of more than ``max_packet`` bytes ends its operation. The caller limits the time.
        """
        session = cls(in_flight, max_packet, changed)
        link = await endpoint.connect(session, context, max_packet)
        session._link = link
        try:
            link.write(encode.client_hello())
            await session._opened
        except BaseException:
            link.abort()
            raise
        return session

    # -- for the pool ----------------------------------------------------------------------------------

    @property
    def load(self) -> int:
        """Operations that are open."""
        return len(self._operations)

    @property
    def free(self) -> int:
        """Operations that may be added; 0 when the session is ending or the server doesn't read."""
        if self._draining or self._link is None or self._link.congested:
            return 0
        return max(0, self._granted - self.load) if self._frames < _LAST_FRAME else 0

    @property
    def ending(self) -> bool:
        """Whether nothing happens any more but the close."""
        return self._draining and not self._operations

    @property
    def over(self) -> bool:
        """Whether the connection is gone."""
        return self._over.done()

    def submit(self, envelope: bytes) -> Operation:
        """Sends an envelope, JSON in UTF-8; ``free`` must not be 0."""
        assert self.free and self._link is not None
        self._frames += 1
        operation = Operation(self._frames, self._frames, self._cancel, self._fullness)
        self._operations[operation.frame] = operation
        self._link.write(
            encode.frame_submit(self._session, operation.frame, operation.id, envelope)
        )
        return operation

    def close(self) -> None:
        """Takes no more operations, cancels those that are open, and closes in an orderly way."""
        for operation in list(self._operations.values()):
            operation.cancel(CancelReason.SHUTDOWN)
        if self._draining or self._link is None:
            return
        self._draining = True
        self._link.resume()
        last = self._frames
        self._link.write(encode.session_close(self._session, last, CloseReason.CLIENT_SHUTDOWN))

    async def closed(self) -> None:
        """Waits until the connection is gone."""
        await asyncio.shield(self._over)

    def abort(self) -> None:
        if self._link is not None:
            self._link.abort()

    # -- what comes ------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        for packet in self._splitter.feed(data):
            self._packet(packet)
        if self._splitter.lost is not None:
            self._broken("the server sent bytes that are no NNRP packet")

    def lost(self) -> None:
        if not self._over.done():
            self._over.set_result(None)
        self._finish(Lost("the connection to the server was lost"))

    def _packet(self, packet: Packet) -> None:
        length = METADATA_LENGTHS.get(packet.type)
        if packet.whole and length is not None and packet.meta_bytes != length:
            self._unreadable(packet, "metadata of a wrong length")
        elif not packet.whole:
            self._unreadable(packet, "a packet above the limit")
        elif (handler := _HANDLERS.get(packet.type)) is not None:
            handler(self, packet)

    def _operation(self, packet: Packet) -> Operation | None:
        """The open operation that a packet is about."""
        return self._operations.get(packet.frame) if packet.session == self._session else None

    def _unreadable(self, packet: Packet, what: str) -> None:
        """What can't be read ends the operation that it is about, else the connection."""
        operation = self._operation(packet)
        if operation is not None:
            self._refuse(operation, f"the server sent {what}")
        elif packet.type in (Message.SERVER_HELLO_ACK, Message.SESSION_OPEN_ACK, Message.ERROR):
            self._broken(f"the server sent {what}")

    def _hello_ack(self, packet: Packet) -> None:
        if not self._greeted:
            self._greeted = True
            self._send(encode.session_open(self._asked))

    def _open_ack(self, packet: Packet) -> None:
        meta = open_ack_meta(packet.meta)
        if self._opened.done():
            return
        if not meta.session or meta.status not in (SessionStatus.OPENED, SessionStatus.RESUMED):
            busy = meta.status == SessionStatus.RETRY_LATER
            words = f"the server refused the session (status {meta.status}, error {meta.error})"
            self._opened.set_exception(SessionError(words, busy=busy, refused=not busy))
            return
        self._session = meta.session
        self._granted = min(self._asked, meta.granted or 1)
        self._opened.set_result(None)

    def _partial(self, packet: Packet) -> None:
        operation = self._operation(packet)
        if operation is None:
            return
        meta = partial_meta(packet.meta)
        if meta.body_bytes != packet.body_bytes or meta.operation != operation.id:
            self._refuse(operation, "the server sent an event whose metadata contradicts it")
        else:
            operation.arrived(packet.body)

    def _result(self, packet: Packet) -> None:
        operation = self._operation(packet)
        if operation is None:
            return
        meta = result_meta(packet.meta)
        document = _document(packet.body, meta.frames, meta.bitmap)
        if document is None:
            words = "the server sent a result whose body is not what its metadata says"
            self._end(operation, Lost(words, protocol=True))
        else:
            self._end(operation, Result(meta.status, document or None))

    def _drop(self, packet: Packet) -> None:
        operation = self._operation(packet)
        if operation is None:
            return
        meta = control_meta(packet.meta) if packet.meta else None
        if meta is not None and meta.operation != operation.id:
            self._refuse(operation, "the server dropped an operation under another one's frame")
        else:
            reason = meta.reason if meta is not None else 0
            self._end(operation, Dropped(reason, packet.body[:_DIAGNOSTIC]))

    def _error(self, packet: Packet) -> None:
        meta = error_meta(packet.meta)
        ending = Failed(meta.code, packet.body[:_DIAGNOSTIC])
        if meta.scope == ErrorScope.FRAME and (frame := meta.frame or packet.frame):
            operation = self._operations.get(frame)
            if operation is not None:
                operation.retry_after_ms = meta.retry_after
                self._end(operation, ending)
            return
        for operation in self._operations.values():
            operation.retry_after_ms = meta.retry_after
        self._finish(ending)
        self.abort()

    def _retry_after(self, packet: Packet) -> None:
        operation = self._operation(packet)
        if operation is not None:
            operation.retry_after_ms = retry_after_ms(packet.meta)

    def _ping(self, packet: Packet) -> None:
        if (
            self._link is not None and not self._link.congested
        ):  # who only pings would fill the memory
            self._send(encode.pong(packet.session))

    def _closing(self, packet: Packet) -> None:
        """SESSION_CLOSE or CLOSE: open operations may end, new ones go elsewhere."""
        first, self._draining = not self._draining, True
        if first and packet.type == Message.SESSION_CLOSE:
            meta = close_meta(packet.meta)
            self._send(encode.session_close_ack(self._session, meta.last))
            if meta.policy == InFlight.ABORT:
                self._finish(Lost("the server closed the session"))
        self._close_if_idle()

    def _close_ack(self, packet: Packet) -> None:
        self._draining = True
        if self._link is not None:
            self._link.close()

    # -- ends ------------------------------------------------------------------------------------------

    def _end(self, operation: Operation, ending: Ending) -> None:
        self._operations.pop(operation.frame, None)
        operation.end(ending)
        self._close_if_idle()
        self._changed(self)

    def _refuse(self, operation: Operation, why: str) -> None:
        """The server broke the protocol in one operation: the server is told, and so is the client."""
        self._send_cancel(operation, CancelReason.UNSPECIFIED)
        self._end(operation, Lost(why, protocol=True))

    def _cancel(self, operation: Operation, reason: CancelReason) -> None:
        self._send_cancel(operation, reason)
        self._end(operation, Cancelled(reason))

    def _send_cancel(self, operation: Operation, reason: CancelReason) -> None:
        self._controls += 1
        named = (self._session, operation.frame, operation.id, self._controls)
        self._send(encode.cancel(*named, reason))

    def _broken(self, why: str) -> None:
        self._finish(Lost(why, protocol=True))
        self.abort()

    def _finish(self, ending: Ending) -> None:
        """The session is over, and every operation on it."""
        self._draining = True
        if not self._opened.done():
            text = ending.why if isinstance(ending, Lost) else "the server refused with an ERROR"
            self._opened.set_exception(SessionError(text))
        operations, self._operations = self._operations, {}
        for operation in operations.values():
            operation.end(ending)
        self._changed(self)

    def _close_if_idle(self) -> None:
        if self._draining and not self._operations and self._link is not None:
            self._link.close()

    def _send(self, data: bytes) -> None:
        if self._link is not None:
            self._link.write(data)

    def _fullness(self, operation: Operation) -> None:
        """One slow reader stops the connection: nothing else bounds what its operation takes."""
        if operation.full:
            self._full.add(operation)
        else:
            self._full.discard(operation)
        if self._link is not None:
            if self._full:
                self._link.pause()
            else:
                self._link.resume()


def _document(body: bytes, frames: int, bitmap: int) -> bytes | None:
    """The document of a result: empty for an empty success, None where the two don't agree (8.1)."""
    if not body or body == bytes(PRELUDE_BYTES):
        return b"" if not frames and not bitmap else None
    prelude = prelude_of(body)
    if prelude is None or frames != 1 or prelude.extra:
        return None
    descriptors = descriptors_of(body, prelude, 2)
    if len(descriptors) != 1 or descriptors[0].kind != STRUCTURED_EVENT:
        return None
    whole = descriptors[0].offset == 0 and descriptors[0].length == prelude.payloads
    return body[payload_start(prelude) :] or None if whole else None


_HANDLERS: Final[Mapping[int, Callable[[ClientSession, Packet], None]]] = {
    Message.SERVER_HELLO_ACK: ClientSession._hello_ack,
    Message.SESSION_OPEN_ACK: ClientSession._open_ack,
    Message.PARTIAL_RESULT: ClientSession._partial,
    Message.RESULT_PUSH: ClientSession._result,
    Message.RESULT_DROP: ClientSession._drop,
    Message.RESULT_DROP_REASON: ClientSession._drop,
    Message.ERROR: ClientSession._error,
    Message.RETRY_AFTER: ClientSession._retry_after,
    Message.PING: ClientSession._ping,
    Message.SESSION_CLOSE: ClientSession._closing,
    Message.CLOSE: ClientSession._closing,
    Message.SESSION_CLOSE_ACK: ClientSession._close_ack,
}
