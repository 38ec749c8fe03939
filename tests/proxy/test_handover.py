"""Steps are done once each and in order: at once, or together, within bounds of time, number and bytes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from teeline.proxy.handover import MOST, MUCH, AtOnce, Handover, InBatches
from teeline.validators.model import Ended
from tests.proxy.raw import Recorder, answering, client, proxy, run

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Done:
    """What steps were given, as they were done."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, float]] = []
        self.last = asyncio.Event()

    def step(self, what: Any, at: float) -> None:
        self.steps.append((what, at))
        if what == "last":
            self.last.set()

    def fail(self, what: Any, at: float) -> None:
        raise ValueError("sk-secret")


def test_without_batches_a_step_is_done_when_it_comes() -> None:
    done, handover = Done(), AtOnce()
    handover.hand(done.step, "a", 1.0)
    assert done.steps == [("a", 1.0)]
    handover.hand(done.step, b"b", 2.0, 1)
    assert done.steps == [("a", 1.0), (b"b", 2.0)]
    handover.catch_up()


def test_steps_wait_a_moment_and_keep_order_and_times() -> None:
    async def test() -> None:
        done, handover = Done(), InBatches()
        handover.hand(done.step, "a", 1.0)
        handover.hand(done.step, b"b", 2.0, 1)
        handover.hand(done.step, "last", 3.0)
        assert done.steps == []
        await done.last.wait()
        assert done.steps == [("a", 1.0), (b"b", 2.0), ("last", 3.0)]
        done.last.clear()
        handover.hand(done.step, "last", 4.0)  # and again, after a batch
        await done.last.wait()
        assert done.steps[3:] == [("last", 4.0)]

    run(test())


@pytest.mark.parametrize("size", [0, 1])
def test_no_more_than_so_many_steps_wait(size: int) -> None:
    async def test() -> None:
        done, handover = Done(), InBatches()
        for number in range(MOST):
            assert done.steps == []
            handover.hand(done.step, b"%d" % number, float(number), size)
        assert done.steps == [(b"%d" % number, float(number)) for number in range(MOST)]

    run(test())


def test_no_more_than_so_many_bytes_wait() -> None:
    async def test() -> None:
        done, handover = Done(), InBatches()
        for at in (1.0, 3.0):  # what has been done no longer counts
            handover.hand(done.step, "a", at, MUCH - 1)
            assert at not in [at for _, at in done.steps]
            handover.hand(done.step, "b", at + 1, 1)
            assert [at for _, at in done.steps][-2:] == [at, at + 1]

    run(test())


def test_one_timer_is_enough_for_all_batches_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the timers of batches that are done would cut those behind them short."""

    async def test() -> None:
        done, handover = Done(), InBatches()
        loop, timers = asyncio.get_running_loop(), []
        monkeypatch.setattr(loop, "call_later", lambda after, call: timers.append(call))
        for _ in range(3 * MOST):
            handover.hand(done.step, "a", 1.0)
        assert len(done.steps) == 3 * MOST
        (timer,) = timers
        handover.hand(done.step, "b", 2.0)
        timer()
        assert done.steps[-1] == ("b", 2.0)
        handover.hand(done.step, "c", 3.0)
        assert len(timers) == 2  # nobody would come for it otherwise

    run(test())


def test_a_step_that_raises_loses_itself_alone_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        done, handover = Done(), InBatches()
        for _ in range(2):
            handover.hand(done.step, "a", 1.0)
            handover.hand(done.fail, "b", 2.0)
            handover.hand(done.step, "c", 3.0)
            handover.catch_up()
        assert [what for what, _ in done.steps] == ["a", "c"] * 2

    with caplog.at_level(logging.ERROR, "teeline.tee"):
        run(test())
    assert [record.getMessage() for record in caplog.records] == [
        "a step of inspection failed: ValueError; traffic goes on"
    ]


def test_what_a_step_hands_over_comes_behind_what_waits_already() -> None:
    async def test() -> None:
        done, handover = Done(), InBatches()

        def more(what: Any, at: float) -> None:
            done.step(what, at)
            handover.hand(done.step, "last", at)

        handover.hand(more, "a", 1.0)
        handover.hand(done.step, "b", 2.0)
        handover.catch_up()
        await done.last.wait()
        assert [what for what, _ in done.steps] == ["a", "b", "last"]

    run(test())


@pytest.mark.parametrize("handover", [AtOnce, InBatches])
def test_what_waits_when_a_server_stops_is_told_before_it_has_stopped(
    handover: type[Handover],
) -> None:
    async def test() -> None:
        recorder = Recorder()
        async with (
            answering(OK) as upstream,
            proxy(upstream.url, recorder, handover=handover()) as teeline,
            client(teeline.port) as wire,
        ):
            for _ in range(3):
                await wire.send(GET)
                assert (await wire.read_message()).body == b"{}"
        assert recorder.ended == [Ended.COMPLETE] * 3

    run(test())
