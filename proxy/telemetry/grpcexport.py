"""OTLP over gRPC: the SDK's exporters of the extra ``teeline[grpc]``, given our settings.

What belongs here: everything that imports grpc. What doesn't: whether gRPC is wanted
(environment.py), what is sent.

Everything is handed over as arguments, so that the exporters read no variable themselves.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExportResult

from teeline.proxy.sinks import SinkError
from teeline.proxy.text import printable

_CODINGS = {
    Compression.NoCompression: grpc.Compression.NoCompression,
    Compression.Gzip: grpc.Compression.Gzip,
    Compression.Deflate: grpc.Compression.Deflate,
}


class GrpcSpanExporter(OTLPSpanExporter):
    """The SDK's exporter, which takes requests as bytes, too: encoding is most of what spans cost."""

    takes_bytes = True

    def send(self, request: bytes) -> bool:
        """Sends an ExportTraceServiceRequest; whether the collector took it."""
        made = ExportTraceServiceRequest()
        made.ParseFromString(request)
        return self._export(made) is SpanExportResult.SUCCESS

    def _translate_data(self, data: Any) -> ExportTraceServiceRequest:
        return (
            data if isinstance(data, ExportTraceServiceRequest) else super()._translate_data(data)
        )

    def _count_data(self, data: Any) -> int:
        if not isinstance(data, ExportTraceServiceRequest):
            return len(data)
        return sum(len(s.spans) for r in data.resource_spans for s in r.scope_spans)


def span_exporter(options: Mapping[str, Any]) -> GrpcSpanExporter:
    """``options`` are those of the exporters over HTTP. SinkError where a certificate can't be read."""
    return GrpcSpanExporter(**_arguments(options))


def log_exporter(options: Mapping[str, Any]) -> OTLPLogExporter:
    """As ``span_exporter``."""
    return OTLPLogExporter(**_arguments(options))


def metric_exporter(options: Mapping[str, Any]) -> OTLPMetricExporter:
    """As ``span_exporter``."""
    return OTLPMetricExporter(**_arguments(options))


def _arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    secure = urllib.parse.urlsplit(options["endpoint"]).scheme == "https"
    return {
        "endpoint": options["endpoint"],
        "insecure": not secure,
        "credentials": _credentials(options) if secure else None,
        "headers": tuple(options["headers"].items()),
        "timeout": options["timeout"],
        "compression": _CODINGS[options["compression"]],
    }


def _credentials(options: Mapping[str, Any]) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=_content(options["certificate_file"], "CERTIFICATE"),
        private_key=_content(options["client_key_file"], "CLIENT_KEY"),
        certificate_chain=_content(options["client_certificate_file"], "CLIENT_CERTIFICATE"),
    )


def _content(path: str | None, variable: str) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SinkError(
            f"OTEL_EXPORTER_OTLP_{variable}: {printable(path, 1000)} can't be read: {reason}"
        ) from None
