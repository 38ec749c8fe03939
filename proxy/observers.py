"""What the tees of one server share, and who opens them.

What belongs here: opening the tee of an exchange, the work that goes on beside the traffic, and
saying that an observer failed. What doesn't: one exchange (tee.py), detection (validators) and
reporting (sinks).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from teeline.proxy.capture import Capture, Recording
from teeline.proxy.clock import Clock, Now
from teeline.proxy.fingerprint import Fingerprint
from teeline.proxy.form import Fields
from teeline.proxy.handover import AtOnce, Handover
from teeline.proxy.identity import new_exchange
from teeline.proxy.inspection import (
    AsideInspector,
    ExchangeInspector,
    Inspect,
    Listen,
    SchemaChecker,
    SocketInspector,
)
from teeline.proxy.sinks import Fanout
from teeline.proxy.tee import UNINSPECTED, Tee
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange
from teeline.validators.policy import Policy
from teeline.validators.wsresponses import Message, extension_of, is_inspected

log = logging.getLogger("teeline.tee")


class Observers:
    """Inspectors' maker, policy, sinks, schema checks and the clock of one server.

    ``schema_timeout``: seconds that the end of an exchange waits for schema checks at most.
    ``listen`` makes the inspectors of WebSockets; without it their bytes are counted.
    ``capture`` says of which exchanges bytes are kept, ``fingerprint`` tells clients apart; both are
    the audit log's. ``handover`` says when tees pass on what they are told; without one they do at once.
    """

    def __init__(
        self,
        inspect: Inspect,
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
        handover: Handover | None = None,
    ) -> None:
        self.policy = policy
        self.handover = handover or AtOnce()
        self.sinks = sinks
        self.checker = checker
        self.aside = aside
        self.schema_timeout = schema_timeout
        self._inspect = inspect
        self._listen = listen
        self._clock = clock
        self._limits = limits
        self.capture = capture
        self.fingerprint = fingerprint
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: set[str] = set()

    def open(self, upstream: str, client: str, fields: Fields) -> Tee:
        """The tee of a new exchange, which joins the trace that its request belongs to.

        ``fields`` are those of the request that may say so; others are of no interest.
        """
        return Tee(self, self._clock.start(), upstream, client, fields)

    def inspector_of(self, exchange: Exchange) -> ExchangeInspector | None:
        """A new inspector; None where none can be made."""
        try:
            return self._inspect(exchange, self._limits)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self.failed("inspector", error)
            exchange.inspection = UNINSPECTED
            return None

    def listen(
        self, exchange: Exchange, now: Now, head: RequestHead, answer: ResponseHead
    ) -> SocketInspector | None:
        """The inspector of a WebSocket whose handshake is over; None where its frames aren't read."""
        if self._listen is None or extension_of(answer):
            return None

        def new() -> Exchange:
            """An exchange on this connection, in the same trace and below it."""
            part = new_exchange(now(), exchange.upstream, exchange.client)
            part.trace_id, part.parent_span_id = exchange.trace_id, exchange.span_id
            part.parent_sampled, part.client_key = exchange.parent_sampled, exchange.client_key
            if self.capture is not None and is_inspected(head.target):
                part.recording = self.capture.open_on_socket(exchange.upstream, head)
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
        self.handover.catch_up()
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
