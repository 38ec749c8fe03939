"""An OpenAI-compatible server that can do whatever recipes ask for.

What belongs here: its answers and its start. What doesn't: what is promised (the tests).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from teeline.proxy.demo import face, faceresponses
from teeline.proxy.demo.relay import filled
from tests.proxy.nnrp.adapter.peers import Endless, chunk, events


async def capable(request: web.Request) -> web.StreamResponse:
    """Answers as the demo's clean face; fails, goes on for ever, or calls two tools where asked to."""
    if request.path.endswith("/models"):
        return web.json_response({"object": "list", "data": [_model("m")]})
    asked = json.loads(await request.read())
    if asked.get("model") == "backend-error":
        failed = {"message": "The model failed.", "type": "server_error", "code": None}
        return web.json_response({"error": failed}, status=500)
    if asked.get("messages") is not None and not isinstance(asked["messages"], list):
        wrong = {"message": "messages must be an array.", "type": "invalid_request_error"}
        return web.json_response({"error": wrong}, status=400)
    if "long" in json.dumps(asked.get("messages")):
        return await Endless()(request)
    if len(asked.get("tools") or ()) == 2:
        return await events(request, *_two_calls())
    return await _face(request, asked)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1790000000, "owned_by": "tests"}


async def _face(request: web.Request, asked: Mapping[str, Any]) -> web.StreamResponse:
    kind = request.path.rpartition("/")[2]
    answers = {"embeddings": faceresponses.embeddings, "responses": faceresponses.responses}
    prefix = "resp_" if kind == "responses" else "chatcmpl-"
    answer = filled(answers.get(kind, face.chat)(asked), prefix + "1", str(asked.get("model")))
    whole = b"".join(answer.pieces)
    fields = {"Content-Type": answer.content_type}
    return web.Response(status=answer.status, body=whole, headers=fields)


def _two_calls() -> Iterator[str]:
    def call(index: int, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": ""}
        return {"index": index, "id": f"call_{name}", "type": "function", "function": function}

    def piece(index: int, text: str) -> str:
        return chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    calls = [call(0, "get_weather"), call(1, "get_time")]
    yield chunk({"role": "assistant", "content": None, "refusal": None, "tool_calls": calls})
    for index, text in ((1, '{"city":'), (0, '{"city":'), (1, '"Paris"}'), (0, '"Paris"}')):
        yield piece(index, text)
    yield chunk({}, "tool_calls")


@asynccontextmanager
async def engine() -> AsyncIterator[str]:
    """Such a server; its base URL."""
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", capable)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
