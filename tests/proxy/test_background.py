"""Work handed to the background is done in order, in batches, and never holds up the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from teeline.proxy.background import Background, detached

LONG = 60.0
"""A deadline that no machine reaches."""


class Recorder:
    """Remembers the batches it was given; ``accept`` False keeps them in the background's hands."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.accept = True
        self.ticks: list[bool] = []
        self.finished = 0

    def handle(self, batch: list[int]) -> bool:
        if self.accept:
            self.batches.append(list(batch))
        return self.accept

    def finish(self) -> None:
        self.finished += 1


def signalling(done: threading.Event) -> Callable[[list[int]], bool]:
    def handle(batch: list[int]) -> bool:
        done.set()
        return True

    return handle


def background(recorder: Recorder, capacity: int = 100, batch: int = 10) -> Background[int]:
    return Background(
        "test",
        recorder.handle,
        capacity=capacity,
        batch=batch,
        interval=LONG,
        tick=recorder.ticks.append,
        finish=recorder.finish,
    )


def test_a_flush_hands_everything_over_in_order_and_in_batches() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = background(recorder)
        for item in range(25):
            assert work.offer(item)
        work.start()
        assert await work.flush(LONG)
        assert [len(batch) for batch in recorder.batches] == [10, 10, 5]
        assert [item for batch in recorder.batches for item in batch] == list(range(25))
        assert recorder.ticks[-1] is True
        await work.stop(LONG)

    asyncio.run(run())


def test_a_full_queue_refuses_and_keeps_what_it_has() -> None:
    recorder = Recorder()
    work = background(recorder, capacity=3)
    assert [work.offer(item) for item in range(5)] == [True, True, True, False, False]
    assert work.waiting == 3


def test_a_batch_that_was_not_accepted_is_handed_over_again() -> None:
    async def run() -> None:
        recorder = Recorder()
        recorder.accept = False
        work = background(recorder)
        work.start()
        work.offer(1)
        assert not await work.flush(LONG)
        work.offer(2)
        assert work.waiting == 2
        recorder.accept = True
        assert await work.flush(LONG)
        assert recorder.batches == [[1, 2]]
        assert await work.stop(LONG)

    asyncio.run(run())


def test_a_whole_batch_is_handled_without_a_flush() -> None:
    async def run() -> None:
        done = threading.Event()
        work: Background[int] = Background(
            "test", signalling(done), capacity=10, batch=2, interval=LONG
        )
        work.start()
        work.offer(1)
        work.offer(2)
        assert await asyncio.to_thread(done.wait, LONG)
        await work.stop(LONG)

    asyncio.run(run())


@pytest.mark.parametrize(("meanwhile", "first_round"), [(3, [10, 5]), (12, [10, 5, 10])])
def test_what_comes_while_a_batch_is_handled_goes_at_once_only_where_it_fills_a_batch(
    meanwhile: int, first_round: list[int]
) -> None:
    """Else a thread under steady load would never wait, and hand over a few items at a time."""
    batches: list[int] = []
    rounds: list[tuple[list[int], int]] = []

    async def run() -> None:
        def handle(batch: list[int]) -> bool:
            batches.append(len(batch))
            if len(batches) == 2:
                assert [work.offer(item) for item in range(meanwhile)] == [True] * meanwhile
            return True

        work: Background[int] = Background(
            "test",
            handle,
            capacity=100,
            batch=10,
            interval=LONG,
            tick=lambda _: rounds.append((list(batches), work.waiting)),
        )
        for item in range(15):
            assert work.offer(item)
        work.start()
        assert await work.flush(LONG)
        assert rounds[0] == (first_round, 15 + meanwhile - sum(first_round))
        assert await work.flush(LONG)
        assert sum(batches) == 15 + meanwhile
        await work.stop(LONG)

    asyncio.run(run())


def test_a_prompt_background_handles_each_item_at_once() -> None:
    async def run() -> None:
        done = threading.Event()
        work: Background[int] = Background(
            "test",
            signalling(done),
            capacity=10,
            batch=5,
            interval=LONG,
            prompt=True,
        )
        work.start()
        work.offer(1)
        assert await asyncio.to_thread(done.wait, LONG)
        await work.stop(LONG)

    asyncio.run(run())


def test_stopping_handles_what_is_left_and_finishes_once() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = background(recorder)
        work.start()
        work.offer(7)
        assert await work.stop(LONG)
        assert await work.stop(LONG)
        assert recorder.batches == [[7]]
        assert recorder.finished == 1

    asyncio.run(run())


def test_stopping_before_the_start_is_no_error() -> None:
    assert asyncio.run(background(Recorder()).stop(LONG))


def test_a_stuck_handler_costs_the_deadline_and_no_more() -> None:
    async def run() -> None:
        release = threading.Event()
        work: Background[int] = Background(
            "test", lambda batch: release.wait(), capacity=10, batch=1, interval=LONG
        )
        work.start()
        work.offer(1)
        with pytest.raises(TimeoutError):
            await work.flush(0.01)
        assert not await work.stop(0.01)
        release.set()
        assert await work.stop(LONG)

    asyncio.run(run())


def test_a_mistake_in_the_handler_is_logged_once_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(batch: list[int]) -> bool:
        raise ValueError("sk-secret")

    async def run() -> None:
        work: Background[int] = Background("test", broken, capacity=10, batch=1, interval=LONG)
        work.start()
        for item in range(3):
            work.offer(item)
        assert await work.flush(LONG)
        await work.stop(LONG)
        assert work.failures == 3

    asyncio.run(run())
    assert caplog.messages == ["test failed: ValueError; traffic goes on"]


def test_detached_work_that_is_late_is_left_behind() -> None:
    async def run() -> None:
        release = threading.Event()
        with pytest.raises(TimeoutError):
            await detached(release.wait, "test", 0.01)
        release.set()

    asyncio.run(run())


def test_detached_work_hands_its_error_over() -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(detached(broken, "test", LONG))
