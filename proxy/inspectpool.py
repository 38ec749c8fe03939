"""Inspects large documents in processes of their own, so that no other stream waits for them.

A document of many megabytes takes a good part of a second to be read and checked: too long for a loop that
passes other people's streams on. An inspector gives such work away as a task; here it waits for a process
(inspectworker.py), within bounds of bytes and of time.

What belongs here: the bounds, and what is asked of the processes. What doesn't: the processes (workers.py),
what a task is (validators/aside.py), how traffic goes on meanwhile (tee.py).
"""

from __future__ import annotations

import dataclasses
import json
from types import TracebackType
from typing import Final, Self

from teeline.proxy.workers import Kind, Lane, WorkerError
from teeline.validators.aside import MAX_REPORT
from teeline.validators.events import Report, Task
from teeline.validators.limits import DEFAULT_LIMITS, Limits

MAX_WAITING: Final = 128 * 1024 * 1024
"""Bytes of all tasks that wait or are at work: what inspection may hold of bodies that have passed."""
MEMORY: Final = 2 * 1024 * 1024 * 1024
"""Address space of a process: a document of 16 MiB takes a tenth of it, where it isn't made to take more."""


class InspectPool:
    """Processes that do tasks, and a bounded queue before them.

    ``timeout`` is how many seconds a task may take, ``patience`` how many it may wait for a process,
    ``max_waiting`` how many bytes of tasks are held at once. ``memory`` bounds the address space of a
    process. ``async with`` starts and closes it; ``inspect`` starts it, too, so that who never meets a
    large document pays for no process.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        workers: int = 1,
        timeout: float = 15.0,
        patience: float = 15.0,
        max_waiting: int = MAX_WAITING,
        memory: int = MEMORY,
    ) -> None:
        arguments = (str(memory), str(int(timeout) + 2), json.dumps(dataclasses.asdict(limits)))
        kind = Kind("teeline.proxy.inspectworker", arguments, "inspection", MAX_REPORT)
        self._lane = Lane(workers, timeout, patience, kind)
        self._max_waiting = max_waiting
        self._held = 0
        self.longest = timeout + patience

    async def __aenter__(self) -> Self:
        await self._lane.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Kills the processes, whatever they do, and waits for their end. May be called twice."""
        await self._lane.close()

    async def inspect(self, task: Task) -> Report:
        """The report of a task, or why there is none; never raises for what a task holds.

        ``failed`` is ``busy`` (too much waits, or no process was free in time), ``timeout``, ``crashed``
        (out of memory, too), ``report-limit`` (more was found than a report holds) or ``unavailable``.
        """
        size = task.size
        if self._held + size > self._max_waiting:
            return Report(failed="busy")
        self._held += size
        try:
            answer = await self._lane.ask((_lengths(task), task.header, task.request, *task.pieces))
        except WorkerError:
            return Report(failed="unavailable")  # logged where the process failed to start
        finally:
            self._held -= size
        if answer.failed:
            return Report(failed=answer.failed)
        return Report(answer.data) if answer.data else Report(failed="report-limit")


def _lengths(task: Task) -> bytes:
    body = sum(map(len, task.pieces))
    kind = task.kind.encode("ascii")
    lengths = (len(kind), len(task.header), len(task.request), body)
    return b"".join(length.to_bytes(4, "big") for length in lengths) + kind
