"""An event stream as the body of an answer: framing, then each event's JSON, then the protocol's check.

What belongs here: the meaning of framing notes, and where one event hides in another. What doesn't: the
grammar (wire/sse.py) and what the events say (chatstream.py and its like).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from teeline.validators.checks.chatstream import ChatStream
from teeline.validators.checks.completionstream import CompletionStream
from teeline.validators.checks.context import Context
from teeline.validators.checks.document import report_faults
from teeline.validators.checks.http import media_type
from teeline.validators.checks.identity import check_identity
from teeline.validators.checks.marks import FIRST_OBJECTS, note_object
from teeline.validators.checks.respstream import ResponsesStream
from teeline.validators.fast import FastPath, OpenText, Template
from teeline.validators.model import Ended, Unit
from teeline.validators.operation import Operation
from teeline.validators.wire.json import Document, JsonFaultKind, decode
from teeline.validators.wire.sse import Event, Note, NoteKind, SseReader, Tail

DONE = b"[DONE]"
_EVENT = Unit.EVENT
_MAX_VALUES = 4
"""JSON values taken out of one event: each costs a look at all that is left of it."""

NOTE_RULES: Mapping[NoteKind, str] = {
    NoteKind.BOM: "sse.bom",
    NoteKind.COMMENT: "sse.comment",
    NoteKind.LINE_ENDING: "sse.line-ending",
    NoteKind.NO_SPACE: "sse.no-space",
    NoteKind.ID_OR_RETRY: "sse.id-retry-fields",
    NoteKind.MALFORMED_NAME: "sse.field-name-malformed",
    NoteKind.UNKNOWN_FIELD: "sse.unknown-field",
    NoteKind.UNPREFIXED: "sse.unprefixed-lines",
}
EVENT_FAULTS: Mapping[JsonFaultKind, str] = {
    JsonFaultKind.INVALID: "sse.data-invalid-json",
    JsonFaultKind.BOM: "sse.data-invalid-json",
    JsonFaultKind.NONFINITE: "http.json-nonfinite",
    JsonFaultKind.DUPLICATE_KEY: "http.json-duplicate-key",
    JsonFaultKind.SURROGATE: "http.json-surrogate",
    JsonFaultKind.UTF8: "sse.utf8-invalid",
}


class EventProtocol(Protocol):
    """What takes the events of a stream: one of each operation."""

    @property
    def ended(self) -> bool: ...

    def event(self, value: Any, name: str) -> None: ...

    def done(self) -> None: ...

    def unreadable(self) -> None: ...

    def close(self, *, cut: bool) -> None: ...

    def open_text(self, value: Mapping[str, Any]) -> OpenText | None: ...


class OtherStream:
    """Events of an operation without order rules: each is JSON, and that is all."""

    def __init__(self, ctx: Context) -> None:
        self.ended = False

    def event(self, value: Any, name: str) -> None:
        """Nothing is known of what it must hold."""

    def done(self) -> None:
        self.ended = True

    def unreadable(self) -> None:
        """Nothing depends on an event that can't be read."""

    def close(self, *, cut: bool) -> None:
        """No rule about the end."""

    def open_text(self, value: Mapping[str, Any]) -> OpenText | None:
        """Nothing is known of its texts."""
        return None


class EventRecorder(Protocol):
    """Who keeps the events of a stream that take the full check, to learn from them at its end."""

    def keep(self, block: bytes, *, whole: bool) -> None: ...

    def learn(self) -> None: ...


class StreamKind(NamedTuple):
    """How an operation streams. ``done_malformed`` is empty where ``[DONE]`` is no part of it."""

    protocol: Callable[[Context], EventProtocol]
    empty: str = ""
    """The rule of a body without any event."""
    done_malformed: str = ""
    done_suffix: str = ""


STREAM_KINDS: Mapping[Operation, StreamKind] = {
    Operation.CHAT: StreamKind(
        ChatStream,
        empty="chatstream.no-chunks",
        done_malformed="chatstream.done-malformed",
        done_suffix="chatstream.done-suffix",
    ),
    Operation.COMPLETIONS: StreamKind(
        CompletionStream,
        empty="completions.no-chunks",
        done_malformed="completions.done-malformed",
        done_suffix="completions.done-suffix",
    ),
    Operation.RESPONSES: StreamKind(ResponsesStream, empty="respstream.terminal-missing"),
}
OTHER_KIND = StreamKind(OtherStream)


class EventStream:
    """The body of an answer that is an event stream."""

    full: EventStream | None = None
    """Nobody takes it instead."""

    def __init__(self, ctx: Context, recorder: EventRecorder | None = None) -> None:
        self._ctx = ctx
        self._recorder = recorder
        self._reader = SseReader(ctx.limits)
        self._kind = STREAM_KINDS.get(ctx.operation, OTHER_KIND)
        self._protocol = self._kind.protocol(ctx)
        self._fast = FastPath(min(ctx.limits.line, ctx.limits.event))
        self._last: Any = None  # the last document
        self._report = ctx.report
        self._exchange = ctx.exchange
        self._head()

    def _head(self) -> None:
        ctx = self._ctx
        ctx.report.place(Unit.HEAD)
        if ctx.headers_known and media_type(ctx) != "text/event-stream":
            kind = media_type(ctx)
            ctx.report(
                "sse.content-type",
                detail=f"content-type {kind[:64]!r}" if kind else "no content-type",
            )
        if ctx.header("content-length"):
            ctx.report("sse.content-length", detail="content-length on an event stream")
        if ctx.request.known and not ctx.request.stream and ctx.exchange.method == "POST":
            ctx.report(
                "cross.json-answered-with-stream",
                detail='an event stream, "stream" was not asked for',
            )

    @property
    def ready(self) -> Template | None:
        """What the next read is compared with, where it may be one event that only carries on a text."""
        return self._fast.ready if self._reader.between else None

    def passed(self, count: int, size: int, last: int) -> None:
        """Takes what a run (run.py) has counted: events that ``ready`` told, their bytes, and those of the
        last one."""
        fast, reader, report, ready = self._fast, self._reader, self._report, self._fast.ready
        reader.at += size
        fast.accepted += count
        report.index = index = self._exchange.events
        if ready is not None:
            report.byte = byte = reader.at - last + ready.line
            ready.to.skip(index, byte)

    def went_on(self, size: int, byte: int) -> None:
        """Takes texts of the last event's kind that somebody else has read, and that change nothing but the
        place: so many bytes; the last one is at this byte, and has the number that the exchange shows."""
        self._reader.at += size
        report, index = self._report, self._exchange.events
        report.index, report.byte = index, byte
        text = self._protocol.open_text(self._last)
        if text is not None:
            text.skip(index, byte)

    def feed(self, data: bytes) -> None:
        """The next piece of the body."""
        at, size, fast, reader = 0, len(data), self._fast, self._reader
        while at < size and not reader.limit:
            if fast.armed and reader.between:
                start = at
                at, events = fast.run(data, at, reader.at - at, self._exchange.events, self._report)
                if at > start:
                    reader.at += at - start
                    self._exchange.events = events
                    self._last = fast.like
                    continue
            end = data.find(b"\n\n", at)
            block = data[at : end + 2] if end >= 0 else data[at:]
            at += len(block)
            self._block(block)
        if reader.limit:
            self._ctx.partial(reader.limit)

    def _block(self, block: bytes) -> None:
        """The full check of the bytes up to the end of a block, or of a read that has none."""
        report, reader, fast = self._ctx.report, self._reader, self._fast
        whole = reader.between
        usual = reader.usual(block) if whole else None
        if usual is None:
            events = reader.feed(block)
            whole = whole and reader.between and len(events) == 1
        else:
            events = [usual]
        if self._recorder is not None:
            self._recorder.keep(block, whole=whole)
        for event in events:
            breaches, number = report.breaches, self._exchange.events
            self._event(event)
            text = None
            clean = report.breaches == breaches and self._exchange.events > number
            if clean and fast.useful and isinstance(self._last, dict):
                text = self._protocol.open_text(self._last)
            if text is None:
                fast.disarm()
            elif whole:
                fast.arm(block, event.data[0] if event.data else b"", self._last, text)

    # -- one event ------------------------------------------------------------------------------------

    def _event(self, event: Event) -> None:
        report = self._ctx.report
        report.place(_EVENT, self._exchange.events + 1, event.byte)
        if event.notes:
            self._notes(event.notes, with_data=event.data is not None)
        if event.data is None:
            if event.fields or event.after_id:
                report("sse.block-without-data", detail="a block without a data field")
            return
        if len(event.data) == 1:
            self._data(event.data[0], event)
            return
        self._lines(event.data, event)

    def _notes(self, notes: Sequence[Note], *, with_data: bool) -> None:
        for note in notes:
            if note.kind is NoteKind.ID_OR_RETRY and not with_data:
                continue  # sse.block-without-data has it
            self._ctx.report(
                NOTE_RULES[note.kind],
                detail=f"{note.kind.value} at byte {note.byte}",
                byte=note.byte,
            )

    def _lines(self, lines: Sequence[bytes], event: Event) -> None:
        """Several data lines: one value written over lines, or events without a blank line between."""
        report = self._ctx.report
        if _whole(lines[0], self._ctx) and any(lines[1:]):
            report("sse.separator-missing", detail=f"{len(lines)} data lines without a blank line")
            for line in lines:
                if line:
                    self._data(line, event)
            return
        report("sse.multiline-data", detail=f"{len(lines)} data lines in one event")
        self._data(b"\n".join(lines), event)

    def _data(self, data: bytes, event: Event) -> None:
        report = self._ctx.report
        if self._is_done(data):
            return
        if data.startswith(DONE):
            self._protocol.done()
            return
        self._exchange.events += 1
        report.index = self._exchange.events
        if data[:1] == b" ":
            report("sse.extra-space", detail="more than one space after the colon")
        if not data:
            report("sse.empty-data", detail="data field without a value")
            return
        self._document(data, event.name, event.value)

    def _is_done(self, data: bytes) -> bool:
        """Whether the data is ``[DONE]`` or meant to be; reports the spelling."""
        spelling = _spelling(data, self._kind)
        if spelling is None:
            return False
        if spelling:
            self._ctx.report(spelling, detail=f"{len(data)} bytes where [DONE] was due")
        self._protocol.done()
        return True

    def _document(self, data: bytes, name: str, byte: int) -> None:
        """Decodes the data of one event, which starts at ``byte``; several values are taken apart."""
        ctx = self._ctx
        for turn in range(_MAX_VALUES):
            document = decode(data, ctx.limits.depth)
            if not document.ok:
                if turn == 0:
                    self._unreadable(document, byte)
                return
            if document.faults:
                report_faults(ctx, document, EVENT_FAULTS, byte)
            self._last = document.value
            if self._exchange.events <= FIRST_OBJECTS:
                note_object(ctx.exchange, document.value)
            self._protocol.event(document.value, name)
            if not ctx.identified:
                check_identity(ctx, document.value)
            if not document.faults:
                return
            rest = next((f for f in document.faults if f.kind is JsonFaultKind.TRAILING), None)
            if rest is None:
                return
            data, byte = data[rest.byte :], byte + rest.byte
            if turn == 0:
                self._trailing(data, byte)
        self._protocol.unreadable()

    def _trailing(self, rest: bytes, byte: int) -> None:
        another = decode(rest, self._ctx.limits.depth).ok
        rule = "sse.several-json-values" if another else "sse.data-invalid-json"
        self._ctx.report(rule, detail=f"{len(rest)} bytes behind the first JSON value", byte=byte)
        if not another:
            self._protocol.unreadable()

    def _unreadable(self, document: Document, byte: int) -> None:
        report_faults(self._ctx, document, EVENT_FAULTS, byte)
        if any(f.kind is JsonFaultKind.EMPTY for f in document.faults):
            self._ctx.report("sse.empty-data", detail="data of white space")
        self._protocol.unreadable()

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self, ended: Ended) -> None:
        """The body is over. A client that left, or a limit, takes the rules about the end away (P2).

        Not so once the end marker has come: clients close on reading it, and the answer is whole.
        """
        note_object(self._ctx.exchange, self._last)  # vLLM's fingerprint stands in its last chunk
        if self._reader.limit:
            return
        whole = self._protocol.ended and ended is not Ended.UPSTREAM_ABORTED
        if not whole and ended not in (Ended.COMPLETE, Ended.UPSTREAM_ABORTED):
            return
        cut = ended is Ended.UPSTREAM_ABORTED
        end = self._reader.offset
        tail = self._reader.close()
        if tail is not None:
            cut = self._tail(tail, cut=cut) or cut
        self._ctx.report.place(Unit.EVENT, self._exchange.events, end)
        self._protocol.close(cut=cut)
        if self._recorder is not None and ended is Ended.COMPLETE:
            self._recorder.learn()

    def _tail(self, tail: Tail, *, cut: bool) -> bool:
        """What stood behind the last blank line; whether it was broken off."""
        report = self._ctx.report
        report.place(Unit.EVENT, self._exchange.events + 1, tail.byte)
        self._notes(tail.notes, with_data=True)
        if tail.data is None:
            comment = any(n.kind is NoteKind.COMMENT and n.byte >= tail.byte for n in tail.notes)
            broken = (
                tail.in_line
                and not comment
                and not any(n.kind is NoteKind.UNPREFIXED for n in tail.notes)
            )
            if broken and not cut:
                report("sse.eof-mid-event", detail="the body ends inside a line")
            return broken
        data = b"\n".join(tail.data)
        event = Event(tail.byte, tail.data, tail.name, (), True, False, tail.value)
        if _spelling(data, self._kind) == "":
            self._is_done(data)
            if not cut:
                report("sse.done-unterminated", detail="no blank line behind [DONE]")
            return False
        if len(tail.data) > 1 and _whole(tail.data[0], self._ctx):
            self._lines(tail.data, event)
            return False
        if _whole(data, self._ctx):
            if not cut:
                report("sse.final-blank-missing", detail="no blank line behind the last event")
            self._data(data, event)
            return False
        if not cut:
            report(
                "sse.eof-mid-event",
                detail=f"the body ends inside an event, {len(data)} bytes into its data",
            )
        return True


_DONE_LIKE = re.compile(rb'\s*"?\[done\]"?\s*\Z|\s*\{\s*"done"\s*:\s*true\s*\}\s*\Z', re.I)


def _spelling(data: bytes, kind: StreamKind) -> str | None:
    """None: not a terminator; empty: the right one; else the rule that its spelling breaks."""
    if not kind.done_malformed:
        return None
    if data == DONE:
        return ""
    if data.startswith(DONE):
        return kind.done_suffix
    if len(data) <= 32 and _DONE_LIKE.match(data):
        return kind.done_malformed
    return None


def _whole(data: bytes, ctx: Context) -> bool:
    """Whether the data is one whole JSON value, or [DONE]."""
    if data.startswith(DONE):
        return True
    document = decode(data, ctx.limits.depth)
    return (
        document.ok
        and isinstance(document.value, dict | list)
        and not any(f.kind is JsonFaultKind.TRAILING for f in document.faults)
    )
