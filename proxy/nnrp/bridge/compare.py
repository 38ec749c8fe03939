"""The copy of what passes on both sides of the bridge, and its comparison once the answer is out.

What belongs here: keeping a request's bytes within bounds, having them compared in a process beside this
one, and the way of what is found to the sinks. What doesn't: the comparison (validators/nnrp/bridge.py), that
process (proxy/inspectpool.py). Nothing that is called here may break or hold up an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from teeline.proxy.clock import Clock, Now
from teeline.proxy.identity import new_exchange
from teeline.proxy.inspection import AsideInspector
from teeline.proxy.nnrp.bridge.asked import Asked
from teeline.proxy.nnrp.bridge.failure import FailureError
from teeline.proxy.nnrp.clientoperation import Cancelled, Operation, Result
from teeline.proxy.observers import Observers
from teeline.proxy.tee import UNINSPECTED
from teeline.validators.events import Closed, Opened, Output
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.nnrp.bridge import HttpEnd
from teeline.validators.nnrp.passed import BRIDGE, Passed, adopted

MOST_OF_ONE: Final = 32 * 1024 * 1024
"""Bytes that are kept of one request and its answer, both sides together."""
MOST: Final = 96 * 1024 * 1024
"""Bytes that are kept of all requests which are open or wait to be compared."""
BEYOND: Final = "memory-limit"
"""What ``inspection`` says of a request of which not everything was kept."""
_OVERHEAD: Final = 64
"""Bytes that a piece takes beside its own."""
_OF_ONE: Final = 4096
"""Bytes that a request takes beside its pieces."""
_SLACK: Final = 0.01


class Comparer:
    """Compares the requests of one bridge. ``pool`` does the comparisons; it is closed by the caller.

    ``most_of_one`` and ``most`` are bounds in bytes, ``held`` is what is kept now. ``upstream`` is the
    server's name in what is reported. ``limits`` are those that ``pool`` compares by.
    """

    def __init__(
        self,
        observers: Observers,
        clock: Clock,
        pool: AsideInspector,
        *,
        upstream: str = "nnrp",
        limits: Limits = DEFAULT_LIMITS,
        most_of_one: int = MOST_OF_ONE,
        most: int = MOST,
    ) -> None:
        self._observers, self._clock, self._pool = observers, clock, pool
        self._upstream, self._limits = upstream, limits
        self._most_of_one, self._most = most_of_one, most
        self.held = 0

    def open(
        self, request: web.Request, asked: Asked, data: bytes, operation: Operation
    ) -> Copy | nullcontext[None]:
        """The copy of a request whose body is ``data``, to be used as ``with`` until its answer is out."""
        try:
            exchange, now = self._exchange(request, asked, len(data))
            return Copy(self, exchange, now, request, operation, (data, asked.envelope))
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self.failed(error)
            return nullcontext()

    def _exchange(self, request: web.Request, asked: Asked, size: int) -> tuple[Exchange, Now]:
        now = self._clock.start()
        client = request.transport and request.transport.get_extra_info("peername")
        exchange = new_exchange(
            now(),
            self._upstream,
            str(client[0]) if isinstance(client, tuple) else "",
            request.raw_headers,
        )
        exchange.operation = BRIDGE
        exchange.method, exchange.path = request.method, request.path
        exchange.model, exchange.stream = asked.model or None, asked.stream
        exchange.request_id, exchange.request_bytes = asked.request_id, size
        exchange.timing.start = now()
        return exchange, now

    async def settle(self, deadline: float) -> None:
        """Waits until everything is compared and told, ``deadline`` seconds at most."""
        await self._observers.settle(deadline)

    # -- for a copy ------------------------------------------------------------------------------------

    def takes(self, copy: Copy, size: int) -> bool:
        """Whether there is room for so many bytes more, which are then held."""
        if copy.size + size > self._most_of_one or self.held + size > self._most:
            return False
        copy.size += size
        self.held += size
        return True

    def releases(self, copy: Copy) -> None:
        """What the copy held is held no longer."""
        self.held -= copy.size
        copy.size = 0

    def closed(self, copy: Copy) -> None:
        """The answer is out, or as good as: what is left to do is done beside other requests."""
        self._observers.run(self._finish(copy))

    def failed(self, error: Exception) -> None:
        self._observers.failed("comparison", error)

    async def _finish(self, copy: Copy) -> None:
        """Compares; whatever happens, the exchange is told and nothing is held any longer."""
        exchange = copy.exchange
        found: Sequence[Output] = []
        try:
            found = await self._compared(copy)
        except asyncio.CancelledError:
            exchange.inspection = "partial (inspection-timeout)"
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self.failed(error)
            exchange.inspection = UNINSPECTED
        finally:
            self.releases(copy)
            self._tell(exchange, found)

    async def _compared(self, copy: Copy) -> Sequence[Output]:
        passed, running = copy.passed, copy.running
        if not passed.envelope:
            copy.exchange.inspection = f"partial ({passed.missing})"
            return []
        if running is not None and passed.end is HttpEnd.LEFT:
            # Nobody cancelled it: it may still end in time.
            await asyncio.sleep(self._limits.grace + _SLACK)
            passed.ended = running.ending is not None
            passed.cancelled = isinstance(running.ending, Cancelled)
        passed.looked_at = copy.now()
        report = await self._pool.inspect(passed.task())
        return adopted(copy.exchange, report, self._limits)

    def _tell(self, exchange: Exchange, found: Sequence[Output]) -> None:
        outputs: Sequence[Output] = [Opened(exchange), *found, Closed(exchange)]
        try:
            outputs = self._observers.policy.apply(outputs)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("policy", error)
            exchange.inspection = UNINSPECTED
        self._observers.sinks.emit(outputs)


class Copy:
    """What has passed of one request. No method raises; ``cut``: the bridge itself ended the connection.

    ``requests`` are the body of the request, and the envelope that was submitted. At the end neither the
    request nor its operation is kept, which hold bytes of their own; ``running`` is one that goes on.
    """

    __slots__ = (
        "_comparer",
        "_operation",
        "_request",
        "cut",
        "exchange",
        "now",
        "passed",
        "running",
        "size",
    )

    def __init__(
        self,
        comparer: Comparer,
        exchange: Exchange,
        now: Now,
        request: web.Request,
        operation: Operation,
        requests: tuple[bytes, bytes],
    ) -> None:
        self._comparer = comparer
        self._request: web.Request | None = request
        self._operation: Operation | None = operation
        self.running: Operation | None = None
        self.exchange, self.now = exchange, now
        self.passed = Passed(exchange.method, exchange.path, *requests)
        self.cut = False
        self.size = 0
        if not self._fits(sum(map(len, requests)) + _OF_ONE):
            self.passed.request = self.passed.envelope = b""

    def came(self, events: Sequence[bytes]) -> None:
        """Events of the server."""
        if events and self._fits(sum(map(len, events)) + _OVERHEAD * len(events)):
            self.passed.events += events

    def began(self, status: int, *, streamed: bool) -> None:
        """The answer's head is out."""
        self.passed.status, self.passed.streamed = status, streamed
        self.exchange.status, self.exchange.event_stream = status, streamed
        self.exchange.timing.first_byte = self.now()

    def sent(self, data: bytes) -> None:
        """Some of the answer's body is out."""
        self.exchange.response_bytes += len(data)
        if self._fits(len(data) + _OVERHEAD):
            self.passed.sent.append(data)

    def _fits(self, size: int) -> bool:
        """Whether there is room; where there isn't, what was kept of the answer is given up."""
        if not self.passed.missing and not self._comparer.takes(self, size):
            self.passed.missing = BEYOND
            self.passed.events.clear()
            self.passed.sent.clear()
        return not self.passed.missing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._end(error)
            self._comparer.closed(self)
        except Exception as failure:  # noqa: BLE001  observers can't break traffic
            self._comparer.releases(self)
            self._comparer.failed(failure)

    def _end(self, error: BaseException | None) -> None:
        passed, exchange = self.passed, self.exchange
        exchange.ended = Ended.COMPLETE
        if isinstance(error, FailureError):
            self.began(error.status, streamed=False)
            self.sent(error.body)
        elif error is not None:
            passed.end, exchange.ended = self._cause(error)
        passed.left_at = exchange.timing.end = self.now()
        operation, self._operation, self._request = self._operation, None, None
        ending = operation.ending if operation is not None else None
        passed.ended = ending is not None
        passed.cancelled = isinstance(ending, Cancelled)
        self.running = operation if ending is None else None
        # A success without a document is an answer; a failure without one is none.
        if isinstance(ending, Result) and (ending.document is not None or ending.status < 400):
            document = ending.document or b""
            if self._fits(len(document)):
                passed.document = document

    def _cause(self, error: BaseException) -> tuple[HttpEnd, Ended]:
        """Who ended an answer that is not whole."""
        if self.cut:
            return HttpEnd.BROKEN, Ended.UPSTREAM_ABORTED
        transport = self._request.transport if self._request is not None else None
        if transport is None or transport.is_closing() or isinstance(error, ConnectionError):
            return HttpEnd.LEFT, Ended.CLIENT_CLOSED
        stopped = isinstance(error, asyncio.CancelledError)
        return HttpEnd.BROKEN, Ended.SHUTDOWN if stopped else Ended.UPSTREAM_ABORTED
