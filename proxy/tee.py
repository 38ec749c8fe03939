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
from typing import Any, Protocol

from teeline.proxy.capture import Capture, Recording
from teeline.proxy.clock import Clock, Now
from teeline.proxy.fingerprint import Fingerprint
from teeline.proxy.head import Fields
from teeline.proxy.sinks import Fanout
from teeline.validators.events import (
    Closed,
    Opened,
    Output,
    RequestHead,
    ResponseHead,
    SchemaCheck,
    SchemaResult,
)
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.operation import operation_of, path_of
from teeline.validators.policy import Policy

log = logging.getLogger("teeline.tee")

UNINSPECTED = "none (validator-error)"
"""What ``Exchange.inspection`` says where an observer of ours failed."""

UNREAD = "none (websocket)"
"""What it says where bytes passed that no inspector reads."""

_AT_ONCE = 256 * 1024
"""Bytes of a document that is looked at within the call that ends it."""
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_NO_TRACE = ("", "", True)
_TRACEPARENT = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})\Z")


class SchemaChecker(Protocol):
    """Checks a document against an untrusted schema, away from the event loop."""

    async def check(self, schema: Any, document: Any) -> SchemaResult: ...


class ExchangeInspector(Protocol):
    """What a tee asks of an inspector; ``validators.inspector.Inspector`` is the one in use."""

    @property
    def pending(self) -> int: ...

    def request_head(self, head: RequestHead, at: float) -> Sequence[Output]: ...

    def request_body(self, data: bytes, at: float) -> Sequence[Output]: ...

    def request_end(self, at: float) -> Sequence[Output]: ...

    def response_head(self, head: ResponseHead, at: float) -> Sequence[Output]: ...

    def response_body(self, data: bytes, at: float) -> Sequence[Output]: ...

    def end(self, ended: Ended, at: float) -> Sequence[Output]: ...

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]: ...

    def expire(self, at: float) -> Sequence[Output]: ...


class Observers:
    """What the tees of one server share: inspectors' maker, policy, sinks, schema checks, the
    clock.

    ``schema_timeout``: seconds that the end of an exchange waits for schema checks at most.
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
        limits: Limits = DEFAULT_LIMITS,
        schema_timeout: float = 1.0,
        capture: Capture | None = None,
        fingerprint: Fingerprint | None = None,
    ) -> None:
        self.policy = policy
        self.sinks = sinks
        self.checker = checker
        self.schema_timeout = schema_timeout
        self._inspect = inspect
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

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs the rest of an exchange's observation beside the traffic that goes on."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def later(self, step: Callable[[Ended], None], ended: Ended) -> None:
        """Takes a step in the next turn of the loop."""

        async def take() -> None:
            step(ended)

        self.run(take())

    async def settle(self, deadline: float) -> None:
        """Waits until all ended exchanges are closed, ``deadline`` seconds at most."""
        end = asyncio.get_running_loop().time() + deadline
        while self._tasks and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left)

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
        self._recording = recording
        self._checks: set[asyncio.Task[None]] = set()
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

    def switched(self, status: int, at: float) -> None:
        """The connection speaks another protocol from here on, which nobody inspects."""
        self.exchange.status = status
        self.exchange.timing.first_byte = at
        self.exchange.inspection = UNREAD
        self._inspector = None

    def tunnelled(self, sent: int, received: int) -> None:
        """So many bytes passed unread, from the client and to it."""
        self.exchange.request_bytes += sent
        self.exchange.response_bytes += received

    def end(self, ended: Ended) -> None:
        """Ends the exchange: its last checks and ``Closed``.

        What takes long is left for later: a large document is looked at when the bytes that have
        come are on their way, and schema checks are waited for beside the traffic.
        """
        exchange = self.exchange
        if (
            self._inspector is not None
            and exchange.response_bytes > _AT_ONCE
            and not exchange.events
        ):
            self._observers.later(self._finish, ended)
        else:
            self._finish(ended)

    def _finish(self, ended: Ended) -> None:
        if self._inspector is not None:
            self._feed(self._inspector.end, ended, self.now())
        if self._inspector is not None and self._inspector.pending:
            self._observers.run(self._await_checks(ended))
        elif not self._closed:
            self._close_uninspected(ended)

    async def _await_checks(self, ended: Ended) -> None:
        if self._checks:
            await asyncio.wait(set(self._checks), timeout=self._observers.schema_timeout)
        for check in self._checks:
            check.cancel()
        if self._inspector is not None and self._inspector.pending:
            self._feed(self._inspector.expire, self.now())
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
                self._start_check(output)
        try:
            outputs = self._observers.policy.apply(outputs)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("policy", error)
            return
        for output in outputs:
            if isinstance(output, Opened):
                self._opened = True
            elif isinstance(output, Closed):
                self._closed = True
        self._observers.sinks.emit(outputs)

    def _start_check(self, check: SchemaCheck) -> None:
        task = self._observers.run(self._check(check))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check(self, check: SchemaCheck) -> None:
        checker = self._observers.checker
        result = SchemaResult(unchecked="unavailable")
        try:
            if checker is not None:
                result = await checker.check(check.schema, check.document)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("schema checker", error)
        if self._inspector is not None and not self._closed:
            self._feed(self._inspector.schema_result, check.ticket, result, self.now())

    def _fail(self, what: str, error: Exception) -> None:
        """Gives up on inspecting this exchange; what was found before stands."""
        self._observers.failed(what, error)
        self._inspector = None
        self.exchange.inspection = UNINSPECTED

    def _open_uninspected(self, head: RequestHead, at: float) -> None:
        exchange = self.exchange
        exchange.method = head.method
        exchange.path = path_of(head.target)
        exchange.operation = operation_of(head.method, head.target).reported
        exchange.timing.start = at
        self._opened = True
        self._observers.sinks.emit((Opened(exchange),))

    def _close_uninspected(self, ended: Ended) -> None:
        self.exchange.ended = ended
        self.exchange.timing.end = self.now()
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
