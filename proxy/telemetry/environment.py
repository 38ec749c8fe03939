"""The OTEL_* variables: where telemetry goes, how much of it, and under which name.

What belongs here: reading and checking the variables, making exporters from them. What doesn't: any
setting of teeline's own (no product setting doubles one of these), metrics.

The variables are read from the mapping that is given, and handed to the SDK as arguments. Values
that can't work stop the start with one line; a collector that isn't there never does.
"""

from __future__ import annotations

import logging
import urllib.parse
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    ParentBasedTraceIdRatio,
    Sampler,
    TraceIdRatioBased,
)
from opentelemetry.util.re import parse_env_headers

from teeline.proxy.sinks import SinkError
from teeline.proxy.telemetry import queues
from teeline.proxy.telemetry.queues import Queueing
from teeline.proxy.text import SHOWN, printable

log = logging.getLogger("teeline.telemetry")

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
HTTP: Final = "http/protobuf"
GRPC: Final = "grpc"
_PROTOCOLS: Final = (HTTP, GRPC)
_INSTANCE: Final = "service.instance.id"
_TIMEOUT = 10.0
_MAX_TIMEOUT = 60.0
_SPAN_EVENTS = 128
_METRIC_INTERVAL = 60_000
_TEMPORALITIES: Final = ("cumulative", "delta", "lowmemory")
_ALSO: Final = {"METRICS": "prometheus"}  # the admin port serves it, asked for or not
_SAMPLERS: Final[Mapping[str, Sampler]] = {
    "always_on": ALWAYS_ON,
    "always_off": ALWAYS_OFF,
    "parentbased_always_on": DEFAULT_ON,
    "parentbased_always_off": DEFAULT_OFF,
}
_RATIO_SAMPLERS: Final = {
    "traceidratio": TraceIdRatioBased,
    "parentbased_traceidratio": ParentBasedTraceIdRatio,
}


@dataclass(frozen=True, slots=True)
class Signal:
    """Where one signal goes: the arguments of the OTLP/HTTP exporter, its queue, and the protocol."""

    options: Mapping[str, Any]
    queueing: Queueing
    protocol: str = HTTP


@dataclass(frozen=True, slots=True)
class MetricSignal:
    """Where metrics go, every ``interval`` seconds, and whether as totals or as differences."""

    options: Mapping[str, Any]
    interval: float
    temporality: str
    protocol: str = HTTP


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for. ``value_length`` bounds strings, ``span_events`` events a
    span.
    """

    traces: Signal | None
    logs: Signal | None
    metrics: MetricSignal | None
    resource: Resource
    sampler: Sampler
    value_length: int = SHOWN
    span_events: int = _SPAN_EVENTS


def read(environ: Mapping[str, str], version: str = "") -> Settings | None:
    """What the variables ask for; None where they ask for no export.

    ``version`` is teeline's. SinkError where a value can't work.
    """
    if environ.get(CAPTURE, "").strip().lower() not in ("", "no_content", "false"):
        log.warning("%s is ignored: only teeline's own capture setting turns content on", CAPTURE)
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    traces = _signal(environ, "TRACES", "v1/traces", "BSP", queues.SPANS)
    logs = _signal(environ, "LOGS", "v1/logs", "BLRP", queues.LOGS)
    metrics = _metrics(environ)
    if traces is None and logs is None and metrics is None:
        return None
    return Settings(
        traces,
        logs,
        metrics,
        resource(environ, version),
        sampler(environ),
        _value_length(environ),
        min(_SPAN_EVENTS, _whole(environ, "OTEL_SPAN_EVENT_COUNT_LIMIT", _SPAN_EVENTS)),
    )


def resource(environ: Mapping[str, str], version: str = "") -> Resource:
    """Who sends: OTEL_RESOURCE_ATTRIBUTES, under OTEL_SERVICE_NAME or ``teeline``.

    Each start has an id of its own, unless one is given: replicas' counters are different series.
    """
    attributes = {"service.name": "teeline", _INSTANCE: str(uuid.uuid4())}
    if version:
        attributes["service.version"] = version
    for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            attributes[key.strip()] = urllib.parse.unquote(value.strip())
    if environ.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = environ["OTEL_SERVICE_NAME"]
    return Resource.create(dict(attributes))


def one_instance(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for processes that are one instance of the service: all tell the same id of it."""
    given = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if any(pair.partition("=")[0].strip() == _INSTANCE for pair in given.split(",")):
        return dict(environ)
    own = f"{_INSTANCE}={uuid.uuid4()}"
    return {**environ, "OTEL_RESOURCE_ATTRIBUTES": f"{given},{own}" if given else own}


def sampler(environ: Mapping[str, str]) -> Sampler:
    """OTEL_TRACES_SAMPLER and its argument; SinkError for names that aren't known."""
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() or "parentbased_always_on"
    if name in _SAMPLERS:
        return _SAMPLERS[name]
    if name not in _RATIO_SAMPLERS:
        known = ", ".join([*_SAMPLERS, *_RATIO_SAMPLERS])
        raise SinkError(f"OTEL_TRACES_SAMPLER={printable(name)} isn't supported; one of {known}")
    argument = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or "1.0"
    try:
        return _RATIO_SAMPLERS[name](float(argument))
    except ValueError:
        raise SinkError("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1") from None


def _signal(
    environ: Mapping[str, str], signal: str, path: str, prefix: str, default: Queueing
) -> Signal | None:
    options = _options(environ, signal, path)
    if options is None:
        return None
    return Signal(options, _queueing(environ, prefix, default), _protocol(environ, signal))


def _metrics(environ: Mapping[str, str]) -> MetricSignal | None:
    options = _options(environ, "METRICS", "v1/metrics")
    if options is None:
        return None
    variable = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
    temporality = environ.get(variable, "").strip().lower() or "cumulative"
    if temporality not in _TEMPORALITIES:
        raise SinkError(f"{variable} must be {', '.join(_TEMPORALITIES)}")
    interval = _whole(environ, "OTEL_METRIC_EXPORT_INTERVAL", _METRIC_INTERVAL)
    if interval <= 0:
        raise SinkError("OTEL_METRIC_EXPORT_INTERVAL must be a number of milliseconds above 0")
    return MetricSignal(options, interval / 1000, temporality, _protocol(environ, "METRICS"))


def _options(environ: Mapping[str, str], signal: str, path: str) -> dict[str, Any] | None:
    """The exporter's arguments; None where the signal is not to be exported."""
    if not _is_wanted(environ, f"OTEL_{signal}_EXPORTER", _ALSO.get(signal, "")):
        return None
    protocol = _protocol(environ, signal)
    variable, endpoint = _endpoint(environ, signal, path if protocol == HTTP else "")
    if not endpoint:
        return None
    # The value isn't repeated in what is said of it: an endpoint may hold a key.
    url = urllib.parse.urlsplit(endpoint)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise SinkError(f"{variable} must be an http:// or https:// URL")
    if protocol == GRPC and (url.path.strip("/") or url.query or "@" in url.netloc):
        raise SinkError(f"{variable} must be scheme, host and port alone: gRPC knows no paths")
    return {"endpoint": endpoint, **_connection(environ, signal)}


def _protocol(environ: Mapping[str, str], signal: str) -> str:
    protocol = _either(environ, signal, "PROTOCOL").lower() or HTTP
    if protocol not in _PROTOCOLS:
        raise SinkError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={printable(protocol)} isn't supported; "
            f"one of {', '.join(_PROTOCOLS)}"
        )
    return protocol


def _is_wanted(environ: Mapping[str, str], variable: str, also: str) -> bool:
    names = {name.strip().lower() for name in environ.get(variable, "").split(",")} - {""}
    unknown = names - {"otlp", "none", also}
    if unknown:
        shown = printable(", ".join(sorted(unknown)))
        raise SinkError(f"{variable}={shown} isn't supported; otlp or none")
    return "none" not in names and (not names or "otlp" in names)


def _endpoint(environ: Mapping[str, str], signal: str, path: str) -> tuple[str, str]:
    variable = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    if environ.get(variable):
        return variable, environ[variable]
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
    return "OTEL_EXPORTER_OTLP_ENDPOINT", f"{base}/{path}".rstrip("/") if base else ""


def _either(environ: Mapping[str, str], signal: str, name: str) -> str:
    """A signal's own variable, or the one for all signals."""
    own = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_{name}")
    return (own or environ.get(f"OTEL_EXPORTER_OTLP_{name}") or "").strip()


def _connection(environ: Mapping[str, str], signal: str) -> dict[str, Any]:
    compression = _either(environ, signal, "COMPRESSION").lower() or "none"
    try:
        coding = Compression(compression)
    except ValueError:
        raise SinkError("OTEL_EXPORTER_OTLP_COMPRESSION must be gzip, deflate or none") from None
    return {
        "headers": parse_env_headers(_either(environ, signal, "HEADERS"), liberal=True),
        "timeout": _timeout(environ, signal),
        "compression": coding,
        "certificate_file": _either(environ, signal, "CERTIFICATE") or None,
        "client_key_file": _either(environ, signal, "CLIENT_KEY") or None,
        "client_certificate_file": _either(environ, signal, "CLIENT_CERTIFICATE") or None,
    }


def _timeout(environ: Mapping[str, str], signal: str) -> float:
    """In seconds, as the Python SDK reads it; the specification's milliseconds end at the bound."""
    text = _either(environ, signal, "TIMEOUT")
    if not text:
        return _TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        raise SinkError("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of seconds") from None
    return min(_MAX_TIMEOUT, seconds) if seconds > 0 else _TIMEOUT


def _queueing(environ: Mapping[str, str], prefix: str, default: Queueing) -> Queueing:
    capacity = _whole(environ, f"OTEL_{prefix}_MAX_QUEUE_SIZE", default.capacity)
    batch = _whole(environ, f"OTEL_{prefix}_MAX_EXPORT_BATCH_SIZE", min(default.batch, capacity))
    delay_ms = _whole(environ, f"OTEL_{prefix}_SCHEDULE_DELAY", int(default.delay_ms))
    try:
        return Queueing(capacity, batch, delay_ms)
    except ValueError as error:
        raise SinkError(f"OTEL_{prefix}_*: {error}") from None


def _value_length(environ: Mapping[str, str]) -> int:
    names = ("OTEL_ATTRIBUTE", "OTEL_SPAN_ATTRIBUTE", "OTEL_LOGRECORD_ATTRIBUTE")
    return min(_whole(environ, f"{name}_VALUE_LENGTH_LIMIT", SHOWN) for name in names)


def _whole(environ: Mapping[str, str], variable: str, default: int) -> int:
    text = environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise SinkError(f"{variable} must be a whole number")
    return int(text)
