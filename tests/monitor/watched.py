"""The live page's server for browsers: the real feed, hub, history and admin port, fed by the test.

What belongs here: putting the parts together on a loop of their own, and making traffic for them. What
doesn't: browsers (chromium.py).
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from teeline.config.load import Setting, load
from teeline.config.model import Config, ListenAddress
from teeline.proxy.admin import AdminServer
from teeline.proxy.audit.configured import auditing
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.monitor.configured import feed_of, monitor_of, page_url
from teeline.proxy.monitor.feed import FeedSink
from teeline.proxy.monitor.pages import Monitor
from teeline.proxy.sinks import Fanout, Sink
from teeline.proxy.telemetry.metrics import Meter
from teeline.validators.events import Closed, Found, Opened, Output
from teeline.validators.model import (
    Ended,
    Exchange,
    Place,
    Side,
    TimelineEntry,
    Timing,
    Unit,
    Violation,
)
from teeline.validators.rules import register
from tests.proxy.monitor.test_pages import TOKEN

_FAULTS = (
    "chatstream.done-missing",
    "usage.total-too-low",
    "tools.args-invalid-json",
    "http.html-200",
)
_numbers = itertools.count(1)


class Watched:
    """A running page. ``emit`` is what a proxy does; it is called on the page's loop."""

    def __init__(self, url: str, monitor: Monitor, sinks: Fanout) -> None:
        self.url = url
        self.monitor = monitor
        self.sinks = sinks

    def emit(self, *outputs: Output) -> None:
        self.sinks.emit(outputs)

    async def begin(self, exchange: Exchange) -> None:
        self.open(exchange)

    async def end(self, exchange: Exchange) -> None:
        self.close(exchange)
        await self.sinks.drain(20)

    async def happen(self, *exchanges: Exchange) -> None:
        """Exchanges from their beginning to their end; told and recorded when this returns."""
        for exchange in exchanges:
            self.open(exchange)
            self.close(exchange)
        await self.sinks.drain(20)

    def open(self, exchange: Exchange) -> None:
        self.emit(Opened(exchange))
        for violation in exchange.violations:
            self.emit(Found(exchange, violation))

    def close(self, exchange: Exchange) -> None:
        self.emit(Closed(exchange))

    async def flow(self, rate: float, seconds: float, make: Callable[[], Exchange]) -> int:
        """So many exchanges a second; how many there were."""
        loop = asyncio.get_running_loop()
        begun, sent = loop.time(), 0
        while (passed := loop.time() - begun) < seconds:
            while sent < passed * rate:
                exchange = make()
                self.open(exchange)
                self.close(exchange)
                sent += 1
            await asyncio.sleep(0.01)
        return sent


@asynccontextmanager
async def watched(
    folder: Path, clock: Callable[[], float] = time.time, **sections: Any
) -> AsyncIterator[Watched]:
    """A page whose audit log is in ``folder``, unless ``audit`` says that none is written."""
    config = _config(folder, sections)
    monitor = monitor_of(config, clock=clock)
    assert monitor is not None
    feed = feed_of(config, monitor.hub.take, clock=clock)
    assert isinstance(feed, FeedSink)
    audit = auditing(config)
    sinks: list[Sink] = [feed] if audit is None else [audit.sink, feed]
    index = IndexKeeper(folder, interval=0.05)
    fanout = Fanout(sinks)
    await fanout.start()
    admin = AdminServer(config.admin, Meter(), lambda: (), dict, monitor.routes(), monitor.admits)
    address = await admin.start()
    assert address is not None
    if audit is not None:
        index.start()
        await index.flush(20)
    try:
        yield Watched(page_url(address, monitor.sessions), monitor, fanout)
    finally:
        await fanout.close()
        if audit is not None:
            await index.stop(10)
        await monitor.close()
        await admin.close()


def _config(folder: Path, sections: dict[str, Any]) -> Config:
    upstreams = [
        {"name": "main", "url": "https://relay-one.example/v1"},
        {"name": "spare", "url": "https://relay-two.example/openai/v1", "prefix": "/spare"},
    ]
    audit = {"dir": str(folder), **sections.pop("audit", {})}
    admin = {"listen": "127.0.0.1:0", **sections.pop("admin", {})}
    settings = {"upstreams": upstreams, "audit": audit, "admin": admin, **sections}
    config = load(flags=[Setting((name,), value, "--test") for name, value in settings.items()])
    return replace(config, listen=ListenAddress("127.0.0.1", 0))


def token_file(folder: Path) -> str:
    file = folder / "token"
    file.write_text(TOKEN)
    return str(file)


def violation(rule: str = _FAULTS[0], **changes: Any) -> Violation:
    declared = register()[rule]
    made = Violation(
        rule=declared,
        severity=declared.severity,
        message=declared.summary,
        place=Place(Side.RESPONSE, Unit.EVENT, 12, 2345, "/choices/0/delta"),
        evidence='"finish_reason": "stop"',
        at=time.time(),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def exchange(*violations: Violation, now: float | None = None, **changes: Any) -> Exchange:
    """One that ends now and took a second; ids sort by the order in which they were made."""
    number, now = next(_numbers), time.time() if now is None else now
    begun = now - 1
    found = [TimelineEntry(now - 0.2, "violation", v.place.index, 0) for v in violations]
    made = Exchange(
        id=f"{int(now * 1000):012x}7{number:019x}",
        upstream="main",
        client="127.0.0.1",
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        method="POST",
        path="/v1/chat/completions",
        operation="chat",
        model="gpt-4o-mini",
        stream=True,
        request_bytes=180,
        status=200,
        request_id=f"req_{number:06d}",
        response_bytes=4800,
        events=24,
        usage={"prompt_tokens": 90, "completion_tokens": 48, "total_tokens": 138},
        finish=["stop"],
        timing=Timing(begun, begun + 0.2, begun + 0.25, now, now, 0.05),
        timeline=[
            TimelineEntry(begun, "request", 0, 0),
            TimelineEntry(begun + 0.2, "head", 0, 200),
            TimelineEntry(begun + 0.25, "read", 1, 210),
            TimelineEntry(now - 0.2, "read", 12, 190),
            *found,
            TimelineEntry(now, "complete", 0, 0),
        ],
        ended=Ended.COMPLETE,
        violations=list(violations),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def various(dice: random.Random, clock: Callable[[], float] = time.time) -> Callable[[], Exchange]:
    """Traffic as it comes: two relays, some models, the spare one breaking more."""

    def make() -> Exchange:
        upstream = dice.choice(("main", "main", "spare"))
        failing = dice.random() < (0.02 if upstream == "main" else 0.15)
        rule = dice.choice(_FAULTS[: 2 if upstream == "main" else 4])
        broken = [violation(rule, at=clock())] if failing else []
        made = exchange(
            *broken,
            now=clock(),
            upstream=upstream,
            model=dice.choice(("gpt-4o-mini", "gpt-4.1", "o4-mini")),
            operation=dice.choice(("chat", "chat", "responses")),
            status=dice.choice((200,) * 30 + (429,)),
        )
        first = dice.lognormvariate(-1.2 if upstream == "main" else -0.6, 0.5)
        timing = made.timing
        timing.start = (timing.end or 0.0) - first - dice.uniform(0.3, 3)
        timing.first_byte, timing.first_event = timing.start + first * 0.9, timing.start + first
        return made

    return make
