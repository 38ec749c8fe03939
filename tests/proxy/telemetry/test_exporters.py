"""Each protocol has its exporter, and what isn't installed is said in one line."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

from teeline.proxy.sinks import SinkError
from teeline.proxy.telemetry import exporters
from teeline.proxy.telemetry.environment import read
from teeline.proxy.telemetry.wire import DirectSpanExporter

HTTP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
GRPC = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
}


def test_http_needs_nothing_else() -> None:
    settings = read(HTTP)
    assert settings is not None
    spans, metrics = (
        exporters.span_exporter(settings.traces),
        exporters.metric_exporter(settings.metrics),
    )
    logs = exporters.log_exporter(settings.logs)
    assert isinstance(spans, DirectSpanExporter)
    assert isinstance(metrics, OTLPMetricExporter)
    assert logs is not None
    for exporter in (spans, metrics, logs):
        exporter.shutdown()


def test_a_signal_that_is_not_asked_for_has_none() -> None:
    made = [exporters.span_exporter(None), exporters.log_exporter(None)]
    assert [*made, exporters.metric_exporter(None)] == [None, None, None]


@pytest.mark.parametrize("signal", ["span", "log", "metric"])
def test_grpc_without_its_extra_says_what_to_install(
    signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "teeline.proxy.telemetry.grpcexport", raising=False)
    settings = read(GRPC)
    assert settings is not None
    asked = {"span": settings.traces, "log": settings.logs, "metric": settings.metrics}
    with pytest.raises(SinkError) as error:
        getattr(exporters, f"{signal}_exporter")(asked[signal])
    assert str(error.value) == (
        "OTLP over gRPC is an extra: pip install 'teeline[grpc]'; or set "
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, with the collector's HTTP port (4318)"
    )
