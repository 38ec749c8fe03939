"""One response on a WebSocket: an exchange that a client's frame opens and a server's event closes.

What belongs here: which check gets which frame of the one response. What doesn't: which response a frame
belongs to (wsresponses.py), frames (wire/websocket.py), what events say (checks/respstream.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.document import report_faults
from teeline.validators.checks.identity import check_identity, note_kept
from teeline.validators.checks.marks import FIRST_OBJECTS, note_object
from teeline.validators.checks.request import facts_of
from teeline.validators.checks.requestrules import check_request
from teeline.validators.checks.respstream import ResponsesStream
from teeline.validators.checks.settings import settings_of
from teeline.validators.checks.stream import DONE, EVENT_FAULTS
from teeline.validators.events import Closed, Found, Opened, Output, ResponseHead, SchemaResult
from teeline.validators.history import History
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange, Headers, Unit
from teeline.validators.operation import Operation, is_beta, path_of
from teeline.validators.timeline import Timeline
from teeline.validators.wire.json import Document, JsonFaultKind

_ANSWERED = 200
"""The status that an answer in events counts as; an error event may name another."""

_ERRORS = ("respstream.error-nested", "respstream.error-flat", "respstream.error-malformed")
"""What any error event is reported as: it is the last event of its response."""


def report_frame(ctx: Context, document: Document, byte: int) -> bool:
    """Reports what is wrong with a frame as JSON; whether a client's parser takes it."""
    report_faults(ctx, document, EVENT_FAULTS, byte)
    kinds = {fault.kind: fault.byte for fault in document.faults}
    if JsonFaultKind.EMPTY in kinds:
        ctx.report("sse.empty-data", detail="a frame without JSON")
    if document.ok and (rest := kinds.get(JsonFaultKind.TRAILING)) is not None:
        detail = "bytes behind the first JSON value"
        ctx.report("sse.data-invalid-json", detail=detail, byte=byte + rest)
        return False
    return document.ok


class SocketResponse:
    """Checks one response. The exchange counts as the POST that it stands for.

    ``lane`` is the stream_id that its frames carry, ``id`` the response's own, once they are known.
    """

    def __init__(
        self,
        exchange: Exchange,
        target: str,
        answer: ResponseHead,
        limits: Limits,
        history: History | None,
        at: float,
    ) -> None:
        self.exchange = exchange
        self.lane: str | None = None
        self.id: str | None = None
        self.over = False
        self.failed = False
        exchange.method, exchange.path = "POST", path_of(target)
        exchange.operation = Operation.RESPONSES.reported
        exchange.stream = True
        exchange.timing.start = at
        exchange.marks.headers = answer.headers
        self._target = target
        self._ctx = ctx = Context(exchange, Operation.RESPONSES, limits, history)
        ctx.beta = is_beta(target)
        ctx.answers(ResponseHead(_ANSWERED, ()))
        ctx.report.at = at
        self._timeline = Timeline()
        exchange.timeline = self._timeline.entries
        self._timeline.mark(at, "request")
        self._stream = ResponsesStream(ctx, socket=True)

    @property
    def pending(self) -> int:
        return self._ctx.waiting

    def asked(
        self,
        body: bytes,
        document: Document | None,
        headers: Headers,
        missing: str = "request-limit",
    ) -> list[Output]:
        """The client's frame; no document where it was not kept, for the reason in ``missing``."""
        ctx, exchange = self._ctx, self.exchange
        exchange.request_bytes = len(body)
        if document is None:
            ctx.partial(missing)
        else:
            facts = facts_of(document.value, Operation.RESPONSES)
            ctx.request = replace(facts, stream=True)
            exchange.settings = settings_of(facts.document)
            model = facts.document.get("model")
            exchange.model = model[:256] if isinstance(model, str) else None
            check_request(ctx, self._target, body, document)
        # Those of the handshake: they say who the client is, and nothing of the request's body.
        ctx.asks(headers)
        return [Opened(exchange), *self._drain()]

    # -- the server's frames ---------------------------------------------------------------------------

    def frame(self, data: bytes, document: Document, at: float) -> list[Output]:
        """One event, or what came in its place."""
        exchange, report = self.exchange, self._ctx.report
        byte = self._count(len(data), at)
        if data.strip() == DONE:
            report.place(Unit.FRAME, exchange.events + 1, byte)
            self._stream.done()
            return self._drain()
        exchange.events += 1
        if exchange.timing.first_event is None:
            exchange.timing.first_event = at
        report.place(Unit.FRAME, exchange.events, byte)
        if report_frame(self._ctx, document, byte):
            self._event(document.value)
        else:
            self._stream.unreadable()
        self._timeline.read(at, exchange.events, len(data))
        outputs = self._drain()
        self.failed = report.has(*_ERRORS)
        if self._stream.ended or self.failed:
            outputs += self.end(Ended.COMPLETE, at)
        return outputs

    def _count(self, size: int, at: float) -> int:
        """Counts a frame; gives where it starts among the bytes of this response."""
        exchange, timing = self.exchange, self.exchange.timing
        start = exchange.response_bytes
        exchange.response_bytes += size
        exchange.status = exchange.status or _ANSWERED
        self._ctx.report.at = at
        if timing.first_byte is None:
            timing.first_byte = at
        if timing.last_byte is not None:
            timing.largest_gap = max(timing.largest_gap, at - timing.last_byte)
        timing.last_byte = at
        return start

    def _event(self, value: Any) -> None:
        exchange = self.exchange
        if exchange.events <= FIRST_OBJECTS:
            note_object(exchange, value)
        self._stream.event(value, "")
        check_identity(self._ctx, value)
        if isinstance(value, dict) and value.get("type") == "error":
            self._note_status(value)

    def _note_status(self, value: Mapping[str, Any]) -> None:
        status = value.get("status")
        if isinstance(status, int) and 400 <= status < 600:
            self.exchange.status = status

    def unread(self, reason: str) -> None:
        """A frame that may have been this response's was not read."""
        self._ctx.partial(reason)
        self._stream.unreadable()

    # -- the end ---------------------------------------------------------------------------------------

    def end(self, ended: Ended, at: float) -> list[Output]:
        """Nothing more comes. Closes the exchange unless results of schema checks are still out."""
        ctx, exchange = self._ctx, self.exchange
        self.over = True
        exchange.ended, exchange.timing.end = ended, at
        ctx.report.at = at
        ctx.report.place(Unit.FRAME, exchange.events, exchange.response_bytes)
        if ended is Ended.UPSTREAM_ABORTED:
            detail = f"broken off after {exchange.response_bytes} bytes"
            ctx.report("http.truncated", detail=detail)
        if ended in (Ended.COMPLETE, Ended.UPSTREAM_ABORTED):
            self._stream.close(cut=ended is Ended.UPSTREAM_ABORTED)
        note_kept(ctx, ended)
        outputs = self._drain()
        self._timeline.end(at, ended.value)
        return outputs if self.pending else [*outputs, Closed(exchange)]

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> list[Output]:
        """The result of a check; closes the exchange with the last one after its end."""
        self._ctx.report.at = at
        self._ctx.schema_result(ticket, result)
        outputs = self._ctx.report.drain()
        return [*outputs, Closed(self.exchange)] if self.over and not self.pending else outputs

    def expire(self) -> Closed:
        """Gives up waiting for results of schema checks."""
        self._ctx.partial("schema-timeout")
        return Closed(self.exchange)

    def _drain(self) -> list[Output]:
        outputs = self._ctx.report.drain()
        for output in outputs:
            if isinstance(output, Found):
                place = output.violation.place
                self._timeline.violation(output.violation.at, place.index)
        return outputs
