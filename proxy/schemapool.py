"""Checks documents against schemas from requests, in processes that can be killed.

A request's schema is written by whoever sends the request: it may be huge, nest without end, point
to other machines or hold a regular expression that runs for years. So nothing of it is evaluated
here; worker processes (schemaworker.py) do, one check each at a time, and one that is late is
killed and replaced.

What belongs here: what is asked of them, in which lane, and the bounds. What doesn't: the processes
(workers.py), what a check is (schemaworker.py), what its result means for an exchange (the inspector).
"""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Final, Self

import orjson

from teeline.proxy.workers import Kind, Lane, WorkerError
from teeline.validators.events import SchemaError, SchemaResult

_MAX_ANSWER: Final = 64 * 1024


class SchemaPool:
    """Worker processes in two lanes, and bounded queues before them.

    A check that runs longer than ``quick`` seconds leaves the quick lane of ``workers`` processes
    and gets its ``timeout`` in a slow lane of one process: what hangs holds up other checks for the
    former, not for the latter. ``patience`` is how many seconds a check may wait for a process in a
    lane (``timeout`` where not given), ``max_waiting`` how many wait at once.
    ``max_schema_bytes`` and ``max_document_bytes`` bound the two as JSON text, ``max_depth`` their
    levels, ``memory`` the address space of a process in bytes.

    ``async with`` starts and closes it; ``check`` starts it, too, so that who may never need a
    process pays for none.
    """

    def __init__(
        self,
        workers: int = 1,
        timeout: float = 1.0,
        *,
        quick: float = 0.25,
        patience: float | None = None,
        max_waiting: int = 64,
        max_schema_bytes: int = 256 * 1024,
        max_document_bytes: int = 1024 * 1024,
        max_depth: int = 64,
        memory: int = 512 * 1024 * 1024,
    ) -> None:
        arguments = (str(memory), str(int(timeout) + 2), str(max_depth))
        patience = timeout if patience is None else patience
        kind = Kind("teeline.proxy.schemaworker", arguments, "schema", _MAX_ANSWER)
        self._quick = Lane(workers, min(quick, timeout), patience, kind)
        self._slow = Lane(1, timeout, patience, kind)
        self._max_waiting = max_waiting
        self._max_schema_bytes = max_schema_bytes
        self._max_document_bytes = max_document_bytes

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Starts the quick processes and waits until they are ready; raises WorkerError."""
        await self._quick.start()

    async def close(self) -> None:
        """Kills the processes, whatever they do, and waits for their end. May be called twice."""
        await asyncio.gather(self._quick.close(), self._slow.close())

    async def check(self, schema: Any, document: Any) -> SchemaResult:
        """The result for two JSON values, or why there is none; never raises for what they hold.

        ``unchecked`` is ``too-large`` (size, nesting or a number), ``bad-schema``,
        ``remote-reference``,
        ``timeout``, ``busy`` (no process was free in time), ``memory``, ``engine-error``,
        ``crashed``,
        ``unavailable`` (no process can be started, or the pool is closed).
        """
        schema_text = _json(schema, self._max_schema_bytes)
        document_text = _json(document, self._max_document_bytes)
        if schema_text is None or document_text is None:
            return SchemaResult(unchecked="too-large")
        if self._quick.waiting + self._slow.waiting >= self._max_waiting:
            return SchemaResult(unchecked="busy")
        try:
            result = await _checked(self._quick, schema_text, document_text)
            if result.unchecked == "timeout":
                result = await _checked(self._slow, schema_text, document_text)
        except WorkerError:
            # Logged where the process failed to start.
            return SchemaResult(unchecked="unavailable")
        return result


def _json(value: Any, limit: int) -> bytes | None:
    """A value as JSON text of at most ``limit`` bytes; None where it can't be."""
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:
        # An integer of more than 64 bits, half a surrogate pair, deep nesting.
        return _slow_json(value, limit)
    if len(text) > limit:
        return None
    # orjson writes an infinity (a number beyond a double) as null, which is another type.
    return _slow_json(value, limit) if b"null" in text else text


def _slow_json(value: Any, limit: int) -> bytes | None:
    try:
        text = json.dumps(value).encode("ascii")
    except (RecursionError, ValueError):
        # Nested beyond Python, or an integer of more digits than it writes.
        return None
    return text if len(text) <= limit else None


async def _checked(lane: Lane, schema: bytes, document: bytes) -> SchemaResult:
    lengths = b"".join(len(text).to_bytes(4, "big") for text in (schema, document))
    answer = await lane.ask((lengths, schema, document))
    if answer.failed:
        return SchemaResult(unchecked=answer.failed)
    message = json.loads(answer.data)
    errors = tuple(SchemaError(pointer, keyword) for pointer, keyword in message["errors"])
    return SchemaResult(errors, message["unchecked"])
