"""Checks documents against schemas from requests, in processes that can be killed.

A request's schema is written by whoever sends the request: it may be huge, nest without end, point
to other machines or hold a regular expression that runs for years. So nothing of it is evaluated
here; worker processes (schemaworker.py) do, one check each at a time, and one that is late is
killed and replaced.

What belongs here: the processes, the queue before them, the time limits. What doesn't: what a check
is (schemaworker.py), what its result means for an exchange (the inspector).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

import orjson

from teeline.validators.events import SchemaError, SchemaResult

log = logging.getLogger("teeline.schemapool")

_MAX_ANSWER: Final = 64 * 1024
_BOOT_SECONDS: Final = 30.0
_ENVIRONMENT: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"),
)


class SchemaPoolError(Exception):
    """No worker process can be started; the text is one line."""


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
        self._quick = _Lane(workers, min(quick, timeout), patience, arguments)
        self._slow = _Lane(1, timeout, patience, arguments)
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
        """Starts the quick processes and waits until they are ready; raises SchemaPoolError."""
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
            result = await self._quick.check(schema_text, document_text)
            if result.unchecked == "timeout":
                result = await self._slow.check(schema_text, document_text)
        except SchemaPoolError:
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


class _Lane:
    """Processes that give each check the same time, and the checks that wait for one of them."""

    def __init__(
        self, workers: int, seconds: float, patience: float, arguments: tuple[str, ...]
    ) -> None:
        self.waiting = 0
        self._seconds = seconds
        self._patience = patience
        self._workers = [_Worker(arguments) for _ in range(workers)]
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._replacing: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Starts the processes, once; raises SchemaPoolError where one does not start."""
        if self._closed:
            raise SchemaPoolError("the pool is closed")
        if self._started:
            return
        self._started = True
        try:
            await asyncio.gather(*(worker.boot() for worker in self._workers))
        finally:
            for worker in self._workers:
                self._idle.put_nowait(worker)

    async def close(self) -> None:
        self._closed = True
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*(worker.kill() for worker in self._workers))

    async def check(self, schema: bytes, document: bytes) -> SchemaResult:
        """The result, ``busy``, ``timeout`` or ``crashed``; raises SchemaPoolError."""
        try:
            worker = await self._free_worker()
        except TimeoutError:
            return SchemaResult(unchecked="busy")
        try:
            async with asyncio.timeout(self._seconds):
                result = await worker.ask(schema, document)
        except TimeoutError:
            self._replace(worker)
            return SchemaResult(unchecked="timeout")
        except (EOFError, OSError, ValueError) as error:
            log.warning("a schema worker ended in a check: %s", type(error).__name__)
            self._replace(worker)
            return SchemaResult(unchecked="crashed")
        except asyncio.CancelledError:
            # Its answer would be read as that of the next check.
            self._replace(worker)
            raise
        self._idle.put_nowait(worker)
        return result

    async def _free_worker(self) -> _Worker:
        """A ready process; raises TimeoutError after ``patience`` seconds, SchemaPoolError."""
        self.waiting += 1
        try:
            await self.start()
            async with asyncio.timeout(self._patience):
                worker = await self._idle.get()
        finally:
            self.waiting -= 1
        if not worker.ready:
            # It was to be replaced and could not: the next check in need finds what this one tries.
            self._replace(worker)
            raise SchemaPoolError("a process could not be started or replaced")
        return worker

    def _replace(self, worker: _Worker) -> None:
        if self._closed:
            return
        task = asyncio.create_task(self._replaced(worker))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _replaced(self, worker: _Worker) -> None:
        try:
            await worker.kill()
            await worker.boot()
        except SchemaPoolError:
            # The next check that needs the process tries again; boot has logged it.
            pass
        self._idle.put_nowait(worker)


class _Worker:
    """One process, asked one thing at a time."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self.ready = False

    async def boot(self) -> None:
        """Starts the process and waits for its first answer; raises SchemaPoolError."""
        try:
            # -P: a module of the current folder must not stand in for one of ours. stderr would
            # carry text of a schema to the terminal; a session of its own keeps ^C away.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "teeline.proxy.schemaworker", *self._arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=_environment(os.environ),
                start_new_session=True,
            )
            async with asyncio.timeout(_BOOT_SECONDS):
                await self._answer()
        except (EOFError, OSError, ValueError) as error:
            await self.kill()
            log.error("a schema worker does not start: %s", type(error).__name__)
            raise SchemaPoolError(f"the process does not start ({type(error).__name__})") from error
        self.ready = True

    async def ask(self, schema: bytes, document: bytes) -> SchemaResult:
        """The answer to one request; raises EOFError, OSError or ValueError where there is none."""
        if self._process is None or self._process.stdin is None:
            raise EOFError
        lengths = (len(text).to_bytes(4, "big") for text in (schema, document))
        self._process.stdin.write(b"".join((*lengths, schema, document)))
        await self._process.stdin.drain()
        return await self._answer()

    async def _answer(self) -> SchemaResult:
        if self._process is None or self._process.stdout is None:
            raise EOFError
        length = int.from_bytes(await self._process.stdout.readexactly(4), "big")
        if length > _MAX_ANSWER:
            raise ValueError("an answer beyond its bounds")
        message = json.loads(await self._process.stdout.readexactly(length))
        errors = tuple(SchemaError(pointer, keyword) for pointer, keyword in message["errors"])
        return SchemaResult(errors, message["unchecked"])

    async def kill(self) -> None:
        """Ends the process at once and waits until it is gone; once more after a cancelled wait."""
        self.ready = False
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            try:
                process.kill()
            except ProcessLookupError:
                log.debug("the worker had ended already")
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
        self._process = None


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What Python needs to start, and nothing else: no key of ours is near a foreign schema."""
    return {name: environment[name] for name in _ENVIRONMENT if name in environment}
