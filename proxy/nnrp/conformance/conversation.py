"""One session with a server under test, every packet of which is seen as it came.

What belongs here: the handshake, submits, cancels, and what came for each frame. What doesn't: what was
expected (judge.py). The client that serves traffic (proxy/nnrp/client.py) drops what comes after a cancel
and retries connections; here nothing is dropped and nothing is retried.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from teeline.proxy.nnrp.clientlink import Endpoint, Link, LinkError
from teeline.proxy.nnrp.observed import Observed
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
    DropReason,
    ErrorCode,
    InFlight,
)
from teeline.validators.wire.nnrplayout import (
    control_meta,
    error_meta,
    open_ack_meta,
    payload_start,
    prelude_of,
)

_MAX_PACKET: Final = 64 * 1024 * 1024
_SESSION_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0
_IN_FLIGHT: Final = 4
"""More is refused by native servers, as they are by default."""
_FIRST_OPERATION: Final = 1000


class ConversationError(Exception):
    """No session could be had, or it is gone; the text is one line that quotes no peer."""


class _Running:
    """An operation that waits for its end."""

    def __init__(self, operation: int, cancel_after: int | None) -> None:
        self.operation, self.cancel_after = operation, cancel_after
        self.cancelled_at: float | None = None
        self.observed = Observed()
        self.over = asyncio.Event()

    def end(self) -> None:
        """The operation has ended."""
        if self.cancelled_at is not None:
            self.observed.after_cancel = asyncio.get_running_loop().time() - self.cancelled_at
        self.over.set()


class Conversation:
    """A connection with one session. Made by ``open``, ended by ``close``."""

    def __init__(self) -> None:
        self._splitter = Splitter(_MAX_PACKET)
        self._news: asyncio.Queue[Packet | None] = asyncio.Queue()
        self._running: dict[int, _Running] = {}
        self._session = 0
        self._frames = 0
        self._controls = 0
        self._unended = False
        self._closed, self._lost = asyncio.Event(), asyncio.Event()
        self._link: Link | None = None

    @classmethod
    async def open(cls, endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> Conversation:
        """Connects and opens a session. Raises ConversationError."""
        self = cls()
        try:
            async with asyncio.timeout(_SESSION_SECONDS):
                self._link = await endpoint.connect(self, tls, _MAX_PACKET)
                self._link.write(encode.client_hello())
                await self._expected(Message.SERVER_HELLO_ACK)
                self._link.write(encode.session_open(_IN_FLIGHT))
                packet = await self._expected(Message.SESSION_OPEN_ACK)
        except LinkError as error:
            raise ConversationError(str(error)) from None
        except (TimeoutError, ConversationError) as error:
            raise await self._given_up(
                str(error) or "the server opened no session in time"
            ) from None
        self._session = open_ack_meta(packet.meta).session
        if not self._session:
            raise await self._given_up("the server refused the session")
        return self

    async def _given_up(self, why: str) -> ConversationError:
        """No session came about: nothing is left of the connection."""
        if self._link is not None:
            self._link.abort()
            await self._link.released()
        return ConversationError(why)

    async def _expected(self, kind: Message) -> Packet:
        packet = await self._news.get()
        if packet is None:
            raise ConversationError("the server closed the connection in the handshake")
        if packet.type != kind or len(packet.meta) != METADATA_LENGTHS[kind]:
            raise ConversationError(f"the server sent something else than {kind.name}")
        return packet

    async def run(
        self, envelope: bytes, *, cancel_after: int | None = None, timeout: float
    ) -> Observed:
        """Submits an envelope, and waits for the end.

        ``cancel_after``: CANCEL goes out behind so many events. ``timeout``: seconds, after which the
        operation has none. Raises ConversationError where the connection is gone already.
        """
        if self._gone or self._link is None:
            raise ConversationError("the connection is gone")
        self._frames += 1
        frame = self._frames
        running = _Running(_FIRST_OPERATION + frame, cancel_after)
        self._running[frame] = running
        packet = encode.frame_submit(self._session, frame, running.operation, envelope)
        self._link.write(packet)
        try:
            async with asyncio.timeout(timeout):
                await running.over.wait()
        except TimeoutError:
            running.observed.notes.append("no end came in time")
            self._unended = True
        del self._running[frame]
        return running.observed

    async def close(self) -> None:
        """Closes the session, then the connection; at once where the server takes too long over it."""
        if self._link is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if not self._gone:
                    last = _FIRST_OPERATION + self._frames
                    policy = InFlight.ABORT if self._unended else InFlight.DRAIN
                    bye = encode.session_close(self._session, last, CloseReason.NORMAL, policy)
                    self._link.write(bye)
                    await self._closed.wait()
                self._link.close()
                await self._lost.wait()
        except TimeoutError:
            self.abort()
        await self._link.released()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._link is not None:
            self._link.abort()

    # -- what comes ------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        for packet in self._splitter.feed(data):
            if self._session:
                self._packet(packet)
            else:
                self._news.put_nowait(packet)
        if self._splitter.lost is not None:
            self.abort()

    def lost(self) -> None:
        self._closed.set()
        self._lost.set()
        self._news.put_nowait(None)
        for running in self._running.values():
            if not running.over.is_set():
                running.observed.notes.append("the connection ended first")
                running.over.set()

    @property
    def _gone(self) -> bool:
        return self._lost.is_set()

    def _packet(self, packet: Packet) -> None:
        if packet.type == Message.SESSION_CLOSE_ACK:
            self._closed.set()
            return
        if not packet.whole:
            self.abort()
            return
        if packet.type == Message.ERROR and packet.meta_bytes == METADATA_LENGTHS[Message.ERROR]:
            self._error(packet)
            return
        running = self._running.get(packet.frame)
        if packet.session != self._session or running is None or running.over.is_set():
            return  # of another session, or too late: the tap names it
        if packet.type == Message.PARTIAL_RESULT:
            self._event(running, packet)
        elif packet.type == Message.RESULT_PUSH:
            self._result(running, packet)
        elif packet.type in (Message.RESULT_DROP, Message.RESULT_DROP_REASON):
            self._drop(running, packet)

    def _event(self, running: _Running, packet: Packet) -> None:
        running.observed.hear(packet.body)
        if running.cancel_after is not None and running.cancelled_at is None:
            running.cancel_after -= 1
            if running.cancel_after <= 0:
                self._cancel(running, packet.frame)

    def _cancel(self, running: _Running, frame: int) -> None:
        assert self._link is not None  # a packet came over it
        running.cancelled_at = asyncio.get_running_loop().time()
        self._controls += 1
        reason = CancelReason.CONFORMANCE
        packet = encode.cancel(self._session, frame, running.operation, self._controls, reason)
        self._link.write(packet)

    def _result(self, running: _Running, packet: Packet) -> None:
        running.observed.conclude(_document(packet.body), Message.RESULT_PUSH.name)
        running.end()

    def _drop(self, running: _Running, packet: Packet) -> None:
        told = running.cancelled_at is not None
        reason = "no reason"
        whole = packet.meta_bytes == METADATA_LENGTHS[Message.RESULT_DROP_REASON]
        if packet.type == Message.RESULT_DROP_REASON and whole:
            code = control_meta(packet.meta).reason
            told = code == DropReason.PEER_CANCELLED
            reason = DropReason(code).name.lower() if code in list(DropReason) else f"code {code}"
        running.observed.notes.append(f"dropped: {reason}")
        running.observed.terminal = "cancelled" if told else "error"
        _end(running, Message(packet.type))

    def _error(self, packet: Packet) -> None:
        """An ERROR about one frame ends that operation; any other ends all."""
        meta = error_meta(packet.meta)
        name = ErrorCode(meta.code).name.lower() if meta.code in list(ErrorCode) else meta.code
        about = [self._running[meta.frame]] if meta.frame in self._running else []
        for running in about or list(self._running.values()):
            if not running.over.is_set():
                running.observed.notes.append(f"ERROR: {name}")
                _end(running, Message.ERROR)


def _end(running: _Running, message: Message) -> None:
    running.observed.end = message.name
    running.end()


def _document(body: bytes) -> bytes | None:
    """The document of a result, empty for an empty success; None where there is no such body."""
    prelude = prelude_of(body)
    if not body or (prelude is not None and not any(prelude[:6])):
        return b""
    if prelude is None:
        return None
    start = payload_start(prelude)
    return body[start : start + prelude.payloads]
