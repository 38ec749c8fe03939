"""What teeline observes arrives at a collector, exactly once, and a collector's absence costs nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from teeline.proxy.audit.chain import digest_of, parse
from teeline.proxy.audit.record import exchange_record
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.telemetry.queues import Queueing
from teeline.proxy.telemetry.sink import Choices, TelemetrySink
from teeline.validators.events import Closed, Found
from teeline.validators.model import Ended, Exchange, Marks, Severity, Side
from tests.proxy.audit.logs import ORIGIN, Clock, files
from tests.proxy.samples import START, exchange, violation
from tests.proxy.telemetry.collector import Collector, attributes, collecting

LONG = 60.0


@pytest.fixture(name="collector")
def running_collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def run(sink: TelemetrySink | None, use: Callable[[TelemetrySink], Awaitable[None]]) -> None:
    async def go() -> None:
        assert sink is not None
        await sink.start()
        try:
            await use(sink)
        finally:
            await sink.close()
            await sink.close()

    asyncio.run(go())


def observe(sink: TelemetrySink, *made: Exchange) -> None:
    for each in made:
        for found in each.violations:
            sink.found(Found(each, found))
        sink.closed(Closed(each))


def export(collector: Collector, *made: Exchange, **environ: str) -> None:
    """Sends exchanges through a sink that the environment set up, to a collector."""

    async def use(sink: TelemetrySink) -> None:
        observe(sink, *made)
        await sink.drain(LONG)

    sink = TelemetrySink.from_environment(
        collector.environ | environ,
        version="1.2.3",
        servers={"my-relay": ("relay.example", 443)},
    )
    run(sink, use)


def test_an_exchange_arrives_as_a_span_with_its_own_ids_and_times(collector: Collector) -> None:
    made = exchange(trace_id="ab" * 16, span_id="cd" * 8, parent_span_id="ef" * 8)
    export(collector, made)
    (span,) = collector.spans
    assert span.trace_id.hex() == "ab" * 16
    assert span.span_id.hex() == "cd" * 8
    assert span.parent_span_id.hex() == "ef" * 8
    assert span.name == "chat gpt-4o-mini"
    assert span.kind == span.SPAN_KIND_CLIENT
    assert span.start_time_unix_nano == round(START * 1e9)
    assert span.end_time_unix_nano == round((START + 1.5) * 1e9)
    assert span.status.code == span.status.STATUS_CODE_UNSET


def test_a_span_says_all_that_is_known_under_the_conventions_names(collector: Collector) -> None:
    made = exchange(
        usage={
            "prompt_tokens": 9,
            "prompt_tokens_details.cached_tokens": 4,
            "prompt_tokens_details.cache_write_tokens": 2,
        },
        settings={
            "max_tokens": 64,
            "temperature": 1,
            "top_p": 0.5,
            "frequency_penalty": 0,
            "presence_penalty": 0.1,
            "seed": 7,
            "choices": 2,
            "output": "json",
            "service_tier": "auto",
        },
        service_tier="default",
        marks=Marks(fingerprint="fp_1"),
    )
    export(collector, made)
    assert attributes(collector.spans[0]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 2,
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.top_p": 0.5,
        "gen_ai.request.frequency_penalty": 0.0,
        "gen_ai.request.presence_penalty": 0.1,
        "gen_ai.request.seed": 7,
        "gen_ai.request.choice.count": 2,
        "gen_ai.output.type": "json",
        "openai.request.service_tier": "auto",
        "openai.response.service_tier": "default",
        "openai.response.system_fingerprint": "fp_1",
        "openai.api.type": "chat_completions",
        "http.response.status_code": 200,
        "server.address": "relay.example",
        "server.port": 443,
        "teeline.exchange.id": made.id,
        "teeline.upstream": "my-relay",
        "teeline.verdict": "pass",
        "teeline.client_verdict": "pass",
        "teeline.violations": 0,
        "teeline.inspection": "full",
        "teeline.ended": "complete",
    }


def test_the_resource_says_who_sends(collector: Collector) -> None:
    export(collector, exchange(), OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=te%20st")
    (resource,) = collector.traces[0].resource_spans
    found = attributes(resource.resource)
    assert found["service.name"] == "teeline"
    assert found["service.version"] == "1.2.3"
    assert found["deployment.environment.name"] == "te st"
    assert resource.scope_spans[0].scope.name == "teeline"
    assert resource.scope_spans[0].scope.version == "1.2.3"


def test_a_violation_arrives_as_a_log_record_in_its_spans_context(collector: Collector) -> None:
    made = exchange(violation())
    export(collector, made)
    (record,) = collector.records
    assert record.event_name == "teeline.violation"
    assert record.trace_id.hex() == made.trace_id
    assert record.span_id.hex() == made.span_id
    assert record.flags == 1
    assert record.time_unix_nano == round((START + 1.5) * 1e9)
    assert record.body.string_value == "the stream ended without [DONE]"
    assert (record.severity_number, record.severity_text) == (17, "ERROR")
    found = attributes(record)
    assert found["teeline.rule"] == "chatstream.done-missing"
    assert found["teeline.severity"] == "fail"
    assert found["teeline.side"] == Side.RESPONSE
    assert found["teeline.place.unit"] == "event"
    assert found["teeline.place.index"] == 12
    assert found["teeline.place.byte"] == 2345
    assert found["teeline.place.pointer"] == "/choices/0/delta"
    assert found["teeline.evidence"] == '"finish_reason": "stop"'
    assert found["teeline.upstream"] == "my-relay"
    assert found["gen_ai.request.model"] == "gpt-4o-mini"


@pytest.mark.parametrize(
    ("severity", "number"), [(Severity.INFO, 9), (Severity.WARN, 13), (Severity.FAIL, 17)]
)
def test_severities_are_those_of_opentelemetry(
    collector: Collector, severity: Severity, number: int
) -> None:
    async def use(sink: TelemetrySink) -> None:
        observe(sink, exchange(violation(severity=severity)))
        await sink.drain(LONG)

    everything = Choices(info_records=True)
    run(TelemetrySink.from_environment(collector.environ, choices=everything), use)
    assert collector.records[0].severity_number == number


def test_violations_are_mirrored_as_span_events_and_fail_nothing(collector: Collector) -> None:
    export(collector, exchange(violation(), violation("usage.x", Severity.WARN)))
    (span,) = collector.spans
    assert [event.name for event in span.events] == ["teeline.violation"] * 2
    assert attributes(span.events[0])["teeline.rule"] == "chatstream.done-missing"
    assert attributes(span.events[0])["teeline.message"] == "the stream ended without [DONE]"
    assert attributes(span)["teeline.violations"] == 2
    assert attributes(span)["teeline.verdict"] == "fail"
    assert "error.type" not in attributes(span)
    assert span.status.code == span.status.STATUS_CODE_UNSET


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"status": 429}, "429"),
        ({"ended": Ended.UPSTREAM_ABORTED}, "upstream_aborted"),
        ({"ended": Ended.REFUSED, "status": None}, "refused"),
        ({"ended": Ended.TIMEOUT}, "timeout"),
        ({"error_type": "server_error"}, "server_error"),
        ({"error_type": "any words a relay likes"}, "_OTHER"),
    ],
)
def test_a_failed_operation_is_an_error(
    collector: Collector, changes: dict[str, Any], error: str
) -> None:
    export(collector, exchange(**changes))
    (span,) = collector.spans
    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert attributes(span)["error.type"] == error


@pytest.mark.parametrize("ended", [Ended.COMPLETE, Ended.CLIENT_CLOSED, Ended.SHUTDOWN])
def test_other_ends_are_none(collector: Collector, ended: Ended) -> None:
    export(collector, exchange(ended=ended))
    assert "error.type" not in attributes(collector.spans[0])


def test_hostile_values_arrive_bounded_and_escaped(collector: Collector) -> None:
    evil = "\ud800\x1b[31m" + "x" * 5000
    made = exchange(
        violation(message=evil, evidence=evil),
        model=evil,
        response_model=evil,
        finish=[evil] * 200,
        usage={"prompt_tokens": 10**30, evil: 1},
    )
    export(collector, made)
    (span,) = collector.spans
    assert span.name == "chat"
    found = attributes(span)
    assert found["gen_ai.request.model"].startswith("\\ud800\\x1b[31mxxx")
    assert len(found["gen_ai.request.model"]) == 200
    assert len(found["gen_ai.response.finish_reasons"]) == 16
    assert found["gen_ai.usage.input_tokens"] == 2**63 - 1
    assert len(collector.records[0].body.string_value) == 200
    assert b"\x1b[31m" not in span.SerializeToString()


def test_attribute_limits_of_the_environment_hold(collector: Collector) -> None:
    export(
        collector,
        exchange(*[violation()] * 5, model="m" * 100),
        OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT="20",
        OTEL_SPAN_EVENT_COUNT_LIMIT="2",
    )
    (span,) = collector.spans
    assert len(attributes(span)["gen_ai.request.model"]) == 20
    assert (len(span.events), span.dropped_events_count) == (2, 3)


def test_headers_and_compression_come_from_the_environment(collector: Collector) -> None:
    export(
        collector,
        exchange(),
        OTEL_EXPORTER_OTLP_HEADERS="x-tenant=blue",
        OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
    )
    assert len(collector.spans) == 1
    assert collector.headers[0]["x-tenant"] == "blue"
    assert collector.headers[0]["content-encoding"] == "gzip"


def test_a_signal_can_be_left_out(collector: Collector) -> None:
    export(collector, exchange(violation()), OTEL_LOGS_EXPORTER="none")
    assert (len(collector.spans), len(collector.records)) == (1, 0)
    export(collector, exchange(violation()), OTEL_TRACES_EXPORTER="none")
    assert (len(collector.spans), len(collector.records)) == (1, 1)


def test_a_sampler_decides_on_clean_traffic_alone_and_sampling_is_no_loss(
    collector: Collector,
) -> None:
    clean = exchange()
    observed = exchange(violation("timing.x", Severity.INFO))
    broken = [exchange(violation(severity=s)) for s in (Severity.WARN, Severity.FAIL)]

    async def use(sink: TelemetrySink) -> None:
        observe(sink, clean, observed, *broken)
        await sink.drain(LONG)
        assert sink.dropped == {"traces": 0, "logs": 0}

    run(
        TelemetrySink.from_environment(collector.environ | {"OTEL_TRACES_SAMPLER": "always_off"}),
        use,
    )
    assert {span.span_id.hex() for span in collector.spans} == {each.span_id for each in broken}
    # Each record says that there is a span to look for.
    assert [record.flags for record in collector.records] == [1, 1]


def test_a_client_that_samples_nothing_doesnt_silence_violations(collector: Collector) -> None:
    unsampled = {"parent_span_id": "0c" * 8, "parent_sampled": False}
    clean, broken = exchange(**unsampled), exchange(violation(), **unsampled)
    export(collector, clean, broken)
    (span,) = collector.spans
    assert span.span_id.hex() == broken.span_id
    assert collector.records[0].flags == 1


def test_observations_are_records_only_where_that_is_configured(collector: Collector) -> None:
    made = exchange(violation("timing.slow", Severity.INFO))
    export(collector, made)
    assert collector.records == []
    assert attributes(collector.spans[0])["teeline.violations"] == 1

    async def use(sink: TelemetrySink) -> None:
        observe(sink, made)
        await sink.drain(LONG)

    run(
        TelemetrySink.from_environment(collector.environ, choices=Choices(info_records=True)),
        use,
    )
    assert attributes(collector.records[0])["teeline.rule"] == "timing.slow"


def test_a_rule_broken_in_every_exchange_is_damped_and_summed_up(collector: Collector) -> None:
    """The first 25 in full, then one of 100 with the count of those left out, then a summary."""

    async def use(sink: TelemetrySink) -> None:
        observe(sink, *[exchange(violation()) for _ in range(275)])
        sink.summarize(START, last=True)
        await sink.drain(LONG)

    run(TelemetrySink.from_environment(collector.environ), use)
    told = [attributes(r) for r in collector.records if r.event_name == "teeline.violation"]
    assert len(told) == 27
    assert [each["teeline.left_out"] for each in told[25:]] == [99, 99]
    assert all("teeline.left_out" not in each for each in told[:25])
    (summary,) = [r for r in collector.records if r.event_name == "teeline.violation.summary"]
    assert summary.severity_number == 17
    found = attributes(summary)
    assert found["teeline.rule"] == "chatstream.done-missing"
    assert found["teeline.upstream"] == "my-relay"
    assert (found["teeline.count"], found["teeline.left_out"]) == (275, 248)
    assert found["teeline.since"] == "2026-11-30T12:01:08.750000Z"
    assert len(collector.spans) == 275


def test_audit_records_and_heads_are_log_records_where_that_is_configured(
    collector: Collector,
) -> None:
    made = exchange(violation())

    async def use(sink: TelemetrySink) -> None:
        observe(sink, made)
        sink.witnessed(START, "chain-1", 7, "ab" * 32)
        await sink.drain(LONG)

    run(
        TelemetrySink.from_environment(collector.environ, choices=Choices(audit_records=True)),
        use,
    )
    by_event = {record.event_name: record for record in collector.records}
    record = by_event["teeline.audit.record"]
    assert "teeline.audit.chain" not in attributes(record)
    assert json.loads(record.body.string_value) == exchange_record(made)
    assert record.span_id.hex() == made.span_id
    assert attributes(record)["teeline.verdict"] == "fail"
    assert attributes(record)["teeline.exchange.id"] == made.id
    assert attributes(by_event["teeline.audit.head"]) == {
        "teeline.audit.chain": "chain-1",
        "teeline.audit.seq": 7,
        "teeline.audit.hash": "ab" * 32,
    }


def test_lines_of_the_audit_log_go_out_with_their_place_in_the_chain(
    collector: Collector, tmp_path: Path
) -> None:
    """Field by field; the body is the line, so that whoever stores it can check it."""
    made = exchange(violation(), status=200, parent_span_id="b7ad6b7169203331")

    async def use(sink: TelemetrySink) -> None:
        log = AuditSink(
            tmp_path, origin=ORIGIN, clock=Clock(), tell=sink.witnessed, on_written=sink.written
        )
        await log.start()
        for told in (sink, log):
            told.closed(Closed(made))
        await log.drain(LONG)
        await sink.drain(LONG)
        await log.close()

    choices = Choices(audit_records=True, chained=True)
    run(TelemetrySink.from_environment(collector.environ, choices=choices), use)
    records = [r for r in collector.records if r.event_name == "teeline.audit.record"]
    lines = files(tmp_path)[0].read_bytes().splitlines()
    assert [record.body.string_value.encode() for record in records] == lines
    found = [attributes(record) for record in records]
    assert [each.get("teeline.audit.kind") for each in found] == ["open", None, "close"]
    assert [each["teeline.audit.seq"] for each in found] == [1, 2, 3]
    assert {each["teeline.audit.chain"] for each in found} == {parse(lines[0]).chain}
    assert [each["teeline.audit.hash"] for each in found] == [digest_of(line) for line in lines]
    assert [each["teeline.audit.prev"] for each in found] == [
        "0" * 64,
        *(each["teeline.audit.hash"] for each in found[:-1]),
    ]
    opened, recorded, closed = records
    assert recorded.time_unix_nano == round((START + 1.5) * 1e9)
    assert opened.time_unix_nano == closed.time_unix_nano == round(START * 1e9)
    assert (recorded.trace_id.hex(), recorded.span_id.hex()) == (made.trace_id, made.span_id)
    assert (opened.trace_id, opened.span_id) == (b"", b"")
    assert set(found[0]) == {f"teeline.audit.{x}" for x in ("chain", "seq", "prev", "hash", "kind")}
    assert found[1] == {
        "teeline.audit.chain": parse(lines[1]).chain,
        "teeline.audit.seq": 2,
        "teeline.audit.prev": parse(lines[1]).prev,
        "teeline.audit.hash": parse(lines[1]).hash,
        "teeline.exchange.id": made.id,
        "teeline.upstream": "my-relay",
        "gen_ai.provider.name": "openai",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "teeline.verdict": "fail",
        "teeline.client_verdict": "pass",
        "http.response.status_code": 200,
        "teeline.ended": "complete",
    }
    head = [r for r in collector.records if r.event_name == "teeline.audit.head"][-1]
    assert attributes(head)["teeline.audit.hash"] == found[-1]["teeline.audit.hash"]


def test_span_events_can_be_switched_off(collector: Collector) -> None:
    async def use(sink: TelemetrySink) -> None:
        observe(sink, exchange(violation()))
        await sink.drain(LONG)

    run(TelemetrySink.from_environment(collector.environ, choices=Choices(span_events=False)), use)
    assert list(collector.spans[0].events) == []


def test_many_exchanges_arrive_once_each(collector: Collector) -> None:
    made = [exchange() for _ in range(1500)]
    export(collector, *made)
    assert sorted(span.span_id.hex() for span in collector.spans) == sorted(e.span_id for e in made)


def test_a_collector_that_refuses_is_told_of_once_and_counted(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 403

    async def use(sink: TelemetrySink) -> None:
        for _ in range(3):
            observe(sink, exchange())
            await sink.drain(LONG)
        assert sink.dropped == {"traces": 3, "logs": 0}
        collector.status = 200
        observe(sink, exchange())
        await sink.drain(LONG)
        assert sink.exported["traces"] == 1

    caplog.set_level(logging.INFO)
    run(TelemetrySink.from_environment(collector.environ), use)
    assert caplog.messages == [
        "telemetry: spans could not be exported (HTTP 403); 1 lost so far; traffic goes on",
        "telemetry: the collector takes spans again",
    ]


def test_a_dead_collector_never_blocks_or_grows_or_prints(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/?key=sk-secret"

        async def use(sink: TelemetrySink) -> None:
            observe(sink, *[exchange(violation()) for _ in range(500)])
            with pytest.raises(TimeoutError):
                await sink.drain(0.01)
            await sink.close()
            # A rule that all break is damped: 25, one of a hundred, and the summary.
            assert sink.dropped == {"traces": 500, "logs": 30}

        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_BSP_MAX_QUEUE_SIZE": "100",
            "OTEL_BLRP_MAX_QUEUE_SIZE": "100",
        }
        run(TelemetrySink.from_environment(environ), use)
    assert "sk-secret" not in caplog.text
    assert "Traceback" not in caplog.text
    assert capfd.readouterr() == ("", "")


class Held(InMemorySpanExporter):
    """A collector that doesn't answer until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.entered = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.go.wait()
        return super().export(spans)


def test_what_a_full_queue_refuses_is_counted_exactly() -> None:
    held = Held()

    async def use(sink: TelemetrySink) -> None:
        observe(sink, exchange(), exchange())
        await asyncio.to_thread(held.entered.wait)
        observe(sink, *[exchange() for _ in range(50)])
        assert sink.dropped["traces"] == 40
        held.go.set()
        await sink.drain(LONG)
        assert sink.exported["traces"] == 12

    queueing = Queueing(capacity=10, batch=2, delay_ms=LONG * 1000)
    sink = TelemetrySink(held, None, resource=Resource.get_empty(), span_queueing=queueing)
    run(sink, use)
    assert len(held.get_finished_spans()) == 12


class Broken(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("sk-secret")


def test_a_broken_exporter_is_counted_and_never_quoted(caplog: pytest.LogCaptureFixture) -> None:
    async def use(sink: TelemetrySink) -> None:
        observe(sink, exchange())
        await sink.drain(LONG)
        assert sink.dropped["traces"] == 1

    run(TelemetrySink(Broken(), None, resource=Resource.get_empty()), use)
    assert caplog.messages == [
        "telemetry: spans could not be exported (RuntimeError); 1 lost so far; traffic goes on"
    ]


def test_an_exchange_that_can_not_be_told_costs_itself_alone() -> None:
    memory = InMemorySpanExporter()

    async def use(sink: TelemetrySink) -> None:
        observe(sink, exchange(), exchange(trace_id="no number"), exchange())
        await sink.drain(LONG)
        assert sink.dropped["traces"] == 1

    run(TelemetrySink(memory, None, resource=Resource.get_empty()), use)
    assert len(memory.get_finished_spans()) == 2


def test_closing_is_safe_unstarted() -> None:
    async def go() -> None:
        await TelemetrySink(None, None, resource=Resource.get_empty()).close()

    asyncio.run(go())
