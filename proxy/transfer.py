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

from typing import Final, Protocol

from teeline.proxy import answers, pieces
from teeline.proxy.connection import ClientConnection, say_failed
from teeline.proxy.form import AnswerForm, Framing, RequestForm
from teeline.proxy.framing import Body
from teeline.proxy.head import AnswerHead, RequestHead
from teeline.proxy.parse import HeadError
from teeline.proxy.tee import Tee
from teeline.proxy.timers import Timers
from teeline.proxy.tunnel import Tunnel
from teeline.proxy.upstream import Upstream, UpstreamConnection
from teeline.validators.model import Ended

# Looking a member up in its enumeration takes longer than a call does.
_NONE: Final = Framing.NONE
_LENGTH: Final = Framing.LENGTH
_CHUNKED: Final = Framing.CHUNKED
_CLOSE: Final = Framing.CLOSE
_COMPLETE: Final = Ended.COMPLETE


class Registry(Protocol):
    """Who has to know which exchanges are open. ``head_limit`` bounds the heads of answers, in bytes."""

    stopping: bool
    head_limit: int

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
    ) -> None:
        self._registry = registry
        self._upstream = upstream
        self._client = client
        self._request = request
        self._target = target
        self._tee = tee
        self._now = tee.now
        self._hand = tee.handover.hand
        self.received = 0
        """Grows with what the client is sent: an answer's head and its body."""
        self._request_body: Body | None = None
        self.uploading = False
        self._upgrade = False
        self._wire: UpstreamConnection | None = None
        self._unsent: list[bytes] | None = None
        self._framing: Framing | None = None
        self._answer_body: Body | None = None
        self._answered = False
        self._dechunk = False
        self._keep = False
        self._open = True
        self._timers = Timers(upstream.timeouts, self._too_late) if upstream.timed else None

    # -- the request -------------------------------------------------------------------------------

    def start(self, rest: bytes) -> bytes:
        """Sends the head, and what has come of the body with it; gives the bytes behind that."""
        request, upstream, tee = self._request, self._upstream, self._tee
        at = self._now()
        payload = rest
        taken = request.length or 0
        if request.form.chunked or taken > len(rest):
            self._request_body = body = request.body()
            payload, taken = body.take(rest), body.taken
            self.uploading = not body.done
            if body.broken:
                self._hand(tee.request_head, request.event(self._target), at)
                self._refuse(answers.BAD_REQUEST)
                return b""
        elif taken < len(rest):
            payload = rest[:taken]
        if request.form.switches:
            self._upgrade = self._request_body is None and not taken
        data = request.forwarded(self._target, upstream.authority, upgrade=self._upgrade)
        if taken:
            data += rest if taken == len(rest) else rest[:taken]
        wire = self._client.behind(upstream)
        if wire is not None:
            self._wire = wire
            wire.exchange = self
            wire.transport.write(data)
        else:
            self._unsent = [data]
        event = request.event(self._target)
        if self.uploading:
            self._hand(tee.request_head, event, at)
            if payload:
                self._hand(tee.request_body, payload, at, len(payload))
        else:
            self._hand(tee.request, (event, payload), at, len(payload))
            if self._timers is not None:
                self._timers.request_ended()
        return rest[taken:]

    def request_bytes(self, data: bytes) -> bytes:
        """The request's body as it comes; gives the bytes behind its end."""
        body = self._request_body
        assert body is not None
        payload, taken = body.take(data), body.taken
        if taken:
            self._send(data if taken == len(data) else data[:taken])
            if payload:
                self._hand(self._tee.request_body, payload, self._now(), len(payload))
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
        elif self._unsent is not None:
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
        unsent, self._unsent = self._unsent, None
        upstream.transport.write(b"".join(unsent or ()))
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
        payload, taken, size = body.take(data), body.taken, len(data)
        if taken == size and not self._dechunk:
            self._client.transport.write(data)
        elif taken:
            self._client.transport.write(payload if self._dechunk else data[:taken])
        if payload:
            self.received += 1
            self._hand(self._tee.response_body, payload, self._now(), len(payload))
        if self._timers is not None:
            self._timers.progress()
        if body.done:
            self._answer_ended(surplus=taken < size)
        elif body.broken:
            self._break_off(Ended.UPSTREAM_ABORTED)

    def _heads(self, data: bytes) -> None:
        """Heads of the answer: interim ones go to the client as they come (RFC 9110 15.2)."""
        wire = self._wire
        if wire is None or self._framing is not None:
            # The answer is over, and the request goes on: what comes now is nobody's.
            self._break_off(Ended.COMPLETE)
            return
        reader = wire.reader
        if reader is None:
            reader = wire.read_heads(self._registry.head_limit, self._upstream.usual)
        try:
            while (found := reader.answer(data)) is not None:
                answer, rest = found
                status = answer.form.status
                if status >= 200 or status == 101:
                    self._final_head(answer, rest, data)
                    return
                if not self._request.form.http10:
                    self._client.transport.write(answer.forwarded())
                if not rest:
                    return
                data = rest
        except HeadError:
            self._refuse(answers.UNPARSABLE)

    def _final_head(self, answer: AnswerHead, rest: bytes, piece: bytes) -> None:
        """The head of the final answer, and what came behind it: the whole answer, often.

        ``piece`` is what brought the end of the head; ``rest`` stands at its end.
        """
        at = self._now()
        if self._timers is not None:
            self._timers.answered()
        form, request = answer.form, self._request.form
        if form.status == 101:
            self._switch(answer, rest, at)
            return
        self._framing = framing = answer.framing(request.method)
        self._dechunk = dechunk = framing is _CHUNKED and request.http10
        self._keep = (
            request.persistent
            and form.persistent
            and framing is not _CLOSE
            and not dechunk
            and not self._registry.stopping
        )
        size = answer.length or 0
        if framing is _NONE or (framing is _LENGTH and size <= len(rest)):
            body, taken = None, size if framing is _LENGTH else 0
            written = payload = rest if taken == len(rest) else rest[:taken]
        else:
            self._answer_body = body = answer.body(framing)
            payload, taken = body.take(rest), body.taken
            written = payload if dechunk else rest[:taken]
        head = answer.forwarded(self._connection_field(request, form), chunked=not dechunk)
        if len(head) + len(written) == len(piece) and head is answer.raw:
            self._client.transport.write(piece)  # which is these two: nothing is left out or added
        else:
            self._client.transport.write(head + written)
        self.received += 1
        tee = self._tee
        if body is None and not self.uploading:
            self._answered = True
            # Nobody asked for what stands behind the answer: no request may get it for its own.
            self._keep = self._keep and taken == len(rest)
            self._finish()
            self._hand(tee.answer, (answer.event(), payload), at, len(payload))
            return
        self._hand(tee.response_head, answer.event(), at)
        if payload:
            self._hand(tee.response_body, payload, at, len(payload))
        if body is None or body.done:
            self._answer_ended(surplus=taken < len(rest))
        elif body.broken:
            self._break_off(Ended.UPSTREAM_ABORTED)

    def _connection_field(self, request: RequestForm, answer: AnswerForm) -> bytes | None:
        """What the client has to be told of its connection (RFC 9112 9.3 and 9.6)."""
        if self._keep:
            return b"keep-alive" if request.http10 or answer.http10 else None
        return None if request.http10 else b"close"

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
        self._finish()
        self._hand(self._tee.end, _COMPLETE, self._now())

    def _finish(self) -> None:
        """The client's connection goes on, or ends."""
        client, wire, uploading = self._client, self._wire, self.uploading
        if self._keep and wire is not None and not wire.lost:
            if self._over():
                client.next()
        elif self._over():
            client.close(linger=uploading)

    def answer_eof(self) -> None:
        """The upstream sends no more: the end of a body that has no other."""
        if self._open and self._framing is Framing.CLOSE and not self._answered:
            self._keep = False
            self._answer_ended(surplus=False)

    def _switch(self, answer: AnswerHead, rest: bytes, at: float) -> None:
        """The answer to a WebSocket handshake: from here on bytes pass both ways."""
        wire = self._wire
        if not self._upgrade or not answer.form.switches or wire is None:
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
            client.transport.write(answer.encode(body=self._request.form.method != b"HEAD"))
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
