"""What one worker holds: streams at once, memory, and other streams while large documents are inspected.

What belongs here: runs whose answer is not a price per unit. What doesn't: prices (run.py), how costs grow
(growth.py).
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench.load import Order
from bench.process import Process, python
from bench.report import Found
from bench.run import Bench, bench, ordered
from bench.targets import TARGETS, Around
from bench.traffic import Shape

Say = Callable[[str], None]

_FULL = next(target for target in TARGETS if target.name == "full")
_KIB = 1024
_MB = 1_000_000


def streams(count: int, seconds: int, say: Say) -> Found:
    """``count`` streams at once, 5 chunks a second for ``seconds``, every byte compared."""
    found = Found()
    shape = Shape(pace=0.2, chunks=5 * seconds)
    with bench([_FULL]) as up:
        before = up.cpu_seconds(_FULL.name)
        say(f"{count} streams of {shape.chunks} chunks")
        order = Order(up.port(_FULL.name), count, count, tuple(shape), exact=True)
        done = ordered(up.client, order)
        cpu = up.cpu_seconds(_FULL.name) - before
        found.add("streams, every byte equal", done.answered, f"{done.answered} of {count}")
        chunks = done.answered * shape.chunks
        found.add("seconds", done.seconds, f"{done.seconds:.1f}; {chunks} chunks")
        found.add("CPU", cpu, f"{cpu:.1f} s, {cpu / chunks * 1e6:.1f} µs a chunk")
        resident = up.memory(_FULL.name)
        found.add("resident afterwards", resident, f"{resident / _MB:.0f} MB")
    return found


def memory(requests: int, held: int, say: Say) -> Found:
    """Resident memory: at the start, an open stream, and along ``requests`` requests."""
    found = Found()
    for chunks, count in ((100, 5 * held), (10_000, held)):
        say(f"{count} open streams, {chunks} chunks each")
        with bench([_FULL]) as up:
            _warm(up)
            before = up.memory(_FULL.name)
            shape = Shape(chunks=chunks, held=True)
            ordered(up.client, Order(up.port(_FULL.name), count, count, tuple(shape), exact=True))
            each = (up.memory(_FULL.name) - before) / count
            ordered(up.client, Order(up.port(_FULL.name), 0, 1))
        words = f"{each / _KIB:.1f} KiB, of {count} streams"
        found.add(f"an open stream at {chunks} chunks", each, words)
    _along(requests, found, say)
    return found


def _along(requests: int, found: Found, say: Say) -> None:
    steps = 10
    with bench([_FULL]) as up:
        start = up.memory(_FULL.name)
        found.add("base", start, f"{start / _MB:.0f} MB")
        sizes = []
        for step in range(steps):
            say(f"{requests} requests: {step} tenths")
            ordered(up.client, Order(up.port(_FULL.name), requests // steps, 16))
            sizes.append(up.memory(_FULL.name))
    words = " ".join(f"{size / _MB:.1f}" for size in sizes)
    found.add(f"along {requests} requests", sizes, f"{words} MB")


def _warm(up: Bench) -> None:
    """What is made once, for the first exchanges, is no stream's."""
    ordered(up.client, Order(up.port(_FULL.name), 500, 16))
    ordered(up.client, Order(up.port(_FULL.name), 16, 16, tuple(Shape())))


def gap(rounds: int, seconds: int, size: int, say: Say) -> Found:
    """The longest wait of a paced stream while documents of ``size`` bytes pass beside it.

    Alternating: without inspection, with it. A document goes both ways in each exchange.
    """
    found = Found()
    gaps: dict[str, list[float]] = {"bare": [], "inspect": []}
    passed: dict[str, int] = {"bare": 0, "inspect": 0}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for mode in gaps:
            with _beside(mode, size) as (paced, large, port):
                count, longest = _longest_gap(paced, large, port, seconds, size)
            gaps[mode].append(longest)
            passed[mode] += count
    for mode, values in gaps.items():
        words = f"{median(values) * 1e3:.0f} ms [{min(values) * 1e3:.0f}-{max(values) * 1e3:.0f}]"
        found.add(f"longest gap, {mode}", values, f"{words}, {passed[mode]} documents beside it")
    ratio = median(gaps["inspect"]) / median(gaps["bare"])
    found.add("inspect ÷ bare", ratio, f"{ratio:.2f}")
    return found


@contextmanager
def _beside(mode: str, size: int) -> Iterator[tuple[Process, Process, int]]:
    """A client for streams, one for documents, each with a mock of its own, and the port in between."""
    with ExitStack() as up:
        folder = Path(up.enter_context(tempfile.TemporaryDirectory()))

        def start(*command: str) -> Process:
            process = Process(python(*command), None, around.environ)
            up.callback(process.close)
            return process

        around = Around("", "", folder)
        mocks = [start("bench.mock").port(), start("bench.mock", str(size)).port()]
        urls = [f"http://127.0.0.1:{port}" for port in mocks]
        proxy = start("bench.teeline_proxy", mode, *urls)
        yield start("bench.load"), start("bench.load"), proxy.port()


def _longest_gap(
    paced: Process, large: Process, port: int, seconds: int, size: int
) -> tuple[int, float]:
    over = threading.Event()
    sent = 0

    def documents() -> None:
        nonlocal sent
        while not over.is_set():
            order = Order(port, 1, 1, size=size, answer_size=size, path="/large/v1")
            sent += ordered(large, order).answered

    thread = threading.Thread(target=documents)
    thread.start()
    shape = Shape(pace=0.005, chunks=200 * seconds, stamped=True)
    try:
        longest = ordered(paced, Order(port, 1, 1, tuple(shape))).gap
    finally:
        over.set()
        thread.join()
    return sent, longest
