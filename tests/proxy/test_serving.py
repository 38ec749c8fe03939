"""A process that serves is built as it is configured, tells the truth of itself, and adds up with others."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest

from teeline.proxy.console import ConsoleSink
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.serving import Facts, ServingProcess, choices, warm_up
from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.damping import FIRST
from teeline.proxy.telemetry.sink import TelemetrySink
from teeline.proxy.workers import WorkerError
from tests.proxy.raw import answering, ask, run
from tests.proxy.telemetry.collector import Collector, collecting
from tests.proxy.workers import GET, configured

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"


def test_one_process_tells_of_itself_what_it_did(tmp_path: Path) -> None:
    async def test() -> None:
        async with answering(HTML) as upstream:
            config = configured(upstream.url, tmp_path, 1)
            service = ServingProcess(config, {}, ConsoleSink(io.StringIO()))
            assert not service.accepting
            (listener,) = await service.start()
            assert service.accepting
            for _ in range(3):
                assert (await ask(listener.port, GET)).status == 200
            await service.stop(10)
            await service.close()
        facts = service.facts()
        assert (facts.requests, facts.open, facts.failures, len(facts.chains)) == (3, 0, {}, 1)
        assert list(service.meter.values(instruments.EXCHANGES).values()) == [3]
        assert service.meter.values(instruments.AUDIT_RECORDS) == {(): 3}
        assert service.workers() is None
        assert not service.otlp and not service.accepting
        # Told of several processes only.
        assert service.meter.values(instruments.WORKERS) == {}

    run(test())


def test_a_process_whose_metrics_another_one_tells_sends_spans_alone() -> None:
    async def test(collector: Collector) -> None:
        async with answering(HTML) as upstream:
            config = configured(upstream.url, None, 1)
            service = ServingProcess(
                config,
                collector.environ,
                ConsoleSink(io.StringIO()),
                tells_metrics=False,
            )
            (listener,) = await service.start()
            await ask(listener.port, GET)
            await service.stop(10)
            await service.close()
        assert service.otlp
        assert service.facts().exported["traces"] == 1
        assert (len(collector.spans), collector.metrics) == (1, [])

    with collecting() as collector:
        run(test(collector))


def test_what_is_told_before_damping_is_divided_among_processes() -> None:
    config = configured("http://h", None)
    alone, shared = choices(config), choices(config, 5)
    assert (alone.share, shared.share) == (1, 5)
    with collecting() as collector:
        for of, first in ((alone, FIRST), (shared, FIRST // 5)):
            sink = TelemetrySink.from_environment(collector.environ, choices=of)
            assert sink is not None
            assert sink._damper._first == first


def test_facts_add_up_and_cross_as_json() -> None:
    one = Facts(3, 2, {"audit": 1}, {"traces": 5}, ["a"])
    two = Facts(4, 1, {"audit": 2, "console": 1}, {"traces": 1, "logs": 0}, ["b"])
    both = one.plus(two)
    assert both == Facts(7, 3, {"audit": 3, "console": 1}, {"traces": 6, "logs": 0}, ["a", "b"])
    assert Facts.read(json.loads(json.dumps(dataclasses.asdict(both)))) == both


def test_what_stays_of_a_process_that_is_gone_is_what_it_did() -> None:
    gone = Facts(3, 2, {"audit": 1}, {"traces": 5}, ["a"]).left_behind()
    assert gone == Facts(3, 0, {"audit": 1}, {"traces": 5}, [])


def test_the_pools_have_the_bounds_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured(
        "http://h",
        None,
        schema={"processes": 2, "queue": 3, "memory": 4, "timeout": 5},
        inspect_pool={"processes": 6, "queue": 7, "memory": 8, "timeout": 9, "patience": 10},
    )
    service = ServingProcess(config, {}, ConsoleSink(io.StringIO()))
    schema, large = service._checker, service._large
    assert len(schema._quick._workers) == 2
    assert (schema._max_waiting, schema._slow._seconds) == (3, 5)
    assert schema._quick._workers[0]._kind.arguments[0] == "4"
    assert len(large._lane._workers) == 6
    assert (large._max_waiting, large.longest) == (7, 19)
    assert large._lane._workers[0]._kind.arguments[0] == "8"


def test_schema_processes_that_do_not_start_are_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_: SchemaPool) -> None:
        raise WorkerError("no more processes")

    monkeypatch.setattr(SchemaPool, "start", refuse)
    run(warm_up(SchemaPool()))
    assert caplog.messages == ["schemas of requests are not checked: no more processes"]
