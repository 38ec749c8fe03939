"""Tool calls of a stream: pieces in, the events of each call's life out.

What belongs here: which piece belongs to which call, and when a call begins, is whole, or has failed. What
doesn't: choices and text (chat.py), the events that tell of calls in Responses (responses.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from teeline.proxy.nnrp import documents
from teeline.proxy.nnrp.adapter.errors import unusable
from teeline.proxy.nnrp.documents import Problem

MAX_CALLS: Final = 1024
"""Tool calls of one operation, in all its choices."""


@dataclass(slots=True)
class _Call:
    """A call by what came of it; ``number`` is its place among all calls of the operation."""

    choice: int
    place: int
    number: int
    id: str = ""
    item: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    key: documents.CallId | None = None
    ended: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class ToolCalls:
    """The tool calls of an operation, whatever choice they belong to."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], _Call] = {}
        self._ids: set[str] = set()

    def piece(self, choice: int, piece: Any) -> Iterator[bytes]:
        """The events of one element of a delta's ``tool_calls``. FailedError where it is none.

        A member ``item_id`` names the item that the call is in Responses; chat has none.
        """
        place = piece.get("index", 0) if isinstance(piece, dict) else None
        if not isinstance(place, int) or isinstance(place, bool) or place < 0:
            raise unusable("The server sent a tool call that has no place.")
        call = self._calls.get((choice, place))
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                raise unusable("The server sent too many tool calls.")
            call = _Call(choice, place, len(self._calls))
            self._calls[choice, place] = call
        if call.ended:
            raise unusable("The server went on with a tool call that was over.")
        function = documents.object_in(piece, "function")
        call.id = call.id or _text(piece.get("id"))
        call.item = call.item or _text(piece.get("item_id"))
        call.name = call.name or _text(function.get("name"))
        delta = _text(function.get("arguments"))
        if delta:
            call.pieces.append(delta)
        if call.key is not None and delta:
            yield documents.arguments(call.key, delta)
        elif call.key is None and call.name:
            yield from self._begun(call)

    def _begun(self, call: _Call) -> Iterator[bytes]:
        """A call is announced once it has a name; what came before goes out behind that."""
        fresh = call.id and call.id not in self._ids
        call_id = call.id if fresh else f"call_{call.number}"
        while call_id in self._ids:
            call_id += "_"
        self._ids.add(call_id)
        call.key = documents.CallId(call.number, call.item or f"item_{call.number}", call_id)
        yield documents.started(call.key, call.name)
        if call.pieces:
            yield documents.arguments(call.key, call.arguments)

    def complete(self, choice: int) -> Iterator[bytes]:
        """A choice has ended: its calls are whole. Arguments are what the model said, JSON or not."""
        for call in self._of(choice):
            if call.key is None:
                raise unusable("The server sent a tool call that has no name.")
            if not call.ended:
                call.ended = True
                yield documents.completed_call(call.key, call.name, call.arguments)

    def fail(self, problem: Problem) -> Iterator[bytes]:
        """The operation fails: calls that began and are not over end with it."""
        for call in self._calls.values():
            if call.key is not None and not call.ended:
                call.ended = True
                yield documents.failed_call(call.key, problem)

    def message(self, choice: int) -> list[Mapping[str, Any]]:
        """The calls of a choice as a message has them."""
        return [
            {
                "id": call.key.call_id if call.key is not None else call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in self._of(choice)
        ]

    def _of(self, choice: int) -> list[_Call]:
        calls = [call for call in self._calls.values() if call.choice == choice]
        return sorted(calls, key=lambda call: call.place)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
