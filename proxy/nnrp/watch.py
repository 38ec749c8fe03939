"""The copy of one NNRP connection that goes to its inspector, and the way from there to the sinks.

What belongs here: handing bytes over after they were written, schema checks, what happens when an
observer fails. Nothing that is called here may break or hold up traffic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from teeline.proxy.clock import Clock
from teeline.proxy.identity import new_exchange
from teeline.proxy.observers import Observers
from teeline.proxy.tee import UNINSPECTED
from teeline.validators.events import Closed, Opened, Output, SchemaCheck, SchemaResult
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange, Side
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.nnrp.inspector import End, NnrpInspector


class Watch:
    """One connection as its observers see it. No method raises, whatever an observer does."""

    def __init__(
        self,
        observers: Observers,
        clock: Clock,
        limits: Limits,
        capabilities: Capabilities | None,
        *,
        upstream: str,
        client: str,
    ) -> None:
        self._observers = observers
        self._now = clock.start()
        self._upstream, self._client = upstream, client
        self._open: dict[int, Exchange] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._inspector: NnrpInspector | None = NnrpInspector(self._exchange, limits, capabilities)

    def _exchange(self) -> Exchange:
        return new_exchange(self._now(), self._upstream, self._client)

    def feed(self, side: Side, data: bytes) -> None:
        """Bytes of a side that were written to the other one."""
        inspector = self._inspector
        if inspector is None:
            return
        # A call for each piece: no arguments are packed, no step is looked up.
        try:
            outputs = inspector.feed(side, data, self._now())
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("inspector", error)
            return
        for output in outputs:
            self._emit(output)

    def finish(self, side: Side, end: End) -> None:
        """A side sends nothing more."""
        if self._inspector is not None:
            self._step(self._inspector.finish, side, self._now(), end)

    def tick(self) -> None:
        """Time has passed."""
        if self._inspector is not None:
            self._step(self._inspector.tick, self._now())

    async def close(self, ended: Ended) -> None:
        """The connection is over: the last checks, the wait for schema checks, ``Closed``."""
        if self._inspector is not None:
            self._step(self._inspector.close, self._now(), ended)
        if self._checks:
            await asyncio.wait(set(self._checks), timeout=self._observers.schema_timeout)
        for check in self._checks:
            check.cancel()
        if self._inspector is not None and self._inspector.pending:
            self._step(self._inspector.expire, self._now())
        self._close_uninspected(ended)

    def _step(self, step: Callable[..., Sequence[Output]], *what: Any) -> None:
        try:
            outputs = step(*what)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("inspector", error)
            return
        for output in outputs:
            self._emit(output)

    def _emit(self, output: Output) -> None:
        key = id(output.exchange)
        if isinstance(output, Opened):
            self._open[key] = output.exchange
        elif isinstance(output, Closed):
            self._open.pop(key, None)
        elif isinstance(output, SchemaCheck):
            task = self._observers.run(self._check(output))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)
        try:
            # One at a time: a policy judges the outputs of one exchange.
            outputs = self._observers.policy.apply((output,))
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._fail("policy", error)
            return
        self._observers.sinks.emit(outputs)

    async def _check(self, check: SchemaCheck) -> None:
        checker = self._observers.checker
        result = SchemaResult(unchecked="unavailable")
        try:
            if checker is not None:
                result = await checker.check(check.schema, check.document)
        except Exception as error:  # noqa: BLE001  observers can't break traffic
            self._observers.failed("schema checker", error)
        if self._inspector is not None:
            step = self._inspector.schema_result
            self._step(step, check.exchange, check.ticket, result, self._now())

    def _fail(self, what: str, error: Exception) -> None:
        """Gives up on inspecting this connection; what was found before stands."""
        self._observers.failed(what, error)
        self._inspector = None
        for exchange in self._open.values():
            exchange.inspection = UNINSPECTED

    def _close_uninspected(self, ended: Ended) -> None:
        for exchange in self._open.values():
            exchange.ended = ended
            exchange.timing.end = self._now()
            self._observers.sinks.emit((Closed(exchange),))
        self._open.clear()
