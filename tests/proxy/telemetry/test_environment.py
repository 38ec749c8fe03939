"""The OTEL_* variables mean what OpenTelemetry says they mean; what can't work is said in one line."""

from __future__ import annotations

import pytest

from teeline.proxy.sinks import SinkError
from teeline.proxy.telemetry import environment
from teeline.proxy.telemetry.environment import CAPTURE, GRPC, HTTP, read, resource
from teeline.proxy.telemetry.queues import Queueing
from teeline.proxy.telemetry.sink import TelemetrySink

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        BASE | {"OTEL_SDK_DISABLED": "TRUE"},
        BASE | {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "LOGS", "METRICS")},
    ],
    ids=["nothing", "no endpoint", "disabled", "all none"],
)
def test_without_a_place_to_send_to_there_is_no_sink(environ: dict[str, str]) -> None:
    assert read(environ) is None
    assert TelemetrySink.from_environment(environ) is None


def test_the_endpoint_for_all_signals_gets_their_paths() -> None:
    settings = read(BASE)
    assert settings is not None and settings.traces is not None and settings.logs is not None
    assert settings.traces.options["endpoint"] == "http://collector:4318/v1/traces"
    assert settings.logs.options["endpoint"] == "http://collector:4318/v1/logs"


def test_an_endpoint_of_one_signal_is_used_as_it_is_and_for_that_signal_alone() -> None:
    settings = read({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/custom"})
    assert settings is not None and settings.traces is not None
    assert settings.traces.options["endpoint"] == "https://c/custom"
    assert settings.logs is None


def test_over_grpc_an_endpoint_gets_no_path_and_each_signal_may_choose() -> None:
    settings = read(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317/",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://other:4318/v1/metrics",
        }
    )
    assert settings is not None and settings.traces and settings.logs and settings.metrics
    assert (settings.traces.protocol, settings.logs.protocol) == (GRPC, GRPC)
    assert settings.traces.options["endpoint"] == "http://collector:4317"
    assert settings.metrics.protocol == HTTP
    assert settings.metrics.options["endpoint"] == "http://other:4318/v1/metrics"


def test_a_signals_own_variable_wins() -> None:
    settings = read(
        BASE
        | {
            "OTEL_EXPORTER_OTLP_HEADERS": "a=1",
            "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "b=2",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.pem",
        }
    )
    assert settings is not None and settings.traces is not None and settings.logs is not None
    assert settings.traces.options["headers"] == {"a": "1"}
    assert settings.logs.options["headers"] == {"b": "2"}
    assert settings.logs.options["timeout"] == 3.0
    assert settings.logs.options["certificate_file"] == "/ca.pem"


def test_a_timeout_in_milliseconds_ends_at_a_minute() -> None:
    settings = read(BASE | {"OTEL_EXPORTER_OTLP_TIMEOUT": "10000"})
    assert settings is not None and settings.traces is not None
    assert settings.traces.options["timeout"] == 60.0


def test_queues_are_those_of_the_environment() -> None:
    settings = read(BASE | {"OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_BLRP_SCHEDULE_DELAY": "250"})
    assert settings is not None and settings.traces is not None and settings.logs is not None
    assert settings.traces.queueing == Queueing(100, 100, 5000)
    assert settings.logs.queueing == Queueing(2048, 512, 250)


def test_metrics_go_out_as_often_and_in_the_form_that_the_environment_says() -> None:
    settings = read(
        BASE
        | {
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "Delta",
        }
    )
    assert settings is not None and settings.metrics is not None
    assert settings.metrics.options["endpoint"] == "http://collector:4318/v1/metrics"
    assert (settings.metrics.interval, settings.metrics.temporality) == (5.0, "delta")


def test_metrics_for_prometheus_alone_are_not_exported() -> None:
    settings = read(BASE | {"OTEL_METRICS_EXPORTER": "prometheus"})
    assert settings is not None and settings.metrics is None
    settings = read(BASE | {"OTEL_METRICS_EXPORTER": "prometheus,otlp"})
    assert settings is not None and settings.metrics is not None


def test_the_service_name_is_teeline_unless_said_otherwise() -> None:
    for environ, name in [
        ({}, "teeline"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,x=y"}, "a"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=a", "OTEL_SERVICE_NAME": "b"}, "b"),
    ]:
        settings = read(BASE | environ)
        assert settings is not None
        assert settings.resource.attributes["service.name"] == name


def test_each_start_is_an_instance_of_its_own_unless_it_is_named() -> None:
    found = [resource({}).attributes["service.instance.id"] for _ in range(2)]
    assert len(set(found)) == 2
    named = resource({"OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=a"})
    assert named.attributes["service.instance.id"] == "a"


@pytest.mark.parametrize(
    ("environ", "description"),
    [
        ({}, "ParentBased{root:AlwaysOnSampler"),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, "AlwaysOffSampler"),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
            "TraceIdRatioBased{0.25}",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"},
            "ParentBased{root:TraceIdRatioBased{0.5}",
        ),
    ],
)
def test_samplers_are_those_of_the_sdk(environ: dict[str, str], description: str) -> None:
    settings = read(BASE | environ)
    assert settings is not None
    assert settings.sampler.get_description().startswith(description)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318?k=sk-1"}, "must be an http"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "one of http/protobuf, grpc"),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317/v1/traces?k=sk-1",
            },
            "OTEL_EXPORTER_OTLP_ENDPOINT must be scheme, host and port alone",
        ),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "otlp or none"),
        ({"OTEL_LOGS_EXPORTER": "prometheus"}, "otlp or none"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "0"}, "milliseconds above 0"),
        (
            {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "both"},
            "cumulative, delta, lowmemory",
        ),
        ({"OTEL_TRACES_SAMPLER": "jaeger"}, "one of always_on"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, "0 to 1"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "br"}, "gzip, deflate or none"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "number of seconds"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "whole number"),
        ({"OTEL_BLRP_MAX_QUEUE_SIZE": "0"}, "a queue needs"),
    ],
)
def test_a_value_that_can_not_work_is_said_in_one_line(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SinkError) as error:
        read(BASE | environ)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert "sk-1" not in str(error.value)


def test_the_capture_variable_is_ignored_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert read(BASE | {CAPTURE: "NO_CONTENT"}) is not None
    assert caplog.messages == []
    assert read(BASE | {CAPTURE: "SPAN_AND_EVENT"}) is not None
    assert caplog.messages == [
        f"{CAPTURE} is ignored: only teeline's own capture setting turns content on"
    ]


def test_processes_that_are_one_instance_say_so_unless_the_user_says_who_they_are() -> None:
    made = environment.one_instance({"OTEL_RESOURCE_ATTRIBUTES": "a=b", "X": "y"})
    first, second = (environment.resource(made).attributes for _ in range(2))
    assert first["service.instance.id"] == second["service.instance.id"]
    assert (first["a"], made["X"]) == ("b", "y")
    assert environment.resource(environment.one_instance({})).attributes["service.instance.id"]
    given = {"OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=mine"}
    assert environment.one_instance(given) == given
