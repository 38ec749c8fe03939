"""The course of one request: submitted, its events passed on as they come, and exactly one proper end.

What belongs here: time limits, a client that leaves or doesn't read, what is sent when. What doesn't: which
bytes tell an event (chat.py, responses.py), routes and limits of the whole bridge (server.py).

An answer that streams has no head until there is something to say: so long an error is a status. It ends with
its API's own end, or, where the head is out, with an error event and without that end. Whatever way this
is left, the operation behind it has ended or is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import web

from teeline.proxy.nnrp.bridge.asked import CHAT, RESPONSES, Asked
from teeline.proxy.nnrp.bridge.chat import ChatStream
from teeline.proxy.nnrp.bridge.chatwhole import ChatWhole
from teeline.proxy.nnrp.bridge.compare import Copy
from teeline.proxy.nnrp.bridge.failure import (
    FailureError,
    broken,
    from_ending,
)
from teeline.proxy.nnrp.bridge.responses import ResponsesStream
from teeline.proxy.nnrp.bridge.stream import raise_unless_success
from teeline.proxy.nnrp.bridge.told import NOTHING, Document, document_of, event_of
from teeline.proxy.nnrp.clientoperation import Operation, Result
from teeline.validators.wire.nnrpcodes import CancelReason

log = logging.getLogger("teeline.nnrp")

STREAMED: Final = frozenset({CHAT, RESPONSES})
"""Operations whose answers can stream."""
_PIECE: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Times:
    """Limits in seconds, None for none. ``whole`` of an operation, ``idle`` between its events; ``head``
    until the head of a stream goes out without an event; ``stall`` in which a client must have taken
    something that was sent.
    """

    whole: float | None = None
    idle: float | None = None
    head: float | None = 15.0
    stall: float = 30.0


class Deadlines:
    """Cancels an operation whose time is over; to be used as ``with``."""

    def __init__(self, operation: Operation, times: Times, timeout_ms: int | None) -> None:
        self._operation = operation
        self._loop = asyncio.get_running_loop()
        limits = (times.whole, timeout_ms / 1000 if timeout_ms else None)
        self._whole = min((limit for limit in limits if limit), default=None)
        self._idle = times.idle
        self._heard = self._loop.time()
        self._end: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._whole is not None:
            self._end = self._loop.call_later(self._whole, self._over)
        if self._idle is not None:
            self._look = self._loop.call_later(self._idle, self._looked, self._idle)
        return self

    def __exit__(self, *_: object) -> None:
        for timer in (self._end, self._look):
            if timer is not None:
                timer.cancel()

    def heard(self) -> None:
        """Something has come."""
        self._heard = self._loop.time()

    def _looked(self, idle: float) -> None:
        """Runs once an idle limit, whatever has come meanwhile: no timer is set for each event."""
        if self._operation.waiting:  # it is the client who is slow
            self.heard()
        left = self._heard + idle - self._loop.time()
        if left > 0:
            self._look = self._loop.call_later(left, self._looked, idle)
        else:
            self._over()

    def _over(self) -> None:
        self._operation.cancel(CancelReason.DEADLINE)


class Course:
    """One request under way. ``made`` names what the server gives no id; ``copy`` is told what passes."""

    def __init__(
        self,
        request: web.Request,
        asked: Asked,
        operation: Operation,
        times: Times,
        made: str,
        created: int,
        copy: Copy | None = None,
    ) -> None:
        self._request, self._asked, self._operation = request, asked, operation
        self._times, self._made, self._created = times, made, created
        self._copy = copy
        self._response: web.StreamResponse | None = None

    async def answer(self) -> web.StreamResponse:
        """The answer, which was sent. Raises FailureError where nothing was, ConnectionError where the
        client is gone or could not be told the rest.
        """
        with Deadlines(self._operation, self._times, self._asked.timeout_ms) as deadlines:
            try:
                if self._asked.stream and self._asked.operation in STREAMED:
                    return await self._streamed(deadlines.heard)
                return await self._whole(deadlines.heard)
            except FailureError as failure:
                self._operation.cancel(CancelReason.UNSPECIFIED)
                failure.retry_after_ms = self._operation.retry_after_ms or failure.retry_after_ms
                raise
            except ConnectionError:
                raise
            except Exception as error:
                if self._response is None:
                    raise
                # A second head would be read as a part of the first answer.
                log.error("bridge: an answer failed: %s", type(error).__name__)
                raise self._left("it can't be told how the answer ends") from None
            finally:
                # Nothing where it has ended; else the client is gone.
                self._operation.cancel(CancelReason.USER_CANCELLED)

    def _fields(self, content_type: str) -> dict[str, str]:
        return {"Content-Type": content_type, "x-request-id": self._asked.request_id}

    # -- answers that stream ---------------------------------------------------------------------------

    async def _streamed(self, heard: Callable[[], None]) -> web.StreamResponse:
        stream = self._stream()
        if not await self._awaited():
            await self._send(stream.begin())
        while True:
            events = await self._operation.read()
            heard()
            data, failure = self._told(stream, events)
            if failure is not None and self._response is None and not data:
                raise failure
            if data:
                await self._send(data)
            if self._copy is not None:
                self._copy.came(events)
            if failure is not None:
                self._operation.cancel(CancelReason.UNSPECIFIED)
                await self._send(stream.error(failure))
            if failure is not None or not events:
                assert self._response is not None
                await self._response.write_eof()
                return self._response

    def _stream(self) -> ChatStream | ResponsesStream:
        kind = ChatStream if self._asked.operation == CHAT else ResponsesStream
        prefix = "chatcmpl-" if kind is ChatStream else "resp_"
        return kind(self._asked, prefix + self._made, self._created)

    async def _awaited(self) -> bool:
        """Waits for the first event as long as the head may be held back; whether one came."""
        if self._times.head is None:
            return True
        try:
            async with asyncio.timeout(self._times.head):
                await self._operation.arrival()
        except TimeoutError:
            return False
        return True

    def _told(
        self, stream: ChatStream | ResponsesStream, events: list[bytes]
    ) -> tuple[bytes, FailureError | None]:
        """What a batch adds to a stream, up to the place where it can't go on."""
        said: list[bytes] = []
        try:
            for data in events:
                said.append(stream.event(event_of(data)))
            if not events:
                said.append(stream.end(self._document()))
        except FailureError as failure:
            return b"".join(said), failure
        return b"".join(said), None

    async def _send(self, data: bytes) -> None:
        """Sends some of a stream, its head first. A client that takes nothing for too long is left."""
        if self._response is None:
            fields = self._fields("text/event-stream; charset=utf-8")
            await self._begin({**fields, "Cache-Control": "no-cache"}, streamed=True)
        await self._write(data)

    # -- sending ---------------------------------------------------------------------------------------

    async def _begin(self, fields: Mapping[str, str], *, streamed: bool) -> web.StreamResponse:
        self._response = web.StreamResponse(headers=fields)
        await self._response.prepare(self._request)
        if self._copy is not None:
            self._copy.began(self._response.status, streamed=streamed)
        return self._response

    async def _write(self, data: bytes) -> None:
        """Sends in small pieces, so that a client that reads slowly is not taken for one that doesn't."""
        assert self._response is not None
        try:
            for start in range(0, len(data), _PIECE):
                async with asyncio.timeout(self._times.stall):
                    await self._response.write(data[start : start + _PIECE])
        except TimeoutError:
            raise self._left("the client does not read") from None
        if self._copy is not None:
            self._copy.sent(data)

    def _left(self, why: str) -> ConnectionResetError:
        """Ends the connection; the error to raise."""
        if self._copy is not None:
            self._copy.cut = True
        if self._request.transport is not None:
            self._request.transport.abort()
        return ConnectionResetError(why)

    # -- whole answers ---------------------------------------------------------------------------------

    async def _whole(self, heard: Callable[[], None]) -> web.StreamResponse:
        whole = ChatWhole(self._asked, "chatcmpl-" + self._made, self._created)
        while events := await self._operation.read():
            heard()
            for data in events:
                whole.event(event_of(data), data)
            if self._copy is not None:
                self._copy.came(events)
        document = self._document()
        raise_unless_success(document)
        body = document.body
        if document is NOTHING:
            if self._asked.operation != CHAT:
                raise broken("the operation succeeded and has no answer.")
            body = whole.body()
        fields = {**self._fields("application/json"), "Content-Length": str(len(body))}
        response = await self._begin(fields, streamed=False)
        await self._write(body)
        await response.write_eof()
        return response

    def _document(self) -> Document:
        """The document that ended the operation. Raises FailureError where it ended otherwise."""
        ending = self._operation.ending
        assert ending is not None
        if isinstance(ending, Result):
            return document_of(ending.document, ending.status)
        raise from_ending(ending)
