"""The copy of one exchange that goes to its inspector, and the way from there to the sinks.

What belongs here: handing pieces to the inspector after they were written, schema checks and large
documents on their way out and back, and what happens when an observer fails. What doesn't: what
exchanges share (observers.py), who they are (identity.py), forwarding (transfer.py), detection
(validators) and reporting (sinks). Nothing that is called here may break or hold up traffic: every
failure of an observer ends in this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from teeline.proxy.capture import Recording
from teeline.proxy.clock import Now
from teeline.proxy.form import Fields
from teeline.proxy.identity import new_exchange
from teeline.proxy.inspection import ExchangeInspector, Inspection, SocketInspector
from teeline.validators.events import (
    Aside,
    Closed,
    Opened,
    Output,
    Report,
    RequestHead,
    ResponseHead,
    SchemaCheck,
    SchemaResult,
)
from teeline.validators.model import Ended, Exchange
from teeline.validators.operation import operation_of, path_of
from teeline.validators.wsresponses import extension_of

if TYPE_CHECKING:
    from teeline.proxy.observers import Observers

UNINSPECTED = "none (validator-error)"
"""What ``Exchange.inspection`` says where an observer of ours failed."""

_COMPLETE = Ended.COMPLETE
_TICK = 1.0
"""Seconds between two looks at what waits for time to pass."""

UNREAD = "none ({})"
"""What it says where bytes passed that no inspector reads: of a protocol, or in an extension of it."""


class Tee:
    """One exchange as its observers see it. No method raises, whatever an observer does.

    Whoever forwards gives the methods that tell of what passes to ``handover``, which calls them in time.
    """

    exchange: Exchange
    """There from the first step on."""

    # What most exchanges never change is the class's.
    _inspector: ExchangeInspector | None = None
    _socket: SocketInspector | None = None
    _recording: Recording | None = None
    _parts: dict[str, Exchange] | None = None  # open on this connection, beside its own
    _checks: set[asyncio.Task[None]] | None = None
    _asides: set[asyncio.Task[None]] | None = None
    _ticker: asyncio.TimerHandle | None = None
    _opened = False
    _closed = False

    def __init__(
        self, observers: Observers, now: Now, upstream: str, client: str, fields: Fields
    ) -> None:
        self.now = now
        self.handover = observers.handover
        self._observers = observers
        self._who = upstream, client, fields

    # -- what passes: steps of the handover ----------------------------------------------------------------

    def request(self, whole: tuple[RequestHead, bytes], at: float) -> None:
        """A request that came whole, by its head and its body, which may be empty."""
        head, body = whole
        self.request_head(head, at)
        if body:
            self.request_body(body, at)
        self.request_end(None, at)

    def answer(self, whole: tuple[ResponseHead, bytes], at: float) -> None:
        """An answer that came whole, with which the exchange is complete."""
        head, body = whole
        self.response_head(head, at)
        if body:
            self.response_body(body, at)
        self.end(_COMPLETE, at)

    def request_head(self, head: RequestHead, at: float) -> None:
        self._head = head
        observers = self._observers
        self.exchange = exchange = new_exchange(at, *self._who)
        if observers.fingerprint is not None:
            exchange.client_key = observers.fingerprint.of(head.headers)
        if observers.capture is not None:
            self._recording = exchange.recording = observers.capture.open(exchange.upstream)
        if self._recording is not None:
            self._keep(self._recording.request_head, head)
        self._inspector = inspector = observers.inspector_of(exchange)
        if inspector is not None:
            try:
                outputs = inspector.request_head(head, at)
            except Exception as error:  # noqa: BLE001  observers can't break traffic
                self._fail("inspector", error)
            else:
                if len(outputs) == 1 and type(outputs[0]) is Opened:
                    self._opened = True  # the usual: there is nothing yet that a policy could judge
                    observers.sinks.emit(outputs)
                else:
                    self._emit(outputs)
        if not self._opened:
            self._open_uninspected(head, at)

    def request_body(self, data: bytes, at: float) -> None:
        if self._recording is not None:
            self._keep(self._recording.request_body, data)
        inspector = self._inspector
        if inspector is None:
            self.exchange.request_bytes += len(data)
            return
        try:
            outputs = inspector.request_body(data, at)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("inspector", error)
            return
        if outputs:
            self._emit(outputs)

    def request_end(self, _: None, at: float) -> None:
        inspector = self._inspector
        if inspector is None:
            return
        try:
            outputs = inspector.request_end(at)
            self._inspector = inspector.acting
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("inspector", error)
            return
        if outputs:
            self._emit(outputs)

    def response_head(self, head: ResponseHead, at: float) -> None:
        if self._recording is not None:
            self._keep(self._recording.response_head, head)
        inspector = self._inspector
        if inspector is None:
            self.exchange.status = head.status
            return
        try:
            outputs = inspector.response_head(head, at)
            self._inspector = inspector.acting
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("inspector", error)
            self.exchange.status = head.status
            return
        if outputs:
            self._emit(outputs)

    def response_body(self, data: bytes, at: float) -> None:
        if self._recording is not None:
            self._keep(self._recording.response_body, data)
        inspector = self._inspector
        if inspector is None:
            self.exchange.response_bytes += len(data)
            return
        try:
            outputs = inspector.response_body(data, at)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("inspector", error)
            return
        if outputs:
            self._emit(outputs)

    def switched(self, answer: ResponseHead, at: float) -> None:
        """The connection is a WebSocket from here on."""
        exchange, head, watched = self.exchange, self._head, self._inspector is not None
        exchange.status = answer.status
        exchange.timing.first_byte = at
        self._inspector = None
        if head is not None and watched:
            self._socket = self._observers.listen(exchange, self.now, head, answer)
        if self._socket is None:
            exchange.inspection = UNREAD.format(extension_of(answer) or "websocket")
        elif self._socket.ticks:
            self._ticker = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def _tick(self) -> None:
        """A second has passed: what waits for time to pass on this connection is looked at."""
        self._ticker = None
        self.handover.catch_up()
        if self._socket is not None and not self._closed:
            self._feed(self._socket.tick, self.now())
        if self._socket is not None and self._socket.ticks and not self._closed:
            self._ticker = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def sent(self, data: bytes, at: float) -> None:
        """Bytes that passed through a tunnel, from the client."""
        self.exchange.request_bytes += len(data)
        if self._socket is not None:
            self._feed(self._socket.client_bytes, data, at)

    def returned(self, data: bytes, at: float) -> None:
        """Bytes that passed through a tunnel, to the client."""
        self.exchange.response_bytes += len(data)
        if self._socket is not None:
            self._feed(self._socket.server_bytes, data, at)

    def client_left(self, _: None, at: float) -> None:
        """The client ends the connection: it won't read what is still to come."""
        if self._socket is not None:
            self._socket.client_left()

    def end(self, ended: Ended, at: float) -> None:
        """Ends the exchange: its last checks and ``Closed``.

        What takes long is waited for beside the traffic: large documents, and schema checks.
        """
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        if self._inspector is not None:
            self._feed(self._inspector.end, ended, at)
            self._inspector = self._inspector and self._inspector.acting
        elif self._socket is not None:
            self._feed(self._socket.end, ended, at)
        if self._closed:
            return
        if (inspection := self._inspection) is not None and inspection.pending:
            self._observers.run(self._await_checks(ended))
        else:
            self._close_uninspected(ended)

    @property
    def _inspection(self) -> Inspection | None:
        return self._inspector if self._socket is None else self._socket

    async def _await_checks(self, ended: Ended) -> None:
        try:
            # One report may ask for the next; whoever makes them keeps to a time.
            while self._asides:
                await asyncio.wait(set(self._asides))
            if self._checks:
                await asyncio.wait(set(self._checks), timeout=self._observers.schema_timeout)
        finally:
            self.handover.catch_up()
            for late in (*(self._asides or ()), *(self._checks or ())):
                late.cancel()
            if (inspection := self._inspection) is not None and inspection.pending:
                self._feed(inspection.expire, self.now())
            if not self._closed:
                self._close_uninspected(ended)

    def _keep(self, step: Callable[[Any], None], what: Any) -> None:
        try:
            step(what)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("capture", error)
            self._recording = None

    def _feed(self, step: Callable[..., Sequence[Output]], *what: Any) -> None:
        try:
            outputs = step(*what)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("inspector", error)
            return
        if outputs:
            self._emit(outputs)

    def _emit(self, outputs: Sequence[Output]) -> None:
        observers = self._observers
        try:
            judge = observers.policy.apply if self._socket is None else self._judged
            outputs = judge(outputs)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("policy", error)
            return
        for output in outputs:
            kind = type(output)
            if kind is Closed or kind is Opened:
                if output.exchange is not self.exchange:
                    self._note_part(output.exchange, opened=kind is Opened)
                elif kind is Closed:
                    self._closed = True
                else:
                    self._opened = True
            elif isinstance(output, SchemaCheck):
                self._checks = self._started(self._check(output), self._checks)
            elif isinstance(output, Aside):
                self._asides = self._started(self._inspect_aside(output), self._asides)
        observers.sinks.emit(outputs)

    def _started(
        self, work: Coroutine[Any, Any, None], beside: set[asyncio.Task[None]] | None
    ) -> set[asyncio.Task[None]]:
        beside = set() if beside is None else beside
        task = self._observers.run(work)
        beside.add(task)
        task.add_done_callback(beside.discard)
        return beside

    async def _inspect_aside(self, aside: Aside) -> None:
        inspector = self._observers.aside
        report = Report(failed="unavailable")
        try:
            if inspector is not None:
                report = await inspector.inspect(aside.task)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("inspection process", error)
        self.handover.catch_up()
        if self._inspector is not None and not self._closed:
            self._feed(self._inspector.inspected, report, self.now())

    def _judged(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Outputs of several exchanges as the policy has them, which takes those of one at a time."""
        policy = self._observers.policy
        groups = groupby(outputs, lambda output: output.exchange.id)
        return [seen for _, group in groups for seen in policy.apply(list(group))]

    def _note_part(self, exchange: Exchange, *, opened: bool) -> None:
        """Keeps which exchanges are open on this connection."""
        if self._parts is None:
            self._parts = {}
        if opened:
            self._parts[exchange.id] = exchange
        else:
            self._parts.pop(exchange.id, None)

    async def _check(self, check: SchemaCheck) -> None:
        checker = self._observers.checker
        result = SchemaResult(unchecked="unavailable")
        try:
            if checker is not None:
                result = await checker.check(check.schema, check.document)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("schema checker", error)
        self.handover.catch_up()
        if (inspection := self._inspection) is not None and not self._closed:
            self._feed(inspection.schema_result, check.ticket, result, self.now())

    def _fail(self, what: str, error: Exception) -> None:
        """Gives up on inspecting this exchange; what was found before stands."""
        self._observers.failed(what, error)
        self._inspector = self._socket = None
        self.exchange.inspection = UNINSPECTED
        for part in (self._parts or {}).values():
            part.inspection = UNINSPECTED

    def _open_uninspected(self, head: RequestHead, at: float) -> None:
        exchange = self.exchange
        exchange.method = head.method
        exchange.path = path_of(head.target)
        exchange.operation = operation_of(head.method, head.target).reported
        exchange.timing.start = at
        self._opened = True
        self._observers.sinks.emit((Opened(exchange),))

    def _close_uninspected(self, ended: Ended) -> None:
        for part in (self._parts or {}).values():  # those that a failed inspector has left
            part.ended, part.timing.end = part.ended or ended, self.now()
            self._observers.sinks.emit((Closed(part),))
        self.exchange.ended = ended
        self.exchange.timing.end = self.now()
        if self._socket is not None:
            self._emit((Closed(self.exchange),))  # of the connection something may have been found
        if not self._closed:
            self._closed = True
            self._observers.sinks.emit((Closed(self.exchange),))
