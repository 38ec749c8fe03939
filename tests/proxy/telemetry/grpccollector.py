"""A real OTLP/gRPC collector on a loopback port, with TLS where a test wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

from tests.proxy.telemetry.collector import Collector


class GrpcCollector(Collector):
    """What arrived so far. ``refusal`` is the status of the answer to everything, None for OK."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal: grpc.StatusCode | None = None

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

    def answer(self, kept: list[Any], response: type[Any]) -> Callable[[Any, Any], Any]:
        """A method of a service that keeps its requests."""

        def export(request: Any, context: Any) -> Any:
            self.answering.wait()
            self.headers.append(dict(context.invocation_metadata()))
            if self.refusal is not None:
                context.abort(self.refusal, "details that nobody should see: sk-planted")
            kept.append(request)
            return response()

        return export


def _serve(collector: GrpcCollector, server: Any) -> None:
    tracing = traces_grpc.TraceServiceServicer()
    tracing.Export = collector.answer(collector.traces, traces.ExportTraceServiceResponse)  # type: ignore[method-assign]
    traces_grpc.add_TraceServiceServicer_to_server(tracing, server)  # type: ignore[no-untyped-call]
    logging = logs_grpc.LogsServiceServicer()
    logging.Export = collector.answer(collector.logs, logs.ExportLogsServiceResponse)  # type: ignore[method-assign]
    logs_grpc.add_LogsServiceServicer_to_server(logging, server)  # type: ignore[no-untyped-call]
    measuring = metrics_grpc.MetricsServiceServicer()
    measuring.Export = collector.answer(collector.metrics, metrics.ExportMetricsServiceResponse)  # type: ignore[method-assign]
    metrics_grpc.add_MetricsServiceServicer_to_server(measuring, server)  # type: ignore[no-untyped-call]


@contextmanager
def collecting(
    key: bytes | None = None, certificate: bytes | None = None
) -> Iterator[GrpcCollector]:
    """A collector that is listening; with a key and a certificate over TLS."""
    collector = GrpcCollector()
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        _serve(collector, server)
        if key is None or certificate is None:
            port = server.add_insecure_port("127.0.0.1:0")
            collector.url = f"http://127.0.0.1:{port}"
        else:
            credentials = grpc.ssl_server_credentials([(key, certificate)])
            port = server.add_secure_port("127.0.0.1:0", credentials)
            collector.url = f"https://localhost:{port}"
        server.start()
        try:
            yield collector
        finally:
            collector.answering.set()
            server.stop(None).wait()
