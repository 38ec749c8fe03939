"""teeline as a target: ``python -m bench.teeline_proxy MODE UPSTREAM [LARGE]``.

``bare`` forwards and inspects nothing, ``inspect`` checks every exchange and tells nobody, ``full``
adds the audit log (in TEELINE_BENCH_AUDIT) and OTLP where the OTEL_* variables say, ``uvloop`` is the same
on uvloop's event loop. ``LARGE`` is
another upstream, at the prefix ``/large``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from bench.process import serve_until_input_ends
from teeline.config.model import Config, ListenAddress, UpstreamConfig, UpstreamURL
from teeline.proxy import memory, server
from teeline.proxy.audit.record import Origin, ruleset_id
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.handover import InBatches
from teeline.proxy.inspectpool import InspectPool
from teeline.proxy.process import set_aside
from teeline.proxy.reports.model import tool_version
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.sinks import Sink
from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.metrics import MetricsSink
from teeline.proxy.telemetry.sink import TelemetrySink
from teeline.validators.events import Closed, Opened, Output, RequestHead, ResponseHead
from teeline.validators.history import History
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.rules import register


class NoInspector:
    """Opens and closes exchanges and looks at nothing."""

    pending = 0

    def __init__(
        self,
        exchange: Exchange,
        limits: Limits = DEFAULT_LIMITS,
        history: History | None = None,
        *,
        aside: bool = False,
    ) -> None:
        self._exchange = exchange
        self.acting = self

    def request_head(self, head: RequestHead, at: float) -> Sequence[Output]:
        return (Opened(self._exchange),)

    def request_body(self, data: bytes, at: float) -> Sequence[Output]:
        return ()

    def request_end(self, at: float) -> Sequence[Output]:
        return ()

    def response_head(self, head: ResponseHead, at: float) -> Sequence[Output]:
        return ()

    def response_body(self, data: bytes, at: float) -> Sequence[Output]:
        return ()

    def end(self, ended: Ended, at: float) -> Sequence[Output]:
        return (Closed(self._exchange),)


def sinks() -> list[Sink]:
    """What ``teeline serve`` has with an audit log and a collector, but for the console."""
    directory = Path(os.environ["TEELINE_BENCH_AUDIT"])
    metrics = MetricsSink()
    telemetry = TelemetrySink.from_environment(
        os.environ, version=tool_version(), meter=metrics.meter
    )
    if telemetry is None:
        raise RuntimeError("no OTEL_EXPORTER_OTLP_ENDPOINT: there is nothing to measure")
    audit = AuditSink(directory, origin=Origin(tool_version(), ruleset_id(register())))
    return [metrics, audit, telemetry]


def broken(sinks: Sequence[Sink]) -> set[str]:
    """Rules that the measured traffic broke. None should be: what is found costs more than what isn't."""
    meters = (sink.meter for sink in sinks if isinstance(sink, MetricsSink))
    series = (key for meter in meters for key in meter.values(instruments.VIOLATIONS))
    return {str(rule) for _, rule, *_ in series}


def configured(upstream: str, large: str | None) -> Config:
    """One upstream, and the one for large documents where there is one."""
    urls = [("mock", upstream, ""), *([("large", large, "/large")] if large else [])]
    upstreams = (UpstreamConfig(UpstreamURL.parse(url), n, prefix=at) for n, url, at in urls)
    return Config(tuple(upstreams), ListenAddress("127.0.0.1", 0))


def loop_of(mode: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop of a mode."""
    name = "uvloop" if mode == "uvloop" else "asyncio"
    return cast(Callable[[], asyncio.AbstractEventLoop], import_module(name).new_event_loop)


async def main(mode: str, upstream: str, large: str | None = None) -> None:
    if mode == "bare":
        # The server takes no other inspector as an argument; this is the name of the one in use.
        vars(memory)["PlainInspector"] = NoInspector
    config = configured(upstream, large)
    checker, aside = SchemaPool(timeout=config.schema.timeout), InspectPool(config.limits)
    proxy = server.ProxyServer(
        config,
        sinks() if mode in ("full", "uvloop") else (),
        checker,
        aside=aside,
        handover=InBatches(),
    )
    set_aside()
    listener = (await proxy.start())[0]
    await serve_until_input_ends(listener.port)
    await proxy.stop(1.0)
    for rule in broken(proxy.sinks.sinks):
        sys.stderr.write(f"the traffic is not clean: {rule}\n")
    await aside.close()
    await checker.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_of(sys.argv[1])) as runner:
        runner.run(main(*sys.argv[1:]))
