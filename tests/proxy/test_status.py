"""The status adds up, and readiness is about traffic alone."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import orjson

from teeline.config.load import Setting, load
from teeline.config.model import AuditConfig
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.console import ConsoleSink
from teeline.proxy.server import Listener, Route
from teeline.proxy.serving import ServingProcess
from teeline.proxy.status import Running
from teeline.validators.events import Closed, Found, Opened, Output
from teeline.validators.model import Ended, Severity
from tests.proxy.samples import exchange, violation

LISTENER = Listener(
    ("my-relay",), "h", 1, "http://h:1/v1", (Route("my-relay", "http://h:1/v1", "t"),)
)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Running, ServingProcess]]:
    """A process whose sinks are up; its ports are not of interest."""
    upstream = {"name": "my-relay", "url": "https://relay.example/v1"}
    config = load(
        flags=[
            Setting(("upstreams",), [upstream], "--upstream"),
            Setting(("audit", "enabled"), False, "--no-audit"),
        ]
    )
    service = ServingProcess(config, {}, ConsoleSink(io.StringIO()))
    await service.server.sinks.start()
    yield Running(config, service, version="1.2.3"), service
    await service.server.sinks.close()
    await service.close()


def test_it_is_ready_between_its_start_and_its_end() -> None:
    async def test() -> None:
        async with running() as (proxy, service):
            assert list(proxy.unready()) == ["starting"]
            proxy.listeners = [LISTENER]
            assert list(proxy.unready()) == ["no worker accepts connections"]
            service.accepting = True
            assert list(proxy.unready()) == []
            service.server.sinks.failures["audit"] = 5
            assert list(proxy.unready()) == []
            proxy.draining = True
            assert list(proxy.unready()) == ["draining"]

    asyncio.run(test())


def test_the_status_adds_up() -> None:
    async def test() -> None:
        async with running() as (proxy, service):
            proxy.listeners = [LISTENER]
            service.accepting = True
            broken = exchange(violation(), violation("usage.x", Severity.WARN))
            left = exchange(ended=Ended.CLIENT_CLOSED)
            outputs: list[Output] = [Opened(made) for made in (broken, left, exchange())]
            outputs += [Found(broken, found) for found in broken.violations]
            outputs += [Closed(made) for made in (broken, left)]
            service.server.sinks.emit(outputs)
            await service.server.sinks.drain(10)
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
        assert "workers" not in status

    asyncio.run(test())


def test_the_status_says_how_far_the_index_of_the_audit_log_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with running() as (proxy, _):
            proxy.config = replace(proxy.config, audit=AuditConfig(dir=tmp_path))
            assert proxy.status()["audit"]["index_behind"] is None
            proxy.index = IndexKeeper(tmp_path)
            proxy.index.behind = 700
            assert proxy.status()["audit"]["index_behind"] == 700

    asyncio.run(test())
