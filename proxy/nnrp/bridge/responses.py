"""Events of a Responses operation as the event stream of the Responses API.

What belongs here: the stream's life cycle, its items and parts, made of what the profile tells. What doesn't:
sending (handler.py), answers that don't stream.

The profile has text, tool calls, usage and the end; the API's stream has a frame around each of them. So
nothing is replayed: ids and positions of an openai_chunk are taken over, the events are made. The response's
id is told before the server has told its own; the final response carries the one that was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from teeline.proxy.nnrp.bridge.failure import (
    FailureError,
    broken,
)
from teeline.proxy.nnrp.bridge.stream import Stream
from teeline.proxy.nnrp.bridge.told import Document, Event, dumped, objects
from teeline.validators.fields.nnrp import (
    CANCELLED,
    COMPLETED,
    DELTA,
    DONE,
    ERROR,
    FAILED,
    STARTED,
    TEXT,
    USAGE,
)

MOST_ITEMS: Final = 1024
MOST_TEXT: Final = 16 * 1024 * 1024
"""Characters of all items: their ends repeat what was streamed."""
_ENDS: Final = {"incomplete": "response.incomplete", "failed": "response.failed"}
_ECHOED: Final[Mapping[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Members that a response repeats of its request, and what stands where it has none."""


@dataclass(slots=True)
class _Item:
    """A message or a function call that is streamed."""

    id: str
    index: int
    call_id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list)
    done: bool = False

    @property
    def whole(self) -> str:
        return "".join(self.text)

    def shape(self, status: str, text: str) -> dict[str, Any]:
        """The item as it stands in an event."""
        if self.call_id:
            return {"id": self.id, "type": "function_call", "status": status,
                    "call_id": self.call_id, "name": self.name, "arguments": text}  # fmt: skip
        content = [_part(text)] if status == "completed" else []
        return {"id": self.id, "type": "message", "status": status, "role": "assistant",
                "content": content}  # fmt: skip


@dataclass(slots=True)
class ResponsesStream(Stream):
    """One stream. ``made_id`` and ``created`` stand for what the server tells only at its end."""

    _number: int = 0
    _begun: bool = False
    _items: dict[Any, _Item] = field(default_factory=dict)
    _size: int = 0

    def begin(self) -> bytes:
        """What opens the stream before anything is told; nothing when called again."""
        return b"".join(self._opened())

    def error(self, failure: FailureError) -> bytes:
        """What ends a stream that can't go on."""
        error = failure.error
        told = {name: error.get(name) for name in ("code", "message", "param")}
        return self._event("error", **told)

    def event(self, event: Event) -> bytes:
        """What an event adds to the stream. Raises FailureError."""
        handler = _HANDLERS.get(event.kind)
        if handler is None:
            return b""
        return b"".join(self._opened()) + b"".join(handler(self, event))

    # -- events ----------------------------------------------------------------------------------------

    def _text(self, event: Event) -> Iterator[bytes]:
        delta = event.text("delta")
        if not delta:
            return
        key = event.count("index")
        if key not in self._items:
            yield from self._added(key, _Item(self._chunk_id(event), len(self._items)))
            yield self._of(self._items[key], "response.content_part.added", part=_part(""))
        item = self._items[key]
        self._keep(item, delta)
        yield self._of(item, "response.output_text.delta", delta=delta, logprobs=[])

    def _chunk_id(self, event: Event) -> str:
        """The id of a message: the server's own, where a chunk tells it."""
        chunk = event.members.get("openai_chunk")
        told = chunk.get("item_id") if isinstance(chunk, dict) else None
        taken = {item.id for item in self._items.values()}
        if isinstance(told, str) and told and told not in taken:
            return told
        return f"msg_{self.made_id.removeprefix('resp_')}_{len(self._items)}"

    def _started(self, event: Event) -> Iterator[bytes]:
        call_id, name = event.text("call_id"), event.text("name")
        if not call_id or not name or call_id in self._items:
            raise broken("a tool call was not started once, by its call_id and name.")
        yield from self._call(event, call_id, name)

    def _call(self, event: Event, call_id: str, name: str) -> Iterator[bytes]:
        item_id = event.text("item_id") or f"fc_{call_id}"
        yield from self._added(call_id, _Item(item_id, len(self._items), call_id, name))

    def _arguments(self, event: Event) -> Iterator[bytes]:
        item = self._items.get(event.text("call_id"))
        if item is None or item.done:
            raise broken("a tool call went on that was not open.")
        delta = event.text("arguments_delta")
        if delta:
            yield from self._more_arguments(item, delta)

    def _more_arguments(self, item: _Item, delta: str) -> Iterator[bytes]:
        self._keep(item, delta)
        yield self._of(item, "response.function_call_arguments.delta", delta=delta)

    def _call_done(self, event: Event) -> Iterator[bytes]:
        call_id, arguments = event.text("call_id"), event.text("arguments")
        if call_id not in self._items:
            if not call_id or not event.text("name"):
                raise broken("a tool call has no call_id or no name.")
            yield from self._call(event, call_id, event.text("name"))
        item = self._items[call_id]
        if arguments and not item.text:
            yield from self._more_arguments(item, arguments)
        yield from self._done(item)

    # -- the frame around them -------------------------------------------------------------------------

    def _event(self, kind: str, **members: Any) -> bytes:
        data = dumped({"type": kind, "sequence_number": self._number, **members})
        self._number += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)

    def _of(self, item: _Item, kind: str, **members: Any) -> bytes:
        place: dict[str, Any] = {"item_id": item.id, "output_index": item.index}
        if not item.call_id:
            place["content_index"] = 0
        return self._event(kind, **place, **members)

    def _opened(self) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            yield self._event("response.created", response=self._response("in_progress"))
            yield self._event("response.in_progress", response=self._response("in_progress"))

    def _response(self, status: str) -> dict[str, Any]:
        body = self.asked.body
        echoed = {n: body[n] if body.get(n) is not None else v for n, v in _ECHOED.items()}
        return {
            "id": self.made_id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.asked.model,
            "output": [],
            "usage": None,
            **echoed,
        }

    def _added(self, key: Any, item: _Item) -> Iterator[bytes]:
        if len(self._items) >= MOST_ITEMS:
            raise broken("a response has too many items.")
        self._count(item.id, item.call_id, item.name)
        self._items[key] = item
        shape = item.shape("in_progress", "")
        yield self._event("response.output_item.added", output_index=item.index, item=shape)

    def _keep(self, item: _Item, text: str) -> None:
        self._count(text)
        item.text.append(text)

    def _count(self, *texts: str) -> None:
        self._size += sum(map(len, texts))
        if self._size > MOST_TEXT:
            raise broken("a response is larger than the bridge keeps.")

    def _done(self, item: _Item) -> Iterator[bytes]:
        """The events that end an item, once."""
        if item.done:
            return
        item.done, text = True, item.whole
        if item.call_id:
            kind = "response.function_call_arguments.done"
            yield self._of(item, kind, name=item.name, arguments=text)
        else:
            yield self._of(item, "response.output_text.done", text=text, logprobs=[])
            yield self._of(item, "response.content_part.done", part=_part(text))
        shape = item.shape("completed", text)
        yield self._event("response.output_item.done", output_index=item.index, item=shape)

    # -- the end ---------------------------------------------------------------------------------------

    def end(self, document: Document) -> bytes:
        """What ends the items, and the final response. Raises FailureError."""
        body = self._final(document)
        return b"".join(self._opened()) + b"".join(self._ended(body))

    def _ended(self, body: Mapping[str, Any]) -> Iterator[bytes]:
        for item in self._items.values():
            yield from self._done(item)
        final = {**self._response("completed"), "usage": _usage(self._usage)}
        final |= {**body, "id": self.made_id}
        output, rest = self._matched(objects(body, "output"))
        for whole in rest:
            index = len(output)
            output.append(whole)
            yield self._event("response.output_item.added", output_index=index, item=_empty(whole))
            yield from self._filled(index, whole)
            yield self._event("response.output_item.done", output_index=index, item=whole)
        final["output"] = output
        yield self._event(_ENDS.get(str(final["status"]), "response.completed"), response=final)

    def _matched(
        self, output: list[Mapping[str, Any]]
    ) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """The final items in the order in which they were streamed, and those that were not."""
        left = list(output)
        found: list[Mapping[str, Any]] = []
        for item in self._items.values():
            theirs = next((o for o in left if _is_of(o, item)), None)
            if theirs is None:
                found.append(item.shape("completed", item.whole))
            else:
                left.remove(theirs)
                found.append({**theirs, "id": item.id})
        return found, left

    def _filled(self, index: int, item: Mapping[str, Any]) -> Iterator[bytes]:
        """The inside of an item that no event told of: text and arguments in one piece."""
        item_id = item.get("id")
        place = {"item_id": item_id, "output_index": index}
        if item.get("type") == "function_call" and isinstance(item.get("arguments"), str):
            told = {"delta": item["arguments"]}
            yield self._event("response.function_call_arguments.delta", **place, **told)
            told = {"name": item.get("name"), "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", **place, **told)
        for number, part in enumerate(objects(item, "content")):
            if part.get("type") != "output_text" or not isinstance(part.get("text"), str):
                continue
            at = {**place, "content_index": number}
            yield self._event("response.content_part.added", **at, part=_part(""))
            text = part["text"]
            yield self._event("response.output_text.delta", **at, delta=text, logprobs=[])
            yield self._event("response.output_text.done", **at, text=text, logprobs=[])
            yield self._event("response.content_part.done", **at, part=part)


_HANDLERS: Final = {
    TEXT: ResponsesStream._text,
    STARTED: ResponsesStream._started,
    DELTA: ResponsesStream._arguments,
    DONE: ResponsesStream._call_done,
    FAILED: ResponsesStream._error,
    USAGE: ResponsesStream._counted,
    COMPLETED: ResponsesStream._completed_early,
    ERROR: ResponsesStream._error,
    CANCELLED: ResponsesStream._cancelled,
}


def _usage(told: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The usage of an event with the details that clients of this API rely on."""
    if told is None:
        return None
    details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    return {**details, "output_tokens_details": {"reasoning_tokens": 0}, **told}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _is_of(theirs: Mapping[str, Any], item: _Item) -> bool:
    if item.call_id:
        return theirs.get("type") == "function_call" and theirs.get("call_id") == item.call_id
    return theirs.get("type") == "message"


def _empty(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as it is added: begun, and nothing in it yet."""
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    if item.get("type") == "message":
        begun["content"] = []
    elif item.get("type") == "function_call":
        begun["arguments"] = ""
    return begun
