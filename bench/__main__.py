"""The command line: ``python -m bench [WHAT] [--rounds N] [--json FILE]``; ``--help`` says what there is."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from bench import audit, capacity, checks, growth, nnrp, report
from bench.run import FULL, GATE, LATENCY, QUICK, Plan, measure
from bench.targets import BASE, TARGETS, Target

WHAT = {
    "proxies": "what a request and a chunk cost, beside other proxies",
    "latency": "how late a chunk is, beside other proxies",
    "gate": "whether the price is within what CI allows; exit code 1 where it isn't",
    "checks": "the checks alone, without a socket",
    "growth": "whether cost is linear in events, bytes and tool calls",
    "streams": "2,000 streams at once for a minute, every byte compared",
    "memory": "an open stream's, and along a million requests",
    "gap": "how long a stream waits while 20 MB documents pass beside it",
    "audit": "the audit log: a million records, and an outage",
    "nnrp": "the NNRP tap beside a bare asyncio tap",
}
GATES = {"json": 0.9, "paced": 1.2}
"""The most that ``full`` may cost, divided by the base, in the median of the rounds: half above what it
costs, so that what runs beside it on a machine is no failure and a regression is one."""

Outcome = tuple[list[str], dict[str, Any]]


class OverTheGate(Exception):
    """The price is higher than allowed; the text says how much."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    try:
        lines, document = RUNS[options.what](options)
    except OverTheGate as error:
        raise SystemExit(str(error)) from None
    for line in lines:
        sys.stdout.write(line + "\n")
    if options.json is not None:
        text = json.dumps({"machine": report.machine(), **document}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "bench",
        description="What teeline costs, side by side.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<10}{about}" for name, about in WHAT.items()),
    )
    parser.add_argument("what", nargs="?", choices=WHAT, default="proxies", metavar="WHAT")
    parser.add_argument("--rounds", type=_count, default=5, help="alternating rounds [5]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures")
    parser.add_argument("--quick", action="store_true", help="a trial run; its figures say nothing")
    names = [target.name for target in TARGETS]
    parser.add_argument("--target", action="append", choices=names, help="only these and aiohttp")
    parser.add_argument("--records", type=_count, metavar="N", help="audit: of the log [1000000]")
    parser.add_argument("--exchanges", type=_count, metavar="N", help="audit: sent [100000]")
    parser.add_argument("--requests", type=_count, metavar="N", help="memory: sent [1000000]")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _targets(options: argparse.Namespace) -> list[Target]:
    """Those asked for, or those that are there; SystemExit where one asked for isn't installed."""
    asked = options.target or []
    found = [t for t in TARGETS if t.name in asked or t.name == BASE or not (asked or t.asked)]
    for target in [target for target in found if not target.installed]:
        if target.name in asked:
            raise SystemExit(f"{target.name}: {target.program} is not installed")
        _say(f"{target.name} is left out: {target.program} is not installed")
    return [target for target in found if target.installed]


def _measured(plan: Plan) -> Callable[[argparse.Namespace], Outcome]:
    def run(options: argparse.Namespace) -> Outcome:
        chosen, targets = QUICK if options.quick else plan, _targets(options)
        samples = measure(targets, options.rounds, chosen, _say)
        return report.table(samples, targets, chosen), report.document(samples, options.rounds)

    return run


def _gate(options: argparse.Namespace) -> Outcome:
    plan = QUICK if options.quick else GATE
    targets = [target for target in TARGETS if target.name in ("full", BASE)]
    samples = measure(targets, options.rounds, plan, _say)
    lines, over = [], []
    for workload, most in GATES.items():
        found = median(report.ratios(samples, workload, "full", BASE))
        lines.append(f"{workload}: {found:.2f} of {BASE}, {most} allowed")
        if found > most and not options.quick:
            over.append(lines[-1])
    if over:
        raise OverTheGate("; ".join(over))
    return lines, report.document(samples, options.rounds)


def _growth(options: argparse.Namespace) -> Outcome:
    found = growth.growths(1 if options.quick else 3, 1000 if options.quick else 1)
    return growth.table(found), {"v": 1, "growth": [asdict(row) for row in found]}


def _streams(options: argparse.Namespace) -> Outcome:
    found = capacity.streams(*((20, 1) if options.quick else (2000, 60)), _say)
    return found.lines, {"v": 1, "streams": found.values}


def _memory(options: argparse.Namespace) -> Outcome:
    requests = options.requests or (100 if options.quick else 1_000_000)
    found = capacity.memory(requests, 2 if options.quick else 200, _say)
    return found.lines, {"v": 1, "memory": found.values}


def _gap(options: argparse.Namespace) -> Outcome:
    seconds, size = (1, 300_000) if options.quick else (10, 20_000_000)
    found = capacity.gap(1 if options.quick else options.rounds, seconds, size, _say)
    return found.lines, {"v": 1, "gap": found.values}


def _checks(options: argparse.Namespace) -> Outcome:
    found = checks.costs(options.rounds, 2 if options.quick else 200)
    return checks.table(found), {"v": 1, "costs": [asdict(cost) for cost in found]}


def _audit(options: argparse.Namespace) -> Outcome:
    size = options.records or (2_000 if options.quick else 1_000_000)
    sent = options.exchanges or (300 if options.quick else 100_000)
    kept, outage = audit.records(size, _say), audit.outage(sent, _say)
    return [*kept.lines, "", *outage.lines], {
        "v": 1,
        "records": kept.values,
        "outage": outage.values,
    }


def _nnrp(options: argparse.Namespace) -> Outcome:
    shapes = nnrp.QUICK if options.quick else nnrp.SHAPES
    samples = nnrp.measure(options.rounds, shapes, _say)
    return nnrp.table(samples, shapes), nnrp.document(samples, options.rounds)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


RUNS: dict[str, Callable[[argparse.Namespace], Outcome]] = {
    "proxies": _measured(FULL),
    "latency": _measured(LATENCY),
    "gate": _gate,
    "checks": _checks,
    "growth": _growth,
    "streams": _streams,
    "memory": _memory,
    "gap": _gap,
    "audit": _audit,
    "nnrp": _nnrp,
}


if __name__ == "__main__":
    main()
