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

from bench.load import Done, Order
from bench.process import Process, cores, python
from bench.targets import Around, Target
from bench.traffic import PACE, Shape


@dataclass(frozen=True, slots=True)
class Workload:
    """``total`` and ``concurrency`` count requests; ``shape`` is the stream that each asks for."""

    name: str
    total: int
    concurrency: int
    shape: Shape | None = None

    @property
    def unit(self) -> str:
        return "chunk" if self.shape else "request"

    @property
    def units(self) -> int:
        """What one request counts as."""
        return self.shape.chunks if self.shape else 1


@dataclass(frozen=True, slots=True)
class Plan:
    """``settle``: seconds that a target gets to write and export behind a sample."""

    workloads: tuple[Workload, ...]
    warm_up: int
    settle: float


# Long enough that what costs by time, such as an export, weighs no more than it does in service.
JSON = Workload("json", 4000, 16)
PACED = Workload("paced", 160, 20, Shape(PACE))
FULL = Plan((JSON, PACED, Workload("burst", 320, 16, Shape())), warm_up=64, settle=1.3)
LATENCY = Plan((Workload("latency", 250, 50, Shape(0.02, stamped=True)),), warm_up=50, settle=0.8)
"""Fifty streams at once, an event every 20 ms, each with the time it was sent at. Five times over: how late
a chunk is depends most on how the fifty meet, which is another way each time.
"""
GATE = Plan((JSON, PACED), warm_up=64, settle=1.3)
QUICK = Plan(
    (
        Workload("json", 8, 2),
        Workload("paced", 2, 2, Shape(PACE)),
        Workload("burst", 2, 2, Shape()),
        Workload("latency", 2, 2, Shape(PACE, stamped=True)),
    ),
    warm_up=1,
    settle=0.0,
)
"""To see that everything runs; its figures say nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU in seconds: of the target (0 where there is none), of the mock, of the client.

    ``latencies``: microseconds from write to read of stamped streams, median and 99th percentile.
    """

    round: int
    workload: str
    target: str
    units: int
    cpu: float
    mock_cpu: float
    client_cpu: float
    seconds: float
    latencies: tuple[float, float] = (0.0, 0.0)


class Bench:
    """The processes of a run. ``sample`` measures one target once."""

    def __init__(
        self, mock: Process, client: Process, targets: dict[str, tuple[Process | None, int, str]]
    ) -> None:
        self._mock = mock
        self.client = client
        self._targets = targets

    def load(self, target: str, workload: Workload, total: int) -> Done:
        """Sends requests and waits for all answers. RuntimeError where some aren't right."""
        _, port, path = self._targets[target]
        shape = tuple(workload.shape or ())
        order = Order(port, total, workload.concurrency, shape, path=path)
        done = ordered(self.client, order)
        if done.answered != total:
            raise RuntimeError(f"{target}: {done.answered} of {total} requests were answered")
        return done

    def sample(self, number: int, target: str, workload: Workload, settle: float) -> Sample:
        before = self._cpu(target)
        done = self.load(target, workload, workload.total)
        time.sleep(settle)
        own, mock, client = (
            now - then for now, then in zip(self._cpu(target), before, strict=True)
        )
        units = workload.units * workload.total
        return Sample(
            number, workload.name, target, units, own, mock, client, done.seconds, done.latencies
        )

    def port(self, target: str) -> int:
        return self._targets[target][1]

    def cpu_seconds(self, target: str) -> float:
        """What it has used so far; 0 where there is no proxy."""
        process = self._targets[target][0]
        return process.cpu_seconds() if process else 0.0

    def memory(self, target: str) -> int:
        """Resident bytes; 0 where there is no proxy."""
        process = self._targets[target][0]
        return process.memory() if process else 0

    def _cpu(self, target: str) -> tuple[float, float, float]:
        own = self.cpu_seconds(target)
        return own, self._mock.cpu_seconds(), self.client.cpu_seconds()


def ordered(client: Process, order: Order) -> Done:
    """Has a client carry out an order."""
    return Done(**json.loads(client.ask(json.dumps(asdict(order)))))


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
        running: dict[str, tuple[Process | None, int, str]] = {}
        for target in targets:
            if target.command is None:
                running[target.name] = (None, mock_port, target.path)
                continue
            around = Around(upstream, otlp, folder / target.name)
            process = start(target.command(around), target_core, around)
            running[target.name] = (process, process.port(), target.path)
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
