"""A WebSocket at /responses: one connection, an exchange for each response on it.

What belongs here: messages out of frames, and which response a message belongs to. What doesn't: frames
(wire/websocket.py) and the checks of one response (wsexchange.py). Faults that belong to no response are
reported on the connection's own exchange.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from teeline.validators.checks.context import Context, field_values
from teeline.validators.checks.errors import check_error_object
from teeline.validators.checks.stream import DONE
from teeline.validators.events import Output, RequestHead, ResponseHead, SchemaCheck, SchemaResult
from teeline.validators.fields.respevents import is_aside
from teeline.validators.history import History
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Side, Unit
from teeline.validators.operation import Operation, path_of
from teeline.validators.wire.json import Document, decode
from teeline.validators.wire.websocket import Frames, Piece
from teeline.validators.wsexchange import SocketResponse, report_frame

CONNECTION: Final = "connection"
"""The operation of an exchange that stands for a connection."""
MAX_OPEN: Final = 128
"""Responses of one connection that are open at the same time."""
_CREATE = "response.create"
_ENDED = 64
"""Ids of responses that are remembered after their end."""


def is_inspected(target: str) -> bool:
    """Whether a WebSocket that was asked for there speaks the Responses API."""
    return path_of(target).rstrip("/").endswith("/responses")


def extension_of(answer: ResponseHead) -> str:
    """The extension that the handshake agreed on, which changes what frames hold; empty for none."""
    value = ",".join(field_values(answer.headers, "sec-websocket-extensions")).strip()
    if not value:
        return ""
    name = value.partition(",")[0].partition(";")[0].strip().lower()
    return name if name == "permessage-deflate" else "websocket-extension"


class Message(NamedTuple):
    """What one side said at once. ``kind`` is the event's, where its JSON could be read.

    ``whole``: it was not cut at a limit.
    """

    side: Side
    data: bytes
    whole: bool = True
    kind: str = ""


Keep = Callable[[Exchange, Message], None]


class _Message(NamedTuple):
    data: bytes
    whole: bool


class _Messages(Frames):
    """The messages of one side, up to ``limit`` bytes each."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._joined = bytearray()
        self._whole = True
        self.feed(b"\r\n\r\n")  # the head was read by others

    def messages(self, data: bytes) -> list[_Message]:
        return [message for piece in self.feed(data) if (message := self._join(piece))]

    def _join(self, piece: Piece) -> _Message | None:
        room = self._limit - len(self._joined)
        self._joined += piece.data[:room]
        self._whole = self._whole and len(piece.data) <= room
        if not piece.last:
            return None
        message = _Message(bytes(self._joined), self._whole)
        self._joined, self._whole = bytearray(), True
        return message


class SocketResponses:
    """Checks one connection after its handshake. Peer bytes never raise.

    ``new`` makes the exchange of a response: its ids are the caller's. ``keep`` is told whose each
    message is that belongs to a response; those between responses are nobody's. ``end`` comes last;
    schema checks whose results are out then keep their exchanges open (``pending``), until ``expire``
    at the latest.
    """

    def __init__(
        self,
        connection: Exchange,
        new: Callable[[], Exchange],
        head: RequestHead,
        answer: ResponseHead,
        limits: Limits = DEFAULT_LIMITS,
        history: History | None = None,
        keep: Keep = lambda exchange, message: None,
    ) -> None:
        self._keep = keep
        self.connection = connection
        connection.operation = CONNECTION
        self._new = new
        self._head = head
        self._answer = answer
        self._limits = limits
        self._history = history
        self._ctx = Context(connection, Operation.OTHER, limits)
        self._client = _Messages(limits.body)
        self._server = _Messages(limits.event)
        self._open: list[SocketResponse] = []  # in the order in which they were asked for
        self._ended: deque[str] = deque(maxlen=_ENDED)
        self._last_failed: bool | None = None  # None: no response has ended
        self._tickets: dict[int, tuple[SocketResponse, int]] = {}
        self._given = 0
        self._left: Ended | None = None
        self._blind = False
        self._frames = 0
        self._bytes = 0

    @property
    def pending(self) -> int:
        return len(self._tickets)

    @property
    def ticks(self) -> bool:
        """Nothing here waits for time to pass."""
        return False

    def tick(self, at: float) -> Sequence[Output]:
        return ()

    # -- the client's side -----------------------------------------------------------------------------

    def client_bytes(self, data: bytes, at: float) -> Sequence[Output]:
        """What the client sent, as it came."""
        outputs: list[Output] = []
        for message in () if self._blind else self._client.messages(data):
            outputs += self._asked(message, at)
        if self._client.closing:
            self.client_left()
        self._look(self._client)
        return outputs

    def client_left(self) -> None:
        """The client goes: what is unfinished then is nobody's fault."""
        self._left = self._left or Ended.CLIENT_CLOSED

    def _asked(self, message: _Message, at: float) -> list[Output]:
        if not message.whole:
            told = b'"response.create"' in message.data
            return self._opened(message.data, None, at) if told else []
        document = decode(message.data, self._limits.depth)
        if not document.ok:
            report = self._ctx.report
            report.at = at
            with report.on_request():
                report("request.json-invalid", detail=f"a frame of {len(message.data)} bytes")
            return report.drain()
        value = document.value
        if isinstance(value, dict) and value.get("type") == _CREATE:
            return self._opened(message.data, document, at)
        return []

    def _opened(self, body: bytes, document: Document | None, at: float) -> list[Output]:
        """Opens a response, asked for by this frame."""
        if len(self._open) >= MAX_OPEN:
            self._give_up("response-limit")
            return []
        response = self._response(at)
        asked = Message(Side.REQUEST, body, document is not None, _CREATE)
        self._keep(response.exchange, asked)
        if document is not None:
            response.lane = _text(document.value, "stream_id")
        return self._numbered(response, response.asked(body, document, self._head.headers))

    def _response(self, at: float) -> SocketResponse:
        response = SocketResponse(
            self._new(), self._head.target, self._answer, self._limits, self._history, at
        )
        self._open.append(response)
        return response

    # -- the server's side -----------------------------------------------------------------------------

    def server_bytes(self, data: bytes, at: float) -> Sequence[Output]:
        """What the server sent, as it came."""
        outputs: list[Output] = []
        for message in () if self._blind else self._server.messages(data):
            self._frames += 1
            outputs += self._told(message, at)
            self._bytes += len(message.data)
        if self._server.closing:
            self._left = self._left or Ended.COMPLETE
        self._look(self._server)
        return outputs

    def _told(self, message: _Message, at: float) -> list[Output]:
        if not message.whole:
            self._ctx.partial("event-limit")
            for response in self._open:
                response.unread("event-limit")
                cut = Message(Side.RESPONSE, message.data, whole=False)
                self._keep(response.exchange, cut)
            return []
        document = decode(message.data, self._limits.depth)
        value = document.value if document.ok and isinstance(document.value, dict) else {}
        opening: list[Output] = []
        known = self._whose(value)
        if known is None:
            if value.get("type") != "response.created" or len(self._open) >= MAX_OPEN:
                return self._outside(message.data, document, value, at)
            # Something else than a frame that is known here has asked for it.
            known = self._response(at)
            opening = known.asked(b"", None, self._head.headers, missing="request-unseen")
        return [*opening, *self._event(known, message.data, document, value, at)]

    def _event(
        self,
        response: SocketResponse,
        data: bytes,
        document: Document,
        value: Mapping[str, Any],
        at: float,
    ) -> list[Output]:
        heard = Message(Side.RESPONSE, data, kind=_text(value, "type") or "")
        self._keep(response.exchange, heard)
        response.lane = response.lane or _text(value, "stream_id")
        response.id = response.id or _text(value.get("response"), "id")
        outputs = self._numbered(response, response.frame(data, document, at))
        if response.over:
            self._over(response)
        return outputs

    def _whose(self, value: Mapping[str, Any]) -> SocketResponse | None:
        """The response that an event belongs to: by stream_id, by response id, else the oldest."""
        lane, made = _text(value, "stream_id"), _text(value.get("response"), "id")
        if made is not None and made in self._ended:
            return None
        if lane is not None:
            same = [r for r in self._open if r.lane == lane]
            candidates = same or [r for r in self._open if r.lane is None]
        else:
            candidates = [r for r in self._open if r.lane is None] or self._open
        if made is not None:
            known = [r for r in candidates if r.id == made]
            candidates = known or [r for r in candidates if r.id is None] or candidates
        return candidates[0] if candidates else None

    def _over(self, response: SocketResponse) -> None:
        self._open.remove(response)
        self._last_failed = response.failed
        if response.id is not None:
            self._ended.append(response.id)

    def _outside(
        self, data: bytes, document: Document, value: Mapping[str, Any], at: float
    ) -> list[Output]:
        """A message while none that it could belong to is open."""
        ctx, kind = self._ctx, value.get("type")
        report = ctx.report
        report.at = at
        report.place(Unit.FRAME, self._frames, self._bytes)
        if data.strip() == DONE:
            report("respstream.done-marker", detail="[DONE] on a WebSocket")
        elif not report_frame(ctx, document, self._bytes):
            return report.drain()
        elif kind == "error" and isinstance(error := value.get("error"), dict):
            self.connection.error_type = "error"
            check_error_object(ctx, error, "/error")
        elif not value or (isinstance(kind, str) and is_aside(kind)):
            return report.drain()
        elif self._last_failed is False:
            report("respstream.event-after-terminal", "/type", kind, words=True)
        return report.drain()

    # -- the end ---------------------------------------------------------------------------------------

    def end(self, ended: Ended, at: float) -> Sequence[Output]:
        """The connection is over, and with it what was open. Its own exchange is closed by the caller."""
        outputs: list[Output] = []
        for response in self._open:
            outputs += self._numbered(response, response.end(self._left or ended, at))
        self._open = []
        return outputs

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]:
        """The result of a ``SchemaCheck``; one that nobody waits for any more is dropped."""
        if ticket not in self._tickets:
            return ()
        response, inner = self._tickets.pop(ticket)
        return response.schema_result(inner, result, at)

    def expire(self, at: float) -> Sequence[Output]:
        """Gives up waiting for results of schema checks."""
        waiting = {id(response): response for response, _ in self._tickets.values()}
        self._tickets.clear()
        return [response.expire() for response in waiting.values() if response.over]

    def _look(self, side: _Messages) -> None:
        if side.fault is not None:
            self._give_up("websocket")

    def _give_up(self, reason: str) -> None:
        """From here on nothing can be told of either side."""
        self._blind = True
        self._ctx.partial(reason)
        for response in self._open:
            response.unread(reason)

    def _numbered(self, response: SocketResponse, outputs: list[Output]) -> list[Output]:
        """Gives schema checks tickets of the connection: each response counts its own."""
        return [self._ticket(response, o) if isinstance(o, SchemaCheck) else o for o in outputs]

    def _ticket(self, response: SocketResponse, check: SchemaCheck) -> SchemaCheck:
        self._given += 1
        self._tickets[self._given] = (response, check.ticket)
        return SchemaCheck(check.exchange, self._given, check.schema, check.document)


def _text(value: Any, name: str) -> str | None:
    """A text among a value's members; None where there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) and len(found) <= 256 else None
