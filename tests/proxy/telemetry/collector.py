"""A real OTLP/HTTP collector on a loopback port: decodes what it gets, answers as it is told."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


class Collector:
    """What arrived so far. ``status`` is the answer to everything, once ``answering`` is set."""

    def __init__(self) -> None:
        self.status = 200
        self.answering = threading.Event()
        self.answering.set()
        self.bodies: list[bytes] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.logs: list[ExportLogsServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.headers.append(headers)
        self.bodies.append(body)
        if self.status != 200:
            return
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest()
            traces.ParseFromString(body)
            self.traces.append(traces)
        elif path == "/v1/logs":
            logs = ExportLogsServiceRequest()
            logs.ParseFromString(body)
            self.logs.append(logs)
        elif path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest()
            metrics.ParseFromString(body)
            self.metrics.append(metrics)

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def records(self) -> list[Any]:
        return [
            record
            for request in self.logs
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def points(self, name: str, export: int = -1) -> list[Any]:
        """The data points of a metric in one of the exports."""
        return [
            point
            for resource in self.metrics[export].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in getattr(metric, metric.WhichOneof("data") or "").data_points
        ]

    @property
    def environ(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url}


def attributes(of: Any) -> dict[str, Any]:
    """The attributes of a protobuf message as Python values."""
    pairs: list[KeyValue] = list(of.attributes)
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that is listening."""
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            collector.answering.wait()
            collector.take(self.path, headers, body)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.answering.set()
        server.shutdown()
        server.server_close()
        thread.join()
