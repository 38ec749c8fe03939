"""Telemetry of real traffic: it holds no content and no key, and its absence is not felt.

What belongs here: promises that need the proxy, the sinks and a collector together. What doesn't:
fields and numbers (tests/proxy/telemetry).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner

from teeline.proxy.audit.record import Origin
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.cli.audit import command
from teeline.proxy.telemetry import prometheus
from teeline.proxy.telemetry.metrics import MetricsSink
from teeline.proxy.telemetry.sink import Choices, TelemetrySink
from teeline.validators.events import Closed, Found, Opened
from tests.proxy.raw import Recorder, answering, ask, client, proxy, run
from tests.proxy.samples import exchange, violation
from tests.proxy.telemetry.collector import Collector, attributes, collecting

KEY = "sk-planted-0123456789abcdef"
CONTENT = "planted words of a conversation"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SERVERS = {"relay": ("127.0.0.1", 1)}
EVERYTHING = Choices(info_records=True, audit_records=True, chained=True)


def request(body: object, **headers: str) -> bytes:
    content = json.dumps(body).encode()
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"POST /v1/chat/completions?key={KEY} HTTP/1.1\r\nHost: h\r\n"
        f"Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n{fields}"
        f"Content-Length: {len(content)}\r\n\r\n"
    ).encode() + content


def stream(*chunks: object) -> bytes:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def chunk(delta: object, finish: str | None = None, **more: object) -> dict[str, object]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_796_040_067,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


ASKED = {
    "model": "gpt-4o-mini",
    "stream": True,
    "temperature": 0.5,
    "max_completion_tokens": 32,
    "stop": [CONTENT],
    "user": CONTENT,
    "metadata": {CONTENT: KEY},
    "messages": [{"role": "user", "content": f"{CONTENT} {KEY}"}],
}
ANSWER = stream(
    chunk({"role": "assistant", "content": CONTENT}, service_tier="default"),
    chunk({"content": KEY, CONTENT: KEY}),
    chunk({"content": 5, "tool_calls": CONTENT}),
    chunk({}, "stop", service_tier="default", system_fingerprint="fp_1"),
)
"""Broken in several ways, each beside content: no [DONE], odd types, members that nobody knows."""


async def export(collector: Collector, answer: bytes, asked: bytes, tmp_path: Path) -> str:
    """One exchange through the proxy with all sinks; gives the page that Prometheus gets."""
    metrics = MetricsSink(SERVERS)
    telemetry = TelemetrySink.from_environment(
        collector.environ, servers=SERVERS, choices=EVERYTHING, meter=metrics.meter
    )
    assert telemetry is not None
    audit = AuditSink(
        tmp_path / "audit",
        origin=Origin("1", "r"),
        tell=telemetry.witnessed,
        on_written=telemetry.written,
    )
    async with (
        answering(answer) as upstream,
        proxy(upstream.url, metrics, audit, telemetry) as teeline,
    ):
        received = await ask(teeline.port, asked)
        assert received.head + received.body == answer
    return prometheus.render(metrics.meter.snapshot())


def test_a_planted_key_and_planted_content_are_in_no_export(tmp_path: Path) -> None:
    """Not in spans, span events, log records, audit records, metrics, nor the Prometheus page."""
    with collecting() as collector:
        page = run(export(collector, ANSWER, request(ASKED), tmp_path))
    assert len(collector.spans) == 1
    events = {record.event_name for record in collector.records}
    assert events >= {"teeline.violation", "teeline.audit.record", "teeline.audit.head"}
    assert collector.points("teeline.violations")
    sent = b"".join(collector.bodies) + page.encode()
    for planted in (KEY, CONTENT, "planted"):
        assert planted.encode() not in sent


def test_a_planted_key_and_planted_content_are_in_no_file_and_in_no_commands_output(
    tmp_path: Path,
) -> None:
    """Not in the log, the index, nor in anything that is said of them."""
    folder = tmp_path / "audit"
    with collecting() as collector:
        run(export(collector, ANSWER, request(ASKED), tmp_path))
    said = b""
    (record,) = [r for r in collector.records if "teeline.exchange.id" in attributes(r)][-1:]
    id_ = attributes(record)["teeline.exchange.id"]
    for arguments in (
        *(
            ("list",),
            ("list", "--format", "json"),
            ("show", id_),
            ("show", id_, "--format", "json"),
        ),
        *(("stats",), ("score", "--format", "json"), ("tail", "--no-follow")),
        *(("export",), ("export", "--as", "exchanges"), ("export", "--as", "har")),
    ):
        result = CliRunner().invoke(command, [*arguments, "--dir", str(folder)])
        assert result.exit_code == 0, result.output
        said += result.stdout_bytes + result.stderr_bytes
    assert said.count(id_.encode()) >= 5
    stored = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert "index.sqlite3" in stored
    for planted in (KEY, CONTENT, "planted"):
        assert planted.encode() not in said
        assert [name for name, data in stored.items() if planted.encode() in data] == []


def test_an_exchange_is_told_by_its_facts_in_the_clients_trace(tmp_path: Path) -> None:
    asked = request(ASKED, traceparent=f"00-{TRACE}-b7ad6b7169203331-00")
    with collecting() as collector:
        run(export(collector, ANSWER, asked, tmp_path))
    (span,) = collector.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, "b7ad6b7169203331")
    found = attributes(span)
    assert found["gen_ai.request.max_tokens"] == 32
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["openai.response.service_tier"] == "default"
    assert found["openai.response.system_fingerprint"] == "fp_1"
    assert found["gen_ai.response.finish_reasons"] == ["stop"]
    assert found["teeline.verdict"] == "fail"
    assert {record.trace_id.hex() for record in collector.records} == {TRACE, ""}


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_796_040_067,
    "status": "completed",
    "model": "gpt-4o-mini",
    "output": [],
    "service_tier": "flex",
    "usage": {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 16,
    },
}
EMBEDDING = {
    "object": "list",
    "model": "text-embedding-3-small",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.5]}],
    "usage": {"prompt_tokens": 3, "total_tokens": 3},
}
COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1_796_040_067,
    "model": "gpt-3.5-turbo-instruct",
    "choices": [{"index": 0, "text": "x", "logprobs": None, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3},
}


@pytest.mark.parametrize(
    ("path", "asked", "answer", "told"),
    [
        (
            "responses",
            {"model": "gpt-4o-mini", "input": "x", "max_output_tokens": 8, "service_tier": "flex"},
            RESPONSE,
            {
                "gen_ai.operation.name": "chat",
                "openai.api.type": "responses",
                "gen_ai.request.max_tokens": 8,
                "openai.request.service_tier": "flex",
                "openai.response.service_tier": "flex",
                "gen_ai.response.id": "resp_1",
                "gen_ai.response.finish_reasons": ["completed"],
                "gen_ai.usage.input_tokens": 9,
                "gen_ai.usage.cache_read.input_tokens": 4,
                "gen_ai.usage.output_tokens": 7,
                "gen_ai.usage.reasoning.output_tokens": 5,
            },
        ),
        (
            "embeddings",
            {
                "model": "text-embedding-3-small",
                "input": "x",
                "dimensions": 2,
                "encoding_format": "float",
            },
            EMBEDDING,
            {
                "gen_ai.operation.name": "embeddings",
                "gen_ai.request.encoding_formats": ["float"],
                "gen_ai.embeddings.dimension.count": 2,
                "gen_ai.response.model": "text-embedding-3-small",
                "gen_ai.usage.input_tokens": 3,
            },
        ),
        (
            "completions",
            {"model": "gpt-3.5-turbo-instruct", "prompt": "x", "max_tokens": 1, "n": 1},
            COMPLETION,
            {
                "gen_ai.operation.name": "text_completion",
                "gen_ai.request.max_tokens": 1,
                "gen_ai.response.finish_reasons": ["length"],
                "gen_ai.usage.input_tokens": 2,
                "gen_ai.usage.output_tokens": 1,
            },
        ),
    ],
    ids=["responses", "embeddings", "completions"],
)
def test_operations_are_told_under_the_conventions_names(
    path: str, asked: object, answer: object, told: dict[str, object], tmp_path: Path
) -> None:
    content = json.dumps(answer).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    sent = request(asked).replace(b"chat/completions", path.encode())
    with collecting() as collector:
        run(export(collector, head % len(content) + content, sent, tmp_path))
    found = attributes(collector.spans[0])
    assert {name: found.get(name) for name in told} == told
    assert "gen_ai.response.time_to_first_chunk" not in found
    usage = collector.points("gen_ai.client.token.usage")
    counts = {attributes(point)["gen_ai.token.type"]: point.sum for point in usage}
    assert counts["input"] == told["gen_ai.usage.input_tokens"]
    assert counts.get("output") == told.get("gen_ai.usage.output_tokens")
    (duration,) = collector.points("gen_ai.client.operation.duration")
    assert attributes(duration)["gen_ai.operation.name"] == told["gen_ai.operation.name"]


def test_the_last_head_of_the_audit_log_reaches_the_collector(tmp_path: Path) -> None:
    with collecting() as collector:
        run(export(collector, ANSWER, request(ASKED), tmp_path))
    heads = [attributes(r) for r in collector.records if r.event_name == "teeline.audit.head"]
    (file,) = (tmp_path / "audit").glob("*.jsonl")
    last = json.loads(file.read_text().splitlines()[-1])
    assert last["kind"] == "close"
    assert heads[-1]["teeline.audit.seq"] == last["seq"]
    assert heads[-1]["teeline.audit.hash"] == last["hash"]


@pytest.mark.parametrize("state", ["slow", "refusing", "down"])
def test_a_collector_that_fails_is_not_felt_by_traffic(
    state: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers are the same bytes, in the same time, and what is lost is counted exactly."""
    count = 40

    async def test(environ: dict[str, str]) -> TelemetrySink:
        metrics = MetricsSink(SERVERS)
        telemetry = TelemetrySink.from_environment(environ, meter=metrics.meter)
        assert telemetry is not None
        seen = Recorder()
        async with (
            answering(ANSWER) as upstream,
            proxy(upstream.url, seen, metrics, telemetry) as teeline,
            client(teeline.port) as wire,
        ):
            for _ in range(count):
                began = time.monotonic()
                await wire.send(request(ASKED))
                received = await wire.read_message()
                assert received.head + received.body == ANSWER
                assert time.monotonic() - began < 2
            while len(seen.exchanges) < count:
                await asyncio.sleep(0.01)
            await telemetry.close()
        return telemetry

    caplog.set_level(logging.ERROR)
    with collecting() as collector:
        if state == "slow":
            collector.answering.clear()
        elif state == "refusing":
            collector.status = 503
        environ = {
            **collector.environ,
            "OTEL_BSP_MAX_QUEUE_SIZE": "16",
            "OTEL_BLRP_MAX_QUEUE_SIZE": "16",
            "OTEL_BSP_SCHEDULE_DELAY": "10",
        }
        if state == "down":
            environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
        telemetry = run(test(environ))
    assert telemetry.dropped["traces"] + telemetry.exported["traces"] <= count
    if state != "slow":
        assert telemetry.dropped["traces"] == count
    assert caplog.messages == []


def test_memory_is_bounded_while_nothing_is_taken() -> None:
    """A collector that hangs: ten times the exchanges hold no more memory."""

    async def test(collector: Collector) -> None:
        metrics = MetricsSink(SERVERS)
        environ = {
            **collector.environ,
            "OTEL_BSP_MAX_QUEUE_SIZE": "200",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "100",
            "OTEL_BLRP_MAX_QUEUE_SIZE": "200",
            "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE": "100",
        }
        telemetry = TelemetrySink.from_environment(environ, meter=metrics.meter)
        assert telemetry is not None
        await metrics.start()
        await telemetry.start()

        async def observe(count: int) -> int:
            for number in range(count):
                made = exchange(violation(f"family.rule-{number % 50}"), model=f"model-{number}")
                for sink in (metrics, telemetry):
                    sink.opened(Opened(made))
                    sink.found(Found(made, made.violations[0]))
                    sink.closed(Closed(made))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            await metrics.drain(30)
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = await observe(1000)
            after = await observe(10_000)
        finally:
            tracemalloc.stop()
        assert after - before < 500_000
        collector.answering.set()
        await telemetry.close()
        await metrics.close()
        told = telemetry.dropped["traces"] + telemetry.exported["traces"]
        assert told == 11_000

    with collecting() as collector:
        collector.answering.clear()
        run(test(collector))
