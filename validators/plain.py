"""The plainest exchange, told at its end: a chat request of texts, and a document like an earlier answer.

What belongs here: how long an exchange may pass for plain, and what is left of it when it was. What doesn't:
what makes a request usual (checks/requestusual.py), a head clean (checks/http.py), an answer known
(checks/chatknown.py), and every doubt: the full inspector (inspector.py) then sees all that has come, in the
order and at the times at which it came. A step is kept only where the full inspector would have said nothing,
so that nothing is reported later than by it. tests/validators/test_plain.py holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from teeline.validators.checks.chatknown import asked_plainly
from teeline.validators.checks.http import is_head_clean
from teeline.validators.checks.models import is_unlisted
from teeline.validators.checks.requestusual import is_head_usual, note_usual
from teeline.validators.events import (
    Closed,
    Opened,
    Output,
    Report,
    RequestHead,
    ResponseHead,
    SchemaResult,
)
from teeline.validators.heads import content_type, names_of
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.operation import Operation, route_of
from teeline.validators.timeline import entry
from teeline.validators.wire.json import decoded_shallow

_NOTHING: Sequence[Output] = ()
_CHAT: Final = Operation.CHAT
_COMPLETE: Final = Ended.COMPLETE
_COMPLETE_WORD: Final = _COMPLETE.value
_STREAMS: Final = (b'"stream":true', b'"stream": true')
"""What nearly every request for a stream holds: none of these is decoded here, only to be decoded again."""
_MOST_READS: Final = 8
"""Pieces of an answer, at most: the first entries of a timeline hold as many."""

_READ: Final = 2
_ASKED: Final = 3
_ANSWERED: Final = 4
"""Steps until the request was read, has ended, and the answer's head came."""
_JSON: Final = "application/json"

_Step = tuple[Callable[[Inspector, Any, float], object], Any, float]
"""What came, as the full inspector takes it in: one of its methods, what came, and when."""


def _request_ended(full: Inspector, _: None, at: float) -> object:
    return full.request_end(at)


_REQUEST_HEAD: Final = Inspector.request_head
_REQUEST_BODY: Final = Inspector.request_body
_RESPONSE_HEAD: Final = Inspector.response_head
_RESPONSE_BODY: Final = Inspector.response_body


class PlainInspector:
    """Stands for an ``Inspector`` as long as an exchange is plain; the same calls in the same order.

    ``acting`` is who inspects from here on. Other arguments are those of ``Inspector``.
    """

    __slots__ = (
        "_aside",
        "_asked",
        "_full",
        "_headers",
        "_history",
        "_limits",
        "_steps",
        "exchange",
    )

    def __init__(
        self,
        exchange: Exchange,
        limits: Limits = DEFAULT_LIMITS,
        history: History | None = None,
        *,
        aside: bool = False,
    ) -> None:
        self.exchange = exchange
        self._limits = limits
        self._history = history
        self._aside = aside
        self._full: Inspector | None = None
        self._steps: list[_Step] = []

    @property
    def acting(self) -> Inspector | PlainInspector:
        """Whoever is to be told of what comes next."""
        return self if self._full is None else self._full

    @property
    def pending(self) -> int:
        """As ``Inspector.pending``."""
        return 0 if self._full is None else self._full.pending

    def _unplain(self) -> Inspector:
        """The full inspector, which has seen all that came so far."""
        full = self._full
        if full is None:
            exchange = self.exchange
            full = Inspector(exchange, self._limits, self._history, aside=self._aside)
            exchange.request_bytes = exchange.response_bytes = 0
            for step, what, at in self._steps:
                step(full, what, at)
            self._full, self._steps = full, []
        return full

    def _is_large(self, size: int) -> bool:
        """Whether a body is larger than what the full inspector reads, or reads in place."""
        return size > self._limits.in_place or size > self._limits.body

    # -- the request -----------------------------------------------------------------------------------

    def request_head(self, head: RequestHead, at: float) -> Sequence[Output]:
        """As ``Inspector.request_head``."""
        route, headers = route_of(head.method, head.target), head.headers
        names = head.names or names_of(headers)
        if (
            route.operation is not _CHAT
            or route.is_beta
            or self._history is None
            or names.coded
            or "://" in head.target
            or not is_head_usual(headers, names)
        ):
            return self._unplain().request_head(head, at)
        exchange = self.exchange
        exchange.method = head.method
        exchange.path = route.path
        exchange.operation = route.reported
        exchange.timing.start = at
        self._headers = headers
        self._steps.append((_REQUEST_HEAD, head, at))
        return (Opened(exchange),)

    def request_body(self, data: bytes, at: float) -> Sequence[Output]:
        """As ``Inspector.request_body``; a plain one comes in one piece."""
        size = len(data)
        if len(self._steps) != 1 or size > self._limits.large_request or self._is_large(size):
            return self._unplain().request_body(data, at)
        self.exchange.request_bytes = size
        self._steps.append((_REQUEST_BODY, data, at))
        return _NOTHING

    def request_end(self, at: float) -> Sequence[Output]:
        """As ``Inspector.request_end``."""
        if self._full is not None or not self._is_request_plain():
            return self._unplain().request_end(at)
        self._steps.append((_request_ended, None, at))
        return _NOTHING

    def _is_request_plain(self) -> bool:
        """Takes in what is asked for, where nothing is to be said of it and the answer may be known."""
        if len(self._steps) != _READ:
            return False
        body = self._steps[-1][1]
        if _STREAMS[0] in body or _STREAMS[1] in body:
            return False
        document = decoded_shallow(body, self._limits.depth)
        exchange = self.exchange
        if document is None or not note_usual(exchange, document) or exchange.stream:
            return False
        self._asked = None if "store" in document else asked_plainly(document)
        return self._asked is not None

    # -- the answer --------------------------------------------------------------------------------------

    def response_head(self, head: ResponseHead, at: float) -> Sequence[Output]:
        """As ``Inspector.response_head``."""
        headers = head.headers
        names = head.names or names_of(headers)
        kind = content_type[headers[names.type][1] if names.type >= 0 else ""]
        steps = self._steps
        if (
            len(steps) != _ASKED  # the answer comes before the request has ended, or again
            or kind.media != _JSON
            or not is_head_clean(head, names, kind)
            or at - steps[-1][2] > self._limits.slow_first_byte
        ):
            return self._unplain().response_head(head, at)
        exchange = self.exchange
        exchange.status = head.status
        exchange.marks.headers = headers
        exchange.timing.first_byte = at
        if names.request_id >= 0:
            exchange.request_id = headers[names.request_id][1][:256]
        steps.append((_RESPONSE_HEAD, head, at))
        return _NOTHING

    def response_body(self, data: bytes, at: float) -> Sequence[Output]:
        """As ``Inspector.response_body``."""
        steps, exchange = self._steps, self.exchange
        size = exchange.response_bytes + len(data)
        if not _ANSWERED <= len(steps) < _ANSWERED + _MOST_READS or self._is_large(size):
            return self._unplain().response_body(data, at)
        exchange.response_bytes = size
        steps.append((_RESPONSE_BODY, data, at))
        return _NOTHING

    # -- the end -----------------------------------------------------------------------------------------

    def end(self, ended: Ended, at: float) -> Sequence[Output]:
        """As ``Inspector.end``."""
        if ended is not _COMPLETE or len(self._steps) <= _ANSWERED or not self._is_known(at):
            return self._unplain().end(ended, at)
        exchange = self.exchange
        exchange.ended = ended
        exchange.timing.end = at
        self._note_course(at)
        return (Closed(exchange),)

    def _is_known(self, at: float) -> bool:
        """Whether the answer is like an earlier one, and new; takes in what it says."""
        steps, history, asked = self._steps, self._history, self._asked
        if history is None or asked is None:
            return False
        body = steps[_ANSWERED][1]
        if len(steps) > _ANSWERED + 1:
            body = b"".join(data for _, data, _ in steps[_ANSWERED:])
        found = history.answers[_CHAT].find(body)
        if found is None:
            return False
        known, holes = found
        exchange = self.exchange
        made = known.id_in(holes)
        if history.knows(made):
            return False
        if history.lists and is_unlisted(asked.model, exchange.path, history, self._headers):
            return False
        if not known.accept(exchange, asked, holes, at):
            return False
        history.made_new(made)
        return True

    def _note_course(self, at: float) -> None:
        """The timeline, and when the answer was read."""
        exchange, timing = self.exchange, self.exchange.timing
        (_, _, asked), _, _, (_, head, answered), *reads = self._steps
        timing.last_byte = last = reads[0][2]
        for _, _, read in reads[1:]:
            timing.largest_gap = max(timing.largest_gap, read - last)
            timing.last_byte = last = read
        exchange.timeline = [
            entry((asked, "request", 0, 0)),
            entry((answered, "head", 0, head.status)),
            *[entry((read, "read", 0, len(data))) for _, data, read in reads],
            entry((at, _COMPLETE_WORD, 0, 0)),
        ]

    # -- what only the full inspector is asked -----------------------------------------------------------

    def inspected(self, report: Report, at: float) -> Sequence[Output]:
        """As ``Inspector.inspected``."""
        return self._unplain().inspected(report, at)

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]:
        """As ``Inspector.schema_result``."""
        return self._unplain().schema_result(ticket, result, at)

    def expire(self, at: float) -> Sequence[Output]:
        """As ``Inspector.expire``."""
        return self._unplain().expire(at)
