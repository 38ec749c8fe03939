"""docs/telemetry.md: every name that leaves teeline by telemetry, made of the declarations.

What belongs here: the page's words and layout, and what each attribute means. What doesn't: the names
(names.py), the metrics (instruments.py), writing files (proxy/docs.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from teeline.proxy.telemetry import damping, metrics, names, queues
from teeline.proxy.telemetry.instruments import INSTRUMENTS, Instrument
from teeline.proxy.telemetry.prometheus import metric_name

WHO: Final[Mapping[str, str]] = {
    names.EXCHANGE_ID: "the exchange, as in the audit log",
    names.UPSTREAM: "the upstream's name in the configuration",
    names.PROVIDER_NAME: "`openai`: the format spoken, whoever serves it",
    names.OPERATION_NAME: "`chat` (Responses, too), `text_completion`, `embeddings`; else teeline's word",
    names.REQUEST_MODEL: "as the request names it",
    names.SERVER_ADDRESS: "the upstream's host",
    names.SERVER_PORT: "the upstream's port",
}
SPAN: Final[Mapping[str, str]] = {
    names.OPENAI_API_TYPE: "`chat_completions` or `responses`",
    names.REQUEST_STREAM: "whether a stream was asked for",
    names.REQUEST_MAX_TOKENS: "max_tokens, max_completion_tokens or max_output_tokens",
    names.REQUEST_TEMPERATURE: "temperature",
    names.REQUEST_TOP_P: "top_p",
    names.REQUEST_FREQUENCY_PENALTY: "frequency_penalty",
    names.REQUEST_PRESENCE_PENALTY: "presence_penalty",
    names.REQUEST_SEED: "seed",
    names.REQUEST_CHOICE_COUNT: "n, where it is not 1",
    names.REQUEST_ENCODING_FORMATS: "of embeddings",
    names.EMBEDDINGS_DIMENSION_COUNT: "as asked for",
    names.OUTPUT_TYPE: "`text` or `json`, where a format was asked for",
    names.OPENAI_REQUEST_SERVICE_TIER: "as asked for",
    names.OPENAI_RESPONSE_SERVICE_TIER: "as the answer says",
    names.OPENAI_RESPONSE_SYSTEM_FINGERPRINT: "as the answer says",
    names.RESPONSE_ID: "the answer's id",
    names.RESPONSE_MODEL: "as the answer names it",
    names.RESPONSE_FINISH_REASONS: "of all choices",
    names.RESPONSE_TIME_TO_FIRST_CHUNK: "seconds, of streams",
    names.USAGE_INPUT_TOKENS: "as reported; never estimated",
    names.USAGE_OUTPUT_TOKENS: "as reported; never estimated",
    names.USAGE_CACHE_READ_INPUT_TOKENS: "as reported",
    names.USAGE_CACHE_CREATION_INPUT_TOKENS: "as reported (`cache_write_tokens`)",
    names.USAGE_REASONING_OUTPUT_TOKENS: "as reported",
    names.HTTP_RESPONSE_STATUS_CODE: "the answer's",
    names.ERROR_TYPE: "only where the operation failed: a status, how it ended, or the error's type",
    names.VERDICT: "the relay's: `pass`, `warn`, `fail`",
    names.CLIENT_VERDICT: "the client's",
    names.VIOLATIONS: "how many rules were broken, observations included",
    names.INSPECTION: "`full`, or what was not inspected and why",
    names.ENDED: "`complete`, `client_closed`, `upstream_aborted`, `refused`, `timeout`, `shutdown`",
    names.PROFILE: "the vendor profile that was applied",
}
VIOLATION: Final[Mapping[str, str]] = {
    names.RULE: "see [the rules](rules/index.md)",
    names.SEVERITY: "`fail`, `warn`, `info`",
    names.SIDE: "`request` or `response`",
    names.PLACE_UNIT: "`head`, `body`, `event`, `frame`, `packet`",
    names.PLACE_INDEX: "the unit's number from 1; 0 where it has none",
    names.PLACE_BYTE: "offset in the decoded body",
    names.PLACE_POINTER: "JSON Pointer into the unit",
    names.EVIDENCE: "names, numbers and protocol words; no content",
    names.COUNT: "span events: how often, in this exchange",
    names.MESSAGE: "span events: the log record's body",
    names.LEFT_OUT: "log records: how many of the kind were not told since the one before",
}

_TOP: Final = f"""\
# Telemetry

Names follow OpenTelemetry's GenAI conventions as of {names.SNAPSHOT} (all of them in development) and,
where those have none, begin with `teeline.`. No prompt, answer or key is in any of it, and no setting
of OpenTelemetry changes that.

Where it goes is said by OpenTelemetry's own variables; without an endpoint it goes nowhere:
"""

_VARIABLES: Final[Mapping[str, str]] = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "the collector, for all signals; "
    "`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and so on for one",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "`http/protobuf` (the default; the collector's port 4318) or "
    "`grpc` (port 4317, no path), which needs `pip install 'teeline[grpc]'`; "
    "`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` and so on for one signal",
    "OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE, _CLIENT_KEY, "
    "_CLIENT_CERTIFICATE": "how to talk to it; for one signal in the same way",
    "OTEL_TRACES_EXPORTER, OTEL_LOGS_EXPORTER, OTEL_METRICS_EXPORTER": "`otlp` or `none`; "
    "metrics also `prometheus`, which the admin port serves anyway",
    "OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES": "who sends; `teeline` by default, with a "
    "`service.instance.id` made anew at each start",
    "OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG": "which clean exchanges have spans; those that "
    "broke a rule (warn, fail) always have. `parentbased_traceidratio` and `0.1` spare nine tenths "
    "of what spans cost",
    "OTEL_BSP_*, OTEL_BLRP_*": "queues of spans "
    f"({queues.SPANS.capacity}, sent {queues.SPANS.batch} at a time) and of log records "
    f"({queues.LOGS.capacity}, sent {queues.LOGS.batch} at a time)",
    "OTEL_METRIC_EXPORT_INTERVAL": "milliseconds between two exports of metrics, 60000",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "`cumulative`, `delta`, `lowmemory`",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT, OTEL_SPAN_EVENT_COUNT_LIMIT": "bounds, to be lowered only",
    "OTEL_SDK_DISABLED": "`true`: no export",
}

_LOSSES: Final = f"""\
The configuration adds `telemetry.span_events`, `telemetry.info_records` and `audit.otlp`.

A collector that is down, slow or refusing costs records, never traffic: queues are bounded, what they
can't hold is counted in `{names.EXPORT_DROPPED}` and said once a minute. Metrics lose nothing: what one
export could not deliver, the next one holds.

[examples/collector.yaml](examples/collector.yaml) is a configuration for the OpenTelemetry Collector;
[clickhouse.md](clickhouse.md) has one for ClickHouse and the questions of a review in SQL;
[examples/prometheus-rules.yaml](examples/prometheus-rules.yaml) has alerts,
[examples/grafana-dashboard.json](examples/grafana-dashboard.json) a dashboard.
"""

_SPANS: Final = """\
## Spans

One CLIENT span an exchange, `chat gpt-4o-mini`, from the request's head to its end, child of the
request's traceparent where it has one. It is an error where the operation failed; violations alone
make it none, they stand in `teeline.verdict`. Attributes of unknown facts are left out.
"""

_EVENTS: Final[Mapping[str, str]] = {
    names.VIOLATION_EVENT: "a rule is broken for the first time in an exchange, told while it goes "
    "on: warn 13, fail 17, and with `telemetry.info_records` info 9. The body is the message",
    names.SUMMARY_EVENT: "the window of a damped rule has ended",
    names.AUDIT_EVENT: "with `audit.otlp`: a line of the audit log was written. The body is the line, "
    "byte by byte",
    names.AUDIT_HEAD_EVENT: "with `audit.otlp`, once a minute and at the end: the head of the audit "
    "log's chain, which shows later that nothing is missing before it",
}

_RECORDS: Final = f"""\
A violation's record is in its exchange's trace context and says who it was, too. It is also an event
of the span, with the same attributes (`telemetry.span_events: false` leaves that out).

Damping: of a rule that an upstream breaks again and again, {damping.FIRST} records in
{damping.WINDOW / 60:.0f} minutes are sent, then one of {damping.EVERY}, with `{names.LEFT_OUT}`,
then a summary with the rule, the upstream, `{names.SINCE}`, `{names.COUNT}` and
`{names.LEFT_OUT}`.
Spans, metrics and the audit log have all of them.

An audit record has `{names.AUDIT_CHAIN}`, `{names.AUDIT_SEQ}`, `{names.AUDIT_PREV}` and
`{names.AUDIT_HASH}`, a head all but `{names.AUDIT_PREV}`: what is missing or was changed shows in the
collector's store as it does in the files ([ClickHouse](clickhouse.md)). The chain's own lines go
out, too, under their `{names.AUDIT_KIND}` (`open`, `lost`, `retention`, `close`), so that `seq` has no
gaps. Where no log is written (`audit.enabled: false`), records go out without these.
"""

_METRICS: Final = f"""\
## Metrics

By OTLP, and for Prometheus at `http://127.0.0.1:8788/metrics`, under the second
of the names. With several workers they are the sums over all of them, at most a second old, and don't
fall when one dies; spans and log records come from each worker. A model that no answer of a process
vouches for, and every one beyond the first hundred, is `{names.OTHER}`; a metric has at most
{metrics.SERIES} series, and what comes beyond them goes into one with `{names.OVERFLOW}`.
"""


def telemetry_page() -> str:
    """The whole page."""
    lines = [_TOP, *_table("variable", _VARIABLES), "", _LOSSES]
    lines += [_SPANS, *_table("attribute", {**WHO, **SPAN}), ""]
    lines += ["## Log records", "", *_table("event", _EVENTS), "", _RECORDS]
    lines += [*_table("attribute", VIOLATION), "", _METRICS]
    for instrument in INSTRUMENTS:
        lines += ["", *_metric(instrument)]
    return "\n".join(lines)


def _table(head: str, rows: Mapping[str, str]) -> Iterator[str]:
    """A table of names with what they mean; several names of one meaning stand in one row."""
    yield f"| {head} | what |"
    yield "|---|---|"
    for name, what in rows.items():
        yield f"| {', '.join(f'`{each}`' for each in name.split(', '))} | {what} |"


def _metric(instrument: Instrument) -> Iterator[str]:
    yield f"### {instrument.name}"
    yield ""
    yield f"`{metric_name(instrument)}`: {instrument.kind.value} in `{instrument.unit}`"
    yield ""
    yield instrument.description
    yield ""
    if instrument.attributes:
        yield f"By {', '.join(f'`{name}`' for name in instrument.attributes)}."
    if instrument.bounds:
        yield ""
        yield f"Buckets: {', '.join(f'{bound:.10g}' for bound in instrument.bounds)}."
