"""teeline as a target: ``python -m bench.teeline_proxy MODE UPSTREAM [LARGE]``.

``bare`` forwards and inspects nothing, ``inspect`` checks every exchange and tells nobody, ``full``
adds the audit log (in TEELINE_BENCH_AUDIT) and OTLP where the OTEL_* variables say. ``LARGE`` is
another upstream, at the prefix ``/large``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.process import serve_until_input_ends
from teeline.config.model import Config, ListenAddress, UpstreamConfig, UpstreamURL
from teeline.proxy import memory, server
from teeline.proxy.audit.record import Origin, ruleset_id
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.inspectpool import InspectPool
from teeline.proxy.reports.model import tool_version
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.sinks import Sink
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
    telemetry = TelemetrySink.from_environment(os.environ, version=tool_version())
    if telemetry is None:
        raise RuntimeError("no OTEL_EXPORTER_OTLP_ENDPOINT: there is nothing to measure")
    return [telemetry, AuditSink(directory, origin=Origin(tool_version(), ruleset_id(register())))]


def configured(upstream: str, large: str | None) -> Config:
    """One upstream, and the one for large documents where there is one."""
    urls = [("mock", upstream, ""), *([("large", large, "/large")] if large else [])]
    upstreams = (UpstreamConfig(UpstreamURL.parse(url), n, prefix=at) for n, url, at in urls)
    return Config(tuple(upstreams), ListenAddress("127.0.0.1", 0))


async def main(mode: str, upstream: str, large: str | None = None) -> None:
    if mode == "bare":
        # The server takes no other inspector as an argument; this is the name of the one in use.
        vars(memory)["Inspector"] = NoInspector
    config = configured(upstream, large)
    checker, aside = SchemaPool(timeout=config.schema.timeout), InspectPool(config.limits)
    proxy = server.ProxyServer(config, sinks() if mode == "full" else (), checker, aside=aside)
    listener = (await proxy.start())[0]
    await serve_until_input_ends(listener.port)
    await proxy.stop(1.0)
    await aside.close()
    await checker.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
