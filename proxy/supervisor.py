"""Several processes that serve as one: sockets bound once, workers started, summed up and replaced.

What belongs here: how many workers there are, what becomes of one that ends, and what they tell as the
sum that one process would tell. What doesn't: one worker's process and link (child.py), what a worker
does (serveworker.py, serving.py), signals (cli/serve.py).

The supervisor serves nothing: no connection passes through it, and its end leaves the workers to finish
what is open. Sockets are inherited, not bound anew by each worker (SO_REUSEPORT): a worker that ends
would take connections with it that nobody had accepted yet.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from teeline.config.model import Config
from teeline.proxy.child import Child, StartError
from teeline.proxy.console import Console
from teeline.proxy.link import Job
from teeline.proxy.process import worker_count
from teeline.proxy.reports.model import tool_version
from teeline.proxy.server import Bound, Listener, ServeError, bind_all, close_all, listeners_of
from teeline.proxy.serving import Facts, WorkerFacts, choices, servers
from teeline.proxy.sightings import News
from teeline.proxy.telemetry import environment, instruments
from teeline.proxy.telemetry.sink import TelemetrySink
from teeline.proxy.telemetry.sums import Part, Sums

log = logging.getLogger("teeline.supervisor")

FIRST_WAIT: Final = 0.5
"""Seconds before a second replacement in a row; each further one waits twice as long."""
LONGEST_WAIT: Final = 30.0
STEADY: Final = 60.0
"""Seconds after which a worker's end is no longer taken for the one before's."""
_SLACK: Final = 60.0
"""Seconds beyond the deadline that a worker gets to write and send what it holds."""
_DRAIN_SECONDS: Final = 5.0


class Supervisor:
    """Serves by ``config.workers`` processes.

    ``console`` is told what they see, ``on_live`` takes their live events, ``on_gone`` the number of one
    that has none any more, as text. Raises SinkError where an OTEL_* variable can't work. ``clock``
    gives seconds that only grow.
    """

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        console: Console,
        *,
        on_live: Callable[[bytes], None] | None = None,
        on_gone: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._environ = environment.one_instance(environ)
        self._console = console
        self._on_live = on_live
        self._on_gone = on_gone
        self._clock = clock
        self._count = worker_count(config)
        self._children: dict[int, Child] = {}
        self._parts: dict[Child, Part] = {}
        self._gone = Facts()
        self._restarts = 0
        self._page_failed = False
        self._bound: Bound = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._ended = False
        self._sums = Sums()
        self._sums.observe(instruments.WORKERS, lambda: {(): self._accepting})
        self._sums.observe(instruments.WORKER_RESTARTS, lambda: {(): self._restarts})
        self._export = TelemetrySink.from_environment(
            self._environ,
            version=tool_version(),
            servers=servers(config),
            choices=choices(config, self._count),
            meter=self._sums,
            metrics_alone=True,
        )
        # That it is ignored has been said now; workers would each say it again.
        self._environ.pop(environment.CAPTURE, None)

    # -- what a service tells ----------------------------------------------------------------------

    @property
    def meter(self) -> Sums:
        return self._sums

    @property
    def otlp(self) -> bool:
        return self._export is not None

    @property
    def requests(self) -> int:
        return self.facts().requests

    @property
    def accepting(self) -> bool:
        return self._accepting > 0

    @property
    def _accepting(self) -> int:
        return sum(child.accepting for child in list(self._children.values()))

    def facts(self) -> Facts:
        facts = self._gone
        for child in self._children.values():
            facts = facts.plus(child.facts)
        return facts

    def workers(self) -> Sequence[WorkerFacts]:
        return [
            WorkerFacts(
                number,
                child.pid,
                round(child.uptime, 3),
                child.accepting,
                child.facts.requests,
                child.facts.open,
                child.live_dropped,
            )
            for number, child in sorted(self._children.items())
        ]

    # -- from start to end -------------------------------------------------------------------------

    async def start(self) -> list[Listener]:
        """Binds, and returns when all workers accept. Raises ServeError, with nothing left open."""
        self._bound = await bind_all(self._config)
        self._console.start()
        if self._export is not None:
            await self._export.start()
        numbers = range(1, self._count + 1)
        starts = [asyncio.create_task(self._started(number)) for number in numbers]
        await asyncio.wait(starts, return_when=asyncio.FIRST_EXCEPTION)
        failed = next((s.exception() for s in starts if s.done() and s.exception()), None)
        if failed is not None:
            await self._give_up(starts)
            if isinstance(failed, StartError):
                raise ServeError(str(failed))
            raise failed
        self._keepers = [
            asyncio.create_task(self._keep(number, start.result()))
            for number, start in zip(numbers, starts, strict=True)
        ]
        return listeners_of(self._config, self._bound)

    async def stop(self, deadline: float) -> None:
        """Has all workers end, which give open exchanges ``deadline`` seconds.

        A second call waits for the first; with a deadline of 0 it has them end at once.
        """
        if not self._stopping.is_set() or deadline <= 0:
            for child in self._children.values():
                child.stop(deadline)
        self._stopping.set()
        close_all(self._bound)
        late = asyncio.get_running_loop().call_later(deadline + _SLACK, self._kill_late)
        await asyncio.gather(*self._keepers)
        late.cancel()
        if not self._ended:
            self._ended = True
            await self._tell_last()

    async def close(self) -> None:
        """Kills what is left; may be called twice, and before start."""
        self._stopping.set()
        close_all(self._bound)
        for child in self._children.values():
            child.kill()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        if self._export is not None:
            await self._export.close()
        await self._console.close()

    async def _tell_last(self) -> None:
        """The sums are final now."""
        drains = [self._console.drain(_DRAIN_SECONDS)]
        if self._export is not None:
            drains.append(self._export.drain(_DRAIN_SECONDS))
        for result in await asyncio.gather(*drains, return_exceptions=True):
            if isinstance(result, Exception):
                log.warning("not everything was told at the end: %s", type(result).__name__)

    async def _give_up(self, starts: Sequence[asyncio.Task[Child]]) -> None:
        """One worker doesn't start, so that none is wanted."""
        for start in starts:
            start.cancel()
        for child in self._children.values():
            child.kill()
        await asyncio.gather(*starts, return_exceptions=True)
        children = list(self._children.values())
        await asyncio.gather(*(child.ended() for child in children if child.pid))
        close_all(self._bound)

    # -- workers -----------------------------------------------------------------------------------

    async def _started(self, number: int) -> Child:
        """A worker that accepts. Raises StartError."""
        child = Child(number, self, self._clock)
        self._children[number] = child
        self._parts[child] = Part()
        sockets = tuple(tuple(s.fileno() for s in sockets) for sockets in self._bound.values())
        job = Job(self._config, number, self._count, sockets)
        try:
            await child.start(job, self._bound, self._environ)
        except StartError:
            self._retire(child)
            raise
        return child

    async def _keep(self, number: int, child: Child | None) -> None:
        """Sees to it that there is a worker of this number until all are to stop."""
        wait = 0.0
        while True:
            if child is not None:
                how = await child.ended()
                self._retire(child)
                if self._stopping.is_set():
                    return
                wait = 0.0 if child.uptime >= STEADY else wait
                self._restarts += 1
                broke = "" if child.left else "; its open connections broke"
                level = logging.WARNING if child.left else logging.ERROR
                told = "worker %d (pid %d) %s%s; it is replaced"
                log.log(level, told, number, child.pid, how, broke)
            if await self._told_to_stop(wait):
                return
            wait = min(max(FIRST_WAIT, 2 * wait), LONGEST_WAIT)
            try:
                child = await self._started(number)
            except StartError as error:
                child = None
                log.error("%s; tried again in %.1f s", error, wait)
            else:
                log.warning("worker %d serves again (pid %d)", number, child.pid)
                if self._stopping.is_set():
                    child.stop(0)

    async def _told_to_stop(self, seconds: float) -> bool:
        """Waits so long; whether the end came first."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return self._stopping.is_set()
        return True

    def _retire(self, child: Child) -> None:
        """A worker is gone: what it counted stays."""
        self._gone = self._gone.plus(child.facts.left_behind())
        self._sums.retire(self._parts.pop(child))
        if self._children.get(child.number) is child:
            del self._children[child.number]
        self._show(self._on_gone, str(child.number))

    def _kill_late(self) -> None:
        for child in self._children.values():
            log.error("worker %d (pid %d) does not end; it is killed", child.number, child.pid)
            child.kill()

    # -- what they tell ----------------------------------------------------------------------------

    def numbers(self, child: Child, changed: Mapping[str, Any]) -> None:
        self._sums.take(self._parts[child], changed)

    def news(self, news: News) -> None:
        self._console.take(news)

    def leaving(self, child: Child) -> None:
        if not self._stopping.is_set():
            log.warning(
                "worker %d (pid %d) accepts no more; it ends when its open answers are through",
                *(child.number, child.pid),
            )

    def live(self, data: bytes) -> None:
        self._show(self._on_live, data)

    def _show(self, to: Callable[[Any], None] | None, what: str | bytes) -> None:
        """Tells the live page, where there is one."""
        if to is None:
            return
        try:
            to(what)
        except Exception as error:  # noqa: BLE001  a page must not cost us a worker
            if not self._page_failed:
                self._page_failed = True
                log.error("the live page takes nothing: %s", type(error).__name__)
