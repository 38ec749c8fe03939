"""A worker process of ``teeline serve``: ``python -m`` this module, with the descriptor of its link.

What belongs here: the life of such a process, and what it tells of itself. What doesn't: starting and
replacing it (child.py, supervisor.py), serving (serving.py), frames (link.py).

It serves from sockets that it inherits, tells the supervisor what it counts, and ends when it is told
to, by SIGTERM, or when the supervisor is gone; open exchanges get their time in each case.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import signal
import socket
import sys
from typing import Any, Final

from teeline.proxy import process
from teeline.proxy.audit.configured import AuditError
from teeline.proxy.link import (
    FAILED,
    LEAVING,
    NEWS,
    READY,
    Downlink,
    Job,
    LinkError,
    Uplink,
    receive_job,
)
from teeline.proxy.monitor.configured import feed_of
from teeline.proxy.server import Bound, ServeError
from teeline.proxy.serving import Facts, ServingProcess
from teeline.proxy.sightings import SightingSink
from teeline.proxy.sinks import Sink, SinkError
from teeline.proxy.telemetry.sums import Changes

log = logging.getLogger("teeline.worker")

_READY_SECONDS: Final = 30.0
_LAST_SECONDS: Final = 5.0
"""What the last numbers get to reach the supervisor."""


def main(arguments: list[str]) -> int:
    """Serves until it is told to end."""
    link = socket.socket(fileno=int(arguments[0]))
    link.set_inheritable(False)
    try:
        job, deframer = receive_job(link)
    except (EOFError, ConnectionError):
        return 0  # nobody is there any more
    except LinkError as error:
        log.error("the worker was given %s", error)
        return 1
    process.prepare(f"worker {job.number}: ")
    # Whoever presses ^C or closes the terminal means the supervisor, which tells us.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    new_loop = process.event_loop(os.environ)
    process.run(_Worker(job, link, Downlink(link, deframer)).run(), new_loop)
    return 0


class _Worker:
    """The process at work."""

    def __init__(self, job: Job, link: socket.socket, downlink: Downlink) -> None:
        self._job = job
        self._link = link
        self._downlink = downlink
        self._stops: asyncio.Queue[float] = asyncio.Queue()
        self._serving: ServingProcess | None = None
        self._changes: Changes | None = None
        self._told: Facts | None = None
        self._uplink = Uplink(link, self._state)
        self._console = SightingSink(lambda data: self._uplink.tell(NEWS, data))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(process.log_stray)
        deadline = self._job.config.shutdown.deadline
        loop.add_signal_handler(signal.SIGTERM, self._stops.put_nowait, deadline)
        loop.add_reader(self._link, self._hear)
        self._uplink.start()
        self._hear()  # what came with the job
        try:
            await self._serve()
        finally:
            await self._uplink.close(_LAST_SECONDS)
            loop.remove_reader(self._link)

    async def _serve(self) -> None:
        try:
            serving = ServingProcess(
                self._job.config,
                os.environ,
                self._console,
                others=self._watched(),
                share=self._job.share,
                tells_metrics=False,
            )
        except (SinkError, AuditError) as error:
            self._uplink.tell(FAILED, str(error).encode("utf-8", "replace"))
            return
        self._serving, self._changes = serving, Changes(serving.meter)
        try:
            process.set_aside()
            await serving.start(_inherited(self._job))
            self._uplink.tell(READY)
            await self._uplink.flush(_READY_SECONDS)
            await self._until_told(serving)
        except ServeError as error:
            self._uplink.tell(FAILED, str(error).encode("utf-8", "replace"))
        finally:
            await serving.close()

    def _watched(self) -> list[Sink]:
        """What tells the supervisor's live page, where there is one."""
        feed = feed_of(self._job.config, self._uplink.publish, str(self._job.number))
        return [] if feed is None else [feed]

    async def _until_told(self, serving: ServingProcess) -> None:
        deadline = await self._stops.get()
        self._uplink.tell(LEAVING)
        stopping = asyncio.create_task(serving.stop(deadline))
        while not stopping.done():
            again = asyncio.create_task(self._stops.get())
            await asyncio.wait((stopping, again), return_when=asyncio.FIRST_COMPLETED)
            if again.done() and again.result() <= 0:
                await serving.stop(0)
            again.cancel()
        await stopping
        await self._tell_last()

    async def _tell_last(self) -> None:
        """The console's last news; the numbers go out with the close."""
        try:
            await self._uplink.flush(_LAST_SECONDS)
        except TimeoutError:
            log.warning("the supervisor takes nothing; its sums lack this worker's last numbers")
        self._console.tell()

    def _hear(self) -> None:
        try:
            stops, gone = self._downlink.read()
        except (LinkError, ValueError) as error:
            log.error("the supervisor sent what is no order: %s", type(error).__name__)
            stops, gone = [], True
        for deadline in stops:
            self._stops.put_nowait(deadline)
        if gone:
            asyncio.get_running_loop().remove_reader(self._link)
            log.warning("the supervisor is gone; stopping")
            self._stops.put_nowait(self._job.config.shutdown.deadline)

    def _state(self) -> bytes | None:
        """Facts and changed numbers; in the link's thread."""
        if self._serving is None or self._changes is None:
            return None
        facts, changed = self._serving.facts(), self._changes.take()
        if facts == self._told and not changed:
            return None
        self._told = facts
        return encode_state(facts, changed, self._uplink.dropped)


def encode_state(facts: Facts, changed: dict[str, Any], live_dropped: int) -> bytes:
    """A STATE frame's payload."""
    told = {"facts": dataclasses.asdict(facts), "numbers": changed, "live_dropped": live_dropped}
    return json.dumps(told).encode("ascii")


def _inherited(job: Job) -> Bound:
    """The supervisor's sockets; ours alone are closed with them."""
    bound = {}
    for (address, _), descriptors in zip(job.config.by_address(), job.sockets, strict=True):
        bound[address] = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        for sock in bound[address]:
            sock.set_inheritable(False)
            sock.setblocking(False)
    return bound


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
