"""What a process that serves sets up for itself before it does.

What belongs here: the log on stderr, switching between threads, descriptors, memory, which event loop
there is and what it does with errors that nobody took. What doesn't: serving (serving.py), starting
other processes (child.py).
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import math
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from teeline.config.model import AUTO_WORKERS, MAX_WORKERS, Config
from teeline.proxy.accept import raise_descriptor_limit

log = logging.getLogger("teeline")

Result = TypeVar("Result")
NewLoop = Callable[[], asyncio.AbstractEventLoop]

EVENT_LOOP: Final = "TEELINE_EVENT_LOOP"
"""The variable that chooses the event loop, of this process and of those that it starts."""
_EVENT_LOOPS: Final = ("asyncio", "uvloop")
_SWITCH_SECONDS: Final = 0.0005
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def prepare(who: str = "") -> None:
    """Sets the process up; ``who`` names it in its log lines, where there are several."""
    handler = logging.StreamHandler(sys.stderr)
    # One write a line: several processes may write to the same terminal.
    handler.setFormatter(logging.Formatter(f"teeline: {who}%(levelname)s: %(message)s"))
    log.addHandler(handler)
    log.propagate = False
    # Sinks write from threads of their own; at the default 5 ms they would hold up the loop.
    sys.setswitchinterval(_SWITCH_SECONDS)
    raise_descriptor_limit()


_YOUNG: Final = 5_000
"""New objects between two rounds of the garbage collector; Python's default is 700."""


def set_aside() -> None:
    """Takes what is there before serving begins out of the garbage collector's rounds, which become
    fewer.

    It stays for good: modules, rules, compiled checks, some 70,000 objects. Walking them takes tens of
    milliseconds, in which no stream moves, and finds nothing. Nor do the rounds among new objects find
    much: no exchange leaves a cycle, a connection that ends leaves the few of asyncio's transports.
    At 700 objects a round meets each exchange several times while it is open, for 1 to 2 percent of what
    a small one costs; at 5,000 it meets few of them, and still takes less than half a millisecond.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)


class EventLoopError(Exception):
    """The event loop that is asked for isn't there; the text is one line that says what to change."""


def event_loop(environ: Mapping[str, str]) -> NewLoop:
    """What makes the event loop: asyncio's own, or the one that EVENT_LOOP names.

    uvloop is not taken because it is there: whoever wants it asks for it (docs/configuration.md says what it
    saves).
    """
    name = environ.get(EVENT_LOOP) or "asyncio"
    if name not in _EVENT_LOOPS:
        raise EventLoopError(f"{EVENT_LOOP} must be {' or '.join(_EVENT_LOOPS)}")
    try:
        return cast(NewLoop, importlib.import_module(name).new_event_loop)
    except ImportError:
        raise EventLoopError(
            f"{EVENT_LOOP}=uvloop, but uvloop is not installed: pip install 'teeline[uvloop]'"
        ) from None


def run(main: Coroutine[Any, Any, Result], new_loop: NewLoop) -> Result:
    """As ``asyncio.run``, on a loop that is made so."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def worker_count(config: Config) -> int:
    """How many processes serve: as configured, or one for each processor that we may use."""
    if config.workers == AUTO_WORKERS:
        return min(processors(), MAX_WORKERS)
    return int(config.workers)


def processors(quota: Path = _QUOTA) -> int:
    """Processors that this process may use: as many as it may run on, or as its container may fill."""
    count = len(os.sched_getaffinity(0))
    try:
        # cgroup v2: microseconds of all processors in a period, or "max", and the period.
        allowed, period = quota.read_text(encoding="ascii").split()
        return max(1, min(count, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):
        return count  # no limit is set


def log_stray(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would print with a traceback, which may hold what a peer sent."""
    error = context.get("exception")
    log.error("%s: %s", context.get("message", "event loop"), type(error).__name__)
