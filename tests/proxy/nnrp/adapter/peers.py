"""An OpenAI-compatible server that a test scripts, and an adapter in front of it behind a tap.

What belongs here: starting and ending both. What doesn't: what is promised (the tests).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.adapter.upstream import Upstream, UpstreamOptions
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.conversation import Conversation
from teeline.proxy.nnrp.observed import Observed
from teeline.proxy.nnrp.server import NnrpServer
from teeline.proxy.nnrp.serverlimits import ServerLimits
from teeline.validators.fields.nnrp import OPERATIONS
from teeline.validators.model import Severity
from tests.proxy.nnrp.peers import Kept, tapping

LOOPBACK = Address("127.0.0.1", 0)
PATIENCE = 10.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def events(request: web.Request, *data: str, done: bool = True) -> web.StreamResponse:
    """An event stream that says these data."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for text in (*data, "[DONE]") if done else data:
        await response.write(f"data: {text}\n\n".encode())
    return response


def chunk(delta: dict[str, Any], finish: str | None = None, **top: Any) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    base = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "m",
    }
    return json.dumps({**base, "choices": [choice], **top})


HELLO = (
    chunk({"role": "assistant", "content": "", "refusal": None}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo"}),
    chunk({}, "stop"),
)


class Endless:
    """Streams until its client leaves; ``left`` is set then."""

    def __init__(self) -> None:
        self.begun, self.left = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            self.begun.set()
            await response.write(f"data: {HELLO[0]}\n\n".encode())
            while request.transport is not None and not request.transport.is_closing():
                await response.write(f"data: {chunk({'content': 'on '})}\n\n".encode())
                await asyncio.sleep(0.001)
        except ConnectionError:
            pass
        finally:
            self.left.set()
        return response


@dataclass
class Running:
    """An adapter that runs: where, and what the tap before it says."""

    address: Address
    server: NnrpServer
    kept: Kept
    asked: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def breaches(self) -> set[str]:
        """The rules from warn up that the adapter's side broke."""
        return {
            v.rule.id
            for exchange in self.kept.opened_
            for v in exchange.violations
            if v.severity >= Severity.WARN and v.rule.id.startswith("nnrp.")
        }

    @asynccontextmanager
    async def talking(self) -> AsyncIterator[Conversation]:
        conversation = await Conversation.open(Endpoint(self.address))
        try:
            yield conversation
        finally:
            await conversation.close()


@asynccontextmanager
async def adapting(
    handler: Handler,
    *,
    offered: frozenset[str] = frozenset(OPERATIONS),
    key: str = "",
    timeout: float = PATIENCE,
    limits: ServerLimits | None = None,
    max_answer: int = 1 << 20,
) -> AsyncIterator[Running]:
    """An adapter before a server with one handler, and a tap before the adapter."""
    kept = Kept()
    running = Running(LOOPBACK, None, kept)  # type: ignore[arg-type]  # set below

    async def answer(request: web.Request) -> web.StreamResponse:
        running.asked.append(request)
        running.bodies.append(await request.read())
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with Upstream(UpstreamOptions(url, key, timeout, max_answer)) as upstream:
        running.server = NnrpServer(LOOPBACK, Adapter(upstream, offered), limits=limits)
        tap, observers = tapping(await running.server.start(), LOOPBACK, [kept])
        running.address = await tap.start()
        try:
            yield running
        finally:
            await running.server.stop()
            await tap.stop()
            await observers.settle(1.0)
            await runner.cleanup()


def envelope(operation: str = "chat.completions.create", **members: Any) -> bytes:
    """An envelope; ``nnrp`` and ``request_id`` are its own members, all others the body's."""
    own: dict[str, Any] = {
        name: members.pop(name) for name in ("nnrp", "request_id") if name in members
    }
    if operation == "chat.completions.create":
        members = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **members}
    whole = {
        "schema_version": "openai-compatible/1",
        "operation": operation,
        "body": members,
        **own,
    }
    return json.dumps(whole).encode()


async def asked(running: Running, payload: bytes, cancel_after: int | None = None) -> Observed:
    """One operation in a session of its own."""
    async with running.talking() as conversation:
        return await conversation.run(payload, cancel_after=cancel_after, timeout=PATIENCE)
