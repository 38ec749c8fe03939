"""A bridge between a raw HTTP client and an NNRP server whose every packet a test decides.

What belongs here: starting the three, asking, and having both sides judged by teeline's own rules. What
doesn't: what is promised (the tests).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from teeline.config.model import ListenAddress
from teeline.proxy.nnrp.bridge.server import BridgeOptions, BridgeServer
from teeline.proxy.nnrp.client import ClientLimits, NnrpClient
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Ended, Exchange, Severity
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from tests.proxy.nnrp.scripted import Script, Server, nnrp_server

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
    """A running bridge."""

    def __init__(self, url: str, bridge: BridgeServer, client: NnrpClient, http: aiohttp.ClientSession) -> None:
        self.url, self.bridge, self.client, self.http = url, bridge, client, http

    async def ask(
        self, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        method = "POST" if body is not None else "GET"
        data = json.dumps(body) if isinstance(body, dict) else body
        async with self.http.request(
            method, self.url + path, data=data, headers={"Content-Type": "application/json", **(headers or {})}
        ) as response:
            got, cut = bytearray(), False
            try:
                async for piece in response.content.iter_any():
                    got += piece
            except aiohttp.ClientPayloadError:
                cut = True
            return Answer(response.status, dict(response.headers), bytes(got), cut)

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
            yield Bridged(f"http://{bound}", bridge, client, http)
    finally:
        bridge.hurry()
        await bridge.stop()
        await client.close()


@asynccontextmanager
async def bridged(
    script: Script, limits: ClientLimits | None = None, **options: Any
) -> AsyncIterator[tuple[Bridged, Server]]:
    """The bridge before a scripted server."""
    made = replace(BridgeOptions(capabilities=EVERYTHING), **options)
    async with nnrp_server(script) as server, bridging(server.endpoint, made, limits) as up:
        yield up, server
