"""ClickHouse's embedded engine with what a collector got, in the tables of the Collector's exporter.

What belongs here: tables and rows as the contrib exporter makes them (its columns, its names of span
kinds and statuses, every attribute as text), and asking in a process of its own, since the engine
takes over signals. What doesn't: what is promised of the answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.proxy.telemetry.collector import Collector, attributes

_MAP: Final = "Map(LowCardinality(String), String)"
_METRIC: Final = (
    f"ResourceAttributes {_MAP}, ServiceName LowCardinality(String), MetricName String,"
    f" MetricDescription String, MetricUnit String, Attributes {_MAP},"
    " StartTimeUnix DateTime64(9), TimeUnix DateTime64(9)"
)
TABLES: Final = {
    "otel_logs": (
        "Timestamp DateTime64(9), TimestampTime DateTime DEFAULT toDateTime(Timestamp),"
        " TraceId String, SpanId String, TraceFlags UInt8, SeverityText LowCardinality(String),"
        " SeverityNumber UInt8, ServiceName LowCardinality(String), Body String,"
        f" ResourceAttributes {_MAP}, ScopeName String, ScopeVersion LowCardinality(String),"
        f" LogAttributes {_MAP}, EventName String",
        "(ServiceName, TimestampTime, Timestamp)",
    ),
    "otel_traces": (
        "Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String,"
        " SpanName LowCardinality(String), SpanKind LowCardinality(String),"
        f" ServiceName LowCardinality(String), ResourceAttributes {_MAP}, ScopeName String,"
        f" SpanAttributes {_MAP}, Duration UInt64, StatusCode LowCardinality(String),"
        " StatusMessage String, Events Nested (Timestamp DateTime64(9),"
        f" Name LowCardinality(String), Attributes {_MAP})",
        "(ServiceName, SpanName, toDateTime(Timestamp))",
    ),
    "otel_metrics_sum": (
        f"{_METRIC}, Value Float64, AggregationTemporality Int32, IsMonotonic Bool",
        "(ServiceName, MetricName, Attributes, TimeUnix)",
    ),
    "otel_metrics_histogram": (
        f"{_METRIC}, Count UInt64, Sum Float64, BucketCounts Array(UInt64),"
        " ExplicitBounds Array(Float64), AggregationTemporality Int32",
        "(ServiceName, MetricName, Attributes, TimeUnix)",
    ),
}
_KINDS: Final = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
_STATUSES: Final = ("Unset", "Ok", "Error")

_ASK: Final = """
import json, sys
from chdb.session import Session
session = Session()
answers = []
for statement, wants in json.load(sys.stdin):
    answer = session.query(statement, "JSONCompact")
    answers.append(json.loads(str(answer))["data"] if wants else None)
json.dump(answers, sys.stdout)
"""

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]


def rows(collector: Collector) -> dict[str, list[Row]]:
    """What arrived, by table."""
    return {
        "otel_logs": list(_logs(collector)),
        "otel_traces": list(_traces(collector)),
        **_metrics(collector),
    }


def answers(stored: Rows, *questions: str) -> list[list[list[Any]]]:
    """The rows of each answer; the values as ClickHouse writes them in JSON."""
    statements: list[tuple[str, bool]] = [
        ("CREATE DATABASE teeline", False),
        ("USE teeline", False),
    ]
    for table, (columns, order) in TABLES.items():
        statements.append(
            (f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY {order}", False)
        )
        if stored.get(table):
            lines = "\n".join(json.dumps(row) for row in stored[table])
            statements.append((f"INSERT INTO {table} FORMAT JSONEachRow {lines}", False))
    statements += [(question, True) for question in questions]
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        input=json.dumps(statements),
        env={**os.environ, "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[list[Any]]] = json.loads(done.stdout)[-len(questions) :]
    return found


def _logs(collector: Collector) -> Iterator[Row]:
    for request in collector.logs:
        for resource in request.resource_logs:
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    yield {
                        **_from(resource.resource),
                        "Timestamp": _time(record.time_unix_nano),
                        "TraceId": record.trace_id.hex(),
                        "SpanId": record.span_id.hex(),
                        "TraceFlags": record.flags & 1,
                        "SeverityText": record.severity_text,
                        "SeverityNumber": record.severity_number,
                        "Body": record.body.string_value,
                        "ScopeName": scope.scope.name,
                        "ScopeVersion": scope.scope.version,
                        "LogAttributes": _texts(record),
                        "EventName": record.event_name,
                    }


def _traces(collector: Collector) -> Iterator[Row]:
    for request in collector.traces:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    yield {
                        **_from(resource.resource),
                        "Timestamp": _time(span.start_time_unix_nano),
                        "TraceId": span.trace_id.hex(),
                        "SpanId": span.span_id.hex(),
                        "ParentSpanId": span.parent_span_id.hex(),
                        "SpanName": span.name,
                        "SpanKind": _KINDS[span.kind],
                        "ScopeName": scope.scope.name,
                        "SpanAttributes": _texts(span),
                        "Duration": span.end_time_unix_nano - span.start_time_unix_nano,
                        "StatusCode": _STATUSES[span.status.code],
                        "StatusMessage": span.status.message,
                        "Events.Timestamp": [_time(e.time_unix_nano) for e in span.events],
                        "Events.Name": [event.name for event in span.events],
                        "Events.Attributes": [_texts(event) for event in span.events],
                    }


def _metrics(collector: Collector) -> dict[str, list[Row]]:
    sums: list[Row] = []
    histograms: list[Row] = []
    for request in collector.metrics:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    data = getattr(metric, kind or "")
                    for point in data.data_points:
                        row = {
                            **_from(resource.resource),
                            "MetricName": metric.name,
                            "MetricDescription": metric.description,
                            "MetricUnit": metric.unit,
                            "Attributes": _texts(point),
                            "StartTimeUnix": _time(point.start_time_unix_nano),
                            "TimeUnix": _time(point.time_unix_nano),
                            "AggregationTemporality": data.aggregation_temporality,
                        }
                        if kind == "sum":
                            row |= {"Value": float(point.as_int), "IsMonotonic": data.is_monotonic}
                            sums.append(row)
                        else:
                            row |= {
                                "Count": point.count,
                                "Sum": point.sum,
                                "BucketCounts": list(point.bucket_counts),
                                "ExplicitBounds": list(point.explicit_bounds),
                            }
                            histograms.append(row)
    return {"otel_metrics_sum": sums, "otel_metrics_histogram": histograms}


def _from(resource: Any) -> Row:
    found = _texts(resource)
    return {"ResourceAttributes": found, "ServiceName": found.get("service.name", "")}


def _texts(of: Any) -> dict[str, str]:
    return {name: _text(value) for name, value in attributes(of).items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _time(nanoseconds: int) -> str:
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"
