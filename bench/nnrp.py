"""What the NNRP tap costs a packet, beside a bare asyncio tap: ``python -m bench nnrp``.

What belongs here: the rounds and what they come to. What doesn't: the taps (nnrp_tap.py), their peers
(nnrp_peers.py), the checks without a socket (checks.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.nnrp_peers import Order
from bench.process import Process, cores, python
from bench.report import machine

_SETTLE = 0.1
"""Seconds that a target gets for what it has put off."""

TARGETS = ("bare", "tap", "inspect")
BASE = "bare"


@dataclass(frozen=True, slots=True)
class Shape:
    """How packets come: ``name`` as in nnrp_peers.py, streams at once, deltas a stream."""

    name: str
    about: str
    streams: int
    deltas: int


SHAPES = (
    Shape("paced", "20 streams, a packet every 5 ms in each", 20, 200),
    Shape("burst", "8 streams, a write a packet as fast as it goes", 8, 1000),
    Shape("block", "8 streams, all packets in one write", 8, 4000),
)
QUICK = (Shape("paced", "", 2, 8), Shape("burst", "", 2, 20), Shape("block", "", 2, 20))


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU of the target in seconds; ``reads`` the client had for the packets."""

    round: int
    shape: str
    target: str
    packets: int
    reads: int
    cpu: float

    @property
    def micros(self) -> float:
        """CPU in microseconds a packet."""
        return self.cpu / self.packets * 1e6


def measure(rounds: int, shapes: Sequence[Shape], say: Callable[[str], None]) -> list[Sample]:
    """All samples, targets alternating within each round; RuntimeError where bytes got lost."""
    target_core, peer_core = cores()
    samples: list[Sample] = []
    with ExitStack() as up:
        peers = Process(python("bench.nnrp_peers"), peer_core)
        up.callback(peers.close)
        server = peers.port()
        targets: dict[str, tuple[Process, int]] = {}
        for name in TARGETS:
            process = Process(python("bench.nnrp_tap", name, str(server)), target_core)
            up.callback(process.close)
            targets[name] = (process, process.port())
        for number in range(rounds + 1):  # the first one warms up
            for shape in shapes:
                for name, (process, port) in targets.items():
                    order = Order(port, shape.name, shape.streams, shape.deltas)
                    before = process.cpu_seconds()
                    done = json.loads(peers.ask(json.dumps(asdict(order))))
                    # A tap looks at what it has written already: the client is done before it is.
                    time.sleep(_SETTLE)
                    cpu = process.cpu_seconds() - before
                    if number:
                        samples.append(
                            Sample(number, shape.name, name, done["packets"], done["reads"], cpu)
                        )
            say(f"round {number} of {rounds}")
    return samples


def table(samples: Sequence[Sample], shapes: Sequence[Shape]) -> list[str]:
    """A line a target and shape: µs CPU a packet, its ratio to the bare tap, packets a read."""
    lines = []
    for shape in shapes:
        lines.append(f"{shape.name}: {shape.about}; medians")
        lines.append(_row("tap", "µs CPU a packet", f"÷ {BASE} [min-max]", "packets a read"))
        lines += [_line([s for s in samples if s.shape == shape.name], name) for name in TARGETS]
        lines.append("")
    return lines


def _line(samples: Sequence[Sample], target: str) -> str:
    mine = [s for s in samples if s.target == target]
    base = {s.round: s.micros for s in samples if s.target == BASE}
    found = [s.micros / base[s.round] for s in mine if base.get(s.round)]
    shown = f"{median(found):.2f} [{min(found):.2f}-{max(found):.2f}]" if found else "-"
    own = f"{median(s.micros for s in mine):.2f}"
    return _row(target, own, shown, f"{median(s.packets / s.reads for s in mine):.1f}")


def _row(*cells: str) -> str:
    first, *others = cells
    return f"  {first:<10}" + "".join(f"{cell:>20}" for cell in others)


def document(samples: Sequence[Sample], rounds: int) -> dict[str, Any]:
    """The raw rounds, with the day and the machine."""
    return {
        "v": 1,
        "machine": machine(),
        "rounds": rounds,
        "samples": [asdict(sample) for sample in samples],
    }
