"""What serves, as those who run it see it, and how one process does it.

What belongs here: the sinks and pools of a process that serves, put together from a configuration; what
it tells of itself; starting and stopping all of it. What doesn't: the server (server.py), several
processes (supervisor.py), signals and what is said on a terminal (cli/serve.py).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from teeline.config.model import Config
from teeline.proxy.audit.configured import auditing
from teeline.proxy.handover import InBatches
from teeline.proxy.inspectpool import InspectPool
from teeline.proxy.reports.model import tool_version
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.server import Bound, Listener, ProxyServer
from teeline.proxy.sinks import Sink
from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.attributes import Server
from teeline.proxy.telemetry.metrics import Key, MetricsSink, Readings
from teeline.proxy.telemetry.sink import Choices, TelemetrySink
from teeline.proxy.workers import WorkerError

log = logging.getLogger("teeline.serving")


@dataclass
class Facts:
    """What a process tells of itself beside its metrics.

    ``failures`` counts a sink's by its name, ``exported`` records that a collector took by signal.
    ``chains`` are those of the audit log that are being written.
    """

    requests: int = 0
    open: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    exported: dict[str, int] = field(default_factory=dict)
    chains: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Facts:
        """What another process told, out of JSON; ValueError and its like where it is something else."""
        return cls(
            int(told["requests"]),
            int(told["open"]),
            {str(sink): int(count) for sink, count in told["failures"].items()},
            {str(signal): int(count) for signal, count in told["exported"].items()},
            [str(chain) for chain in told["chains"]],
        )

    def plus(self, other: Facts) -> Facts:
        """Both together."""
        return Facts(
            self.requests + other.requests,
            self.open + other.open,
            dict(Counter(self.failures) + Counter(other.failures)),
            {
                signal: self.exported.get(signal, 0) + other.exported.get(signal, 0)
                for signal in {**self.exported, **other.exported}
            },
            [*self.chains, *other.chains],
        )

    def left_behind(self) -> Facts:
        """What stays of it when the process is gone."""
        return dataclasses.replace(self, open=0, chains=[])


@dataclass
class WorkerFacts:
    """What is known of one worker process. ``uptime`` is in seconds.

    ``live_dropped`` counts events that the live page did not get.
    """

    number: int
    pid: int
    uptime: float
    accepting: bool
    requests: int
    open: int
    live_dropped: int


class Service(Protocol):
    """One process that serves, or several."""

    @property
    def meter(self) -> Readings: ...

    @property
    def otlp(self) -> bool:
        """Whether telemetry goes to a collector."""

    @property
    def requests(self) -> int:
        """How many requests have come."""

    @property
    def accepting(self) -> bool:
        """Whether new connections are served."""

    def facts(self) -> Facts: ...

    def workers(self) -> Sequence[WorkerFacts] | None:
        """The worker processes; None where there is one process alone."""

    async def start(self) -> list[Listener]:
        """Begins to serve. Raises ServeError, with nothing left open."""

    async def stop(self, deadline: float) -> None:
        """Ends open exchanges by ``deadline`` seconds; a second call with 0 ends them at once."""

    async def close(self) -> None:
        """Releases everything, started or not."""


class ServingProcess:
    """This process serves.

    ``console`` and ``others`` are the sinks beside metrics, audit log and telemetry. ``share`` is how
    many processes serve together: each tells and keeps its part of what is bounded for all of them.
    Without ``tells_metrics`` another process sends the metrics on. Raises SinkError where an OTEL_*
    variable can't work, and AuditError.
    """

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        console: Sink,
        *,
        others: Iterable[Sink] = (),
        share: int = 1,
        tells_metrics: bool = True,
    ) -> None:
        addresses = servers(config)
        self._metrics = MetricsSink(addresses)
        self._telemetry = telemetry = TelemetrySink.from_environment(
            environ,
            version=tool_version(),
            servers=addresses,
            choices=choices(config, share),
            meter=self._metrics.meter if tells_metrics else None,
        )
        self._audit = audit = auditing(
            config,
            None if telemetry is None else telemetry.witnessed,
            None if telemetry is None else telemetry.written,
            share,
        )
        self._checker = _schema_pool(config)
        self._large = _inspect_pool(config)
        self.server = ProxyServer(
            config,
            # Telemetry stands behind the audit log: the last head of its chain goes out, too.
            [
                sink
                for sink in (console, *others, self._metrics, audit and audit.sink, telemetry)
                if sink is not None
            ],
            self._checker,
            aside=self._large,
            capture=audit and audit.capture,
            fingerprint=audit and audit.fingerprint,
            handover=InBatches(),
        )
        self._warming: asyncio.Task[None] | None = None
        self.accepting = False
        self._observe()

    @property
    def meter(self) -> Readings:
        return self._metrics.meter

    @property
    def otlp(self) -> bool:
        return self._telemetry is not None

    @property
    def requests(self) -> int:
        return self.server.requests

    def facts(self) -> Facts:
        telemetry, audit = self._telemetry, self._audit
        return Facts(
            self.server.requests,
            self._metrics.open,
            dict(self.server.sinks.failures),
            {} if telemetry is None else dict(telemetry.exported),
            [] if audit is None else [audit.sink.chain],
        )

    def workers(self) -> None:
        return None

    async def start(self, inherited: Bound | None = None) -> list[Listener]:
        listeners = await self.server.start(inherited)
        self.accepting = True
        # Beside the traffic: the first schema check should not wait for its process.
        self._warming = asyncio.create_task(warm_up(self._checker))
        return listeners

    async def stop(self, deadline: float) -> None:
        self.accepting = False
        await self.server.stop(deadline)

    async def close(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        await asyncio.gather(self._checker.close(), self._large.close())

    def _observe(self) -> None:
        meter = self._metrics.meter
        meter.observe(instruments.EXPORT_DROPPED, self._dropped)
        if (audit := self._audit) is not None:
            meter.observe(instruments.AUDIT_RECORDS, lambda: {(): audit.sink.recorded})
            meter.observe(instruments.AUDIT_LOST, lambda: {(): audit.sink.lost})

    def _dropped(self) -> Mapping[Key, int]:
        dropped: dict[Key, int] = {("metrics",): self._metrics.dropped}
        if self._telemetry is not None:
            dropped |= {(signal,): count for signal, count in self._telemetry.dropped.items()}
        return dropped


def servers(config: Config) -> dict[str, Server]:
    """Host and port of each upstream by its name."""
    return {upstream.name: (upstream.url.host, upstream.url.port) for upstream in config.upstreams}


def choices(config: Config, share: int = 1) -> Choices:
    """What the configuration says of telemetry, for one of ``share`` processes."""
    told = config.telemetry
    return Choices(
        told.span_events,
        told.info_records,
        audit_records=config.audit.otlp,
        chained=config.audit.enabled,
        share=share,
    )


async def warm_up(checker: SchemaPool) -> None:
    """Starts the schema processes, so that the first check doesn't wait for them."""
    try:
        await checker.start()
    except WorkerError as error:
        log.warning("schemas of requests are not checked: %s", error)


def _schema_pool(config: Config) -> SchemaPool:
    bounds = config.schema
    return SchemaPool(
        bounds.processes, bounds.timeout, max_waiting=bounds.queue, memory=bounds.memory
    )


def _inspect_pool(config: Config) -> InspectPool:
    bounds = config.inspect_pool
    return InspectPool(
        config.limits,
        workers=bounds.processes,
        timeout=bounds.timeout,
        patience=bounds.patience,
        max_waiting=bounds.queue,
        memory=bounds.memory,
    )
