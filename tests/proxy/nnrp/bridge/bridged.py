"""An HTTP client, teeline, the bridge, a tap, and an NNRP server whose every packet a test decides.

What belongs here: starting them, asking, and the verdict of teeline's own rules on what the bridge sends
to both sides: each test that uses ``bridged`` fails where it breaks one. What doesn't: what is promised
otherwise (the tests).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from teeline.config.model import ListenAddress
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.bridge.server import BridgeOptions, BridgeServer
from teeline.proxy.nnrp.client import ClientLimits, NnrpClient
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.validators.model import Exchange, Severity, Side
from teeline.validators.nnrp.capabilities import Capabilities, Declared
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


@asynccontextmanager
async def bridging(
    endpoint: str, options: BridgeOptions | None = None, limits: ClientLimits | None = None
) -> AsyncIterator[Bridged]:
    client = NnrpClient(Endpoint.parse(endpoint), limits=limits)
    bridge = BridgeServer(client, options or BridgeOptions(capabilities=EVERYTHING))
    bound = await bridge.start(ListenAddress("127.0.0.1", 0))
    try:
        async with aiohttp.ClientSession() as http:
            yield Bridged(f"http://{bound}", bridge, http)
    finally:
        bridge.hurry()
        await bridge.stop()
        await client.close()


@asynccontextmanager
async def bridged(
    script: Script,
    limits: ClientLimits | None = None,
    breaches: frozenset[str] = frozenset(),
    **options: Any,
) -> AsyncIterator[tuple[Bridged, Server]]:
    """The bridge before a scripted server. ``breaches``: rules that the test has the bridge break."""
    made = replace(BridgeOptions(capabilities=EVERYTHING), **options)
    http, nnrp = Kept(), Kept()
    async with (
        nnrp_server(script) as server,
        tapped(server.port, nnrp) as endpoint,
        bridging(endpoint, made, limits) as up,
        proxy(up.url, http) as front,
    ):
        up.direct = int(up.url.rpartition(":")[2])
        up.url = f"http://127.0.0.1:{front.port}"
        yield up, server
    told = {r for e in http.opened_ for r in _by(e, Side.RESPONSE)}
    told |= {r for e in nnrp.opened_ for r in _by(e, Side.REQUEST)}
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
