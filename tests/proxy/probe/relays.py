"""Relays to be checked: a conforming one on loopback, and what each kind of broken one makes of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from teeline.proxy.demo import face, faceresponses
from teeline.proxy.demo.relay import filled
from teeline.proxy.demo.scenarios import JSON, Answer

MODEL = "clean"
KEY = "sk-test-abcdefghijklmnop-1234"
MODELS = {
    "object": "list",
    "data": [{"id": MODEL, "object": "model", "created": 1_760_000_000, "owned_by": "tests"}],
}
CONFORMING = {
    "/v1/chat/completions": face.chat,
    "/v1/responses": faceresponses.responses,
    "/v1/embeddings": faceresponses.embeddings,
}

Asked = Mapping[str, Any]


@dataclass(frozen=True)
class Exchange:
    """What a relay was asked: the path, the request's document (empty where there is none), its fields."""

    path: str
    asked: Asked
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def stream(self) -> bool:
        return self.asked.get("stream") is True

    @property
    def chat(self) -> bool:
        return self.path.endswith("/chat/completions")

    @property
    def responses(self) -> bool:
        return self.path.endswith("/responses")

    def conforming(self) -> Answer:
        """The answer of a server that keeps to the protocol."""
        if self.path == "/v1/models":
            return document(MODELS)
        made = CONFORMING.get(self.path)
        return made(self.asked) if made else error(404, "no such path")


Fault = Callable[[Exchange], Answer]


@dataclass
class Mock:
    """A relay that is up. ``seen`` are the exchanges, in the order in which they came."""

    url: str = ""
    seen: list[Exchange] = field(default_factory=list)
    answers: int = 0
    fields: dict[str, str] = field(default_factory=lambda: {"x-request-id": "req_mock"})

    def paths(self) -> list[str]:
        return [exchange.path for exchange in self.seen]


def document(value: Any, status: int = 200) -> Answer:
    return Answer((json.dumps(value).encode(),), JSON, status)


def error(status: int, message: str, code: str | None = None) -> Answer:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"message": message, "type": kind, "param": None, "code": code}
    return document({"error": body}, status)


@contextmanager
def serving(fault: Fault = Exchange.conforming, **fields: str) -> Iterator[Mock]:
    """A relay in a thread of its own, so that commands with a loop of their own can ask it."""
    mock = Mock()
    mock.fields |= {name.replace("_", "-"): value for name, value in fields.items()}
    loop = asyncio.new_event_loop()
    up = threading.Event()
    stop = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            asked = json.loads(body) if body else {}
        except ValueError:
            return await _sent(request, error(400, "not JSON"), mock)
        exchange = Exchange(request.path, asked, dict(request.headers))
        mock.seen.append(exchange)
        return await _sent(request, fault(exchange), mock, str(asked.get("model")))

    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        mock.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        up.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    assert up.wait(10)
    try:
        yield mock
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def _sent(
    request: web.Request, answer: Answer, mock: Mock, model: str = MODEL
) -> web.StreamResponse:
    fields = {"Content-Type": answer.content_type, **mock.fields}
    mock.answers += 1
    made = ("resp_" if request.path.endswith("/responses") else "chatcmpl-") + str(mock.answers)
    answer = filled(answer, made, model)
    if not answer.stream:
        return web.Response(status=answer.status, body=b"".join(answer.pieces), headers=fields)
    response = web.StreamResponse(status=answer.status, headers=fields)
    response.enable_chunked_encoding()
    await response.prepare(request)
    for piece in answer.pieces:
        await response.write(piece)
    if answer.cut and request.transport is not None:
        request.transport.close()
    return response


# -- what single faults do to an answer -------------------------------------------------------------------


def changed(answer: Answer, change: Callable[[Any], Any]) -> Answer:
    """A whole answer whose document was changed in place, or replaced."""
    value = json.loads(b"".join(answer.pieces))
    made = change(value)
    return document(value if made is None else made, answer.status)


def pieces(answer: Answer, kept: Callable[[bytes], bool]) -> Answer:
    """A stream without some of its events."""
    return replace(answer, pieces=tuple(piece for piece in answer.pieces if kept(piece)))


def replaced(answer: Answer, old: bytes, new: bytes) -> Answer:
    """An answer with every occurrence of some bytes replaced."""
    assert any(old in piece for piece in answer.pieces)
    return replace(answer, pieces=tuple(piece.replace(old, new) for piece in answer.pieces))


def only(applies: Callable[[Exchange], bool], fault: Callable[[Answer], Answer]) -> Fault:
    """A relay that is right but where ``applies``."""

    def answered(exchange: Exchange) -> Answer:
        answer = exchange.conforming()
        return fault(answer) if applies(exchange) else answer

    return answered
