"""Events of a chat operation as the chunks of a chat completion's event stream.

What belongs here: which chunk tells what, in which order; replaying openai_chunk; finish reasons, usage, the
end. What doesn't: sending (handler.py), answers that don't stream (chatwhole.py).

A chunk that comes along with an event is replayed byte for byte where it says what the event says and fits
the stream that has begun; else a chunk is made of the event. A chunk that says more than its event (text and
a tool call, several choices) is replayed once, and the events that tell the rest of it are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from teeline.proxy.nnrp.bridge.failure import FailureError, broken
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

DONE_MARK: Final = b"data: [DONE]\n\n"
_CHUNK: Final = "chat.completion.chunk"
_HEAD: Final = ("id", "created", "model", "system_fingerprint", "service_tier")
MOST_CHOICES: Final = 128
MOST_CALLS: Final = 1024
LONGEST_ID: Final = 1024
Told = tuple[str, Any, str]
"""One thing that a chunk says: its kind, whose it is, the text."""


@dataclass(slots=True)
class _Choice:
    begun: bool = False
    finished: bool = False
    spoken: bool = False
    calls: int = 0


@dataclass(slots=True)
class _Call:
    index: int
    choice: int
    arguments: bool = False
    ended: bool = False


@dataclass(slots=True)
class ChatStream(Stream):
    """One stream. ``made_id`` and ``created`` stand where the server tells neither.

    ``event`` and ``end`` give bytes to send; both raise FailureError where the stream can't go on.
    """

    _head: dict[str, Any] | None = None
    _choices: dict[int, _Choice] = field(default_factory=dict)
    _calls: dict[str, _Call] = field(default_factory=dict)
    _replayed: bytes = b""
    _ahead: list[Told] = field(default_factory=list)

    def begin(self) -> bytes:
        """What opens the stream before anything is told."""
        return b""

    def error(self, failure: FailureError) -> bytes:
        """What ends a stream that can't go on; no end mark follows."""
        return b"data: " + failure.body + b"\n\n"

    # -- events ----------------------------------------------------------------------------------------

    def event(self, event: Event) -> bytes:
        """What an event adds to the stream; nothing for one that adds nothing."""
        if event.chunk and event.chunk != self._replayed:
            self._ahead.clear()
        handler = _HANDLERS.get(event.kind)
        return b"".join(handler(self, event)) if handler is not None else b""

    def _text(self, event: Event) -> Iterator[bytes]:
        index, delta = event.count("index"), event.text("delta")
        if not delta or self._passed_over(told := (TEXT, index, delta)):
            return
        rest = self._replayable(event, told)
        if rest is None:
            yield from self._delta(index, {"content": delta})
        else:
            yield from self._replay(event, rest)
        self._choice(index).spoken = True

    def _started(self, event: Event) -> Iterator[bytes]:
        call_id, name = event.text("call_id"), event.text("name")
        if self._passed_over(told := (STARTED, call_id, name)):
            return
        if not call_id or not name or call_id in self._calls:
            raise broken("a tool call was not started once, by its call_id and name.")
        rest = self._replayable(event, told)
        if rest is None:
            yield from self._begin_call(call_id, name, "")
        else:
            yield from self._replay(event, rest)

    def _arguments(self, event: Event) -> Iterator[bytes]:
        delta, call = event.text("arguments_delta"), self._calls.get(event.text("call_id"))
        if call is None or call.ended:
            raise broken("a tool call went on that was not open.")
        told = (DELTA, (call.choice, call.index), delta)
        if not delta or self._passed_over(told):
            return
        rest = self._replayable(event, told)
        if rest is None:
            yield from self._continue_call(call, delta)
        else:
            yield from self._replay(event, rest)

    def _call_done(self, event: Event) -> Iterator[bytes]:
        call_id, arguments = event.text("call_id"), event.text("arguments")
        call = self._calls.get(call_id)
        if call is None:
            if not call_id or not event.text("name"):
                raise broken("a tool call has no call_id or no name.")
            yield from self._begin_call(call_id, event.text("name"), "")
            call = self._calls[call_id]
        if arguments and not call.arguments:
            yield from self._continue_call(call, arguments)
        call.ended = True

    # -- replaying -------------------------------------------------------------------------------------

    def _passed_over(self, told: Told) -> bool:
        """Whether a chunk that was replayed has said this already."""
        if told in self._ahead:
            self._ahead.remove(told)
            return True
        return False

    def _replayable(self, event: Event, told: Told) -> list[Told] | None:
        """What the event's chunk says beside it; None where the chunk is not to be replayed."""
        chunk = event.members.get("openai_chunk")
        if not event.chunk or not isinstance(chunk, dict) or not self._fits(chunk):
            return None
        said = self._said(chunk)
        if told not in said:
            return None
        said.remove(told)
        return said

    def _fits(self, chunk: Mapping[str, Any]) -> bool:
        """Whether a chunk is one of this stream, with no more than a client has asked for."""
        named = isinstance(chunk.get("id"), str) and isinstance(chunk.get("model"), str)
        if chunk.get("object") != _CHUNK or not named or not _is_index(chunk.get("created")):
            return False
        if chunk.get("usage") is not None:
            return False
        head = self._head
        return head is None or all(chunk[name] == head[name] for name in ("id", "model"))

    def _said(self, chunk: Mapping[str, Any]) -> list[Told]:
        """What a chunk says, as events tell it; nothing of one that contradicts what was said."""
        found: list[Told] = []
        for choice in objects(chunk, "choices"):
            index, delta = choice.get("index"), choice.get("delta")
            if not _is_index(index) or not isinstance(delta, dict) or self._is_finished(index):
                return []
            if isinstance(delta.get("content"), str) and delta["content"]:
                found.append((TEXT, index, delta["content"]))
            for call in objects(delta, "tool_calls"):
                call_id = call.get("id")
                begins = isinstance(call_id, str) and call_id not in self._calls
                if begins and self._taken(index, call):
                    return []
                found += _said_of_call(index, call)
        return found

    def _taken(self, choice: int, call: Mapping[str, Any]) -> bool:
        """Whether another call has the index of one that begins."""
        place = (choice, call.get("index"))
        return any((known.choice, known.index) == place for known in self._calls.values())

    def _replay(self, event: Event, rest: list[Told]) -> Iterator[bytes]:
        chunk = event.members["openai_chunk"]
        self._head = self._head or {n: chunk[n] for n in _HEAD if n in chunk}
        for choice in objects(chunk, "choices"):
            state, delta = self._choice(choice["index"]), choice["delta"]
            if not state.begun and "role" not in delta:
                yield from self._begin(choice["index"])
            state.begun = True
            state.spoken = state.spoken or bool(delta.get("content"))
            state.finished = bool(choice.get("finish_reason"))
            for call in objects(delta, "tool_calls"):
                self._learn(choice["index"], call)
        self._replayed, self._ahead = event.chunk, rest
        yield b"data: " + event.chunk + b"\n\n"

    def _learn(self, choice: int, call: Mapping[str, Any]) -> None:
        """What a replayed chunk says of a tool call."""
        function = call.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        index, call_id = call.get("index"), call.get("id")
        if not _is_index(index):
            return
        if isinstance(call_id, str) and call_id not in self._calls:
            self._add_call(call_id, _Call(index, choice))
        for known in self._calls.values():
            if (known.choice, known.index) == (choice, index) and arguments:
                known.arguments = True

    # -- making chunks ---------------------------------------------------------------------------------

    def _choice(self, index: int) -> _Choice:
        if index not in self._choices:
            if len(self._choices) >= MOST_CHOICES:
                raise broken("an answer has too many choices.")
            self._choices[index] = _Choice()
        return self._choices[index]

    def _is_finished(self, index: int) -> bool:
        return index in self._choices and self._choices[index].finished

    def _add_call(self, call_id: str, call: _Call) -> None:
        if len(self._calls) >= MOST_CALLS or len(call_id) > LONGEST_ID:
            raise broken("an answer has too many tool calls, or one with too long an id.")
        self._calls[call_id] = call
        self._choice(call.choice).calls += 1

    def _begin_call(
        self, call_id: str, name: str, arguments: str, choice: int = 0
    ) -> Iterator[bytes]:
        call = _Call(self._choice(choice).calls, choice, bool(arguments))
        self._add_call(call_id, call)
        function = {"name": name, "arguments": arguments}
        entry = {"index": call.index, "id": call_id, "type": "function", "function": function}
        yield from self._delta(choice, {"tool_calls": [entry]})

    def _continue_call(self, call: _Call, arguments: str) -> Iterator[bytes]:
        call.arguments = True
        entry = {"index": call.index, "function": {"arguments": arguments}}
        yield from self._delta(call.choice, {"tool_calls": [entry]})

    def _begin(self, index: int) -> Iterator[bytes]:
        if index and not any(choice.begun for choice in self._choices.values()):
            yield from self._begin(0)  # clients expect the first choice first
        self._choice(index).begun = True
        yield self._chunk([_piece(index, {"role": "assistant", "content": ""})])

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[bytes]:
        state = self._choice(index)
        if state.finished:
            raise broken("a choice went on behind its finish.")
        if not state.begun:
            yield from self._begin(index)
        yield self._chunk([_piece(index, delta)])

    def _chunk(self, choices: list[Any], usage: Any = None) -> bytes:
        if self._head is None:
            self._head = {"id": self.made_id, "created": self.created, "model": self.asked.model}
        head = self._head
        chunk: dict[str, Any] = {
            "id": head["id"],
            "object": _CHUNK,
            **{n: head[n] for n in _HEAD[1:] if n in head},
        }
        chunk["choices"] = choices
        if self.asked.include_usage:
            chunk["usage"] = usage
        return b"data: " + dumped(chunk) + b"\n\n"

    # -- the end ---------------------------------------------------------------------------------------

    def end(self, document: Document) -> bytes:
        """What is left to say, finish reasons, usage, and the end mark."""
        body = self._final(document)
        return b"".join(self._ended(body))

    def _ended(self, body: Mapping[str, Any]) -> Iterator[bytes]:
        if self._head is None and isinstance(body.get("id"), str):
            self._head = {"id": self.made_id, "created": self.created, "model": self.asked.model}
            self._head |= {name: body[name] for name in _HEAD if body.get(name) is not None}
        finishes: dict[int, str] = {}
        for choice in objects(body, "choices"):
            index, finish = choice.get("index"), choice.get("finish_reason")
            if _is_index(index):
                finishes[index] = finish if isinstance(finish, str) else ""
                yield from self._untold(index, choice.get("message"))
        for index in sorted(finishes.keys() | self._choices.keys()) or [0]:
            state = self._choice(index)
            if state.finished:
                continue
            if not state.begun:
                yield from self._begin(index)
            finish = finishes.get(index) or ("tool_calls" if state.calls else "stop")
            yield self._chunk([_piece(index, {}, finish)])
        usage = chat_usage(body.get("usage"), self._usage)
        if self.asked.include_usage and usage is not None:
            yield self._chunk([], usage)
        yield DONE_MARK

    def _untold(self, index: int, message: Any) -> Iterator[bytes]:
        """What the final body holds of a choice of which no event told anything."""
        state = self._choice(index)
        if state.finished or not isinstance(message, dict):
            return
        for name in ("content", "refusal"):
            text = message.get(name)
            if text and isinstance(text, str) and not (state.spoken or state.calls):
                yield from self._delta(index, {name: text})
        if state.calls:
            return
        for call in objects(message, "tool_calls"):
            function = call.get("function")
            function = function if isinstance(function, dict) else {}
            told = (call.get("id"), function.get("name"), function.get("arguments"))
            if all(isinstance(text, str) for text in told):
                call_id, name, arguments = map(str, told)
                yield from self._begin_call(call_id, name, arguments, index)


_HANDLERS: Final = {
    TEXT: ChatStream._text,
    STARTED: ChatStream._started,
    DELTA: ChatStream._arguments,
    DONE: ChatStream._call_done,
    FAILED: ChatStream._error,
    USAGE: ChatStream._counted,
    COMPLETED: ChatStream._completed_early,
    ERROR: ChatStream._error,
    CANCELLED: ChatStream._cancelled,
}


def _piece(index: int, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


def _is_index(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _said_of_call(choice: int, call: Mapping[str, Any]) -> Iterator[Told]:
    function, index = call.get("function"), call.get("index")
    if not isinstance(function, dict) or not _is_index(index):
        return
    if isinstance(call.get("id"), str) and isinstance(function.get("name"), str):
        yield STARTED, call["id"], function["name"]
    if isinstance(function.get("arguments"), str) and function["arguments"]:
        yield DELTA, (choice, index), function["arguments"]


_DETAILS: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "total_tokens": "total_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}


def chat_usage(body: Any, told: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The usage of a chat completion: the final body's own, else the event's by the names of chat."""
    if isinstance(body, dict) and "prompt_tokens" in body:
        return body
    if told is None:
        return None
    return {_DETAILS.get(name, name): value for name, value in told.items()}
