"""Programs of a measurement as processes: starting, pinning, and how much CPU they have used.

What belongs here: one process and its line of answer. What doesn't: which ones there are (targets.py)
and what is done with them (run.py).
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Process:
    """A program that writes its port as its first line and ends when its input does.

    ``cpu`` is the core that it is pinned to; None leaves that to the machine.
    """

    def __init__(
        self, command: Sequence[str], cpu: int | None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
            text=True,
        )
        self.command = command
        if cpu is not None:
            os.sched_setaffinity(self._process.pid, {cpu})

    def line(self) -> str:
        """The next line of its output. Raises RuntimeError where it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"ended with {self._process.wait()}: {' '.join(self.command)}")
        return line

    def port(self) -> int:
        return int(self.line())

    def ask(self, line: str) -> str:
        """Writes a line and waits for the one that answers it."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.line()

    def cpu_seconds(self) -> float:
        """User and system time of the process, its threads and its children, in seconds."""
        return sum(_cpu_seconds(pid) for pid in _tree(self._process.pid))

    def memory(self) -> int:
        """Resident bytes of the process and its children."""
        return sum(_resident(pid) for pid in _tree(self._process.pid))

    def close(self) -> None:
        """Ends its input and waits; a program that does not end by that is terminated."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package."""
    return [sys.executable, "-m", module, *arguments]


def cores() -> tuple[int | None, int | None]:
    """A core for the target and one for its peers; None twice where there is one core only."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 else (None, None)


def raise_descriptor_limit() -> None:
    """Takes as many descriptors as the system lets this process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve_until_input_ends(port: int) -> None:
    """What a server program does once it listens: it says so, and waits."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    loop.remove_reader(sys.stdin.fileno())


def _cpu_seconds(pid: int) -> float:
    # clock_getcpuclockid(3): Linux makes the clock of a process out of its id. The figures of
    # /proc/PID/stat are those of this clock, cut to hundredths of a second.
    return time.clock_gettime((~pid << 3) | 2)


def _resident(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = children.read_text(encoding="ascii").split() if children.is_file() else []
    return [pid, *(each for child in found for each in _tree(int(child)))]
