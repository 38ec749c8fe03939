"""The relay of the demo: answers over real HTTP what scenarios.py says.

What belongs here: the server, the choice of an answer, and its sending in pieces. What doesn't:
the answers themselves (scenarios.py). People may point any client at it through the proxy, so
requests are bounded and whatever they hold is answered as the API would answer it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from teeline.config.model import ListenAddress
from teeline.proxy.demo import face, faceresponses
from teeline.proxy.demo.scenarios import (
    ANSWER_ID,
    CLEAN_JSON,
    CLEAN_STREAM,
    DONE,
    JSON,
    MODEL,
    SCENARIOS,
    Answer,
    Scenario,
    usage_chunk,
)
from teeline.proxy.demo.transcript import Message, Transcript, encoded

MAX_REQUEST = 1024 * 1024
"""Bytes of one request body; a bigger one is answered with 413."""
MAX_MODEL = 200
"""Characters of a model's name that an answer repeats."""

AnswerTo = Callable[[Mapping[str, Any]], Answer]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_MODELS_CREATED = 1_760_000_000


class Relay:
    """Serves models, chat completions, responses and embeddings on a loopback port unless told
    otherwise.

    Scenarios are models of chat completions. The model ``clean`` keeps to the protocol whatever is
    asked, and so does every model of responses and embeddings.

    ``pace`` is the time between two pieces of a stream in seconds, 0 or more. Transcripts are
    kept only while ``recording`` is on; whoever turns it on takes them out again.
    """

    def __init__(self, scenarios: Sequence[Scenario] = SCENARIOS, pace: float = 0.0) -> None:
        self._expected: dict[str, Transcript | None] = {}
        self._scenarios = {scenario.name: scenario for scenario in scenarios}
        self._pace = pace
        self._answers = 0
        self._runner: web.AppRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listens, and gives the base URL (``http://127.0.0.1:PORT/v1``); OSError where it
        can't.
        """
        app = web.Application(client_max_size=MAX_REQUEST)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._answered(self._chosen))
        app.router.add_post("/v1/responses", self._answered(faceresponses.responses))
        app.router.add_post("/v1/embeddings", self._answered(faceresponses.embeddings))
        app.router.add_route("*", "/{path:.*}", self._elsewhere)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        return f"http://{ListenAddress(host, self._runner.addresses[0][1])}/v1"

    async def stop(self) -> None:
        """Closes every connection; may be called twice, and before start."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def expect(self, trace_id: str) -> None:
        """Announces a request, of which a transcript is to be kept until it is taken."""
        self._expected[trace_id] = None

    def take(self, trace_id: str) -> Transcript | None:
        """Hands over the transcript and keeps nothing; None where no such request came."""
        return self._expected.pop(trace_id, None)

    async def _models(self, request: web.Request) -> web.StreamResponse:
        entries = [
            {"id": name, "object": "model", "created": _MODELS_CREATED, "owned_by": "teeline-demo"}
            for name in (*self._scenarios, face.CLEAN_MODEL)
        ]
        return _document(200, {"object": "list", "data": entries})

    async def _elsewhere(self, request: web.Request) -> web.StreamResponse:
        return _refusal(404, "invalid_request_error", "This relay has no such path.")

    def _chosen(self, asked: Mapping[str, Any]) -> Answer:
        if asked["model"] == face.CLEAN_MODEL:
            return face.chat(asked)
        return chosen(self._scenarios, asked)

    def _answered(self, answer_to: AnswerTo) -> Handler:
        """A handler that reads the request's document and sends what is to be answered."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                body = await request.read()
                asked = orjson.loads(body)
            except web.HTTPRequestEntityTooLarge:
                return _refusal(413, "invalid_request_error", "The request body is too large.")
            except orjson.JSONDecodeError:
                return _refusal(400, "invalid_request_error", "The request body is not JSON.")
            if not isinstance(asked, dict) or not isinstance(asked.get("model"), str):
                return _refusal(400, "invalid_request_error", "The request names no model.")
            self._answers += 1
            prefix = "resp_demo_" if request.path.endswith("/responses") else "chatcmpl-demo-"
            answer = filled(answer_to(asked), f"{prefix}{self._answers}", asked["model"])
            transcript = self._transcript(request, body, answer)
            if answer.stream:
                return await self._streamed(request, answer, transcript.answer)
            return await _whole(request, answer, b"".join(answer.pieces), transcript.answer)

        return handle

    def _transcript(self, request: web.Request, body: bytes, answer: Answer) -> Transcript:
        received = Message((request.method, request.raw_path), request.raw_headers, bytearray(body))
        transcript = Transcript(received, Message(complete=not answer.cut))
        trace_id = request.headers.get("traceparent", "")[3:35]
        if trace_id in self._expected:
            self._expected[trace_id] = transcript
        return transcript

    async def _streamed(
        self, request: web.Request, answer: Answer, sent: Message
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_fields(answer.content_type))
        response.enable_chunked_encoding()
        try:
            await _begin(response, request, sent)
            for piece in answer.pieces:
                sent.body += piece
                await response.write(piece)
                await asyncio.sleep(self._pace)
            if answer.cut and request.transport is not None:
                # An orderly close: a reset could take away pieces that the peer has not read yet.
                request.transport.close()
        except ConnectionError:
            # The client left: there is nobody to tell, and aiohttp closes the connection.
            sent.complete = False
        return response


def chosen(scenarios: Mapping[str, Scenario], asked: Mapping[str, Any]) -> Answer:
    """The answer to a request body: its scenario's, or a clean one of the kind that was asked
    for.
    """
    stream = asked.get("stream") is True
    scenario = scenarios.get(asked["model"])
    answer = scenario.answer_to(stream) if scenario else None
    answer = answer or (CLEAN_STREAM if stream else CLEAN_JSON)
    return _with_usage(answer) if _wants_usage(asked) else answer


def _wants_usage(asked: Mapping[str, Any]) -> bool:
    options = asked.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _with_usage(answer: Answer) -> Answer:
    """The stream with the usage that was asked for, so that its absence hides no scenario's own
    fault.
    """
    has_usage = any(b'"usage":{' in piece for piece in answer.pieces)
    if has_usage or answer.pieces[-1] != DONE:
        return answer
    pieces = (*answer.pieces[:-1], usage_chunk(), DONE)
    return Answer(pieces, answer.content_type, answer.status, answer.coding, answer.cut)


def filled(answer: Answer, made: str, model: str) -> Answer:
    """The answer under an id of its own and the name of the model that was asked for."""
    name = json.dumps(model[:MAX_MODEL])[1:-1].encode()
    # The id first: the model's name may be anything.
    pieces = (p.replace(ANSWER_ID.encode(), made.encode()) for p in answer.pieces)
    return replace(answer, pieces=tuple(piece.replace(MODEL.encode(), name) for piece in pieces))


async def _whole(
    request: web.Request, answer: Answer, body: bytes, sent: Message
) -> web.StreamResponse:
    fields = _fields(answer.content_type)
    if answer.coding:
        # mtime 0: the same bytes whenever the demo runs.
        body = gzip.compress(body, mtime=0)
        fields["Content-Encoding"] = answer.coding
    response = web.Response(status=answer.status, body=body, headers=fields)
    sent.body += body
    await _begin(response, request, sent)
    return response


async def _begin(response: web.StreamResponse, request: web.Request, sent: Message) -> None:
    await response.prepare(request)
    sent.start = (str(response.status), response.reason or "")
    sent.fields = encoded(response.headers)


def _fields(content_type: str) -> dict[str, str]:
    return {
        "Content-Type": content_type,
        "Cache-Control": "no-cache",
        "x-request-id": "req_demo",
    }


def _refusal(status: int, kind: str, message: str) -> web.Response:
    error = {"message": message, "type": kind, "param": None, "code": None}
    return _document(status, {"error": error})


def _document(status: int, document: Any) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(document), headers=_fields(JSON))
