"""What samples come to: medians, ratios of each round, a table.

What belongs here: arithmetic on samples and its words. What doesn't: measuring (run.py, checks.py).
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.process import cores
from bench.run import Plan, Sample
from bench.targets import BASE, Target


@dataclass(slots=True)
class Found:
    """What was measured: lines for people, values for machines."""

    lines: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: Any, words: str) -> None:
        self.values[name] = value
        self.lines.append(f"{name:<34} {words}")


def per_unit(sample: Sample) -> float:
    """The target's CPU in microseconds a request or chunk."""
    return sample.cpu / sample.units * 1e6


def peers_per_unit(sample: Sample) -> float:
    """What client and mock took for the same."""
    return (sample.mock_cpu + sample.client_cpu) / sample.units * 1e6


def ratios(samples: Sequence[Sample], workload: str, target: str, base: str) -> list[float]:
    """A target divided by another, once a round; without rounds in which the other used nothing."""
    of = {
        (s.round, s.target): per_unit(s)
        for s in samples
        if s.workload == workload and s.target in (target, base)
    }
    numbers = sorted({number for number, _ in of})
    pairs = ((of.get((n, target), 0.0), of.get((n, base), 0.0)) for n in numbers)
    return [mine / other for mine, other in pairs if mine and other]


def table(samples: Sequence[Sample], targets: Sequence[Target], plan: Plan) -> list[str]:
    """A line a target: µs CPU a unit, its ratio to the base with its range, the peers' own µs."""
    lines = []
    for workload in plan.workloads:
        lines.append(f"{workload.name}: µs CPU per {workload.unit}, medians")
        columns = ["µs CPU", f"÷ {BASE} [min-max]", "client + mock µs", "units/s"]
        if workload.shape and workload.shape.stamped:
            columns += ["µs late, p50", "p99"]
        lines.append(_row("target", *columns))
        lines += [_line(samples, workload.name, target.name) for target in targets]
        lines.append("")
    lines += [f"{target.name}: {target.about}" for target in targets]
    return lines


def _line(samples: Sequence[Sample], workload: str, target: str) -> str:
    mine = [s for s in samples if (s.workload, s.target) == (workload, target)]
    found = ratios(samples, workload, target, BASE)
    shown = f"{median(found):.2f} [{min(found):.2f}-{max(found):.2f}]" if found else "-"
    own = median(map(per_unit, mine))
    cells = [
        f"{own:.1f}" if own else "-",
        shown,
        f"{median(map(peers_per_unit, mine)):.1f}",
        f"{median(s.units / s.seconds for s in mine):.0f}",
    ]
    if any(any(s.latencies) for s in mine):
        cells += [
            f"{median(values):.0f}" for values in zip(*(s.latencies for s in mine), strict=True)
        ]
    return _row(target, *cells)


def _row(*cells: str) -> str:
    first, *others = cells
    return f"  {first:<10}" + "".join(f"{cell:>20}" for cell in others)


def machine() -> dict[str, Any]:
    """What one has to know of the machine, and of the day, to read figures."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "pinned": cores()[0] is not None,
        "load": os.getloadavg()[0],
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def document(samples: Sequence[Sample], rounds: int) -> dict[str, Any]:
    """The raw rounds."""
    return {"v": 1, "rounds": rounds, "samples": [asdict(sample) for sample in samples]}
