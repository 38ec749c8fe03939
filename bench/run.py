"""Measures all targets in alternating rounds.

What belongs here: which processes are up, and one sample after the other. What doesn't: what the
samples come to (report.py). All targets are up all the time, for an idle one costs nothing; that each
is measured in each round, in quick alternation, takes the drift of the machine out of the ratios.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.load import Order
from bench.process import Process, cores, python
from bench.targets import Around, Target
from bench.traffic import CHUNKS


@dataclass(frozen=True, slots=True)
class Workload:
    """``units`` are what a request counts as; ``total`` and ``concurrency`` count requests."""

    name: str
    unit: str
    units: int
    total: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Plan:
    """``settle``: seconds that a target gets to write and export behind a sample."""

    workloads: tuple[Workload, ...]
    warm_up: int
    settle: float


FULL = Plan(
    (
        Workload("json", "request", 1, 1000, 16),
        Workload("paced", "chunk", CHUNKS, 40, 20),
        Workload("burst", "chunk", CHUNKS, 64, 16),
    ),
    warm_up=32,
    settle=0.8,
)
QUICK = Plan(
    (
        Workload("json", "request", 1, 8, 2),
        Workload("paced", "chunk", CHUNKS, 2, 2),
        Workload("burst", "chunk", CHUNKS, 2, 2),
    ),
    warm_up=1,
    settle=0.0,
)
"""To see that everything runs; its figures say nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU in seconds: of the target (0 where there is none), of the mock, of the client."""

    round: int
    workload: str
    target: str
    units: int
    cpu: float
    mock_cpu: float
    client_cpu: float
    seconds: float


class Bench:
    """The processes of a run. ``sample`` measures one target once."""

    def __init__(
        self, mock: Process, client: Process, targets: dict[str, tuple[Process | None, int]]
    ) -> None:
        self._mock = mock
        self._client = client
        self._targets = targets

    def load(self, target: str, workload: Workload, total: int) -> float:
        """Sends requests and waits for all answers; the seconds it took. RuntimeError for others."""
        port = self._targets[target][1]
        order = Order(port, workload.name, total, workload.concurrency)
        done = json.loads(self._client.ask(json.dumps(asdict(order))))
        if done["answered"] != total:
            raise RuntimeError(f"{target}: {done['answered']} of {total} requests were answered")
        return float(done["seconds"])

    def sample(self, number: int, target: str, workload: Workload, settle: float) -> Sample:
        before = self._cpu(target)
        seconds = self.load(target, workload, workload.total)
        time.sleep(settle)
        own, mock, client = (
            now - then for now, then in zip(self._cpu(target), before, strict=True)
        )
        units = workload.units * workload.total
        return Sample(number, workload.name, target, units, own, mock, client, seconds)

    def _cpu(self, target: str) -> tuple[float, float, float]:
        process = self._targets[target][0]
        own = process.cpu_seconds() if process else 0.0
        return own, self._mock.cpu_seconds(), self._client.cpu_seconds()


@contextmanager
def bench(targets: Sequence[Target]) -> Iterator[Bench]:
    """Everything up, until the block ends. Raises RuntimeError where a program does not come up."""
    target_core, peer_core = cores()
    with ExitStack() as up:
        folder = Path(up.enter_context(tempfile.TemporaryDirectory()))

        def start(command: list[str], core: int | None, around: Around | None = None) -> Process:
            process = Process(command, core, around.environ if around else None)
            up.callback(process.close)
            return process

        mock = start(python("bench.mock"), peer_core)
        collector = start(python("bench.mock"), peer_core)
        client = start(python("bench.load"), peer_core)
        mock_port = mock.port()
        upstream, otlp = (f"http://127.0.0.1:{port}" for port in (mock_port, collector.port()))
        running: dict[str, tuple[Process | None, int]] = {}
        for target in targets:
            if target.command is None:
                running[target.name] = (None, mock_port)
                continue
            around = Around(upstream, otlp, folder / target.name)
            process = start(target.command(around), target_core, around)
            running[target.name] = (process, process.port())
        yield Bench(mock, client, running)


def measure(
    targets: Sequence[Target], rounds: int, plan: Plan, say: Callable[[str], None]
) -> list[Sample]:
    """All samples of a run, round by round; ``say`` gets a line a round."""
    samples: list[Sample] = []
    with bench(targets) as up:
        for target in targets:
            for workload in plan.workloads:
                up.load(target.name, workload, plan.warm_up)
        for number in range(1, rounds + 1):
            for workload in plan.workloads:
                for target in targets:
                    samples.append(up.sample(number, target.name, workload, plan.settle))
            say(f"round {number} of {rounds}")
    return samples
