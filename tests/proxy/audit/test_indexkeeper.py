"""The index is fresh without a command, and what happens to its file costs it nothing but time."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from teeline.proxy.audit import schema
from teeline.proxy.audit.index import Index
from teeline.proxy.audit.indexkeeper import IndexKeeper, LastingIndex
from teeline.proxy.audit.query import Filters, search
from tests.proxy.audit.logs import files, write_log, writer
from tests.proxy.raw import run
from tests.proxy.samples import exchange, violation

DEADLINE = 30.0


@asynccontextmanager
async def keeping(folder: Path, rests: list[float] | None = None) -> AsyncIterator[IndexKeeper]:
    """A keeper that looks when it is asked to (``flush``), and notes its rests instead of taking them."""
    noted = [] if rests is None else rests
    keeper = IndexKeeper(folder, interval=3600.0, rest=noted.append)
    keeper.start()
    try:
        yield keeper
    finally:
        assert await keeper.stop(DEADLINE)


def asked(folder: Path, filters: Filters | None = None) -> list[str]:
    """What a reader in the same process sees, opening as query.py says."""
    with closing(schema.reader(folder)) as db:
        return [entry.id for entry in search(db, filters or Filters(), newest=False)]


def damage(path: Path) -> None:
    """What a crash of the machine may leave: pages of nothing in the middle."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xee" * (path.stat().st_size - 4096))


def test_a_reader_sees_new_records_without_a_command(tmp_path: Path) -> None:
    async def test() -> None:
        made = writer(tmp_path)
        made.start()
        async with keeping(tmp_path) as keeper:
            for number in range(3):
                made.append([exchange(violation(), id=f"{number:032x}")])
                await keeper.flush(DEADLINE)
                assert len(asked(tmp_path)) == number + 1
            assert asked(tmp_path, Filters(rules=("chatstream.done-missing",))) == asked(tmp_path)
            assert (keeper.records, keeper.behind) == (3, 0)
        made.close()

    run(test())


def test_records_that_arrive_while_it_catches_up_are_indexed_once(tmp_path: Path) -> None:
    """The writer, the keeper, a command and readers at the same time."""

    async def test() -> None:
        made = writer(tmp_path)
        made.start()
        done = threading.Event()

        def write() -> None:
            for batch in range(100):
                made.append([exchange(id=f"{batch * 20 + n:032x}") for n in range(20)])
            made.close()
            done.set()

        def command() -> None:
            log = LastingIndex(tmp_path)
            while not done.is_set():
                log.catch_up()
            log.close()

        threads = [threading.Thread(target=work) for work in (write, command)]
        async with keeping(tmp_path) as keeper:
            await keeper.flush(DEADLINE)
            for thread in threads:
                thread.start()
            seen = 0
            while not done.is_set():
                await keeper.flush(DEADLINE)
                now = len(asked(tmp_path))
                assert now >= seen
                seen = now
            for thread in threads:
                thread.join()
            await keeper.flush(DEADLINE)
        found = asked(tmp_path)
        assert len(found) == len(set(found)) == 2000

    run(test())


def test_work_is_cut_into_steps_with_rests_between_them(tmp_path: Path) -> None:
    async def test() -> None:
        write_log(tmp_path, 1000)
        rests: list[float] = []
        async with keeping(tmp_path, rests) as keeper:
            await keeper.flush(DEADLINE)
        assert keeper.records == 1000
        assert len(rests) >= 1000 / 200
        assert all(0 < rest <= 0.5 for rest in rests)

    run(test())


def test_it_ends_behind_the_step_under_way(tmp_path: Path) -> None:
    """A log that takes an hour to index doesn't hold up the end of the server."""

    async def test() -> None:
        write_log(tmp_path, 1000)
        stopping: list[asyncio.Task[bool]] = []
        loop = asyncio.get_running_loop()
        begun = threading.Event()

        def rest(_: float) -> None:
            begun.set()
            keeper._ending.wait(DEADLINE)

        keeper = IndexKeeper(tmp_path, interval=0.001, rest=rest)
        keeper.start()
        await loop.run_in_executor(None, begun.wait)
        stopping.append(loop.create_task(keeper.stop(DEADLINE)))
        assert await stopping[0]
        assert 0 < keeper.records < 1000

    run(test())


@pytest.mark.parametrize("names", [("",), ("", "-wal", "-shm")], ids=["alone", "with-its-log"])
def test_an_index_that_is_deleted_under_it_is_made_anew(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    async def test() -> None:
        made = writer(tmp_path)
        made.start()
        async with keeping(tmp_path) as keeper:
            made.append([exchange(id=f"{n:032x}") for n in range(500)])
            await keeper.flush(DEADLINE)
            for name in names:
                (tmp_path / (schema.FILENAME + name)).unlink()
            made.append([exchange(id="f" * 32)])
            await keeper.flush(DEADLINE)
            assert len(asked(tmp_path)) == 501
        made.close()

    run(test())


def test_an_index_that_is_damaged_under_it_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        made = writer(tmp_path)
        made.start()
        async with keeping(tmp_path) as keeper:
            made.append([exchange(id=f"{n:032x}") for n in range(500)])
            await keeper.flush(DEADLINE)
            assert keeper._lasting._index is not None
            with closing(schema.connect(tmp_path)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            damage(tmp_path / schema.FILENAME)
            made.append([exchange(id="f" * 32)])
            await keeper.flush(DEADLINE)
            assert len(asked(tmp_path)) == 501
        made.close()

    run(test())
    assert [r.getMessage() for r in caplog.records if "damaged" in r.getMessage()]


def test_a_command_beside_an_index_that_was_deleted_under_another_gets_everything(
    tmp_path: Path,
) -> None:
    """The other one still has the old file open, and what SQLite keeps beside it."""
    write_log(tmp_path, 500)
    with closing(schema.connect(tmp_path)) as old:
        Index(tmp_path, old).catch_up()
        (tmp_path / schema.FILENAME).unlink()
        log = LastingIndex(tmp_path)
        log.catch_up()
        log.close()
        assert len(asked(tmp_path)) == 500


def test_trouble_is_told_once_and_over_when_it_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "log"

    async def test() -> None:
        async with keeping(folder) as keeper:
            await keeper.flush(DEADLINE)
            await keeper.flush(DEADLINE)
            write_log(folder, 2)
            await keeper.flush(DEADLINE)
            assert len(asked(folder)) == 2

    run(test())
    told = [record.getMessage() for record in caplog.records]
    assert [line.split(": ")[1] for line in told] == [
        f"the index in {folder} can't be kept fresh",
        f"the index in {folder} is fresh again",
    ]


def test_a_command_that_writes_is_waited_for_and_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("teeline.proxy.audit.indexkeeper._BUSY", 0.0)

    async def test() -> None:
        write_log(tmp_path, 3)
        with closing(schema.connect(tmp_path)) as db:
            async with keeping(tmp_path) as keeper:
                db.execute("BEGIN IMMEDIATE")
                await keeper.flush(DEADLINE)
                assert keeper.records == 0
                db.execute("ROLLBACK")
                await keeper.flush(DEADLINE)
                assert keeper.records == 3

    run(test())
    assert caplog.records == []


def test_an_index_in_memory_is_caught_up_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder can't be written, a command has its own for as long as it runs."""
    write_log(tmp_path, 3)
    monkeypatch.setattr("teeline.proxy.audit.schema.touch", lambda path: None)
    log = LastingIndex(tmp_path)
    assert (log.catch_up(), log.catch_up()) == (3, 0)
    assert not (tmp_path / schema.FILENAME).exists()
    log.close()


def test_retention_takes_records_out_of_it(tmp_path: Path) -> None:
    async def test() -> None:
        write_log(tmp_path, 3)
        async with keeping(tmp_path) as keeper:
            await keeper.flush(DEADLINE)
            files(tmp_path)[0].unlink()
            await keeper.flush(DEADLINE)
            assert asked(tmp_path) == []

    run(test())


def test_a_reader_neither_makes_an_index_nor_writes_to_one(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        schema.reader(tmp_path)
    assert not (tmp_path / schema.FILENAME).exists()
    schema.connect(tmp_path).close()
    with (
        closing(schema.reader(tmp_path)) as db,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        db.execute("DELETE FROM exchanges")
