"""An HTTP client, teeline, the bridge, a tap, and an NNRP server whose every packet a test decides.

What belongs here: starting them, asking, and the verdict of teeline's own rules on what the bridge sends
to both sides, and on whether the two say the same: each test that uses ``bridged`` fails where it breaks
one. What doesn't: what is promised otherwise (the tests).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from teeline.config.model import ListenAddress
from teeline.proxy.clock import SystemClock
from teeline.proxy.inspection import AsideInspector
from teeline.proxy.memory import Inspectors
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.bridge.compare import Comparer
from teeline.proxy.nnrp.bridge.server import BridgeOptions, BridgeServer
from teeline.proxy.nnrp.client import ClientLimits, NnrpClient
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout, Sink
from teeline.validators.events import Report, Task
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange, Severity, Side
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from teeline.validators.policy import Policy
from teeline.validators.replay import perform
from teeline.validators.rules import register
from tests.proxy.nnrp.peers import Kept, tapping
from tests.proxy.nnrp.scripted import Script, Server, nnrp_server
from tests.proxy.raw import proxy

EVERYTHING = Capabilities(
    {
        name: Declared(True, True, True)
        for name in (
            "chat.completions.create",
            "responses.create",
            "models.list",
            "embeddings.create",
        )
    }
)
INSPECTED = {"full", "partial (unreadable)"}
"""What may be said of a comparison: servers of these tests send what is no JSON, too."""
MESSAGES = [{"role": "user", "content": "Hi"}]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an HTTP client got. ``cut``: the connection ended before the answer did."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def data(self) -> list[bytes]:
        """The data of each event."""
        events = self.body.split(b"\n\n")
        assert events.pop() == b""
        return [event.rpartition(b"data: ")[2] for event in events]

    @property
    def chunks(self) -> list[Any]:
        return [json.loads(data) for data in self.data if data != b"[DONE]"]


class Bridged:
    """A running bridge. ``url`` leads to it through teeline, port ``direct`` without."""

    def __init__(self, url: str, bridge: BridgeServer, http: aiohttp.ClientSession) -> None:
        self.url, self.bridge, self.http = url, bridge, http
        self.direct = 0

    async def ask(
        self, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        method = "POST" if body is not None else "GET"
        data = json.dumps(body) if isinstance(body, dict) else body
        fields = {"Content-Type": "application/json", **(headers or {})}
        url = self.url + path
        async with self.http.request(method, url, data=data, headers=fields) as response:
            got, cut = bytearray(), False
            try:
                async for piece in response.content.iter_any():
                    got += piece
            except aiohttp.ClientPayloadError:
                cut = True
            return Answer(response.status, response.headers, bytes(got), cut)

    async def chat(self, **body: Any) -> Answer:
        return await self.ask("/v1/chat/completions", {"model": "m", "messages": MESSAGES, **body})


class InPlace:
    """Compares where it is asked to, without a process."""

    longest = 0.0

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits

    async def inspect(self, task: Task) -> Report:
        return Report(perform(task, self._limits))


def comparing(
    sink: Sink,
    pool: AsideInspector | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **bounds: Any,
) -> Comparer:
    """A comparer that tells one sink."""
    clock = SystemClock()
    observers = Observers(Inspectors(), Policy(register()), Fanout([sink]), clock)
    return Comparer(observers, clock, pool or InPlace(limits), limits=limits, **bounds)


@asynccontextmanager
async def bridging(
    endpoint: str,
    options: BridgeOptions | None = None,
    limits: ClientLimits | None = None,
    comparer: Comparer | None = None,
) -> AsyncIterator[Bridged]:
    client = NnrpClient(Endpoint.parse(endpoint), limits=limits)
    bridge = BridgeServer(client, options or BridgeOptions(capabilities=EVERYTHING), comparer)
    bound = await bridge.start(ListenAddress("127.0.0.1", 0))
    try:
        async with aiohttp.ClientSession() as http:
            yield Bridged(f"http://{bound}", bridge, http)
    finally:
        bridge.hurry()
        await bridge.stop()
        await client.close()
        if comparer is not None:
            await comparer.settle(30)


@asynccontextmanager
async def bridged(
    script: Script,
    limits: ClientLimits | None = None,
    breaches: frozenset[str] = frozenset(),
    **options: Any,
) -> AsyncIterator[tuple[Bridged, Server]]:
    """The bridge before a scripted server. ``breaches``: rules that the test has the bridge break."""
    made = replace(BridgeOptions(capabilities=EVERYTHING), **options)
    http, nnrp, both = Kept(), Kept(), Kept()
    async with (
        nnrp_server(script) as server,
        tapped(server.port, nnrp) as endpoint,
        bridging(endpoint, made, limits, comparing(both)) as up,
        proxy(up.url, http) as front,
    ):
        up.direct = int(up.url.rpartition(":")[2])
        up.url = f"http://127.0.0.1:{front.port}"
        yield up, server
    told = {r for e in http.opened_ for r in _by(e, Side.RESPONSE)}
    told |= {r for e in nnrp.opened_ for r in _by(e, Side.REQUEST)}
    told |= set(both.rules)
    assert both.opened_ == both.closed_
    assert all(exchange.inspection in INSPECTED for exchange in both.closed_)
    assert told == breaches, sorted(told ^ breaches)


@asynccontextmanager
async def tapped(port: int, kept: Kept) -> AsyncIterator[str]:
    """A tap before a server; its endpoint."""
    tap, _ = tapping(Address("127.0.0.1", port), Address("127.0.0.1", 0), [kept])
    bound = await tap.start()
    try:
        yield f"nnrp://{bound}"
    finally:
        await tap.stop()


def _by(exchange: Exchange, side: Side) -> set[str]:
    """The rules that a side broke, informational ones left out."""
    return {
        violation.rule.id
        for violation in exchange.violations
        if violation.severity >= Severity.WARN and violation.place.side is side
    }
