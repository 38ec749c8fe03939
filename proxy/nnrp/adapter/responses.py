"""Responses of a server as the profile's events and its completed document.

What belongs here: what one event becomes. What doesn't: the event stream around it (service.py), the life
of tool calls (toolcalls.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from teeline.proxy.nnrp import documents
from teeline.proxy.nnrp.adapter.chat import DONE, document_of
from teeline.proxy.nnrp.adapter.errors import BROKEN_OFF, of_event, unusable
from teeline.proxy.nnrp.adapter.toolcalls import ToolCalls
from teeline.proxy.nnrp.documents import FailedError, Problem
from teeline.validators.wire.jsonraw import members_of

_ENDS: Final = ("response.completed", "response.incomplete")
_FUNCTION: Final = "function_call"


class ResponsesStream:
    """One streamed Response. Methods give the events that are due now, in their order, as in chat.py."""

    def __init__(self) -> None:
        self._calls = ToolCalls()
        self._places: dict[str, int] = {}
        self._told: set[int] = set()
        self._response: bytes | None = None
        self._usage: Any = None

    @property
    def done(self) -> bool:
        """The end was told."""
        return self._response is not None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The events of one event's data. FailedError where the server fails or says what can't be."""
        if self.done or data.strip() == DONE:
            return
        event = document_of(data)
        kind = event.get("type")
        if kind in ("error", "response.failed"):
            inner = event if kind == "error" else event.get("response")
            told = inner.get("error") if isinstance(inner, dict) else None
            raise FailedError(of_event(told if told is not None else inner))
        if kind in _ENDS:
            self._ended(data, event)
            return
        yield from documents.with_chunk(self.take(kind, event), data)

    def _ended(self, data: bytes, event: Mapping[str, Any]) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            raise unusable("The server ended a stream without its response.")
        self._response = members_of(data)["response"]
        self._usage = response.get("usage")

    def take(self, kind: Any, event: Mapping[str, Any]) -> Iterator[bytes]:
        """The events of an event that was read, other than one that ends the stream."""
        item = documents.object_in(event, "item")
        if kind == "response.output_text.delta":
            delta, index = event.get("delta"), event.get("output_index")
            place = index if isinstance(index, int) and index >= 0 else 0
            if isinstance(delta, str) and delta:
                yield documents.text(int(place), delta)
        elif kind == "response.output_item.added" and item.get("type") == _FUNCTION:
            yield from self._piece(item.get("id"), item, "")
        elif kind == "response.function_call_arguments.delta":
            yield from self._piece(event.get("item_id"), {}, event.get("delta"))
        elif kind == "response.output_item.done" and item.get("type") == _FUNCTION:
            place = self._place(item.get("id"))
            whole = "" if place in self._told else item.get("arguments")
            yield from self._piece(item.get("id"), item, whole)
            yield from self._calls.complete(place)

    def _piece(self, item_id: Any, item: Mapping[str, Any], delta: Any) -> Iterator[bytes]:
        """A piece of the call that an item is; each item is a place of its own."""
        place = self._place(item_id)
        if delta:
            self._told.add(place)
        function = {"name": item.get("name"), "arguments": delta}
        piece = {"id": item.get("call_id"), "item_id": item_id, "function": function}
        return self._calls.piece(place, piece)

    def _place(self, item_id: Any) -> int:
        if not isinstance(item_id, str):
            raise unusable("The server sent a tool call that has no item.")
        return self._places.setdefault(item_id, len(self._places))

    def finish(self) -> Iterator[bytes]:
        """The stream has come to its end: the last documents. FailedError where it is no whole answer."""
        if self._response is None:
            raise FailedError(BROKEN_OFF)
        for place in self._places.values():
            yield from self._calls.complete(place)
        yield from documents.usage(self._usage)

    def fail(self, problem: Problem) -> Iterator[bytes]:
        """The operation fails: what must be said before response.error."""
        return self._calls.fail(problem)

    def completed(self) -> bytes:
        """The response.completed document."""
        assert self._response is not None  # finish came first
        return documents.completed(self._response)


def whole_as_stream(body: bytes) -> Iterator[bytes]:
    """The events that a Response would have had, where a server didn't stream though it was asked to."""
    answer = document_of(body)
    stream = ResponsesStream()
    output = answer.get("output")
    for place, item in enumerate(output if isinstance(output, list) else ()):
        content = item.get("content") if isinstance(item, dict) else None
        for part in content if isinstance(content, list) else ():
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str) and text:
                yield documents.text(place, text)
        yield from stream.take("response.output_item.done", {"item": item})
    yield from documents.usage(answer.get("usage"))
