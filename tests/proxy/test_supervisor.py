"""Several processes serve as one: nothing is counted twice or lost, and one's death is its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.audit.verify import verify
from teeline.proxy.child import Child
from teeline.proxy.server import ServeError
from teeline.proxy.supervisor import LONGEST_WAIT, STEADY
from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.environment import CAPTURE
from teeline.proxy.telemetry.sums import Part
from tests.proxy.raw import answering, ask, client
from tests.proxy.telemetry.collector import Collector, attributes, collecting
from tests.proxy.workers import (
    GET,
    Watched,
    begun,
    configured,
    held,
    logged,
    run,
    supervised,
    whole,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"


def exchanges(supervisor: Watched) -> int:
    values = supervisor.meter.values(instruments.EXCHANGES).values()
    return sum(value for value in values if isinstance(value, int))


def each(supervisor: Watched, holds: Callable[[int], bool]) -> bool:
    """Whether it holds of the requests of each worker."""
    return all(holds(worker.requests) for worker in supervisor.workers())


async def asked_of_both(supervisor: Watched, port: int) -> int:
    """Requests on connections of their own until both workers had some; how many that were."""
    count = 0
    while not each(supervisor, bool):
        answers = await asyncio.gather(*(ask(port, GET) for _ in range(20)))
        count += len(answers)
        assert {answer.status for answer in answers} == {200}
        await supervisor.until_requests(count)
    return count


# -- sums -----------------------------------------------------------------------------------------


def test_both_workers_serve_and_their_sums_are_what_was_sent(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            answering(HTML) as upstream,
            supervised(configured(upstream.url, tmp_path)) as (supervisor, port),
        ):
            first, second = supervisor.workers()
            assert first.pid != second.pid
            assert first.accepting and second.accepting
            assert supervisor.meter.values(instruments.WORKERS) == {(): 2}
            count = await asked_of_both(supervisor, port)
            await supervisor.stop(30)
            assert exchanges(supervisor) == count == len(upstream.requests)
            assert supervisor.facts().requests == count
            assert supervisor.meter.values(instruments.AUDIT_RECORDS) == {(): count}
            assert supervisor.meter.values(instruments.WORKER_RESTARTS) == {(): 0}
            assert supervisor.meter.values(instruments.WORKERS) == {(): 0}
        result = verify([tmp_path])
        assert result.intact
        assert len(result.chains) == 2

    run(test())


def test_the_console_tells_of_all_workers_as_of_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            answering(HTML) as upstream,
            supervised(configured(upstream.url, None)) as (supervisor, port),
        ):
            count = await asked_of_both(supervisor, port)
            await supervisor.stop(30)
        lines = supervisor.shown.getvalue().splitlines()
        assert sum("http.html-200" in line and "An HTML page" in line for line in lines) == 1
        assert f"teeline: {count} exchanges: 0 pass, 0 warn, {count} fail" in lines
        assert sum("so far" in line for line in lines) <= len(str(count))

    run(test())


def test_open_streams_are_those_of_all_workers_and_zero_when_they_are_over() -> None:
    async def test() -> None:
        async with (
            held() as (streams, upstream),
            supervised(configured(upstream.url, None)) as (supervisor, port),
        ):
            wires = [await begun(port) for _ in range(4)]
            open_streams = supervisor.meter.values
            key = ("relay",)
            await supervisor.until(lambda: open_streams(instruments.OPEN_STREAMS)[key] == 4)
            assert supervisor.facts().open == 4
            streams.go.set()
            assert all([await whole(wire) for wire in wires])
            await supervisor.until(lambda: open_streams(instruments.OPEN_STREAMS)[key] == 0)

    run(test())


def test_a_collector_gets_one_sum_of_all_and_the_spans_of_each_worker(tmp_path: Path) -> None:
    async def test(collector: Collector) -> None:
        async with (
            answering(HTML) as upstream,
            supervised(configured(upstream.url, tmp_path), environ=collector.environ) as (
                supervisor,
                port,
            ),
        ):
            assert supervisor.otlp
            count = await asked_of_both(supervisor, port)
            await supervisor.stop(30)
        assert len(collector.spans) == count
        points = collector.points("teeline.exchanges")
        assert sum(point.as_int for point in points) == count
        resources: list[Any] = [
            r for request in collector.metrics for r in request.resource_metrics
        ]
        resources += [r for request in collector.traces for r in request.resource_spans]
        assert len({str(attributes(sender.resource)) for sender in resources}) == 1

    with collecting() as collector:
        run(test(collector))


def test_what_is_wrong_for_all_is_said_once(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        environ = {CAPTURE: "SPAN_ONLY"}
        async with supervised(configured("http://127.0.0.1:1", None), environ=environ):
            pass

    run(test())
    assert caplog.text.count(f"{CAPTURE} is ignored") == 1
    assert capfd.readouterr().err == ""


# -- ends -----------------------------------------------------------------------------------------


def test_a_killed_worker_takes_its_own_streams_along_and_is_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            held() as (streams, upstream),
            supervised(configured(upstream.url, tmp_path)) as (supervisor, port),
        ):
            streams.go.set()
            before = await asked_of_both(supervisor, port)
            await supervisor.until(lambda: exchanges(supervisor) == before)
            streams.go.clear()
            wires = []
            while not all(worker.open for worker in supervisor.workers()):
                wires += [await begun(port) for _ in range(6)]
                await supervisor.until_open(len(wires))
            doomed, spared = supervisor.workers()
            os.kill(doomed.pid, signal.SIGKILL)
            await supervisor.until(
                lambda: len(supervisor.workers()) == 2 and supervisor.workers()[0].pid != doomed.pid
            )
            assert exchanges(supervisor) == before
            assert supervisor.facts().open == spared.open
            assert supervisor.meter.values(instruments.WORKER_RESTARTS) == {(): 1}
            assert supervisor.gone == ["1"]
            streams.go.set()
            ends = await asyncio.gather(*(whole(wire) for wire in wires))
            assert (ends.count(False), ends.count(True)) == (doomed.open, spared.open)
            await supervisor.until(lambda: exchanges(supervisor) == before + spared.open)
            count = 0
            while not supervisor.workers()[0].requests:
                count += len(await asyncio.gather(*(ask(port, GET) for _ in range(20))))
                await supervisor.until_requests(before + len(wires) + count)
            await supervisor.stop(30)
            assert exchanges(supervisor) == before + spared.open + count
        result = verify([tmp_path])
        assert len(result.chains) == 3
        assert {finding.kind for finding in result.findings} <= {"torn"}

    run(test())


def test_a_worker_that_is_asked_to_end_finishes_its_streams_and_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with (
            held() as (streams, upstream),
            supervised(configured(upstream.url, None, shutdown={"deadline": 1000})) as (
                supervisor,
                port,
            ),
        ):
            wires = []
            while not supervisor.workers()[0].open:
                wires.append(await begun(port))
                await supervisor.until_open(len(wires))
            leaving = supervisor.workers()[0]
            os.kill(leaving.pid, signal.SIGTERM)
            await supervisor.until(lambda: not supervisor.workers()[0].accepting)
            assert supervisor.accepting
            wires.append(await begun(port))  # the other one serves
            streams.go.set()
            assert all([await whole(wire) for wire in wires])
            await supervisor.until_replaced(leaving.pid)
        assert (
            f"worker 1 (pid {leaving.pid}) ended with status 0; it is replaced" in caplog.messages
        )

    run(test())


def test_what_is_open_at_the_end_gets_its_time_and_a_second_call_takes_it() -> None:
    async def test() -> None:
        async with held() as (streams, upstream):
            config = configured(upstream.url, None)
            async with supervised(config) as (supervisor, port):
                wire = await begun(port)
                stopping = asyncio.create_task(supervisor.stop(1000))
                await supervisor.until(lambda: not supervisor.accepting)
                streams.go.set()
                assert await whole(wire)
                await stopping
            streams.go.clear()
            async with supervised(config) as (supervisor, port):
                wire = await begun(port)
                stopping = asyncio.create_task(supervisor.stop(1000))
                await supervisor.until(lambda: not supervisor.accepting)
                await supervisor.stop(0)
                await stopping
                assert not await whole(wire)
                ended = supervisor.meter.values(instruments.EXCHANGES)
                assert [key[-1] for key in ended] == ["shutdown"]

    run(test())


def test_a_worker_that_can_not_be_replaced_is_tried_again_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "audit"

    async def test() -> None:
        async with (
            answering(OK) as upstream,
            supervised(configured(upstream.url, folder)) as (supervisor, port),
            logged("tried again") as said,
        ):
            shutil.rmtree(folder)
            folder.touch()
            first = supervisor.workers()[0]
            os.kill(first.pid, signal.SIGKILL)
            await said.wait()
            assert supervisor.accepting
            folder.unlink()
            await supervisor.until(
                lambda: len(supervisor.workers()) == 2 and supervisor.workers()[0].accepting
            )
            assert (await ask(port, GET)).status == 200
        assert f"audit folder {folder} can't be written" in caplog.text
        assert "worker 1 serves again" in caplog.text

    run(test())


class Hasty(Watched):
    """Its workers end as soon as they are there; what it waits is kept, and not waited."""

    def __init__(self, lifetimes: list[float]) -> None:
        self.now = 0.0
        super().__init__(configured("http://127.0.0.1:1", None), clock=lambda: self.now)
        self.lifetimes = lifetimes
        self.waits: list[float] = []

    async def _started(self, number: int) -> Child:
        child = Ending(number, self, self._clock)
        child.lifetime = self.lifetimes.pop(0)
        self._children[number], self._parts[child] = child, Part()
        return child

    async def _told_to_stop(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return not self.lifetimes


class Ending(Child):
    """A worker that ends after its time."""

    lifetime = 0.0

    async def ended(self) -> str:
        assert isinstance(self._told, Hasty)
        self._told.now += self.lifetime
        return "ended"


def test_workers_that_keep_ending_are_replaced_ever_later_and_a_steady_one_at_once() -> None:
    async def test() -> None:
        hasty = Hasty([0.0] * 9 + [STEADY] + [0.0] * 2)
        await hasty._keep(1, await hasty._started(1))
        assert hasty.waits == [0, 0.5, 1, 2, 4, 8, 16, LONGEST_WAIT, LONGEST_WAIT, 0, 0.5, 1]
        assert hasty.meter.values(instruments.WORKER_RESTARTS) == {(): 12}
        await hasty.close()

    run(test())


# -- starts ---------------------------------------------------------------------------------------


def test_what_no_worker_can_do_stops_the_start_with_the_workers_words(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "file").touch()
        supervisor = Watched(configured("http://127.0.0.1:1", tmp_path / "file" / "x"))
        with pytest.raises(ServeError, match=r"^audit folder .* can't be written: Not a directory"):
            await supervisor.start()
        await supervisor.close()

    run(test())


def test_a_capability_document_that_workers_can_t_use_stops_the_start(tmp_path: Path) -> None:
    """Each worker reads it for itself."""

    async def test() -> None:
        nnrp = {"capabilities": str(tmp_path / "none.json")}
        supervisor = Watched(configured("http://127.0.0.1:1", None, nnrp=nnrp))
        with pytest.raises(ServeError, match=r"none\.json: No such file or directory$"):
            await supervisor.start()
        await supervisor.close()

    run(test())


def test_a_port_in_use_is_said_before_any_worker_is_started() -> None:
    async def test() -> None:
        async with answering(OK) as upstream:
            config = configured(upstream.url, None, listen=f"127.0.0.1:{upstream.port}")
            supervisor = Watched(config)
            with pytest.raises(ServeError, match="the address is in use"):
                await supervisor.start()
            assert supervisor.workers() == []
            await supervisor.close()

    run(test())


def test_connections_that_wait_survive_a_worker_that_dies() -> None:
    """They stand in the queue of a socket that the supervisor holds."""

    async def test() -> None:
        async with (
            answering(OK) as upstream,
            supervised(configured(upstream.url, None)) as (supervisor, port),
        ):
            pids = [worker.pid for worker in supervisor.workers()]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            async with client(port) as wire:
                await wire.send(GET)
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                assert (await wire.read_message()).body == b"ok"

    run(test())


# -- what they tell -------------------------------------------------------------------------------


def test_a_page_that_fails_costs_no_worker(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        supervisor = Watched(configured("http://127.0.0.1:1", None))
        supervisor.live(b"one")
        assert supervisor.lives == [b"one"]

        def fail(data: bytes) -> None:
            raise RuntimeError

        supervisor._on_live = fail
        supervisor.live(b"two")
        supervisor.live(b"three")
        assert caplog.messages == ["the live page takes nothing: RuntimeError"]
        await supervisor.close()

    run(test())
