"""The SDK's exporters for what the environment asks for: OTLP over HTTP, or over gRPC with the extra.

What belongs here: which exporter a protocol needs. What doesn't: reading the environment
(environment.py), how gRPC is set up (grpcexport.py, which is imported only where it is wanted).
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import cast

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from teeline.proxy.sinks import SinkError
from teeline.proxy.telemetry.environment import GRPC, MetricSignal, Signal
from teeline.proxy.telemetry.logs import LogRecordExporter, otlp_log_exporter
from teeline.proxy.telemetry.wire import DirectSpanExporter


def span_exporter(signal: Signal | None) -> SpanExporter | None:
    """SinkError where the signal can't go out as asked for; None where it isn't asked for."""
    if signal is None:
        return None
    if signal.protocol == GRPC:
        return cast(SpanExporter, _grpc().span_exporter(signal.options))
    return DirectSpanExporter(**signal.options)


def log_exporter(signal: Signal | None) -> LogRecordExporter | None:
    """As ``span_exporter``."""
    if signal is None:
        return None
    if signal.protocol == GRPC:
        return cast(LogRecordExporter, _grpc().log_exporter(signal.options))
    return otlp_log_exporter(**signal.options)


def metric_exporter(signal: MetricSignal | None) -> MetricExporter | None:
    """As ``span_exporter``."""
    if signal is None:
        return None
    if signal.protocol == GRPC:
        return cast(MetricExporter, _grpc().metric_exporter(signal.options))
    return OTLPMetricExporter(**signal.options)


def _grpc() -> ModuleType:
    try:
        return importlib.import_module("teeline.proxy.telemetry.grpcexport")
    except ImportError:
        raise SinkError(
            "OTLP over gRPC is an extra: pip install 'teeline[grpc]'; or set "
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, with the collector's HTTP port (4318)"
        ) from None
