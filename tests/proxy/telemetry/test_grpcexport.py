"""Over gRPC arrives what arrives over HTTP, and a collector's absence costs as little."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest

grpc = pytest.importorskip("grpc", reason="teeline[grpc] isn't installed")

from teeline.proxy.audit.sink import AuditSink  # noqa: E402
from teeline.proxy.sinks import SinkError  # noqa: E402
from teeline.proxy.telemetry.metrics import MetricsSink  # noqa: E402
from teeline.proxy.telemetry.sink import Choices, TelemetrySink  # noqa: E402
from teeline.validators.events import Closed, Found  # noqa: E402
from teeline.validators.model import Exchange, Severity  # noqa: E402
from tests.proxy.audit.logs import ORIGIN, Clock  # noqa: E402
from tests.proxy.certs import Certificates  # noqa: E402
from tests.proxy.samples import exchange, violation  # noqa: E402
from tests.proxy.telemetry.collector import attributes  # noqa: E402
from tests.proxy.telemetry.collector import collecting as collecting_http  # noqa: E402
from tests.proxy.telemetry.grpccollector import GrpcCollector, collecting  # noqa: E402

LONG = 60.0
EVERYTHING = Choices(info_records=True, audit_records=True, chained=True)

Use = Callable[[TelemetrySink], Awaitable[None]]


@pytest.fixture(name="collector")
def running_collector() -> Iterator[GrpcCollector]:
    with collecting() as collector:
        yield collector


def run(environ: Mapping[str, str], use: Use) -> None:
    async def go() -> None:
        numbers = MetricsSink()
        sink = TelemetrySink.from_environment(environ, choices=EVERYTHING, meter=numbers.meter)
        assert sink is not None
        await numbers.start()
        await sink.start()
        try:
            await use(sink)
        finally:
            await sink.close()
            await numbers.close()

    asyncio.run(go())


def export(environ: Mapping[str, str], *made: Exchange) -> None:
    """Everything there is to be sent of some exchanges: spans, violations, metrics."""

    async def use(sink: TelemetrySink) -> None:
        for each in made:
            for found in each.violations:
                sink.found(Found(each, found))
            sink.closed(Closed(each))
        await sink.drain(LONG)

    run(environ, use)


def test_spans_and_log_records_are_those_that_go_over_http(collector: GrpcCollector) -> None:
    """Message by message, the resource and the scope included."""
    made = [
        exchange(
            violation(), violation("timing.x", Severity.INFO), parent_span_id="b7ad6b7169203331"
        ),
        exchange(status=429, model=None),
    ]
    with collecting_http() as other:
        for each in (other, collector):
            named = {"OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=one"}
            export(each.environ | named, *made)
        assert len(collector.spans) == len(collector.records) == 2
        assert collector.traces == other.traces
        assert collector.logs == other.logs


def test_lines_of_the_audit_log_arrive_in_the_order_of_their_chain(
    collector: GrpcCollector, tmp_path: Path
) -> None:
    async def use(sink: TelemetrySink) -> None:
        log = AuditSink(tmp_path, origin=ORIGIN, clock=Clock(), on_written=sink.written)
        await log.start()
        log.closed(Closed(exchange()))
        await log.drain(LONG)
        await log.close()
        await sink.drain(LONG)

    run(collector.environ, use)
    assert [attributes(record)["teeline.audit.seq"] for record in collector.records] == [1, 2, 3]
    lines = b"".join(path.read_bytes() for path in tmp_path.glob("*.jsonl")).decode().splitlines()
    assert [record.body.string_value for record in collector.records] == lines


def test_records_of_exchanges_that_broke_everything_are_within_what_a_receiver_takes(
    collector: GrpcCollector, tmp_path: Path
) -> None:
    """A hostile relay makes records of 100 KB; 512 of them in one request would be refused as a whole."""
    evidence = "x" * 200
    made = exchange(*(violation(message="m" * 400, evidence=evidence) for _ in range(100)))

    async def use(sink: TelemetrySink) -> None:
        log = AuditSink(tmp_path, origin=ORIGIN, clock=Clock(), on_written=sink.written)
        await log.start()
        for _ in range(200):
            log.closed(Closed(made))
        await log.drain(LONG)
        await sink.drain(LONG)
        assert sink.dropped["logs"] == 0
        await log.close()

    run(collector.environ | {"OTEL_BLRP_SCHEDULE_DELAY": "60000"}, use)
    size = sum(len(record.body.string_value) for record in collector.records)
    assert size > 10 * 1024 * 1024
    assert len(collector.records) == 202


def test_metrics_arrive(collector: GrpcCollector) -> None:
    async def go() -> None:
        numbers = MetricsSink()
        sink = TelemetrySink.from_environment(collector.environ, meter=numbers.meter)
        assert sink is not None
        await numbers.start()
        await sink.start()
        numbers.closed(Closed(exchange()))
        await sink.drain(LONG)
        await sink.close()
        await numbers.close()

    asyncio.run(go())
    (point,) = collector.points("teeline.exchanges", 0)
    assert (point.as_int, attributes(point)["teeline.verdict"]) == (1, "pass")
    (point,) = collector.points("gen_ai.client.operation.duration", 0)
    assert (point.count, point.sum) == (1, 1.5)


def test_one_signal_may_go_another_way(collector: GrpcCollector) -> None:
    with collecting_http() as other:
        environ = {
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url,
            **other.environ,
        }
        export(environ, exchange(violation()))
        assert (len(collector.spans), len(collector.records)) == (1, 0)
        assert (len(other.spans), len(other.records)) == (0, 1)


def test_headers_go_along_and_compression_is_understood(collector: GrpcCollector) -> None:
    environ = {
        **collector.environ,
        "OTEL_EXPORTER_OTLP_HEADERS": "X-Tenant=blue",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    export(environ, exchange())
    assert len(collector.spans) == 1
    assert collector.headers[0]["x-tenant"] == "blue"


def test_over_tls_the_authority_of_the_environment_counts(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    pem = certificates.issue("localhost").read_bytes()
    with collecting(pem, pem) as collector:
        environ = collector.environ | {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificates.ca)}
        export(environ, exchange())
        assert len(collector.spans) == 1


def test_a_certificate_that_is_not_there_stops_the_start() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem",
    }
    with pytest.raises(SinkError) as error:
        TelemetrySink.from_environment(environ)
    assert str(error.value) == (
        "OTEL_EXPORTER_OTLP_CERTIFICATE: /nowhere/ca.pem can't be read: No such file or directory"
    )


def test_a_collector_that_refuses_is_told_of_once_by_its_status_alone(
    collector: GrpcCollector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.refusal = grpc.StatusCode.PERMISSION_DENIED

    async def use(sink: TelemetrySink) -> None:
        for _ in range(3):
            sink.closed(Closed(exchange()))
            await sink.drain(LONG)
        assert sink.dropped["traces"] == 3

    with caplog.at_level(logging.INFO):
        run(collector.environ | {"OTEL_METRICS_EXPORTER": "none"}, use)
    assert caplog.messages == [
        "telemetry: spans could not be exported (gRPC PERMISSION_DENIED); 1 lost so far; traffic goes on"
    ]


def test_a_collector_that_is_not_there_costs_records_that_are_counted() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{unused.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "0.3",
        }

        async def use(sink: TelemetrySink) -> None:
            sink.closed(Closed(exchange()))
            await sink.drain(LONG)
            assert sink.dropped["traces"] == 1

        run(environ, use)


def test_a_collector_that_does_not_answer_holds_up_no_end(collector: GrpcCollector) -> None:
    collector.answering.clear()

    async def use(sink: TelemetrySink) -> None:
        sink.closed(Closed(exchange()))
        with pytest.raises(TimeoutError):
            await sink.drain(0.2)

    run(collector.environ | {"OTEL_METRICS_EXPORTER": "none"}, use)
    assert collector.spans == []
