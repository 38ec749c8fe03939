"""The feed's sums are exact, its rows are bounded, and nothing that happens to it reaches traffic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from teeline.proxy.monitor.feed import RECORDS, ROWS, STREAMS, FeedSink
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Exchange, Severity
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

    def sums(self, upstream: str = "my-relay") -> list[int]:
        """Opened, closed, failed, warned, tokens of all batches."""
        tallies = [batch["tallies"].get(upstream, [0] * 5) for batch in self.batches]
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
        listed = sum(len(batch["rows"]) for batch in told.batches)
        left_out = sum(batch["left_out"] for batch in told.batches)
        assert listed + left_out == 3000
        assert max(len(batch["rows"]) for batch in told.batches) <= ROWS
        assert sum(fault[4] for batch in told.batches for fault in batch["faults"]) == 300

    run(test())


def test_broken_exchanges_are_listed_before_clean_ones() -> None:
    async def test() -> None:
        async with feeding() as (feed, told):
            happen(feed, exchange(violation(), id="broken"))
            happen(feed, *(exchange() for _ in range(5 * ROWS)))
            await feed.drain(10)
        ids = [row["id"] for batch in told.batches for row in batch["rows"]]
        assert "broken" in ids

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
        assert [batch["faults"] for batch in told.batches] == [[]] * len(told.batches)

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
        assert all(0 < len(batch["records"]) <= RECORDS for batch in told.batches if batch["rows"])
        async with feeding() as (feed, plain):
            happen(feed, exchange(violation()))
            await feed.drain(10)
        assert "records" not in plain.batches[-1]

    run(test())


def test_a_batch_is_bounded_whatever_peers_write() -> None:
    async def test() -> None:
        long = "\u202e" * 1_000_000
        async with feeding(details=True) as (feed, told):
            for number in range(3 * ROWS):
                broken = [violation(f"a.b-{n}", message=long, evidence=long) for n in range(30)]
                happen(feed, exchange(*broken, model=f"{number}{long}", request_id=long, path=long))
            await feed.drain(30)
        assert told.largest < 2 * 1024 * 1024

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
