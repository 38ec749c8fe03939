"""What a sink is, and the one place that feeds all of them.

Sinks (telemetry, audit, live page, console) learn of exchanges here and know nothing of each other. A
sink that fails loses its own records, is counted, and never reaches forwarding or another sink.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from teeline.validators.events import Closed, Found, Opened, Output

log = logging.getLogger("teeline.sinks")


class SinkError(Exception):
    """A sink can't start; the text is one line that says what to change."""


def ignored(self: Any, event: Any) -> None:
    """Stands in a sink for events that mean nothing to it: they are not handed to it at all."""


class Sink(Protocol):
    """Receives what inspectors find. Calls are synchronous and short; slow work is the sink's own."""

    name: str

    async def start(self) -> None:
        """Opens what the sink writes to; raises SinkError."""

    def opened(self, event: Opened) -> None: ...

    def found(self, event: Found) -> None: ...

    def closed(self, event: Closed) -> None: ...

    async def drain(self, deadline: float) -> None:
        """Flushes what is held, within ``deadline`` seconds."""

    async def close(self) -> None:
        """Releases everything; may be called twice, and before start."""


_Step = tuple[Sink, Callable[[Any], None]]


class Fanout:
    """Hands each output to every sink, in order; one sink's failure is logged once and counted."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.sinks: Sequence[Sink] = tuple(sinks)
        self.failures: dict[str, int] = {}
        self._steps: dict[type, Sequence[_Step]] = {
            Opened: self._told([sink.opened for sink in self.sinks]),
            Found: self._told([sink.found for sink in self.sinks]),
            Closed: self._told([sink.closed for sink in self.sinks]),
        }

    def _told(self, steps: Sequence[Callable[[Any], None]]) -> Sequence[_Step]:
        pairs = zip(self.sinks, steps, strict=True)
        return [pair for pair in pairs if getattr(pair[1], "__func__", None) is not ignored]

    async def start(self) -> None:
        """Starts all sinks, or none: those already started are closed again when one can't start."""
        started: list[Sink] = []
        try:
            for sink in self.sinks:
                await sink.start()
                started.append(sink)
        except BaseException:
            await asyncio.gather(*(sink.close() for sink in started), return_exceptions=True)
            raise

    def emit(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            for sink, step in self._steps.get(type(output), ()):
                try:
                    step(output)
                except Exception as error:  # noqa: BLE001  observers can't break traffic
                    self._failed(sink, error)

    def _failed(self, sink: Sink, error: Exception) -> None:
        count = self.failures.get(sink.name, 0) + 1
        self.failures[sink.name] = count
        if count == 1:
            # The type alone: an exception's text may hold what a peer sent.
            log.error(
                "sink %s failed: %s; its records are lost, traffic goes on",
                sink.name,
                type(error).__name__,
            )

    async def drain(self, deadline: float) -> None:
        """Drains all sinks side by side; a sink that is late is left behind."""
        drains = (asyncio.wait_for(sink.drain(deadline), deadline) for sink in self.sinks)
        for sink, result in zip(
            self.sinks, await asyncio.gather(*drains, return_exceptions=True), strict=True
        ):
            if isinstance(result, Exception):
                self._failed(sink, result)

    async def close(self) -> None:
        """One after the other, so that what a sink tells as it ends reaches those behind it."""
        for sink in self.sinks:
            try:
                await sink.close()
            except Exception as error:  # noqa: BLE001  the others are to be closed all the same
                self._failed(sink, error)
