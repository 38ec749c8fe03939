"""Chat Completions of a server, streamed or not, as the profile's events and its completed document.

What belongs here: what one chunk or one answer becomes. What doesn't: the event stream around chunks
(service.py), joining them (completion.py), the life of tool calls (toolcalls.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from teeline.proxy.nnrp import documents
from teeline.proxy.nnrp.adapter.completion import Completion
from teeline.proxy.nnrp.adapter.errors import BROKEN_OFF, of_event, unusable
from teeline.proxy.nnrp.adapter.toolcalls import ToolCalls
from teeline.proxy.nnrp.documents import FailedError, Problem, written
from teeline.validators.wire.json import decode

DONE: Final = b"[DONE]"
_MAX_BRACKETS: Final = 128
"""Brackets of a chunk from which its depth is measured before it is read."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def document_of(data: bytes) -> Mapping[str, Any]:
    """A server's JSON object, its integers of any size exact; FailedError where it is none."""
    if data.count(b"{") + data.count(b"[") > _MAX_BRACKETS and not decode(data).ok:
        raise unusable("The server sent something that is no JSON.")
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except ValueError:
        raise unusable("The server sent something that is no JSON.") from None
    if not isinstance(value, dict):
        raise unusable("The server sent JSON that is no object.")
    return value


class ChatStream:
    """One streamed chat completion.

    Methods give the events that are due now, in their order. What was given before one of them fails was
    due: an event counts as told once it is given.
    """

    def __init__(self) -> None:
        self._completion = Completion()
        self._calls = ToolCalls()
        self.done = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The events of one event's data. FailedError where the server fails or says what can't be."""
        if data.strip() == DONE:
            self.done = True
        if self.done:
            return
        chunk = document_of(data)
        if chunk.get("error") is not None:
            raise FailedError(of_event(chunk["error"]))
        yield from documents.with_chunk(self.take(chunk), data)

    def take(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        """The events of a chunk that was read."""
        choices = chunk.get("choices", [])
        if not isinstance(choices, list):
            raise unusable("The server sent a chunk without choices.")
        self._completion.add_chunk(chunk)
        for choice in choices:
            if not isinstance(choice, dict):
                raise unusable("The server sent a choice that is no object.")
            yield from self._choice(choice)

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[bytes]:
        index = choice.get("index", 0)
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise unusable("The server sent a choice that has no place.")
        delta = documents.object_in(choice, "delta")
        self._completion.add_choice(index, choice, delta)
        content = delta.get("content")
        if isinstance(content, str) and content:
            yield documents.text(index, content)
        pieces = delta.get("tool_calls")
        for piece in pieces if isinstance(pieces, list) else ():
            yield from self._calls.piece(index, piece)
        if choice.get("finish_reason") is not None:
            yield from self._calls.complete(index)

    def finish(self) -> Iterator[bytes]:
        """The stream has come to its end: the last documents. FailedError where it is no whole answer."""
        unfinished = self._completion.unfinished
        if self._completion.empty or (unfinished and not self.done):
            raise FailedError(BROKEN_OFF)
        for index in unfinished:
            yield from self._calls.complete(index)
        yield from documents.usage(self._completion.usage)

    def fail(self, problem: Problem) -> Iterator[bytes]:
        """The operation fails: what must be said before response.error."""
        return self._calls.fail(problem)

    def completed(self) -> bytes:
        """The response.completed document."""
        try:
            return documents.completed(written(self._completion.body(self._calls)))
        except ValueError:
            raise unusable("The server sent a number that is none.") from None


def whole_as_stream(body: bytes) -> Iterator[bytes]:
    """The events that an answer would have had, where a server didn't stream though it was asked to."""
    answer = document_of(body)
    stream = ChatStream()
    chunk = {**answer, "choices": [_as_delta(c) for c in _choices(answer)]}
    stream.done = True
    yield from stream.take(chunk)
    yield from stream.finish()


def _choices(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(c, dict) for c in choices):
        raise unusable("The server sent an answer without choices.")
    return choices


def _as_delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    message = dict(documents.object_in(choice, "message"))
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [
            {**call, "index": place} for place, call in enumerate(calls) if isinstance(call, dict)
        ]
    return {**choice, "delta": message}
