"""The copy of each exchange that goes to its inspector, and the way from there to the sinks.

What belongs here: who an exchange is (its ids), handing pieces to the inspector after they were
written, schema checks on their way out and back, and what happens when an observer fails. What
doesn't: forwarding (forward.py), detection (validators) and reporting (sinks). Nothing that is
called here may break or hold up traffic: every failure of an observer ends in this module.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Coroutine, Sequence
from itertools import groupby
from typing import Any, Protocol

from teeline.proxy.capture import Capture, Recording
from teeline.proxy.clock import Clock, Now
from teeline.proxy.fingerprint import Fingerprint
from teeline.proxy.head import Fields
from teeline.proxy.sinks import Fanout
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
    Task,
)
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.operation import operation_of, path_of
from teeline.validators.policy import Policy
from teeline.validators.wsresponses import Keep, Message, extension_of, is_inspected

log = logging.getLogger("teeline.tee")

UNINSPECTED = "none (validator-error)"
"""What ``Exchange.inspection`` says where an observer of ours failed."""

UNREAD = "none ({})"
"""What it says where bytes passed that no inspector reads: of a protocol, or in an extension of it."""

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_NO_TRACE = ("", "", True)
_TRACEPARENT = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})\Z")


class SchemaChecker(Protocol):
    """Checks a document against an untrusted schema, away from the event loop."""

    async def check(self, schema: Any, document: Any) -> SchemaResult: ...


class AsideInspector(Protocol):
    """Does the parts of inspections that take long, away from the event loop."""

    @property
    def longest(self) -> float:
        """Seconds after which there is a report at the latest."""

    async def inspect(self, task: Task) -> Report: ...


class Inspection(Protocol):
    """What a tee asks of any inspector: the end, and schema checks that are out by then."""

    @property
    def pending(self) -> int: ...

    def end(self, ended: Ended, at: float) -> Sequence[Output]: ...

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]: ...

    def expire(self, at: float) -> Sequence[Output]: ...


class ExchangeInspector(Inspection, Protocol):
    """And of one exchange's; ``validators.inspector.Inspector`` is the one in use."""

    def request_head(self, head: RequestHead, at: float) -> Sequence[Output]: ...

    def request_body(self, data: bytes, at: float) -> Sequence[Output]: ...

    def request_end(self, at: float) -> Sequence[Output]: ...

    def response_head(self, head: ResponseHead, at: float) -> Sequence[Output]: ...

    def response_body(self, data: bytes, at: float) -> Sequence[Output]: ...

    def inspected(self, report: Report, at: float) -> Sequence[Output]: ...


class SocketInspector(Inspection, Protocol):
    """And of a WebSocket's; ``validators.wsresponses.SocketResponses`` is the one in use.

    It opens and closes exchanges of its own; the connection's is closed by the tee.
    """

    def client_bytes(self, data: bytes, at: float) -> Sequence[Output]: ...

    def server_bytes(self, data: bytes, at: float) -> Sequence[Output]: ...

    def client_left(self) -> None: ...


Listen = Callable[
    [Exchange, Callable[[], Exchange], RequestHead, ResponseHead, Limits, Keep], SocketInspector
]


class Observers:
    """What the tees of one server share: inspectors' maker, policy, sinks, schema checks, the
    clock.

    ``schema_timeout``: seconds that the end of an exchange waits for schema checks at most.
    ``listen`` makes the inspectors of WebSockets; without it their bytes are counted.
    ``capture`` says of which exchanges bytes are kept, ``fingerprint`` tells clients apart; both are
    the audit log's.
    """

    def __init__(
        self,
        inspect: Callable[[Exchange, Limits], ExchangeInspector],
        policy: Policy,
        sinks: Fanout,
        clock: Clock,
        *,
        checker: SchemaChecker | None = None,
        aside: AsideInspector | None = None,
        limits: Limits = DEFAULT_LIMITS,
        schema_timeout: float = 1.0,
        listen: Listen | None = None,
        capture: Capture | None = None,
        fingerprint: Fingerprint | None = None,
    ) -> None:
        self.policy = policy
        self.sinks = sinks
        self.checker = checker
        self.aside = aside
        self.schema_timeout = schema_timeout
        self._inspect = inspect
        self._listen = listen
        self._clock = clock
        self._limits = limits
        self._capture = capture
        self.fingerprint = fingerprint
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: set[str] = set()

    def open(self, upstream: str, client: str, fields: Fields) -> Tee:
        """The tee of a new exchange, which joins the trace that its request belongs to.

        ``fields`` are those of the request that may say so; others are of no interest.
        """
        now = self._clock.start()
        exchange = new_exchange(now(), upstream, client, fields)
        try:
            inspector: ExchangeInspector | None = self._inspect(exchange, self._limits)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self.failed("inspector", error)
            inspector = None
        recording = self._capture.open(upstream) if self._capture is not None else None
        exchange.recording = recording
        return Tee(self, exchange, inspector, now, recording)

    def listen(
        self, exchange: Exchange, now: Now, head: RequestHead, answer: ResponseHead
    ) -> SocketInspector | None:
        """The inspector of a WebSocket whose handshake is over; None where its frames aren't read."""
        if self._listen is None or not is_inspected(head.target) or extension_of(answer):
            return None

        def new() -> Exchange:
            """An exchange on this connection, in the same trace and below it."""
            part = new_exchange(now(), exchange.upstream, exchange.client)
            part.trace_id, part.parent_span_id = exchange.trace_id, exchange.span_id
            part.parent_sampled, part.client_key = exchange.parent_sampled, exchange.client_key
            if self._capture is not None:
                part.recording = self._capture.open_on_socket(exchange.upstream, head)
            return part

        def keep(part: Exchange, message: Message) -> None:
            if isinstance(part.recording, Recording):
                try:
                    part.recording.message(message)
                except Exception as error:  # noqa: BLE001  a recording is worth no inspection
                    self.failed("capture", error)
                    part.recording.response.partial = True

        try:
            return self._listen(exchange, new, head, answer, self._limits, keep)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self.failed("inspector", error)
            return None

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs the rest of an exchange's observation beside the traffic that goes on."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self, deadline: float) -> None:
        """Waits until all ended exchanges are closed, ``deadline`` seconds at most."""
        end = asyncio.get_running_loop().time() + deadline
        while self._tasks and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left)
        for task in self._tasks:
            task.cancel()  # an exchange whose end waits closes with what is there
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def failed(self, what: str, error: Exception) -> None:
        """Says once for each kind of failure that something was not inspected."""
        # The type alone: an exception's text may hold what a peer sent.
        failure = f"{what} failed: {type(error).__name__}"
        if failure not in self._logged:
            self._logged.add(failure)
            log.error("%s; what it would have checked is not inspected, traffic goes on", failure)


class Tee:
    """One exchange as its observers see it. No method raises, whatever an observer does."""

    def __init__(
        self,
        observers: Observers,
        exchange: Exchange,
        inspector: ExchangeInspector | None,
        now: Now,
        recording: Recording | None = None,
    ) -> None:
        self.exchange = exchange
        self.now = now
        self._observers = observers
        self._inspector = inspector
        self._socket: SocketInspector | None = None
        self._head: RequestHead | None = None
        self._parts: dict[str, Exchange] = {}  # exchanges that are open on this connection
        self._recording = recording
        self._checks: set[asyncio.Task[None]] = set()
        self._asides: set[asyncio.Task[None]] = set()
        self._opened = False
        self._closed = False
        if inspector is None:
            exchange.inspection = UNINSPECTED

    @property
    def opened(self) -> bool:
        """Whether the sinks know of this exchange."""
        return self._opened

    @property
    def received(self) -> int:
        """Grows with what the client is sent: an answer's head and its body."""
        return self.exchange.response_bytes + (self.exchange.status is not None)

    def request_head(self, head: RequestHead, at: float) -> None:
        self._head = head
        fingerprint = self._observers.fingerprint
        if fingerprint is not None:
            self.exchange.client_key = fingerprint.of(head.headers)
        if self._recording is not None:
            self._keep(self._recording.request_head, head)
        if self._inspector is not None:
            self._feed(self._inspector.request_head, head, at)
        if not self._opened:
            self._open_uninspected(head, at)

    # A call for each piece: no arguments are packed, no step is looked up.

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

    def request_end(self, at: float) -> None:
        if self._inspector is not None:
            self._feed(self._inspector.request_end, at)

    def response_head(self, head: ResponseHead, at: float) -> None:
        if self._recording is not None:
            self._keep(self._recording.response_head, head)
        if self._inspector is not None:
            self._feed(self._inspector.response_head, head, at)
        if self._inspector is None:
            self.exchange.status = head.status

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

    def tunnelled(self, sent: bytes, received: bytes) -> None:
        """Bytes that passed, from the client and to it."""
        self.exchange.request_bytes += len(sent)
        self.exchange.response_bytes += len(received)
        if sent and self._socket is not None:
            self._feed(self._socket.client_bytes, sent, self.now())
        if received and self._socket is not None:
            self._feed(self._socket.server_bytes, received, self.now())

    def client_left(self) -> None:
        """The client ends the connection: it won't read what is still to come."""
        if self._socket is not None:
            self._socket.client_left()

    def end(self, ended: Ended) -> None:
        """Ends the exchange: its last checks and ``Closed``.

        What takes long is waited for beside the traffic: large documents, and schema checks.
        """
        if (inspection := self._inspection) is not None:
            self._feed(inspection.end, ended, self.now())
        if (inspection := self._inspection) is not None and inspection.pending:
            self._observers.run(self._await_checks(ended))
        elif not self._closed:
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
            for late in (*self._asides, *self._checks):
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
        for output in outputs:
            if isinstance(output, SchemaCheck):
                self._start(self._check(output), self._checks)
            elif isinstance(output, Aside):
                self._start(self._inspect_aside(output), self._asides)
        try:
            outputs = self._judged(outputs)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("policy", error)
            return
        for output in outputs:
            self._note(output)
        self._observers.sinks.emit(outputs)

    def _start(self, work: Coroutine[Any, Any, None], kept: set[asyncio.Task[None]]) -> None:
        task = self._observers.run(work)
        kept.add(task)
        task.add_done_callback(kept.discard)

    async def _inspect_aside(self, aside: Aside) -> None:
        inspector = self._observers.aside
        report = Report(failed="unavailable")
        try:
            if inspector is not None:
                report = await inspector.inspect(aside.task)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("inspection process", error)
        if self._inspector is not None and not self._closed:
            self._feed(self._inspector.inspected, report, self.now())

    def _judged(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """The outputs as the policy has them, which takes those of one exchange at a time."""
        policy = self._observers.policy
        if self._socket is None:
            return policy.apply(outputs)
        groups = groupby(outputs, lambda output: output.exchange.id)
        return [seen for _, group in groups for seen in policy.apply(list(group))]

    def _note(self, output: Output) -> None:
        """Keeps who is open: this exchange, and those on its connection."""
        if not isinstance(output, Opened | Closed):
            return
        exchange, opened = output.exchange, isinstance(output, Opened)
        if exchange is not self.exchange:
            if opened:
                self._parts[exchange.id] = exchange
            else:
                self._parts.pop(exchange.id, None)
        elif opened:
            self._opened = True
        else:
            self._closed = True

    async def _check(self, check: SchemaCheck) -> None:
        checker = self._observers.checker
        result = SchemaResult(unchecked="unavailable")
        try:
            if checker is not None:
                result = await checker.check(check.schema, check.document)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("schema checker", error)
        if (inspection := self._inspection) is not None and not self._closed:
            self._feed(inspection.schema_result, check.ticket, result, self.now())

    def _fail(self, what: str, error: Exception) -> None:
        """Gives up on inspecting this exchange; what was found before stands."""
        self._observers.failed(what, error)
        self._inspector = self._socket = None
        self.exchange.inspection = UNINSPECTED
        for part in self._parts.values():
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
        for part in self._parts.values():  # those that a failed inspector has left
            part.ended, part.timing.end = part.ended or ended, self.now()
            self._observers.sinks.emit((Closed(part),))
        self.exchange.ended = ended
        self.exchange.timing.end = self.now()
        if self._socket is not None:
            self._emit((Closed(self.exchange),))  # of the connection something may have been found
        if not self._closed:
            self._closed = True
            self._observers.sinks.emit((Closed(self.exchange),))


def new_exchange(at: float, upstream: str, client: str, fields: Fields = ()) -> Exchange:
    """An exchange with ids of its own, in the trace that header fields say it belongs to."""
    trace_id, parent, sampled = trace_context(fields) if fields else _NO_TRACE
    # One call of the kernel for all three ids.
    random = os.urandom(34).hex()
    return Exchange(
        id=exchange_id(at, random),
        upstream=upstream,
        client=client,
        trace_id=trace_id or random[20:52],
        span_id=random[52:],
        parent_span_id=parent,
        parent_sampled=sampled,
    )


def exchange_id(at: float, random: str) -> str:
    """A UUIDv7 (RFC 9562 5.7) as 32 hex digits: ids sort by the time that exchanges began.

    ``random`` holds twenty random hex digits at its beginning.
    """
    return f"{int(at * 1000):012x}7{random[:3]}{_VARIANT[random[3]]}{random[4:19]}"


def trace_context(fields: Fields) -> tuple[str, str, bool]:
    """Trace id, parent span id and sampled flag of a request's traceparent.

    The ids are empty where it has no valid one.

    W3C Trace Context 3.2, version 00. More than one such field is no valid one.
    """
    values = [value for name, value in fields if name.lower() == b"traceparent"]
    match = _TRACEPARENT.match(values[0]) if len(values) == 1 else None
    if match is None:
        return _NO_TRACE
    return match[1].decode(), match[2].decode(), bool(int(match[3], 16) & 1)
