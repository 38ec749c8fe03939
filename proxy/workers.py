"""Processes of our own that are asked one thing at a time, can be killed, and are replaced when late.

What belongs here: how such a process is started, asked and ended, and the queue before several of them.
What doesn't: what is asked (schemapool.py, inspectpool.py) and answered (schemaworker.py,
inspectworker.py). A process says with a first answer, unasked, that it is ready; an answer is a length of
four bytes, big-endian, and so many bytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

log = logging.getLogger("teeline.workers")

_BOOT_SECONDS: Final = 30.0
_WRITTEN: Final = 256 * 1024
"""Bytes that are handed to the pipe at once: more would be copied and copied again in this process."""
_ENVIRONMENT: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"),
)


class WorkerError(Exception):
    """No process can be started; the text is one line."""


class Kind(NamedTuple):
    """Which process: its module, its arguments, a word for logs, and the most bytes that it answers."""

    module: str
    arguments: tuple[str, ...]
    word: str
    max_answer: int


class Answer(NamedTuple):
    """What a process answered, or ``busy``, ``timeout`` or ``crashed``."""

    data: bytes = b""
    failed: str = ""


class Lane:
    """Processes that give each question the same time, and the questions that wait for one of them.

    ``seconds`` is what an answer may take, ``patience`` what a question waits for a process.
    """

    def __init__(self, count: int, seconds: float, patience: float, kind: Kind) -> None:
        self.waiting = 0
        self._word = kind.word
        self._seconds = seconds
        self._patience = patience
        self._workers = [_Worker(kind) for _ in range(count)]
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._replacing: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Starts the processes, once; raises WorkerError where one does not start."""
        if self._closed:
            raise WorkerError("the pool is closed")
        if self._started:
            return
        self._started = True
        try:
            await asyncio.gather(*(worker.boot() for worker in self._workers))
        finally:
            for worker in self._workers:
                self._idle.put_nowait(worker)

    async def close(self) -> None:
        """Kills the processes, whatever they do, and waits for their end. May be called twice."""
        self._closed = True
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*(worker.kill() for worker in self._workers))

    async def ask(self, question: Sequence[bytes]) -> Answer:
        """The answer to a question, whose pieces follow each other; raises WorkerError."""
        try:
            worker = await self._free_worker()
        except TimeoutError:
            return Answer(failed="busy")
        try:
            async with asyncio.timeout(self._seconds):
                data = await worker.ask(question)
        except TimeoutError:
            self._replace(worker)
            return Answer(failed="timeout")
        except (EOFError, OSError, ValueError) as error:
            log.warning("a %s worker ended at work: %s", self._word, type(error).__name__)
            self._replace(worker)
            return Answer(failed="crashed")
        except asyncio.CancelledError:
            # Its answer would be read as that to the next question.
            self._replace(worker)
            raise
        self._idle.put_nowait(worker)
        return Answer(data)

    async def _free_worker(self) -> _Worker:
        """A ready process; raises TimeoutError after ``patience`` seconds, WorkerError."""
        self.waiting += 1
        try:
            await self.start()
            async with asyncio.timeout(self._patience):
                worker = await self._idle.get()
        finally:
            self.waiting -= 1
        if not worker.ready:
            # It was to be replaced and could not: the next one in need finds what this one tries.
            self._replace(worker)
            raise WorkerError("a process could not be started or replaced")
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
        except WorkerError:
            # The next question that needs the process tries again; boot has logged it.
            pass
        self._idle.put_nowait(worker)


class _Worker:
    """One process, asked one thing at a time."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._process: asyncio.subprocess.Process | None = None
        self.ready = False

    async def boot(self) -> None:
        """Starts the process and waits for its first answer; raises WorkerError."""
        try:
            # -P: a module of the current folder must not stand in for one of ours. stderr would
            # carry text of a peer to the terminal; a session of its own keeps ^C away.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", self._kind.module, *self._kind.arguments),
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
            log.error("a %s worker does not start: %s", self._kind.word, type(error).__name__)
            raise WorkerError(f"the process does not start ({type(error).__name__})") from error
        self.ready = True

    async def ask(self, question: Sequence[bytes]) -> bytes:
        """The answer; raises EOFError, OSError or ValueError where there is none."""
        if self._process is None or self._process.stdin is None:
            raise EOFError
        for piece in question:
            for at in range(0, len(piece), _WRITTEN):
                self._process.stdin.write(piece[at : at + _WRITTEN])
                await self._process.stdin.drain()
        return await self._answer()

    async def _answer(self) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise EOFError
        length = int.from_bytes(await self._process.stdout.readexactly(4), "big")
        if length > self._kind.max_answer:
            raise ValueError("an answer beyond its bounds")
        return await self._process.stdout.readexactly(length)

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
    """What Python needs to start, and nothing else: no key of ours is near what a peer wrote."""
    return {name: environment[name] for name in _ENVIRONMENT if name in environment}
