"""The profile's events and documents as bytes.

What belongs here: how each is written, and what of another's JSON goes into it unchanged. What doesn't:
when one is due (adapter/), packets (validators/wire/nnrpencode.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from teeline.validators.fields.nnrp import (
    CANCELLED,
    CHAT_COUNTS,
    COMPLETED,
    COUNTS,
    DELTA,
    DONE,
    ERROR,
    FAILED,
    STARTED,
    TEXT,
    USAGE,
    is_count,
)
from teeline.validators.wire.jsonraw import on_one_line

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")


def written(value: Any) -> bytes:
    """A value as compact UTF-8 JSON. ValueError for a number that JSON can't write.

    Halves of surrogate pairs become U+FFFD: no UTF-8 has them.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _HALF_PAIR.sub("\ufffd", text).encode()


class Problem(NamedTuple):
    """An error as response.error tells it; ``status`` is its HTTP counterpart, ``more`` other members.

    ``retry_ms``: milliseconds after which to ask again, 0 where nothing is known.
    """

    type: str
    code: str
    message: str
    status: int = 400
    more: Mapping[str, Any] = {}
    retry_ms: int = 0

    @property
    def document(self) -> bytes:
        """The response.error document."""
        error = {"type": self.type, "code": self.code, "message": self.message, **self.more}
        return written({"type": ERROR, "error": error})


class FailedError(Exception):
    """An operation ends with this problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem


def refused(code: str, message: str, status: int = 400) -> FailedError:
    """A request that is at fault."""
    return FailedError(Problem("invalid_request_error", code, message, status))


OVERLOADED: Final = Problem("server_error", "overloaded", "Too many operations are open.", 503)
INTERNAL: Final = Problem("server_error", "internal_error", "The server failed.", 500)


class CallId(NamedTuple):
    """Which tool call an event is about."""

    place: int
    item_id: str
    call_id: str

    @property
    def members(self) -> dict[str, Any]:
        """What each event of the call says of it."""
        return {"index": self.place, "item_id": self.item_id, "call_id": self.call_id}


def text(index: int, delta: str) -> bytes:
    """A piece of a choice's text."""
    return written({"type": TEXT, "index": index, "delta": delta})


def started(call: CallId, name: str) -> bytes:
    """A tool call begins."""
    return written({"type": STARTED, **call.members, "name": name})


def arguments(call: CallId, delta: str) -> bytes:
    """A piece of a tool call's arguments."""
    return written({"type": DELTA, **call.members, "arguments_delta": delta})


def completed_call(call: CallId, name: str, whole: str) -> bytes:
    """A tool call is whole."""
    return written({"type": DONE, **call.members, "name": name, "arguments": whole})


def failed_call(call: CallId, problem: Problem) -> bytes:
    """A tool call will never be whole."""
    error = {"type": problem.type, "code": problem.code, "message": problem.message}
    return written({"type": FAILED, **call.members, "error": error})


def usage(told: Any) -> Iterator[bytes]:
    """The counts of a usage object of chat or Responses, in one event or, where they can't be told, none."""
    if not isinstance(told, dict):
        return
    counts = {name: told.get(name, told.get(CHAT_COUNTS.get(name, name))) for name in COUNTS}
    input_, output, total = (counts[name] for name in COUNTS)
    if total is None and is_count(input_) and is_count(output):
        counts["total_tokens"] = input_ + output
    if all(map(is_count, counts.values())):
        yield written({"type": USAGE, "usage": counts})


def with_chunk(events: Iterator[bytes], chunk: bytes) -> Iterator[bytes]:
    """Events with the server's chunk that they were made of, as it was written.

    The first one has it alone: whoever replays chunks must not find one of them twice. None has one with
    escaped surrogates, of which one may have lost its other half.
    """
    fits = b"\\ud" not in chunk.lower()
    chunk = on_one_line(chunk.strip())
    for event in events:
        yield event[:-1] + b',"openai_chunk":' + chunk + b"}" if fits else event
        fits = False


def completed(body: bytes) -> bytes:
    """The document of a success, around the answer's own JSON text."""
    return b'{"type":' + written(COMPLETED) + b',"body":' + body + b"}"


def cancelled(reason: str) -> bytes:
    """The document of an operation that was cancelled."""
    return written({"type": CANCELLED, "reason": reason})


def object_in(value: Any, name: str) -> Mapping[str, Any]:
    """A member that is an object; an empty one where it isn't."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}
