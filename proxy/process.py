"""What a process that serves sets up for itself before it does.

What belongs here: the log on stderr, switching between threads, descriptors, what the event loop does
with errors that nobody took. What doesn't: serving (serving.py), starting other processes (child.py).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
from pathlib import Path
from typing import Any, Final

from teeline.config.model import AUTO_WORKERS, MAX_WORKERS, Config
from teeline.proxy.accept import raise_descriptor_limit

log = logging.getLogger("teeline")

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
