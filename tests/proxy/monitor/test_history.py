"""The past is paged without loss or repeat, within a time, and away from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.monitor import history
from teeline.proxy.monitor.filters import Asked
from teeline.proxy.monitor.history import KEPT, PAGE, WAITING, History, HistoryError, Place
from tests.proxy.audit.logs import Clock
from tests.proxy.monitor.past import mixed, record
from tests.proxy.raw import run
from tests.proxy.samples import START

ALL = Asked()


@asynccontextmanager
async def past(folder: Path, count: int) -> AsyncIterator[History]:
    record(folder, mixed(count))
    asking = History(folder, clock=lambda: START + count)
    try:
        yield asking
    finally:
        await asking.close()


def test_pages_backwards_in_time_hold_every_exchange_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with past(tmp_path, 2 * PAGE + 30) as asking:
            seen: list[str] = []
            before: Place | None = None
            sizes = []
            while True:
                page = await asking.rows(ALL, before)
                seen += [row["id"] for row in page["rows"]]
                sizes.append(len(page["rows"]))
                if page["older"] is None:
                    break
                before = Place.parse(page["older"])
        assert sizes == [PAGE, PAGE, 30]
        assert seen == [f"{number:032x}" for number in reversed(range(2 * PAGE + 30))]

    run(test())


def test_records_of_one_moment_are_neither_lost_nor_repeated_between_pages(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        made = mixed(PAGE + 20)
        for each in made:
            each.timing.end = START
        record(tmp_path, made)
        asking = History(tmp_path)
        first = await asking.rows(ALL)
        second = await asking.rows(ALL, Place.parse(first["older"]))
        await asking.close()
        ids = [row["id"] for row in (*first["rows"], *second["rows"])]
        assert len(ids) == len(set(ids)) == PAGE + 20

    run(test())


def test_up_to_a_moment_means_before_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with past(tmp_path, 10) as asking:
            page = await asking.rows(ALL, until=START + 4)
        # Records stand where exchanges ended, a second after they began.
        assert [row["id"][-1] for row in page["rows"]] == ["2", "1", "0"]

    run(test())


def test_one_record_is_found_with_its_upstreams_address(tmp_path: Path) -> None:
    async def test() -> None:
        async with past(tmp_path, 3) as asking:
            found = await asking.record(f"{1:032x}")
            assert found is not None
            assert found.found.intact
            assert found.found.fields["model"] == "b"
            assert await asking.record("f" * 32) is None

    run(test())


def test_a_day_has_a_chart_an_upstream_and_its_faults(tmp_path: Path) -> None:
    async def test() -> None:
        async with past(tmp_path, 30) as asking:
            day = await asking.day()
        sums = {
            name: [sum(c) for c in zip(*series, strict=True)]
            for name, series in day["series"].items()
        }
        assert {name: total[1:] for name, total in sums.items()} == {
            "main": [15, 5, 0],
            "spare": [15, 5, 0],
        }
        assert {(f["upstream"], f["rule"], f["count"]) for f in day["faults"]} == {
            ("main", "chatstream.done-missing", 5),
            ("spare", "chatstream.done-missing", 5),
        }
        assert all(sum(fault["trend"]) == fault["count"] for fault in day["faults"])
        assert all(
            START <= fault["first"] <= fault["last"] <= START + 30 for fault in day["faults"]
        )

    run(test())


def test_scores_are_those_of_the_scoreboard(tmp_path: Path) -> None:
    async def test() -> None:
        async with past(tmp_path, 30) as asking:
            assert await asking.scores() == {
                name: {"score": 66.7, "band": "marginal", "scored": "24 h"}
                for name in ("main", "spare")
            }

    run(test())


def test_a_question_that_takes_too_long_is_given_up_and_the_next_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"

    async def test() -> None:
        async with past(tmp_path, 3) as asking:
            monkeypatch.setattr(history, "DEADLINE", 0.05)
            with pytest.raises(HistoryError, match="takes too long"):
                await asking._ask(lambda db: db.execute(forever).fetchone())
            monkeypatch.setattr(history, "DEADLINE", 10.0)
            assert len((await asking.rows(ALL))["rows"]) == 3

    run(test())


def test_questions_beyond_the_bound_are_turned_away_and_the_loop_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with past(tmp_path, 3) as asking:
            held, asked = threading.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def hold(_: Any) -> None:
                loop.call_soon_threadsafe(asked.set)
                held.wait(20)

            waiting = [asyncio.create_task(asking._ask(hold)) for _ in range(WAITING)]
            await asked.wait()
            with pytest.raises(HistoryError, match="too many"):
                await asking.rows(ALL)
            held.set()
            await asyncio.gather(*waiting)
            assert (await asking.rows(ALL))["rows"]

    run(test())


def test_without_an_index_it_is_said_that_the_log_is_whole(tmp_path: Path) -> None:
    async def test() -> None:
        asking = History(tmp_path)
        with pytest.raises(HistoryError, match="the audit log itself is complete"):
            await asking.rows(ALL)
        await asking.close()

    run(test())


@pytest.mark.parametrize(
    "text", ["", ".", "1", "1.", ".1", "-1.1", "1.1.1", "a.b", "9" * 50 + ".1"]
)
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no place"):
        Place.parse(text)


def test_sums_over_a_day_are_asked_for_once_however_many_look(tmp_path: Path) -> None:
    async def test() -> None:
        async with past(tmp_path, 3) as asking:
            asked: list[str] = []

            def question(db: Any) -> int:
                asked.append("day")
                return len(asked)

            now = Clock(0.0)
            kept = history._Kept(lambda: asking._ask(question), now)
            assert await asyncio.gather(*(kept.get() for _ in range(5))) == [1] * 5
            now.now = KEPT - 1
            assert await kept.get() == 1
            now.now = KEPT
            assert await kept.get() == 2

    run(test())


def test_sums_that_take_long_stay_good_for_long() -> None:
    async def test() -> None:
        now = Clock(0.0)
        asked = 0

        async def slow() -> int:
            nonlocal asked
            asked += 1
            now.now += 10
            return asked

        kept = history._Kept(slow, now)
        assert await kept.get() == 1
        now.now += 199
        assert await kept.get() == 1
        now.now += 1
        assert await kept.get() == 2

    run(test())


def test_who_asks_at_the_end_is_told_that_it_is_the_end(tmp_path: Path) -> None:
    forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"

    async def test() -> None:
        async with past(tmp_path, 3) as asking:
            begun = asyncio.Event()
            loop = asyncio.get_running_loop()

            def ask(db: Any) -> Any:
                loop.call_soon_threadsafe(begun.set)
                return db.execute(forever).fetchone()

            under_way = asyncio.create_task(asking._ask(ask))
            await begun.wait()
            # Once could be before the statement has begun.
            while not under_way.done():
                await asking.close()
                await asyncio.sleep(0)
            with pytest.raises(HistoryError):
                under_way.result()
            with pytest.raises(HistoryError, match="closing"):
                await asking.rows(ALL)

    run(test())
