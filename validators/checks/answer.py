"""The body of an answer before its kind is known: what it is decides who checks it.

Content-type fields lie, and ``Accept`` says nothing (the SDK sends application/json for streams): the first
bytes decide. A body that starts like JSON is kept whole, anything that starts like an event stream is
checked as it comes.
"""

from __future__ import annotations

import re

from teeline.validators.checks.context import Context
from teeline.validators.checks.document import check_document, check_error
from teeline.validators.checks.stream import OTHER_KIND, STREAM_KINDS, EventStream
from teeline.validators.checks.streamlike import LikeStream, stream_of
from teeline.validators.model import Ended, Unit
from teeline.validators.operation import Operation

_BLANK = b" \t\r\n"
_EVENT_STREAM = "text/event-stream"
_COMPLETE = Ended.COMPLETE
_OTHER = Operation.OTHER
_OPENING = ord("{")
_BOM = b"\xef\xbb\xbf"
_STREAM = re.compile(rb"(data|event|id|retry)[ \t]*[:\r\n]|:", re.I)
"""How the first line of an event stream starts, blanks before it aside."""
_UNDECIDED = re.compile(
    rb"(d|da|dat|data[ \t]*|e|ev|eve|even|event[ \t]*|i|id[ \t]*|r|re|ret|retr|retry[ \t]*)?\Z",
    re.I,
)
_ANY_FIELD_LINE = re.compile(rb"(^|[\r\n])[ \t]*(data|event|id|retry)[ \t]*:", re.I)


class AnswerBody:
    """Takes the decoded body of one answer and hands it to whoever can check it.

    ``stream`` is there as soon as the body is known to be one; pieces may then be fed to it directly.
    """

    stream: EventStream | LikeStream | None = None
    _size = 0
    _first = b""
    _marked = False
    _waits = False  # a stream whose request is being read

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._pieces: list[bytes] = []
        self._document = ctx.response.status >= 400
        self._ignored = ctx.operation is _OTHER and not self._document

    @property
    def streaming(self) -> bool:
        """Whether the body is known to be an event stream."""
        return self.stream is not None or self._waits

    @property
    def kept(self) -> int:
        """Bytes of what is kept because it may be one document."""
        return 0 if self.stream is not None or self._waits or self._ignored else self._size

    @property
    def ignored(self) -> bool:
        """Whether nothing of it is looked at."""
        return self._ignored

    def give(self) -> list[bytes]:
        """What was kept, for somebody else to look at: nothing is left to do here."""
        pieces, self._pieces = self._pieces, []
        self._ignored = True
        return pieces

    def feed(self, data: bytes) -> None:
        if self.stream is not None:
            self.stream.feed(data)
        elif not self._ignored and data:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        """A piece of what may be one document."""
        self._pieces.append(data)
        self._size += len(data)
        if self._waits:
            self._to_stream()
        elif not self._document:
            if data[0] == _OPENING and not self._first:
                self._document = True
            else:
                self._sniff(data)
        if self._size > self._ctx.limits.body and self.stream is None:
            self._ctx.partial("body-limit")
            self._ignored = True
            self._pieces.clear()

    def _sniff(self, data: bytes) -> None:
        """Looks at what comes first, blanks and a byte order mark aside, until its kind is clear."""
        start = self._first + data[: self._ctx.limits.head]
        if not self._marked:
            if len(start) < len(_BOM) and _BOM.startswith(start):
                self._first = start
                return
            self._marked = True
            start = start.removeprefix(_BOM)
        start = start.lstrip(_BLANK)
        if _STREAM.match(start):
            self._to_stream()
        elif not _UNDECIDED.match(start) or len(start) > self._ctx.limits.head:
            self._document = True
        self._first = b"" if self._document or self.streaming else start

    def _to_stream(self) -> None:
        """An event stream is inspected as it comes, but for the time that its request is being read."""
        self._waits = self._ctx.reading
        if not self._waits:
            self._start_stream()
        elif self._size > self._ctx.limits.in_place:
            self._ctx.reading = self._waits = False
            self._ctx.partial("inspection-busy")
            self._start_stream()

    def request_read(self) -> None:
        """The request is known now, or never will be."""
        if self._waits:
            self._to_stream()

    def _start_stream(self) -> None:
        self.stream = stream = stream_of(self._ctx, self._pieces[0] if self._pieces else b"")
        for piece in self._pieces:
            stream.feed(piece)
        self._pieces.clear()

    def finish(self, ended: Ended) -> None:
        """The body is over."""
        if self._ignored:
            return
        ctx, pieces = self._ctx, self._pieces
        announced = ctx.content_type.media == _EVENT_STREAM
        streamed = self.stream is not None or ctx.request.stream or announced
        if streamed and self.stream is None and self._is_late_stream():
            self._to_stream()
        if self.stream is not None:
            self.stream.finish(ended)
        elif ended is _COMPLETE:
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if streamed or ctx.response.status >= 400:
                self._whole(body)
            else:
                check_document(ctx, body)
        pieces.clear()

    def _is_late_stream(self) -> bool:
        """A stream, asked for or announced, whose first line is none of the grammar's: an unprefixed
        error, a stray text."""
        ctx = self._ctx
        return bool(
            ctx.response.status < 400
            and self._pieces
            and _ANY_FIELD_LINE.search(b"".join(self._pieces)[: ctx.limits.head])
        )

    def _whole(self, body: bytes) -> None:
        ctx = self._ctx
        if ctx.response.status >= 400:
            check_error(ctx, body)
        elif not (self._is_streamed() and self._is_no_stream(body)):
            check_document(ctx, body)

    def _is_streamed(self) -> bool:
        """Whether an event stream was due, as far as it is known."""
        ctx = self._ctx
        return ctx.request.stream if ctx.request.known else ctx.content_type.media == _EVENT_STREAM

    def _is_no_stream(self, body: bytes) -> bool:
        """Whether a body that is no event stream is no document, either; reports what it is."""
        ctx = self._ctx
        kind = STREAM_KINDS.get(ctx.operation, OTHER_KIND)
        if not kind.empty:
            return False
        if not body.strip(_BLANK):
            ctx.report.place(Unit.BODY)
            ctx.report(kind.empty, detail=f"{len(body)} bytes")
            return True
        if self._is_neither(body):
            ctx.report.place(Unit.BODY)
            ctx.report("sse.no-event-stream", detail=f"{len(body)} bytes that are no event stream")
            return True
        return False

    def _is_neither(self, body: bytes) -> bool:
        """Neither one JSON document nor HTML: lines of JSON, plain text."""
        start = body.lstrip(_BOM + _BLANK)[:1]
        if start == b"<":
            return False
        if start not in (b"{", b"["):
            return True
        lines = [line for line in body[: self._ctx.limits.head].splitlines() if line.strip()]
        return len(lines) > 1 and all(line.lstrip()[:1] == b"{" for line in lines[:8])
