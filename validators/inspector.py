"""One HTTP exchange from its first byte to its last: what was seen goes in, what was found comes out.

What belongs here: which check gets which bytes, and when. What doesn't: the checks themselves, policy,
and everything that has a clock or a socket.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from teeline.validators.aside import (
    ANSWER,
    REQUEST,
    adopt,
    adopt_facts,
    answer_facts,
    filled,
    request_facts,
    task,
    whole_request,
)
from teeline.validators.checks.answer import AnswerBody
from teeline.validators.checks.context import Context
from teeline.validators.checks.http import check_codings, check_head, check_no_content
from teeline.validators.checks.identity import check_fetched, check_identity, note_kept
from teeline.validators.checks.marks import note_target
from teeline.validators.checks.models import check_listed, note_listed
from teeline.validators.checks.request import facts_of
from teeline.validators.checks.requestrules import check_request
from teeline.validators.checks.requestusual import take_usual
from teeline.validators.checks.settings import settings_of
from teeline.validators.checks.stream import EventStream
from teeline.validators.checks.streamlike import LikeStream
from teeline.validators.checks.timing import Pace
from teeline.validators.events import (
    Aside,
    Closed,
    Found,
    Opened,
    Output,
    Report,
    RequestHead,
    ResponseHead,
    SchemaResult,
)
from teeline.validators.history import LONGEST_ID, History
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Unit
from teeline.validators.operation import Operation, route_of
from teeline.validators.run import Run, run_of
from teeline.validators.timeline import Timeline
from teeline.validators.wire.content import (
    ContentDecoder,
    ContentFault,
    codings_of,
    decoded_within,
    parts,
)
from teeline.validators.wire.json import decode_leniently

_NOTHING: Sequence[Output] = ()
_UNKNOWN = Operation.OTHER
_ABORTED = Ended.UPSTREAM_ABORTED
_WORDS = {ended: ended.value for ended in Ended}
_BODILESS = frozenset({204, 205, 304})


class InspectorMisuse(RuntimeError):
    """The caller broke the order of calls: our own mistake, never a peer's."""


class Inspector:
    """Checks one exchange. Peer bytes never raise; each call gives what came to light through it.

    Order of calls: request_head, then request_body and request_end, response_head and response_body as
    the wire has them, then end. Times are Unix seconds that never step back within an exchange.

    ``history`` is what earlier exchanges of the same upstream showed; without it the rules that look
    beyond one exchange are off. ``aside``: documents beyond ``Limits.in_place`` are given away (``Aside``),
    for whoever feeds this to have them inspected elsewhere and to call ``inspected``.
    """

    # What most exchanges never change is the class's.
    pending = 0
    _out = ""  # the kind of the task that was given away and isn't done
    _read = b""  # the report of the request, where it was read elsewhere
    _encoded: list[bytes] | None = None
    _over = False  # a coded document that is too large to be decoded here
    _head = RequestHead("", "", ())
    _route = route_of("", "")
    _decoder: ContentDecoder | None = None
    _coding_told = False
    _body: AnswerBody | None = None
    _stream: EventStream | LikeStream | None = None  # an answer in no coding, once it is one
    _run: Run | None = None  # the texts that it is bringing now, one a read
    _runs: Run | None = None  # the last run, which may go on
    _ended = False
    _closed = False

    def __init__(
        self,
        exchange: Exchange,
        limits: Limits = DEFAULT_LIMITS,
        history: History | None = None,
        *,
        aside: bool = False,
    ) -> None:
        self.exchange = exchange
        self._aside = aside
        self._in_place = limits.in_place if aside else limits.body
        if aside:
            self._encoded = []
        self._limits = limits
        self._ctx = Context(exchange, _UNKNOWN, limits, history)
        self._report = self._ctx.report
        self._pace = Pace(self._ctx)
        self._request: list[bytes] | None = []
        self._timeline = Timeline()
        exchange.timeline = self._timeline.entries

    # -- the request -----------------------------------------------------------------------------------

    def request_head(self, head: RequestHead, at: float) -> Sequence[Output]:
        """The request line and its fields: opens the exchange."""
        exchange = self.exchange
        ctx, self._head = self._ctx, head
        route = self._route = route_of(head.method, head.target)
        ctx.operation = route.operation
        ctx.beta = route.is_beta
        ctx.asks(head.headers, head.names)
        ctx.report.at = at
        exchange.method = head.method
        exchange.path = route.path
        if "://" in head.target:
            note_target(exchange, head.target)
        exchange.operation = route.reported
        exchange.timing.start = at
        self._pace.asked = at
        self._timeline.mark(at, "request")
        if not route.asks_in_body:
            self._request = None
        return (Opened(exchange),)

    def request_body(self, data: bytes, at: float) -> Sequence[Output]:
        """A piece of the request's body, after transfer decoding."""
        self._pace.asked = at
        self.exchange.request_bytes += len(data)
        if self._request is not None:
            self._request.append(data)
            if self.exchange.request_bytes > self._limits.body:
                self._request = None
                self._ctx.partial("request-limit")
        return _NOTHING

    def request_end(self, at: float) -> Sequence[Output]:
        """The whole request was read; until then rules that need its fields are off (P7)."""
        self._ctx.report.at = at
        self._pace.asked = at
        if not self._route.asks_in_body:
            return _NOTHING
        pieces, self._request = self._request, None
        if pieces is None:
            self._check_request(None)
            return self._drain(at)
        if (
            len(pieces) == 1
            and len(pieces[0]) <= self._in_place
            and not self._ctx.request_names.coded
        ):
            self._check_request(pieces[0])
            return self._drain(at) if self._ctx.report.out else _NOTHING
        return self._decoded_request(pieces, at)

    def _decoded_request(self, pieces: Sequence[bytes], at: float) -> Sequence[Output]:
        """A request that came in pieces, in a coding, or is larger than what is inspected here."""
        codings = codings_of(self._head.headers)
        whole = decoded_within(pieces, codings, self._limits, self._in_place)
        if whole.more and self._aside:
            self._ctx.reading = True
            return (self._give(REQUEST, {}, pieces),)
        if whole.more:
            self._ctx.partial("request-limit")
        elif whole.fault in (ContentFault.UNKNOWN_CODING, ContentFault.LIMIT):
            self._ctx.partial("request-coding")
        else:
            self._check_request(whole.body)
            return self._drain(at)
        self._check_request(None)
        return self._drain(at)

    def _check_request(self, body: bytes | None) -> None:
        """``body`` is None where it was too large to keep, or in a coding that can't be undone."""
        if body is None:
            check_request(self._ctx, self._head.target, b"", None)
            return
        document = decode_leniently(body, self._limits.depth)
        if not document.faults and take_usual(self._ctx, document.value):
            return
        if document.ok:
            self.request_known(document.value)
        check_request(self._ctx, self._head.target, body, document)

    def request_known(self, document: Any) -> None:
        """Takes in what a request asks for."""
        ctx, exchange = self._ctx, self.exchange
        facts = ctx.request = facts_of(document, ctx.operation)
        exchange.stream = facts.stream
        exchange.settings = settings_of(facts.document)
        model = facts.document.get("model")
        exchange.model = model[:256] if isinstance(model, str) else None

    # -- the answer --------------------------------------------------------------------------------------

    def response_head(self, head: ResponseHead, at: float) -> Sequence[Output]:
        """The final status line and its fields."""
        ctx, exchange, status = self._ctx, self.exchange, head.status
        ctx.report.at = at
        ctx.answers(head)
        names = ctx.names
        self._timeline.mark(at, "head", 0, status)
        exchange.status = status
        exchange.event_stream = ctx.content_type.media == "text/event-stream"
        exchange.marks.headers = head.headers
        exchange.timing.first_byte = at
        if names.request_id >= 0:
            exchange.request_id = head.headers[names.request_id][1][:256]
        self._pace.head(at)
        self._stream = self._decoder = self._run = None
        check_head(ctx)
        if exchange.method != "POST":
            check_fetched(ctx)
        if names.coded:
            self._coded(head)
        if not (300 <= status < 400):
            self._body = AnswerBody(ctx)
        return self._drain(at) if ctx.report.out else _NOTHING

    def _coded(self, head: ResponseHead) -> None:
        codings = codings_of(head.headers)
        check_codings(self._ctx, codings)
        self._decoder = ContentDecoder(codings, self._limits) if codings else None

    def response_body(self, data: bytes, at: float) -> Sequence[Output]:
        """A piece of the answer's body, after transfer decoding and before content decoding."""
        run = self._run
        if run is not None:
            if run.take(data, at):
                return _NOTHING
            self._settle(run)
        stream, exchange, report = self._stream, self.exchange, self._report
        size = len(data)
        exchange.response_bytes += size
        report.at = at
        if stream is not None:
            stream.feed(data)
            if stream.full is not None:
                self._stream = stream.full
            self._pace.streamed(at, exchange.events)
        elif self._body is not None:
            self._read_body(self._body, data, at)
        else:
            self._pace.read(at, 0, streaming=False)
            return _NOTHING
        timeline = self._timeline
        timeline.read(at, exchange.events, size)
        if report.out:
            return self._drain(at)
        if stream is not None and timeline.settled and (ready := stream.ready) is not None:
            self._run = self._runs = run_of(self._runs, exchange, ready, self._pace)
        return _NOTHING

    def _settle(self, run: Run) -> None:
        """The run is over: does what it has put off."""
        self._run = None
        if self._stream is not None:
            self._report.at = run.at
            run.hand_over(self._stream, self._pace, self._timeline)

    def _read_body(self, body: AnswerBody, data: bytes, at: float) -> None:
        """A piece of an answer that is not known to be an event stream, or has to be decoded."""
        if self._decoder is not None:
            self._decode(self._decoder, body, data)
        else:
            body.feed(data)
            self._stream = body.stream
        self._pace.read(at, self.exchange.events, streaming=body.stream is not None)

    # -- the end -----------------------------------------------------------------------------------------

    def end(self, ended: Ended, at: float) -> Sequence[Output]:
        """Nothing more comes. Closes the exchange unless results of schema checks are still out."""
        if self._ended:
            raise InspectorMisuse("an exchange ends once")
        self._ended = True
        if self._run is not None:
            self._settle(self._run)
        self._ctx.report.at = at
        self.exchange.ended = ended
        self.exchange.timing.end = at
        return _NOTHING if self._out else self._end(ended, at)

    def _end(self, ended: Ended, at: float) -> Sequence[Output]:
        """The end, once the request is known."""
        body = self._body
        if body is not None:
            if self._over or body.kept > self._in_place:
                pieces = self._encoded if self._over and self._encoded is not None else body.give()
                facts = answer_facts(self._ctx, ended)
                return (*self._drain(at), self._give(ANSWER, facts, pieces))
            self._finish_body(body, ended)
        return self._last(ended, at)

    def _last(self, ended: Ended, at: float) -> Sequence[Output]:
        """What is left to do when the body has been looked at."""
        ctx, body = self._ctx, self._body
        if body is not None:
            history = ctx.history
            if history is not None:
                if history.lists:
                    check_listed(ctx)
                if self.exchange.listed_models is not None:
                    note_listed(ctx)
                note_kept(ctx, ended)
            if body.streaming:
                self._pace.end(at, ended)
        self._body = self._encoded = None
        outputs = self._drain(at) if ctx.report.out else _NOTHING
        self._timeline.end(at, _WORDS[ended])
        self.pending = ctx.waiting
        return outputs if self.pending else (*outputs, self._close())

    # -- what is inspected elsewhere -----------------------------------------------------------------

    @property
    def acting(self) -> Inspector:
        """Whoever is to be told of what comes next: always this one (plain.py has another)."""
        return self

    @property
    def context(self) -> Context:
        """What the checks know of the exchange."""
        return self._ctx

    def _give(self, kind: str, facts: Mapping[str, Any], pieces: Sequence[bytes]) -> Aside:
        self._out = kind
        self.pending = 1
        known = {**request_facts(self.exchange, self._head), **facts}
        request = b"" if kind == REQUEST else self._read or whole_request(self._ctx.request)
        return Aside(self.exchange, task(kind, known, request, pieces))

    def inspected(self, report: Report, at: float) -> Sequence[Output]:
        """The report of what was given away, or why there is none."""
        kind, self._out = self._out, ""
        if self._closed or not kind:
            return _NOTHING
        self.pending = 0
        if self._run is not None:
            self._settle(self._run)
        self._ctx.report.at = at
        if report.failed:
            self._ctx.partial(f"inspection-{report.failed}")
        read = None if report.failed else json.loads(report.data)
        if read is not None:
            adopt(self._ctx, read)
        if kind == REQUEST:
            self._request_inspected(report, read)
        elif read is not None:
            self._answer_inspected(read)
        ended = self.exchange.ended
        if ended is None:
            return self._drain(at)
        return self._end(ended, at) if kind == REQUEST else self._last(ended, at)

    def _request_inspected(self, report: Report, read: Mapping[str, Any] | None) -> None:
        if read is None:
            self._check_request(None)
        elif self._ctx.reading and read["outline"] is not None:
            self._read = report.data
            self.request_known(filled(read["outline"]))
        self._ctx.reading = False
        if self._body is not None:
            self._body.request_read()

    def _answer_inspected(self, read: Mapping[str, Any]) -> None:
        adopt_facts(self.exchange, read)
        made = self.exchange.response_id
        # The id of a document stands at its top; one that was cut for the facts is not compared.
        if made is not None and len(made) < LONGEST_ID:
            self._ctx.report.place(Unit.BODY)
            check_identity(self._ctx, {"id": made})

    def _drain(self, at: float) -> list[Output]:
        report = self._ctx.report
        if not report.out:
            return []
        outputs = report.drain()
        for output in outputs:
            if isinstance(output, Found):
                self._timeline.violation(at, output.violation.place.index)
        return outputs

    def _finish_body(self, body: AnswerBody, ended: Ended) -> None:
        ctx = self._ctx
        if ended is _ABORTED:
            ctx.report.place(Unit.BODY, 0, self.exchange.response_bytes)
            ctx.report(
                "http.truncated", detail=f"broken off after {self.exchange.response_bytes} bytes"
            )
        if self._decoder is not None and not self._decoded(self._decoder, body, ended):
            return
        exchange = self.exchange
        if exchange.method == "HEAD":
            return
        if exchange.status in _BODILESS:
            check_no_content(ctx, ended)
        else:
            body.finish(ended)

    def _decode(self, decoder: ContentDecoder, body: AnswerBody, data: bytes) -> None:
        """Feeds a piece through the content coding; a fault is reported where it shows."""
        if self._encoded is None:
            body.feed(decoder.feed(data))
        else:
            self._decode_little(decoder, body, data, self._encoded)
        if decoder.fault is not None and not self._coding_told:
            self._coding_told = True
            self._coding_fault(decoder, decoder.fault)

    def _decode_little(
        self, decoder: ContentDecoder, body: AnswerBody, data: bytes, encoded: list[bytes]
    ) -> None:
        """A body that may be a document: decoded no further than it is inspected here."""
        encoded.append(data)
        for part in parts(data):
            if self._over:
                break
            body.feed(decoder.feed(part))
            self._over = body.kept > self._in_place
        if body.streaming or body.ignored:
            self._encoded = None
        elif self.exchange.response_bytes > self._limits.body:
            self._ctx.partial("body-limit")
            body.give()
            self._encoded, self._over = None, False

    def _decoded(self, decoder: ContentDecoder, body: AnswerBody, ended: Ended) -> bool:
        """Whether the content coding could be undone to the end, as far as the body came."""
        if self.exchange.method == "HEAD" or not self.exchange.response_bytes:
            return True
        if decoder.fault is not None:
            return decoder.fault is ContentFault.TRAILING
        body.feed(decoder.finish())
        if decoder.fault is None or ended is not Ended.COMPLETE:
            return True  # a body that was broken off has no end of its coding either
        self._coding_fault(decoder, decoder.fault)
        return decoder.fault is ContentFault.TRAILING

    def _coding_fault(self, decoder: ContentDecoder, fault: ContentFault) -> None:
        ctx = self._ctx
        if fault is ContentFault.TRAILING:
            return  # the whole body came out; what stands behind it is dropped by clients, too
        if fault is ContentFault.UNKNOWN_CODING:
            self.exchange.inspection = "none (unknown-coding)"
        elif fault is ContentFault.LIMIT:
            ctx.partial("decoded-limit")
        else:
            ctx.report.place(Unit.BODY, 0, decoder.decoded)
            detail = f"{decoder.coding} body that can't be decoded: {fault.value}"
            ctx.report("http.encoding-mismatch", detail=detail)

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]:
        """The result of a ``SchemaCheck``; closes the exchange with the last one after its end."""
        if self._closed:
            return _NOTHING
        self._ctx.report.at = at
        self._ctx.schema_result(ticket, result)
        self.pending = self._ctx.waiting
        outputs = self._ctx.report.drain()
        return [*outputs, self._close()] if self._ended and not self.pending else outputs

    def expire(self, at: float) -> Sequence[Output]:
        """Gives up waiting for results of schema checks."""
        if self._closed or not self._ended:
            return _NOTHING
        self._ctx.report.at = at
        if self._out:
            # With the report the end would only begin.
            self._ctx.partial("inspection-timeout")
            if self.exchange.ended is not None:
                self._timeline.end(at, self.exchange.ended.value)
        else:
            self._ctx.partial("schema-timeout")
        self.pending = 0
        return (self._close(),)

    def _close(self) -> Closed:
        self._closed = True
        return Closed(self.exchange)
