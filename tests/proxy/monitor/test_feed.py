"""The feed's sums are exact, its rows are bounded, and nothing that happens to it reaches traffic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from teeline.proxy.link import MAX_LIVE
from teeline.proxy.monitor.feed import RECORDS, ROWS, STREAMS, FeedSink
from teeline.proxy.monitor.filters import Asked
from teeline.proxy.monitor.hub import Hub
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Ended, Exchange, Severity
from tests.proxy.raw import run
from tests.proxy.samples import START, exchange, violation


class Told:
    """What a feed has published."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.largest = 0

    def take(self, data: bytes) -> None:
        self.largest = max(self.largest, len(data))
        self.batches.append(orjson.loads(data))

    def all(self, name: str) -> list[Any]:
        """What a list holds in all batches together."""
        return [each for batch in self.batches for each in batch.get(name, ())]

    def sums(self, upstream: str = "my-relay") -> list[int]:
        """Opened, closed, failed, warned, tokens of all batches."""
        told = [batch["tallies"] for batch in self.batches if "tallies" in batch]
        tallies = [each.get(upstream, [0] * 5) for each in told]
        return [sum(column) for column in zip(*(tally[:5] for tally in tallies), strict=True)]


@asynccontextmanager
async def feeding(**options: Any) -> AsyncIterator[tuple[FeedSink, Told]]:
    told = Told()
    feed = FeedSink(told.take, "w", clock=lambda: START, **options)
    await feed.start()
    try:
        yield feed, told
    finally:
        await feed.close()


def happen(feed: FeedSink, *exchanges: Exchange, closed: bool = True) -> None:
    for each in exchanges:
        feed.opened(Opened(each))
        for found in each.violations:
            feed.found(Found(each, found))
        if closed:
            feed.closed(Closed(each))


def test_every_exchange_is_in_the_sums_however_many_there_are() -> None:
    async def test() -> None:
        async with feeding() as (feed, told):
            for number in range(3000):
                broken = [violation()] if number % 10 == 0 else []
                happen(feed, exchange(*broken))
            await feed.drain(10)
        assert told.sums() == [3000, 3000, 300, 0, 12 * 3000]
        listed = len(told.all("rows"))
        left_out = sum(batch.get("left_out", 0) for batch in told.batches)
        assert listed + left_out == 3000
        assert max(len(batch.get("rows", ())) for batch in told.batches) <= ROWS
        assert sum(fault[4] for fault in told.all("faults")) == 300

    run(test())


def test_broken_exchanges_are_listed_before_clean_ones() -> None:
    async def test() -> None:
        async with feeding() as (feed, told):
            happen(feed, exchange(violation(), id="broken"))
            happen(feed, *(exchange() for _ in range(5 * ROWS)))
            await feed.drain(10)
        assert "broken" in [row["id"] for row in told.all("rows")]

    run(test())


def test_what_is_under_way_is_told_with_how_far_it_is() -> None:
    async def test() -> None:
        async with feeding() as (feed, told):
            made = exchange(violation(), ended=None)
            happen(feed, *(exchange(ended=None) for _ in range(2 * STREAMS)), made, closed=False)
            await feed.drain(10)
            assert told.batches[-1]["open"] == {"my-relay": 2 * STREAMS + 1}
            rows = told.batches[-1]["streams"]
            assert len(rows) == STREAMS
            assert rows[0]["id"] == made.id
            made.events = 99
            feed.closed(Closed(made))
            await feed.drain(10)
            assert told.batches[-1]["open"] == {"my-relay": 2 * STREAMS}
            assert made.id not in {row["id"] for row in told.batches[-1]["streams"]}
            assert told.batches[-1]["rows"][0]["events"] == 99

    run(test())


def test_observations_are_no_faults() -> None:
    async def test() -> None:
        async with feeding() as (feed, told):
            happen(feed, exchange(violation("http.x", Severity.INFO)))
            await feed.drain(10)
        assert told.sums()[1] == 1
        assert told.all("faults") == []

    run(test())


def test_a_full_queue_loses_rows_which_are_counted_and_leaves_nothing_open() -> None:
    async def test() -> None:
        async with feeding(queue_size=10, period=3600.0) as (feed, told):
            made = [exchange() for _ in range(100)]
            happen(feed, *made)
            assert feed.lost == 190
            await feed.drain(10)
        assert told.batches[-1]["lost"] == 190
        assert told.batches[-1]["open"] == {}

    run(test())


def test_records_go_along_where_there_is_no_log_to_read_them_from() -> None:
    async def test() -> None:
        async with feeding(details=True) as (feed, told):
            happen(feed, *(exchange(violation()) for _ in range(2 * RECORDS)))
            await feed.drain(10)
        assert 0 < len(told.all("records")) <= RECORDS * len(told.batches)
        async with feeding() as (feed, plain):
            happen(feed, exchange(violation()))
            await feed.drain(10)
        assert plain.all("rows")
        assert plain.all("records") == []

    run(test())


def test_what_is_published_fits_the_way_to_another_process_whatever_peers_write() -> None:
    """One message where all fits in one, several where it doesn't, and nothing of it lost."""

    async def test() -> None:
        long = "\u202e" * 1_000_000
        async with feeding(details=True) as (feed, told):
            for number in range(3 * ROWS):
                broken = [violation(f"a.b-{n}", message=long, evidence=long) for n in range(30)]
                ended = Ended.COMPLETE if number % 2 else None
                made = exchange(*broken, model=f"{number}{long}", request_id=long, ended=ended)
                happen(feed, made, closed=ended is not None)
            await feed.drain(30)
        assert told.largest < MAX_LIVE
        assert told.sums()[1] == 3 * ROWS // 2
        left_out = sum(batch.get("left_out", 0) for batch in told.batches)
        assert len(told.all("rows")) + left_out == 3 * ROWS // 2
        assert sum(fault[4] for fault in told.all("faults")) == 30 * 3 * ROWS
        hub = Hub([])
        for batch in told.batches:
            hub.take(orjson.dumps(batch))
        assert hub.refused == 0
        assert hub.snapshot(Asked())[0]["upstreams"][0]["closed"] == 3 * ROWS // 2

    run(test())


def test_where_nothing_happens_nothing_is_told() -> None:
    async def test() -> None:
        async with feeding(period=0.01) as (feed, told):
            await feed.drain(10)
            first = len(told.batches)
            for _ in range(5):
                await feed.drain(10)
            assert first <= 1
            assert len(told.batches) == first

    run(test())


def test_a_hub_that_fails_is_not_seen_by_the_sink() -> None:
    async def test() -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))

        def broken(data: bytes) -> None:
            raise RuntimeError("hub")

        feed = FeedSink(broken)
        await feed.start()
        happen(feed, exchange())
        await feed.drain(10)
        happen(feed, exchange())
        await feed.drain(10)
        await feed.close()
        assert len(errors) == 2

    run(test())
