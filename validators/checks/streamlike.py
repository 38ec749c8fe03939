"""Going along with a chat stream that is like an earlier one of its upstream, by its bytes alone.

What belongs here: where in its course such a stream is, the few facts that it has of its own, and the way
back: with the first byte that differs the full check (stream.py) takes over, in the state that it would have
by then. What doesn't: what such a stream is (streamknown.py). tests/validators/checks/test_streamlike.py
holds it together with the full check.
"""

from __future__ import annotations

from typing import Final

from teeline.validators.checks.chatknown import Asked
from teeline.validators.checks.context import Context
from teeline.validators.checks.cross import REPLACEMENT, is_wanted
from teeline.validators.checks.identity import check_accepted
from teeline.validators.checks.stream import EventStream
from teeline.validators.checks.streamknown import (
    DATA,
    DONE,
    END,
    Holes,
    KnownStream,
    Recorder,
    asked_of,
    is_possible,
)
from teeline.validators.fast import Template
from teeline.validators.likeness import Likeness
from teeline.validators.model import Ended, Unit

_COMPARED: Final = 4
"""Characters of a first text from which on the next one is compared with it (chatchoice.py)."""
_HEARD: Final = 2
"""Texts behind which no further one changes anything, where the second doesn't start with the first."""
_MAX_OPENING: Final = 8 * 1024
"""Bytes up to the second text."""
_FEWEST: Final = 4
"""Events behind which only the last one is looked at for what it shows of the vendor."""
_EVENT: Final = Unit.EVENT


def stream_of(ctx: Context, data: bytes) -> EventStream | LikeStream:
    """Who takes the event stream that begins with these bytes."""
    history = ctx.history
    asked = None if history is None else asked_of(ctx)
    if history is None or asked is None:
        return EventStream(ctx)
    known = history.streams[ctx.request.include_usage]
    end = data.find(END)
    if end < 0 or not data.startswith(DATA):
        return EventStream(ctx)
    found = known.find(data[len(DATA) : end])
    if found is None:
        return EventStream(ctx, Recorder(ctx) if known.useful else None)
    like, holes = found
    if not (is_possible(ctx, holes[: like.constants]) and is_wanted(ctx, like.model)):
        return EventStream(ctx)
    return LikeStream(ctx, asked, like, holes, end + len(END))


class LikeStream:
    """One stream that is like ``known`` so far. Takes what it is fed from its first byte on.

    ``full`` is who takes it instead, once something differs; it may then be fed directly.
    """

    __slots__ = (
        "_asked",
        "_at",
        "_byte",
        "_closed",
        "_closing",
        "_constants",
        "_ctx",
        "_heard",
        "_holes",
        "_known",
        "_open",
        "_plainly",
        "_said",
        "_template",
        "_texts",
        "_usage",
        "full",
    )

    def __init__(
        self, ctx: Context, asked: Asked, known: KnownStream, holes: tuple[bytes, ...], size: int
    ) -> None:
        self._ctx = ctx
        self._asked = asked
        self._known = known
        self._holes = holes  # what stood in those of its first event
        self._constants = holes[: known.constants]
        self._template = known.template(self._constants)
        self.full: EventStream | None = None  # once something differs
        self._texts: list[bytes] = []  # those up to the second one, each with its padding
        self._open = size  # bytes of the first event and of these
        self._heard = 0  # texts that are not empty, up to two
        self._plainly = True  # the last text stood for itself
        self._said = ""  # the first of them, until the second comes
        self._closing = b""  # the events behind the texts
        self._closed = 0
        self._at = 0
        self._byte = 0  # of the last text
        self._usage: dict[str, int] | None = None

    @property
    def ready(self) -> Template | None:
        """As EventStream has it."""
        if self.full is not None:
            return self.full.ready
        usual = self._heard == _HEARD and self._plainly and not self._closed
        return self._template if usual else None

    def passed(self, count: int, size: int, last: int) -> None:
        """As EventStream has it."""
        if self.full is not None:
            self.full.passed(count, size, last)
        else:
            self._at += size
            self._place(self._at - last)
            self._byte = self._at - last

    def feed(self, data: bytes) -> None:
        """The next piece of the body."""
        if self.full is not None:
            self.full.feed(data)
            return
        at, size = 0, len(data)
        while at < size:
            end = self._next(data, at)
            if end < 0:
                self._leave().feed(data[at:])
                return
            self._at += end - at
            at = end

    def _next(self, data: bytes, at: int) -> int:
        """Takes what comes next, if it is like the known stream; where that ends, else -1."""
        if not self._at:
            return self._begin()
        if not self._closed:
            end = self._text(data, at)
            if end >= 0:
                return end
        return self._end(data, at)

    def _place(self, byte: int, ahead: int = 0) -> None:
        report = self._ctx.report
        report.unit = _EVENT
        report.index = self._ctx.exchange.events + ahead
        report.byte = byte

    def _begin(self) -> int:
        """The first chunk, which was looked at: what the stream has of its own."""
        ctx, known, constants = self._ctx, self._known, self._constants
        exchange = ctx.exchange
        exchange.events = 1
        self._place(0)
        exchange.response_id = made = constants[0].decode()
        exchange.response_model = known.model[:256]
        marks, shown = exchange.marks, known.opened
        marks.id = made
        marks.fingerprint = constants[2].decode() if len(constants) > 2 else shown.marks.fingerprint
        marks.members = shown.marks.members
        exchange.service_tier = shown.service_tier
        check_accepted(ctx)
        return self._open

    # -- texts ------------------------------------------------------------------------------------------

    def _text(self, data: bytes, at: int) -> int:
        """One text or, behind the first ones, as many plain ones as follow."""
        exchange, template = self._ctx.exchange, self._template
        if self._heard == _HEARD and self._plainly:
            count, last, end = template.stretch(data, at)
            if count:
                exchange.events += count
                self._byte = self._at + last - at
                self._place(self._byte)
                return end
        end = template.match(data, at)
        if end < 0 or not self._take(template.text, data[at:end]):
            return -1
        self._plainly = isinstance(template.text, bytes)
        exchange.events += 1
        self._byte = self._at
        self._place(self._byte)
        return end

    def _take(self, text: bytes | str, block: bytes) -> bool:
        """Whether the full check would find nothing in a text, and go on as after any other."""
        if not isinstance(text, bytes) and REPLACEMENT in text:
            return False
        if self._heard == _HEARD:
            return True
        said = text.decode() if isinstance(text, bytes) else text
        if self._open + len(block) > _MAX_OPENING:
            return False
        if len(self._said) >= _COMPARED and said.startswith(self._said):
            return False
        before, _, behind = self._template.ends
        self._texts.append(block[len(before) : -len(behind)])
        self._open += len(block)
        if said:
            self._heard += 1
            self._said = said if self._heard < _HEARD else ""
        return True

    # -- the end ----------------------------------------------------------------------------------------

    def _end(self, data: bytes, at: int) -> int:
        """One of the events behind the texts, in their order."""
        closing, number = self._known.closing, self._closed
        if number < len(closing):
            end = data.find(END, at) + len(END)
            if end < len(END) or not self._closes(closing[number], data, at, end):
                return -1
            self._ctx.exchange.events += 1
            self._place(self._at)
        else:
            end = at + len(DONE)
            if number > len(closing) or data[at:end] != DONE:
                return -1
            self._place(self._at, 1)
        self._closing += data[at:end]
        self._closed += 1
        return end

    def _closes(self, like: Likeness[Holes], data: bytes, at: int, end: int) -> bool:
        """Whether an event is the next one of those at the end, with nothing to be said of it."""
        if not data.startswith(DATA, at) or not self._heard:
            return False
        if self._ctx.exchange.events < _FEWEST:
            return False
        holes = like.holes(data[at + len(DATA) : end - len(END)])
        if holes is None or holes[: len(self._constants)] != self._constants:
            return False
        if self._closed:
            size = self._ctx.exchange.request_bytes
            self._usage = self._known.usage(holes, self._asked, size)
            return self._usage is not None
        return True

    def finish(self, ended: Ended) -> None:
        """The body is over. Clients close on reading [DONE]; with it the answer is whole."""
        full = self.full
        if full is None and (
            self._closed <= len(self._known.closing) or ended is Ended.UPSTREAM_ABORTED
        ):
            full = self._leave()
        if full is not None:
            full.finish(ended)
            return
        ctx, shown = self._ctx, self._known.ended
        exchange = ctx.exchange
        exchange.marks.members = shown.marks.members
        if len(self._constants) < 3:
            exchange.marks.fingerprint = shown.marks.fingerprint
        exchange.service_tier = shown.service_tier
        ctx.finished("stop")
        if self._usage is not None:
            exchange.usage = self._usage
        last = self._closing.rfind(DATA, 0, -len(DONE))  # no chunk ends in a text
        self._place(self._at - len(self._closing) + last)

    # -- the way back -------------------------------------------------------------------------------------

    def _leave(self) -> EventStream:
        """Something differs: the full check in the state that it would have."""
        exchange, closing = self._ctx.exchange, self._closing
        before, _, behind = self._template.ends
        closed = min(self._closed, len(self._known.closing))
        texts = exchange.events - 1 - len(self._texts) - closed
        size = self._at - self._open - len(closing)
        self.full = full = EventStream(self._ctx)
        if self._at:
            exchange.events = 0
            full.feed(self._known.first(self._holes))
            for text in self._texts:
                full.feed(before + text + behind)
            if texts:
                exchange.events += texts
                full.went_on(size, self._byte)
            if closing:
                full.feed(closing)
        self._closing = b""
        self._texts.clear()
        return full
