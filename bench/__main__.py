"""The command line: ``python -m bench [--rounds N] [--json FILE]``, ``python -m bench checks``,
``python -m bench audit`` and ``python -m bench nnrp``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import audit, checks, nnrp, report
from bench.run import FULL, QUICK, measure
from bench.targets import BASE, TARGETS


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    runs = {"checks": _checks, "audit": _audit, "nnrp": _nnrp, "proxies": _run}
    lines, document = runs[options.what](options)
    for line in lines:
        sys.stdout.write(line + "\n")
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bench", description="What teeline costs, side by side.")
    parser.add_argument(
        "what", nargs="?", choices=("proxies", "checks", "audit", "nnrp"), default="proxies"
    )
    parser.add_argument("--rounds", type=_count, default=5, help="alternating rounds [5]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures")
    parser.add_argument("--quick", action="store_true", help="a trial run; its figures say nothing")
    names = [target.name for target in TARGETS]
    parser.add_argument("--target", action="append", choices=names, help="only these")
    parser.add_argument("--records", type=_count, metavar="N", help="audit: of the log [1000000]")
    parser.add_argument("--exchanges", type=_count, metavar="N", help="audit: sent [100000]")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _run(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    plan = QUICK if options.quick else FULL
    wanted = {BASE, *(options.target or [target.name for target in TARGETS])}
    targets = [target for target in TARGETS if target.name in wanted]
    samples = measure(targets, options.rounds, plan, _say)
    return report.table(samples, targets, plan), report.document(samples, options.rounds)


def _checks(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    found = checks.costs(options.rounds, 2 if options.quick else 200)
    return checks.table(found), {"v": 1, "costs": [asdict(cost) for cost in found]}


def _audit(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    size = options.records or (2_000 if options.quick else 1_000_000)
    sent = options.exchanges or (300 if options.quick else 100_000)
    kept, outage = audit.records(size, _say), audit.outage(sent, _say)
    return [*kept.lines, "", *outage.lines], {
        "v": 1,
        "records": kept.values,
        "outage": outage.values,
    }


def _nnrp(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    shapes = nnrp.QUICK if options.quick else nnrp.SHAPES
    samples = nnrp.measure(options.rounds, shapes, _say)
    return nnrp.table(samples, shapes), nnrp.document(samples, options.rounds)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main()
