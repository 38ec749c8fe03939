"""Work that must not happen on the event loop: one daemon thread behind a bounded queue.

What belongs here: handing queued items to a function in batches, flushing and stopping within a
deadline. What doesn't: what the work is, and what becomes of items that were refused (the sinks).
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import functools
import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger("teeline.background")

Item = TypeVar("Item")


def _no_tick(flush: bool) -> None: ...


def _no_finish() -> None: ...


class Background(Generic[Item]):
    """Batches from one event loop to one thread.

    ``handle(batch)`` runs in the thread with at most ``batch`` items; False keeps the batch, which
    is handed over again after ``interval`` seconds or at the next flush. ``tick(flush)`` runs after
    each round, ``finish()`` as the thread's last act. ``prompt`` wakes the thread for every item;
    without it an item waits up to ``interval`` seconds, unless a whole batch is there; so does what comes
    while others are handled.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[list[Item]], bool],
        *,
        capacity: int,
        batch: int,
        interval: float,
        prompt: bool = False,
        tick: Callable[[bool], None] = _no_tick,
        finish: Callable[[], None] = _no_finish,
    ) -> None:
        self._name = name
        self._handle = handle
        self._tick = tick
        self._finish = finish
        self._capacity = capacity
        self._batch = batch
        self._interval = interval
        self._prompt = prompt
        # deque operations are atomic: one side appends, the other takes, no lock on the hot path.
        self._items: collections.deque[Item] = collections.deque()
        self._kept: list[Item] = []
        self._flushes: collections.deque[concurrent.futures.Future[bool]] = collections.deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._stopped: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self.failures = 0
        """Calls of the given functions that raised: our own mistakes, never a peer's doing."""

    @property
    def waiting(self) -> int:
        """Items that were taken in and not handled yet."""
        return len(self._items) + len(self._kept)

    def start(self) -> None:
        # Daemon: a stuck disk, terminal or collector must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def offer(self, item: Item) -> bool:
        """Takes an item in; False where the queue is full. Never blocks."""
        waiting = len(self._items)
        if waiting >= self._capacity:
            return False
        self._items.append(item)
        if self._prompt or waiting + 1 == self._batch:
            self._wake.set()
        return True

    async def flush(self, deadline: float) -> bool:
        """Waits until all that was offered before has been handled; False where a batch was kept.

        TimeoutError after ``deadline`` seconds.
        """
        if self._thread is None or self._stopping:
            return not self.waiting
        future: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self._flushes.append(future)
        self._wake.set()
        return await asyncio.wait_for(asyncio.wrap_future(future), deadline)

    async def stop(self, deadline: float) -> bool:
        """Ends the thread after a last round; False where ``deadline`` seconds were not enough."""
        if self._thread is None:
            return True
        self._stopping = True
        self._wake.set()
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._stopped)), deadline)
        except TimeoutError:
            return False
        return True

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._interval)
            self._wake.clear()
            self._round()
        self._round()
        self._guarded(self._finish)
        self._stopped.set_result(True)

    def _round(self) -> None:
        # The flushes first: everything offered before one of them is then already in the queue.
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        done = self._work()
        self._guarded(functools.partial(self._tick, bool(flushes)))
        for future in flushes:
            if future.set_running_or_notify_cancel():
                future.set_result(done)

    def _work(self) -> bool:
        # What comes meanwhile waits for its own round unless it fills a batch: a thread that takes
        # whatever is there by now makes a batch of a few items, again and again. The last round takes all.
        left, enough = len(self._items), 1 if self._stopping else self._batch
        while self._kept or left > 0 or len(self._items) >= enough:
            count = min(self._batch - len(self._kept), len(self._items))
            left -= count
            self._kept += [self._items.popleft() for _ in range(count)]
            if self._guarded(functools.partial(self._handle, self._kept)) is False:
                return False
            self._kept = []
        return True

    def _guarded(self, function: Callable[[], object]) -> object:
        try:
            return function()
        except Exception as error:  # noqa: BLE001  the thread must outlive a mistake in one batch
            self.failures += 1
            if self.failures == 1:
                # The type alone: an exception's text may hold what a peer sent.
                log.error("%s failed: %s; traffic goes on", self._name, type(error).__name__)
            return None


async def detached(function: Callable[[], object], name: str, deadline: float) -> None:
    """Runs a blocking function in a daemon thread of its own and waits ``deadline`` seconds for it.

    Not asyncio.to_thread: the loop's executor is joined at exit, so one stuck call would hang the
    process. TimeoutError where the function isn't done in time; it goes on by itself.
    """
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    # Running from here on, so that a caller who gives up can't cancel it under the thread.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            function()
        except Exception as error:  # noqa: BLE001  handed to the waiting side
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name=name, daemon=True).start()
    await asyncio.wait_for(asyncio.wrap_future(future), deadline)
