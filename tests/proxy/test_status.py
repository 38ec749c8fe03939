"""The status adds up, and readiness is about traffic alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from teeline.config.load import Setting, load
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.server import Listener, ProxyServer, Route
from teeline.proxy.status import Running
from teeline.proxy.telemetry.metrics import MetricsSink
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Ended, Severity
from tests.proxy.audit.logs import ORIGIN
from tests.proxy.samples import exchange, violation

LISTENER = Listener(
    ("my-relay",), "h", 1, "http://h:1/v1", (Route("my-relay", "http://h:1/v1", "t"),)
)


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    upstream = {"name": "my-relay", "url": "https://relay.example/v1"}
    config = load(flags=[Setting(("upstreams",), [upstream], "--upstream")])
    metrics = MetricsSink()
    await metrics.start()
    yield Running(config, ProxyServer(config, [metrics]), metrics, version="1.2.3")
    await metrics.close()


def test_it_is_ready_between_its_start_and_its_end() -> None:
    async def test() -> None:
        async with running() as proxy:
            assert list(proxy.unready()) == ["starting"]
            proxy.listeners = [LISTENER]
            assert list(proxy.unready()) == []
            proxy.server.sinks.failures["audit"] = 5
            assert list(proxy.unready()) == []
            proxy.draining = True
            assert list(proxy.unready()) == ["draining"]

    asyncio.run(test())


def test_the_status_adds_up() -> None:
    async def test() -> None:
        async with running() as proxy:
            proxy.listeners = [LISTENER]
            broken = exchange(violation(), violation("usage.x", Severity.WARN))
            left = exchange(ended=Ended.CLIENT_CLOSED)
            for made in (broken, left, exchange()):
                proxy.metrics.opened(Opened(made))
            for found in broken.violations:
                proxy.metrics.found(Found(broken, found))
            for made in (broken, left):
                proxy.metrics.closed(Closed(made))
            await proxy.metrics.drain(10)
            status = orjson.loads(orjson.dumps(proxy.status()))
        assert status["v"] == 1
        assert status["version"] == "1.2.3"
        assert (status["ready"], status["reasons"]) == (True, [])
        assert status["open"] == 1
        (upstream,) = status["upstreams"]
        assert upstream == {
            "name": "my-relay",
            "url": "https://relay.example/v1",
            "profile": "auto",
            "exchanges": 2,
            "verdicts": {"pass": 1, "warn": 0, "fail": 1},
            "ended": {"client_closed": 1, "complete": 1},
        }
        assert {rule["rule"]: rule["count"] for rule in status["rules"]} == {
            "chatstream.done-missing": 1,
            "usage.x": 1,
        }
        assert status["telemetry"] == {"otlp": False, "dropped": {"metrics": 0}}
        assert status["audit"] == {"enabled": False}
        assert status["listeners"][0]["base_url"] == "http://h:1/v1"

    asyncio.run(test())


def test_the_status_says_what_the_audit_log_holds_and_how_far_its_index_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with running() as proxy:
            proxy.audit = AuditSink(tmp_path, origin=ORIGIN)
            expected = {"enabled": True, "chain": proxy.audit.chain, "records": 0, "lost": 0}
            assert proxy.status()["audit"] == {**expected, "index_behind": None}
            proxy.index = IndexKeeper(tmp_path)
            proxy.index.behind = 700
            assert proxy.status()["audit"] == {**expected, "index_behind": 700}

    asyncio.run(test())
