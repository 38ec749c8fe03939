"""The audit log at its size: a million records, and an outage under traffic.

What belongs here: making records, breaking a disk and a collector, and what is measured of it. What
doesn't: the promises in the small, which are tests (tests/proxy/audit).

``records`` writes a log and asks it everything. ``outage`` sends traffic through the proxy while the
collector goes away and the disk is full for a third of the time; every answer is compared.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Final

from bench.mock import Mock
from bench.report import Found
from bench.traffic import request, unnumbered, whole_answer
from teeline.config.model import Config, ListenAddress, UpstreamConfig, UpstreamURL
from teeline.proxy.audit.anchor import Anchor
from teeline.proxy.audit.files import DiskFile, LogFile, listed, open_log
from teeline.proxy.audit.index import Index
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.audit.query import Filters, search
from teeline.proxy.audit.record import Origin
from teeline.proxy.audit.retention import Keep
from teeline.proxy.audit.schema import connect
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.audit.statistics import scores, statistics
from teeline.proxy.audit.verify import verify
from teeline.proxy.audit.writer import ChainWriter
from teeline.proxy.server import ProxyServer
from teeline.proxy.telemetry.sink import Choices, TelemetrySink
from teeline.validators.model import (
    Ended,
    Exchange,
    Place,
    Side,
    TimelineEntry,
    Timing,
    Unit,
    Violation,
)
from teeline.validators.rules import register

_START: Final = 1_796_040_000.0
_BATCH: Final = 64
_PAGE: Final = 50
_CONNECTIONS: Final = 16
_ORIGIN: Final = Origin("bench", "bench")
_KEEP: Final = Keep(1 << 50, 1e12)


def records(count: int, say: Callable[[str], None]) -> Found:
    """Writes ``count`` records, indexes and asks them, and checks the chain."""
    found = Found()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        say(f"writing {count} records")
        seconds = _timed(lambda: _write(folder, count))
        size = sum(path.stat().st_size for _, path in listed(folder))
        found.add(
            "written", count / seconds, f"{count / seconds:,.0f} records a second, {size:,} bytes"
        )
        say("indexing")
        db = connect(folder)
        stack.callback(db.close)
        index = Index(folder, db)
        seconds = _timed(index.catch_up)
        found.add("indexed", count / seconds, f"{count / seconds:,.0f} records a second")
        _catch_up(folder, index, found)
        for words, filters in _questions(db):
            ms = 1000 * _timed(lambda f=filters: list(search(db, f, _PAGE)))  # type: ignore[misc]
            found.add(f"list {words}", ms, f"{ms:.1f} ms")
        for words, filters in _counted(db):
            for name, sums in (("stats", statistics), ("score", scores)):
                ms = 1000 * _timed(lambda s=sums, f=filters: s(db, f))  # type: ignore[misc]
                found.add(f"{name} {words}", ms, f"{ms:,.0f} ms")
        say("checking the chain")
        _verify(folder, found)
    return found


def _write(folder: Path, count: int) -> None:
    writer = ChainWriter(
        folder, _ORIGIN, keep=_KEEP, clock=time.time, open_file=DiskFile, anchor=Anchor(None)
    )
    writer.start()
    chosen = random.Random(count)
    made = (_exchange(number, chosen) for number in range(count))
    while batch := list(itertools.islice(made, _BATCH)):
        writer.append(batch)
    writer.close()


def _exchange(number: int, chosen: random.Random) -> Exchange:
    at = _START + number * 0.6
    rules = chosen.sample(sorted(register()), chosen.choice((0, 0, 0, 0, 1, 3)))
    return Exchange(
        id=f"{number:032x}",
        upstream=f"relay-{number % 7}",
        client="127.0.0.1",
        client_key=f"{number % 40:016x}",
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        method="POST",
        path="/v1/chat/completions",
        operation="chat",
        model=f"model-{number % 23}",
        stream=True,
        request_bytes=900,
        status=chosen.choice((200, 200, 200, 429, 500)),
        request_id=f"req_{chosen.getrandbits(64):016x}",
        response_bytes=24_000,
        events=100,
        usage={"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
        finish=["stop"],
        timing=Timing(at, at + 0.2, at + 0.25, at + 1.4, at + 1.5, 0.1),
        timeline=[TimelineEntry(at + n / 10, "read", n, 240) for n in range(8)],
        ended=chosen.choice((Ended.COMPLETE, Ended.COMPLETE, Ended.CLIENT_CLOSED)),
        violations=[_violation(rule, at, chosen) for rule in rules],
    )


def _violation(rule_id: str, at: float, chosen: random.Random) -> Violation:
    rule = register()[rule_id]
    place = Place(Side.RESPONSE, Unit.EVENT, chosen.randrange(1, 100), 1000, "/choices/0")
    return Violation(rule, rule.severity, rule.summary, place, '"object": "x"', at + 1)


def _questions(db: Any) -> Iterator[tuple[str, Filters]]:
    middle = db.execute("SELECT id, request_id, at FROM exchanges ORDER BY n LIMIT 1 OFFSET 70")
    id_, request_id, at = middle.fetchone()
    yield "everything", Filters()
    yield "since", Filters(since=at / 1e6)
    yield "until", Filters(until=at / 1e6 + 100)
    yield "id", Filters(id=id_)
    yield "request id", Filters(request_id=request_id)
    yield "upstream", Filters(upstream=("relay-3",))
    yield "model", Filters(model=("model-5",))
    yield "operation", Filters(operation=("chat",))
    yield "status", Filters(status=(429,))
    yield "status class", Filters(status=(4, 5))
    yield "verdict", Filters(verdict=("fail", "warn"))
    yield "client verdict", Filters(client_verdict=("fail",))
    yield "ended", Filters(ended=("client_closed",))
    yield "key", Filters(key=(f"{7:016x}",))
    yield "rule", Filters(rules=("chatstream.done-missing",))
    yield "family", Filters(rules=("chatstream", "usage"))
    yield "severity", Filters(severity="warn")
    yield "message", Filters(message="stream")
    yield "message of none", Filters(message="no such words")
    yield (
        "five together",
        Filters(
            upstream=("relay-3",), status=(200,), rules=("usage",), severity="fail", since=at / 1e6
        ),
    )


def _counted(db: Any) -> Iterator[tuple[str, Filters]]:
    (last,) = db.execute("SELECT max(at) FROM exchanges").fetchone()
    yield "of everything", Filters()
    yield "of one relay", Filters(upstream=("relay-3",))
    yield "of a day and 7 minutes", Filters(since=last / 1e6 - 86_820)
    yield "of ten minutes", Filters(since=last / 1e6 - 600)
    yield "by rule", Filters(rules=("chatstream.done-missing",))
    yield "by status", Filters(status=(429,))


def _catch_up(folder: Path, index: Index, found: Found) -> None:
    """What a command pays while records arrive: a second of busy traffic, written just before."""
    writer = ChainWriter(
        folder, _ORIGIN, keep=_KEEP, clock=time.time, open_file=DiskFile, anchor=Anchor(None)
    )
    writer.start()
    chosen = random.Random(1)
    times = []
    for step in range(20):
        writer.append([_exchange(step * 100 + number, chosen) for number in range(100)])
        times.append(1000 * _timed(index.catch_up))
    writer.close()
    index.catch_up()
    found.add("catching up with 100 records", max(times), f"{max(times):.1f} ms at most")


def _verify(folder: Path, found: Found) -> None:
    size = sum(path.stat().st_size for _, path in listed(folder))
    whole = verify([folder]).intact
    ours = min(_cpu(lambda: verify([folder])) for _ in range(3))
    bare = min(_cpu(lambda: _hash(folder)) for _ in range(3))
    words = (
        f"{size / ours / 1e6:,.0f} MB a second, {bare / ours:.2f} of bare hashlib; intact: {whole}"
    )
    found.add("verify", bare / ours, words)


def _hash(folder: Path) -> None:
    for _, path in listed(folder):
        digest = hashlib.sha256()
        with open_log(path) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
        digest.hexdigest()


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Collector(Mock):
    """The OTLP collector, which can be cut off with all its connections."""

    open: ClassVar[set[asyncio.Transport]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.open.add(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.open.discard(self._transport)

    @classmethod
    def cut_off(cls, server: asyncio.Server) -> None:
        server.close()
        for transport in list(cls.open):
            transport.abort()


class _FullDisk:
    """A disk that takes nothing while ``full``."""

    def __init__(self) -> None:
        self.full = False

    def open(self, path: Path) -> LogFile:
        return _File(self, path)


class _File:
    def __init__(self, disk: _FullDisk, path: Path) -> None:
        self._disk = disk
        self._file = DiskFile(path)
        self.truncate, self.sync = self._file.truncate, self._file.sync
        self.present, self.close = self._file.present, self._file.close

    def write(self, data: bytes) -> int:
        if self._disk.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)


def outage(count: int, say: Callable[[str], None]) -> Found:
    """``count`` exchanges, the collector gone after a third, the disk full in the second third."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_outage(count, Path(folder), say))


async def _outage(count: int, folder: Path, say: Callable[[str], None]) -> Found:
    loop = asyncio.get_running_loop()
    mock = await loop.create_server(Mock, "127.0.0.1", 0)
    collector = await loop.create_server(Collector, "127.0.0.1", 0)
    port, otlp = (server.sockets[0].getsockname()[1] for server in (mock, collector))
    disk = _FullDisk()
    telemetry = TelemetrySink.from_environment(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp}"},
        version="bench",
        choices=Choices(audit_records=True, chained=True),
    )
    assert telemetry is not None
    audit = AuditSink(folder, origin=_ORIGIN, open_file=disk.open, on_written=telemetry.written)
    index = IndexKeeper(folder)
    upstream = UpstreamConfig(UpstreamURL.parse(f"http://127.0.0.1:{port}/v1"), "relay")
    config = Config(upstreams=(upstream,), listen=ListenAddress("127.0.0.1", 0))
    proxy = ProxyServer(config, [audit, telemetry])
    (listener,) = await proxy.start()
    index.start()
    found, phases = Found(), []
    for name in ("all up", "collector gone, disk full", "disk has room again"):
        if name != "all up":
            Collector.cut_off(collector)
            disk.full = "full" in name
        say(name)
        phases.append(await _traffic(listener.port, count // 3))
        _tell(name, phases[-1], found)
    await proxy.stop(5)
    mock.close()
    found.add("bytes that the index was behind", index.behind, f"{index.behind:,}")
    await index.stop(60)
    _add_up(3 * (count // 3), folder, audit, telemetry, found)
    return found


async def _traffic(port: int, count: int) -> tuple[list[float], int]:
    """Seconds of each exchange, and how many answers weren't what the upstream sends."""
    left = iter(range(count))
    question, expected = request(), whole_answer()
    times: list[float] = []
    wrong = 0

    async def client() -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            start = time.perf_counter()
            writer.write(question)
            got = await reader.readexactly(len(expected))
            wrong += unnumbered(got) != expected
            times.append(time.perf_counter() - start)
        writer.close()

    await asyncio.gather(*(client() for _ in range(_CONNECTIONS)))
    return sorted(times), wrong


def _tell(name: str, phase: tuple[list[float], int], found: Found) -> None:
    times, wrong = phase
    middle, late = (1000 * times[int(len(times) * share)] for share in (0.5, 0.99))
    words = f"{len(times)} answers, {wrong} wrong, {middle:.1f} ms half, {late:.1f} ms 99 of 100"
    found.add(name, {"answers": len(times), "wrong": wrong, "p50": middle, "p99": late}, words)


def _add_up(
    count: int, folder: Path, audit: AuditSink, telemetry: TelemetrySink, found: Found
) -> None:
    db = connect(folder)
    Index(folder, db).catch_up()
    stored = db.execute("SELECT count(*) FROM exchanges").fetchone()[0]
    told = db.execute("SELECT coalesce(sum(count), 0) FROM losses").fetchone()[0]
    db.close()
    spans = telemetry.exported["traces"] + telemetry.dropped["traces"]
    adds_up = stored == audit.recorded and told == audit.lost and stored + told == count == spans
    found.add("recorded", stored, f"{stored} of {count}")
    found.add("lost, and said so in the log", told, str(told))
    found.add("spans", spans, f"{telemetry.exported['traces']} exported, rest counted as dropped")
    found.add("all of it adds up", adds_up, str(adds_up))
    found.add("log intact", whole := verify([folder]).intact, str(whole))
