"""One operation from its submit to its end: asked of the server, and answered in the profile's words.

What belongs here: which path an operation is, whether its answer streams, and every way to its end. What
doesn't: the words (chat.py, responses.py, errors.py), the packets (serverconnection.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

from teeline.proxy.nnrp import documents
from teeline.proxy.nnrp.adapter import chat, responses
from teeline.proxy.nnrp.adapter.envelope import Request, read_request
from teeline.proxy.nnrp.adapter.errors import of_answer, path_is_absent
from teeline.proxy.nnrp.adapter.upstream import Answer, Upstream
from teeline.proxy.nnrp.documents import FailedError, Problem, refused
from teeline.proxy.nnrp.serverreply import Reply
from teeline.proxy.nnrp.submit import Submit
from teeline.validators.fields.nnrp import OPERATIONS


class Stream(Protocol):
    """A streamed answer on its way into the profile."""

    @property
    def done(self) -> bool:
        """Nothing more is to be read."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The events of one event's data."""

    def finish(self) -> Iterator[bytes]:
        """The last events."""

    def fail(self, problem: Problem) -> Iterator[bytes]:
        """What must be said before response.error."""

    def completed(self) -> bytes:
        """The document of the success."""


class Path(NamedTuple):
    """How an operation is asked for. ``stream`` is None where it never streams."""

    method: str
    path: str
    stream: Callable[[], Stream] | None = None
    unstreamed: Callable[[bytes], Iterator[bytes]] | None = None


PATHS: Final[Mapping[str, Path]] = {
    "chat.completions.create": Path(
        "POST", "/chat/completions", chat.ChatStream, chat.whole_as_stream
    ),
    "responses.create": Path(
        "POST", "/responses", responses.ResponsesStream, responses.whole_as_stream
    ),
    "models.list": Path("GET", "/models"),
    "embeddings.create": Path("POST", "/embeddings"),
}


class CancelledByHintError(Exception):
    """The client asked beforehand to be cancelled after so many events."""


class _Told:
    """The events of one operation on their way out, counted for the client's hint."""

    def __init__(self, reply: Reply, cancel_after: int | None) -> None:
        self._reply, self._left = reply, cancel_after

    async def events(self, events: Iterator[bytes]) -> None:
        for event in events:
            await self._reply.event(event)
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    raise CancelledByHintError


class Adapter:
    """Answers operations with what a server says. ``offered``: those that it takes on."""

    def __init__(self, upstream: Upstream, offered: frozenset[str] = frozenset(OPERATIONS)) -> None:
        self._upstream, self._offered = upstream, offered

    async def serve(self, submit: Submit, reply: Reply) -> None:
        """Answers one operation; the request to the server ends where this is cancelled."""
        try:
            request = read_request(submit.payload, self._offered)
        except FailedError as error:
            reply.fail(error.problem)
            return
        await self._answer(request, reply)

    async def _answer(self, request: Request, reply: Reply) -> None:
        asked = PATHS[request.operation]
        # The hint is counted down to nothing; an error that beats it to the end is told as one.
        told = _Told(reply, request.cancel_after)
        stream = asked.stream() if asked.stream is not None else None
        try:
            document = await self._asked(asked, request, stream, told)
        except FailedError as error:
            if request.stream and stream is not None:
                for event in stream.fail(error.problem):
                    await reply.event(event)
            reply.fail(error.problem)
        except CancelledByHintError:
            reply.end(documents.cancelled("cancel_after_events"), 499)
        else:
            await reply.complete(document)

    async def _asked(
        self, asked: Path, request: Request, stream: Stream | None, told: _Told
    ) -> bytes:
        """Asks the server and tells the events; the document of the success."""
        body = request.body if asked.method == "POST" else None
        id_, timeout = request.request_id, request.timeout
        asking = self._upstream.asked(
            asked.method, asked.path, body, request_id=id_, timeout=timeout
        )
        async with asking as answer:
            if not answer.ok:
                raise await _refusal(answer)
            if stream is not None and answer.streams:
                return await _streamed(stream, answer, told if request.stream else None)
            whole = (await answer.body()).strip()
            chat.document_of(whole)
            if asked.unstreamed is not None and request.stream:
                await told.events(asked.unstreamed(whole))
            return documents.completed(whole)


async def _streamed(stream: Stream, answer: Answer, told: _Told | None) -> bytes:
    """``told`` None: the client asked for one document, and gets one."""
    async with aclosing(answer.data()) as events:
        async for data in events:
            await _tell(told, stream.feed(data))
            if stream.done:
                break
    await _tell(told, stream.finish())
    return stream.completed()


async def _tell(told: _Told | None, events: Iterator[bytes]) -> None:
    if told is not None:
        await told.events(events)
    else:
        deque(events, 0)


async def _refusal(answer: Answer) -> FailedError:
    """An answer other than 2xx; a server without the path does not have the operation."""
    problem = of_answer(answer.status, await answer.error_body(), answer.retry_after)
    if path_is_absent(answer.status, problem):
        return refused("unsupported_operation", "The server has no such operation.", 404)
    return FailedError(problem)
