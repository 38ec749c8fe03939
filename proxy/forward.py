"""Carries one request to its upstream and the answer back, unchanged and piece by piece.

What belongs here: the course of an exchange, its timeouts, and what becomes of it when a side
leaves or breaks. What doesn't: the bytes of heads (head.py), connections (connection.py,
upstream.py), and inspection, of which only the tee's hand-over is seen here: always after the
write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web
from aiohttp.http import HttpVersion11, StreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from teeline.proxy import answers, head
from teeline.proxy.connection import ClientConnection
from teeline.proxy.head import Framing
from teeline.proxy.tee import Observers
from teeline.proxy.upstream import AnswerHead, Upstream, UpstreamConnection, UpstreamError
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Ended


class Forwarder:
    """Answers the requests of one listening address.

    ``upstreams`` are told apart by their prefixes, the longest first. While ``stopping`` is set,
    answers end their connection and new requests get a 503. ``requests`` counts all that came.
    """

    def __init__(self, upstreams: Sequence[Upstream], observers: Observers) -> None:
        self.stopping = False
        self.requests = 0
        self.active: set[Transfer] = set()
        self._observers = observers
        self._routes = sorted(upstreams, key=lambda upstream: -len(upstream.prefix))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One exchange.

        What is returned has been written to the client, or is teeline's own answer.
        """
        self.requests += 1
        target = request.raw_path.encode("utf-8", "surrogateescape")
        route = self._route(request.method, target)
        if isinstance(route, answers.Answer):
            return self._refuse(request, target, route)
        transfer = Transfer(self, route, self._observers, request, target)
        self.active.add(transfer)
        try:
            return await transfer.run()
        finally:
            self.active.discard(transfer)

    def _route(self, method: str, target: bytes) -> Upstream | answers.Answer:
        if self.stopping:
            return answers.SHUTTING_DOWN
        if method == "CONNECT":
            return answers.BAD_TARGET
        path = head.origin_form(target)
        for upstream in self._routes:
            if not upstream.prefix or head.begins_with(path, upstream.prefix):
                return upstream
        return answers.NO_ROUTE

    def _refuse(
        self, request: web.BaseRequest, target: bytes, answer: answers.Answer
    ) -> web.StreamResponse:
        tee = self._observers.open("", _connection_of(request).host, request.raw_headers)
        tee.request_head(_request_head(request, target), tee.now())
        tee.end(answer.ended)
        return answers.Written(answer.encode(body=request.method != "HEAD"))


class Transfer:
    """One exchange under way."""

    def __init__(
        self,
        forwarder: Forwarder,
        upstream: Upstream,
        observers: Observers,
        request: web.BaseRequest,
        target: bytes,
    ) -> None:
        self._forwarder = forwarder
        self._upstream = upstream
        self._timeouts = upstream.timeouts
        self._request = request
        self._connection = _connection_of(request)
        self._client = StreamWriter(self._connection, asyncio.get_running_loop())
        self._persistent = request.keep_alive and request.version == HttpVersion11
        self._target = head.upstream_target(target, upstream.prefix, upstream.base)
        self._fields = request.raw_headers
        self._tee = observers.open(upstream.name, self._connection.host, self._fields)
        self._arrived = self._tee.now()
        self._answering: Framing | None = None
        self._refusal: answers.Answer | None = None
        self._first_byte: asyncio.Timeout | None = None
        self._request_ended_at: float | None = None
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self._cancelled_as = Ended.CLIENT_CLOSED

    def abort(self, ended: Ended) -> None:
        """Breaks the exchange off, for a reason that is neither peer's."""
        self._cancelled_as = ended
        self.task.cancel()

    async def run(self) -> web.StreamResponse:
        """Forwards the request and its answer, and tells the tee how it ended."""
        # What stands where our own code fails: neither peer has ended it, and it isn't complete.
        ended = Ended.SHUTDOWN
        response = answers.Written()
        try:
            response = answers.Written(keep_alive=await self._within_total())
            ended = Ended.COMPLETE
        except asyncio.CancelledError:
            ended = self._cancelled_as
            self._break_off()
            raise
        except UpstreamError as error:
            ended, response = self._failed(error)
        except ConnectionError:
            # The upstream's are UpstreamErrors: this is the client's connection.
            ended = Ended.CLIENT_CLOSED
            self._break_off()
        finally:
            self._open_tee()
            self._tee.end(ended)
        return response

    def _failed(self, error: UpstreamError) -> tuple[Ended, answers.Written]:
        if self._answering is None:
            self._connection.drop_upstream()
            answer = self._refusal or error.answer
            body = self._request.method != "HEAD"
            return answer.ended, answers.Written(answer.encode(body=body))
        self._break_off()
        # A body that the client broke is not the relay's fault, although its answer ends early.
        return Ended.CLIENT_CLOSED if self._refusal else error.ended, answers.Written()

    def _break_off(self) -> None:
        self._connection.break_off(reset=self._answering is Framing.CLOSE)

    async def _within_total(self) -> bool:
        try:
            async with asyncio.timeout(self._timeouts.total):
                return await self._forward()
        except TimeoutError:
            raise UpstreamError(answers.TIMEOUT) from None

    async def _forward(self) -> bool:
        """Both directions at once; true where the connections can carry another exchange."""
        upstream = await self._connection.upstream(self._upstream)
        upstream.begin(self._request.method)
        framing = head.request_framing(self._fields)
        await self._send_head(upstream, framing)
        if framing is Framing.NONE:
            self._request_ended()
            keep_alive = await self._receive(upstream)
        else:
            keep_alive = await self._both_ways(upstream)
        return upstream.finish() and keep_alive and not self._forwarder.stopping

    async def _both_ways(self, upstream: UpstreamConnection) -> bool:
        upload = asyncio.create_task(self._send_body(upstream))
        try:
            keep_alive = await self._receive(upstream)
            if keep_alive and not upload.done():
                # An early answer: the upstream keeps its connection, so the rest is still its.
                await asyncio.wait((upload, upstream.lost), return_when=asyncio.FIRST_COMPLETED)
            return keep_alive and upload.done()
        finally:
            if not upload.done():
                upload.cancel()
                await asyncio.wait((upload,))

    async def _send_head(self, upstream: UpstreamConnection, framing: Framing) -> None:
        data = head.request_head(
            self._request.method,
            self._target,
            self._fields,
            self._upstream.authority,
            close=not self._persistent,
        )
        try:
            await upstream.writer.write(data, drain=False)
        except ConnectionError:
            raise UpstreamError(answers.CLOSED) from None
        if framing is Framing.CHUNKED:
            upstream.writer.enable_chunking()
        self._open_tee()

    async def _send_body(self, upstream: UpstreamConnection) -> None:
        """The request's body as it comes. An upstream that takes no more of it may still answer."""
        content, writer, tee = self._request.content, upstream.writer, self._tee
        try:
            while piece := await content.readany():
                at = tee.now()
                await writer.write(piece)
                tee.request_body(piece, at)
            await writer.write_eof()
        except (RequestPayloadError, HttpProcessingError):
            # The upstream must not take what came for the whole of it (RFC 9112 8).
            self._refusal = answers.BAD_REQUEST
            upstream.abort()
        except ConnectionError:
            return
        else:
            self._request_ended()

    def _request_ended(self) -> None:
        self._tee.request_end(self._tee.now())
        self._request_ended_at = asyncio.get_running_loop().time()
        self._limit_first_byte()

    def _limit_first_byte(self) -> None:
        """Starts the clock once both the request has ended and its answer is waited for."""
        limit, ended_at = self._timeouts.first_byte, self._request_ended_at
        if limit is not None and ended_at is not None and self._first_byte is not None:
            self._first_byte.reschedule(ended_at + limit)

    async def _receive(self, upstream: UpstreamConnection) -> bool:
        """The answer, from its head to its end; true where the client's connection goes on
        behind it.
        """
        async with asyncio.timeout(None) as self._first_byte:
            self._limit_first_byte()
            answer = await self._final_head(upstream)
        self._first_byte = None
        at = self._tee.now()
        keep_alive = await self._write_head(answer)
        self._tee.response_head(ResponseHead(answer.status, head.for_inspector(answer.fields)), at)
        if self._answering is not Framing.NONE:
            await self._receive_body(upstream)
        return keep_alive

    async def _final_head(self, upstream: UpstreamConnection) -> AnswerHead:
        """The final head. Interim ones go to the client as they come (RFC 9110 15.2)."""
        while (answer := await upstream.read_head()).status < 200:
            if self._request.version == HttpVersion11:
                interim = head.response_head(answer.status, answer.reason, answer.fields)
                await self._client.write(interim)
        return answer

    async def _write_head(self, answer: AnswerHead) -> bool:
        framing = head.response_framing(
            self._request.method, answer.status, answer.fields, answer.chunked
        )
        dechunk = framing is Framing.CHUNKED and self._request.version != HttpVersion11
        self._answering = Framing.CLOSE if dechunk else framing
        keep_alive = (
            self._persistent
            and answer.persistent
            and self._answering is not Framing.CLOSE
            and not self._forwarder.stopping
        )
        data = head.response_head(
            answer.status, answer.reason, answer.fields, chunked=not dechunk, close=not keep_alive
        )
        await self._client.write(data, drain=False)
        if self._answering is Framing.CHUNKED:
            self._client.enable_chunking()
        return keep_alive

    async def _receive_body(self, upstream: UpstreamConnection) -> None:
        client, tee = self._client, self._tee
        while piece := await self._next_piece(upstream):
            at = tee.now()
            await client.write(piece)
            tee.response_body(piece, at)
        await client.write_eof()

    async def _next_piece(self, upstream: UpstreamConnection) -> bytes:
        if self._timeouts.idle is None:
            return await upstream.read_piece()
        async with asyncio.timeout(self._timeouts.idle):
            return await upstream.read_piece()

    def _open_tee(self) -> None:
        if not self._tee.opened:
            self._tee.request_head(_request_head(self._request, self._target), self._arrived)


def _request_head(request: web.BaseRequest, target: bytes) -> RequestHead:
    return RequestHead(
        request.method, target.decode("latin-1"), head.for_inspector(request.raw_headers)
    )


def _connection_of(request: web.BaseRequest) -> ClientConnection:
    connection = request.protocol
    assert isinstance(connection, ClientConnection)
    return connection
