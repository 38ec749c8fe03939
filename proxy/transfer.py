"""Carries one request to its upstream and the answer back, unchanged and piece by piece.

What belongs here: the course of an exchange, its timeouts, and what becomes of it when a side
leaves or breaks. What doesn't: the bytes of heads (head.py), where bodies end (framing.py),
connections (connection.py, upstream.py), and inspection, of which only the tee's hand-over is seen
here: always after the write.

All of it happens within the calls that bring the bytes: no task, no future and no queue stands
between the two sides. An exchange ends once, in ``_over``; whatever is told to it behind that is
ignored.
"""

from __future__ import annotations

from typing import Protocol

from teeline.proxy import answers, pieces
from teeline.proxy.connection import ClientConnection, say_failed
from teeline.proxy.framing import Body
from teeline.proxy.head import AnswerHead, Framing, RequestHead
from teeline.proxy.parse import HeadError
from teeline.proxy.tee import Tee
from teeline.proxy.timers import Timers
from teeline.proxy.tunnel import Tunnel
from teeline.proxy.upstream import Upstream, UpstreamConnection
from teeline.validators.model import Ended


class Registry(Protocol):
    """Who has to know which exchanges are open."""

    stopping: bool

    def over(self, transfer: Transfer) -> None: ...

    def tunnel_opened(self, tunnel: Tunnel) -> None: ...

    def tunnel_over(self, tunnel: Tunnel) -> None: ...


class Transfer:
    """One exchange under way."""

    __slots__ = (
        "_answer_body",
        "_answered",
        "_client",
        "_dechunk",
        "_framing",
        "_hand",
        "_hand_piece",
        "_head_limit",
        "_keep",
        "_now",
        "_open",
        "_registry",
        "_request",
        "_request_body",
        "_target",
        "_tee",
        "_timers",
        "_unsent",
        "_upgrade",
        "_upstream",
        "_wire",
        "received",
        "uploading",
    )

    def __init__(
        self,
        registry: Registry,
        upstream: Upstream,
        target: bytes,
        client: ClientConnection,
        request: RequestHead,
        tee: Tee,
        head_limit: int,
    ) -> None:
        self._registry = registry
        self._upstream = upstream
        self._client = client
        self._request = request
        self._target = target
        self._tee = tee
        self._now = tee.now
        self._hand, self._hand_piece = tee.handover.hand, tee.handover.hand_piece
        self.received = 0
        """Grows with what the client is sent: an answer's head and its body."""
        self._request_body = request.body()
        self.uploading = self._request_body is not None
        self._upgrade = request.switches and not self.uploading
        self._wire: UpstreamConnection | None = None
        self._unsent: list[bytes] = []
        self._head_limit = head_limit
        self._framing: Framing | None = None
        self._answer_body: Body | None = None
        self._answered = False
        self._dechunk = False
        self._keep = False
        self._open = True
        timeouts = upstream.timeouts
        self._timers = Timers(timeouts, self._too_late) if timeouts.armed else None

    # -- the request -------------------------------------------------------------------------------

    def start(self, rest: bytes) -> bytes:
        """Sends the head, and what has come of the body with it; gives the bytes behind that."""
        body, request = self._request_body, self._request
        at = self._now()
        taken = body.take(rest) if body is not None else 0
        if body is not None and body.broken:
            self._open_tee(at)
            self._refuse(answers.BAD_REQUEST)
            return b""
        upstream = self._upstream
        data = request.forwarded(self._target, upstream.authority, upgrade=self._upgrade)
        if taken:
            data += rest if taken == len(rest) else rest[:taken]
        wire = self._client.behind(upstream)
        if wire is not None:
            self._wire = wire
            wire.exchange = self
            wire.transport.write(data)
        else:
            self._unsent.append(data)
        self._open_tee(at)
        if body is None:
            self._request_ended(at)
        else:
            if body.payload:
                self._hand_piece(self._tee.request_body, body.payload, at)
            if body.done:
                self._request_ended(at)
        return rest[taken:]

    def _open_tee(self, at: float) -> None:
        self._hand(self._tee.request_head, self._request.event(self._target), at)

    def request_bytes(self, data: bytes) -> bytes:
        """The request's body as it comes; gives the bytes behind its end."""
        body = self._request_body
        assert body is not None
        taken = body.take(data)
        if taken:
            self._send(data if taken == len(data) else data[:taken])
            if body.payload:
                self._hand_piece(self._tee.request_body, body.payload, self._now())
        if body.broken:
            # The upstream must not take what came for the whole of it (RFC 9112 8).
            self._refuse(answers.BAD_REQUEST)
            return b""
        if body.done:
            self._request_ended(self._now())
            if self._answered:
                self._complete()
        return data[taken:]

    def _send(self, data: bytes) -> None:
        if self._wire is not None:
            self._wire.transport.write(data)
        else:
            self._unsent.append(data)
            if sum(map(len, self._unsent)) > pieces.SIZE:
                self._client.upstream_full(True)

    def _request_ended(self, at: float) -> None:
        self.uploading = False
        self._hand(self._tee.request_end, None, at)
        if self._timers is not None and self._framing is None:
            self._timers.request_ended()

    # -- the connection to the upstream ------------------------------------------------------------

    def connected(self, upstream: UpstreamConnection) -> None:
        self._wire = upstream
        upstream.exchange = self
        unsent, self._unsent = self._unsent, []
        upstream.transport.write(b"".join(unsent))
        self._client.upstream_full(False)
        if self._client.half_closed:
            self.client_eof()

    def not_connected(self, answer: answers.Answer) -> None:
        self._refuse(answer)

    # -- the answer --------------------------------------------------------------------------------

    def answer_bytes(self, data: bytes) -> None:
        """What the upstream sends: heads, a body, and what doesn't belong here."""
        body = self._answer_body
        if body is None:
            self._heads(data)
            return
        taken = body.take(data)
        payload = body.payload
        if taken:
            if self._dechunk:
                self._client.transport.write(payload)
            else:
                self._client.transport.write(data if taken == len(data) else data[:taken])
            if payload:
                self.received += 1
                self._hand_piece(self._tee.response_body, payload, self._now())
        if self._timers is not None:
            self._timers.progress()
        if body.done:
            self._answer_ended(surplus=taken < len(data))
        elif body.broken:
            self._break_off(Ended.UPSTREAM_ABORTED)

    def _heads(self, data: bytes) -> None:
        """Heads of the answer: interim ones go to the client as they come (RFC 9110 15.2)."""
        wire = self._wire
        if wire is None or self._framing is not None:
            # The answer is over, and the request goes on: what comes now is nobody's.
            self._break_off(Ended.COMPLETE)
            return
        reader = wire.reader(self._head_limit)
        try:
            while (found := reader.answer(data)) is not None:
                answer, data = found
                if answer.status >= 200 or answer.status == 101:
                    self._final_head(answer, data)
                    return
                if not self._request.http10:
                    self._client.transport.write(answer.forwarded())
                if not data:
                    return
        except HeadError:
            self._refuse(answers.UNPARSABLE)

    def _final_head(self, answer: AnswerHead, rest: bytes) -> None:
        at = self._now()
        if self._timers is not None:
            self._timers.answered()
        if answer.status == 101:
            self._switch(answer, rest, at)
            return
        self._framing = framing = answer.framing(self._request.method)
        self._answer_body = body = answer.body(framing)
        self._dechunk = framing is Framing.CHUNKED and self._request.http10
        self._keep = (
            self._request.persistent
            and answer.persistent
            and framing is not Framing.CLOSE
            and not self._dechunk
            and not self._registry.stopping
        )
        taken = body.take(rest) if body is not None and rest else 0
        payload = body.payload if body is not None and taken else b""
        written = payload if self._dechunk else rest[:taken]
        data = answer.forwarded(self._connection_field(answer), chunked=not self._dechunk)
        self._client.transport.write(data + written if written else data)
        self.received += 1
        self._hand(self._tee.response_head, answer.event(), at)
        if payload:
            self._hand_piece(self._tee.response_body, payload, at)
        if body is None or body.done:
            self._answer_ended(surplus=taken < len(rest))
        elif body.broken:
            self._break_off(Ended.UPSTREAM_ABORTED)

    def _connection_field(self, answer: AnswerHead) -> bytes | None:
        """What the client has to be told of its connection (RFC 9112 9.3 and 9.6)."""
        if self._keep:
            return b"keep-alive" if self._request.http10 or answer.http10 else None
        return None if self._request.http10 else b"close"

    def _answer_ended(self, *, surplus: bool) -> None:
        self._answered = True
        self._answer_body = None
        if surplus:
            # Nobody asked for what stands behind the answer: no request may get it for its own.
            self._keep = False
        if not self.uploading or not self._keep:
            self._complete()

    def _complete(self) -> None:
        """The answer is on its way to the client, whole."""
        client, wire, uploading = self._client, self._wire, self.uploading
        if self._keep and wire is not None and not wire.lost:
            if self._over():
                client.next()
        elif self._over():
            client.close(linger=uploading)
        self._hand(self._tee.end, Ended.COMPLETE, self._now())

    def answer_eof(self) -> None:
        """The upstream sends no more: the end of a body that has no other."""
        if self._open and self._framing is Framing.CLOSE and not self._answered:
            self._keep = False
            self._answer_ended(surplus=False)

    def _switch(self, answer: AnswerHead, rest: bytes, at: float) -> None:
        """The answer to a WebSocket handshake: from here on bytes pass both ways."""
        wire = self._wire
        if not self._upgrade or not answer.switches or wire is None:
            self._refuse(answers.UNPARSABLE)
            return
        client = self._client
        client.transport.write(answer.forwarded(upgrade=True) + rest)
        self._hand(self._tee.switched, answer.event(), at)
        if self._over(replaced=True):
            Tunnel(client, wire, self._tee, self._registry).start(rest)

    # -- ends --------------------------------------------------------------------------------------

    def upstream_lost(self, exc: BaseException | None) -> None:
        """The upstream's connection is over before the exchange is."""
        if not self._open:
            return
        self._wire = None
        if self._framing is None:
            self._refuse(answers.CLOSED)
        elif self._answered:
            self._keep = False
            self._complete()
        else:
            # A body that ends with its connection looks whole after a reset, and isn't.
            self._break_off(Ended.UPSTREAM_ABORTED)

    def client_eof(self) -> bool:
        """The client sends no more. It may wait for its answer, or be gone: that shows later."""
        if self.uploading:
            self.client_lost()
            self._client.close()
            return False
        wire = self._wire
        if wire is None:
            return True  # told once there is somebody to tell
        if wire.transport.can_write_eof():
            # What the upstream would see without us; what it makes of it is its own.
            wire.transport.write_eof()
            return True
        # TLS knows no half of a connection: whoever leaves is gone.
        self.client_lost()
        self._client.close()
        return False

    def client_lost(self) -> None:
        if self._over():
            self._hand(
                self._tee.end,
                Ended.COMPLETE if self._answered else Ended.CLIENT_CLOSED,
                self._now(),
            )

    def cut_off(self) -> None:
        self._break_off(Ended.SHUTDOWN)

    def failed(self, error: Exception) -> None:
        """Our own code failed: neither peer has ended this, and it isn't complete."""
        if self._open:
            say_failed(self._client.host, error)
            self._break_off(Ended.SHUTDOWN)

    def _too_late(self) -> None:
        if self._framing is None:
            self._refuse(answers.TIMEOUT)
        elif not self._answered:
            self._break_off(Ended.TIMEOUT)

    def _refuse(self, answer: answers.Answer) -> None:
        """There is no answer to pass on; where one has begun, it breaks off."""
        client, ended = self._client, answer.ended
        if answer is answers.CLOSED and client.half_closed:
            ended = Ended.CLIENT_CLOSED
        if self._framing is not None:
            # A body that the client broke is not the relay's fault, although its answer ends early.
            self._break_off(Ended.COMPLETE if self._answered else Ended.CLIENT_CLOSED)
            return
        uploading = self.uploading
        if self._over():
            client.transport.write(answer.encode(body=self._request.method != b"HEAD"))
            client.close(linger=uploading)
            self._hand(self._tee.end, ended, self._now())

    def _break_off(self, ended: Ended) -> None:
        client, framing = self._client, self._framing
        if ended is Ended.UPSTREAM_ABORTED and client.half_closed:
            ended = Ended.CLIENT_CLOSED
        if self._over():
            client.break_off(reset=framing is Framing.CLOSE or self._dechunk)
            self._hand(self._tee.end, ended, self._now())

    def _over(self, *, replaced: bool = False) -> bool:
        """Takes the exchange out of everything that knows it; False where that was done before."""
        if not self._open:
            return False
        self._open = False
        if self._timers is not None:
            self._timers.cancel()
        wire = self._wire
        if not replaced:
            self._client.exchange = None
            if wire is not None and not wire.lost:
                wire.exchange = None
        self._wire = None
        self._registry.over(self)
        return True
