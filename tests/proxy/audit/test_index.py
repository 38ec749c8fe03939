"""The index knows what the files hold: new lines, packed files, deleted ones, changed ones."""

from __future__ import annotations

import gzip
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from teeline.proxy.audit.files import tail_of
from teeline.proxy.audit.index import Index
from teeline.proxy.audit.packing import pack
from teeline.proxy.audit.retention import Keep
from teeline.proxy.audit.schema import connect
from tests.proxy.audit.logs import Clock, edit, files, kill, write_log, writer
from tests.proxy.samples import START, exchange, violation

TABLES = ("exchanges", "violations", "losses", "files")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = connect(tmp_path)
    yield db
    db.close()


def rows(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def ids(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT id FROM exchanges ORDER BY n")]


def test_new_lines_are_indexed_once(tmp_path: Path, db: sqlite3.Connection) -> None:
    made = writer(tmp_path)
    made.start()
    index = Index(tmp_path, db)
    assert index.catch_up() == 0
    for _ in range(3):
        made.append([exchange(violation()), exchange()])
        assert index.catch_up() == 2
        assert index.catch_up() == 0
    assert (rows(db, "exchanges"), rows(db, "violations")) == (6, 3)
    made.close()


def test_a_line_under_way_waits_for_its_end(tmp_path: Path, db: sqlite3.Connection) -> None:
    write_log(tmp_path, 3)
    path = files(tmp_path)[0]
    whole = path.read_bytes()
    cut = whole.index(b"\n", len(whole) // 2) + 20
    path.write_bytes(whole[:cut])
    index = Index(tmp_path, db)
    first = index.catch_up()
    path.write_bytes(whole)
    assert first + index.catch_up() == 3
    assert rows(db, "exchanges") == 3


def test_a_file_that_is_packed_later_is_not_indexed_again(
    tmp_path: Path, db: sqlite3.Connection
) -> None:
    write_log(tmp_path, 3)
    index = Index(tmp_path, db)
    assert index.catch_up() == 3
    path = files(tmp_path)[0]
    assert pack(path, tail_of(path).at)
    assert index.catch_up() == 0
    assert rows(db, "exchanges") == 3
    assert db.execute("SELECT settled FROM files").fetchall() == [(1,)]
    assert index.catch_up() == 0


def test_a_file_that_is_packed_halfway_is_read_on(tmp_path: Path, db: sqlite3.Connection) -> None:
    made = writer(tmp_path)
    made.start()
    made.append([exchange()])
    index = Index(tmp_path, db)
    assert index.catch_up() == 1
    made.append([exchange()])
    made.close()
    path = files(tmp_path)[0]
    assert pack(path, None)
    assert index.catch_up() == 1
    assert len(set(ids(db))) == 2


def test_what_retention_deleted_is_taken_out(tmp_path: Path, db: sqlite3.Connection) -> None:
    clock = Clock()
    made = writer(tmp_path, clock, keep=Keep(60_000, 1e9))
    made.start()
    index = Index(tmp_path, db)
    for _ in range(80):
        made.append([exchange(violation())])
    made.close()
    index.catch_up()
    before = rows(db, "exchanges")
    files(tmp_path)[0].unlink()
    index.catch_up()
    assert 0 < rows(db, "exchanges") < before
    assert rows(db, "violations") == rows(db, "exchanges")
    assert rows(db, "files") == len(files(tmp_path))


def test_a_file_that_shrank_or_was_replaced_is_read_anew(
    tmp_path: Path, db: sqlite3.Connection
) -> None:
    write_log(tmp_path, 4)
    index = Index(tmp_path, db)
    index.catch_up()
    path = files(tmp_path)[0]
    edit(path, lambda lines: lines[:3])
    index.catch_up()
    assert rows(db, "exchanges") == 2
    edit(path, lambda lines: [*lines[:2], lines[1].replace(b"gpt-4o", b"other"), *lines[2:]])
    index.catch_up()
    assert rows(db, "exchanges") == 3


def test_a_packed_file_that_was_replaced_is_read_anew(
    tmp_path: Path, db: sqlite3.Connection
) -> None:
    write_log(tmp_path, 4)
    index = Index(tmp_path, db)
    index.catch_up()
    path = files(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(b"".join(lines[:2])))
    index.catch_up()
    assert rows(db, "exchanges") == 1


def words(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT word FROM words")}


def test_words_go_with_the_last_file_that_uses_them(tmp_path: Path, db: sqlite3.Connection) -> None:
    """Clients make up models, and messages hold numbers: the index must not keep them for ever."""
    clock = Clock()
    made = writer(tmp_path, clock)
    made.start()
    for day, models in enumerate((["old", "both"], ["both", "new"], ["newer"])):
        clock.now = START + day * 90_000
        made.append([exchange(violation(message=f"of {model}"), model=model) for model in models])
    made.close()
    index = Index(tmp_path, db)
    index.catch_up()
    assert {"old", "both", "new", "newer"} < words(db)
    files(tmp_path)[0].unlink()
    index.catch_up()
    assert "old" not in words(db) and "of old" not in words(db)
    assert {"both", "of both", "new", "newer", "my-relay"} < words(db)
    for path in files(tmp_path):
        path.unlink()
    index.catch_up()
    assert words(db) == set()


def test_a_process_that_knew_a_word_makes_it_again_once_another_has_dropped_it(
    tmp_path: Path, db: sqlite3.Connection
) -> None:
    clock = Clock()
    made = writer(tmp_path, clock)
    made.start()
    made.append([exchange(model="comes-again")])
    other = connect(tmp_path)
    first, second = Index(tmp_path, db), Index(tmp_path, other)
    first.catch_up()
    clock.now += 90_000
    made.append([exchange(model="something-else")])
    files(tmp_path)[0].unlink()
    second.catch_up()
    assert "comes-again" not in words(db)
    made.append([exchange(model="comes-again")])
    first.catch_up()
    made.close()
    other.close()
    found = db.execute(
        "SELECT m.word, u.word FROM exchanges e JOIN words m ON m.id = e.model"
        " JOIN words u ON u.id = e.upstream ORDER BY e.n"
    )
    assert found.fetchall() == [("something-else", "my-relay"), ("comes-again", "my-relay")]


@pytest.mark.parametrize(
    "line",
    [b"rubbish\n", b"[]\n", b"\n", b'{"v":1}\n', b'{"ts":"2026-11-30T12:00:00Z","id":{}}\n'],
)
def test_damaged_lines_are_passed_over_and_counted(
    tmp_path: Path, db: sqlite3.Connection, line: bytes
) -> None:
    write_log(tmp_path, 3)
    edit(files(tmp_path)[0], lambda lines: [*lines[:2], line, *lines[2:]])
    assert Index(tmp_path, db).catch_up() == 3
    assert db.execute("SELECT skipped FROM files").fetchone() == (1,)


def test_numbers_beyond_64_bits_are_no_obstacle(tmp_path: Path, db: sqlite3.Connection) -> None:
    write_log(tmp_path, 1)
    edit(files(tmp_path)[0], lambda ls: [x.replace(b'"events":12', b'"events":1e300') for x in ls])
    Index(tmp_path, db).catch_up()
    assert rows(db, "exchanges") == 1


def test_losses_are_known(tmp_path: Path, db: sqlite3.Connection) -> None:
    made = writer(tmp_path)
    made.start()
    made.note_lost("queue-full", 7)
    made.append([exchange()])
    kill(made)
    Index(tmp_path, db).catch_up()
    assert db.execute("SELECT sum(count) FROM losses").fetchone() == (7,)


def test_processes_that_catch_up_at_the_same_time_index_each_record_once(tmp_path: Path) -> None:
    write_log(tmp_path, 9000)
    counts: list[int] = []

    def work() -> None:
        db = connect(tmp_path)
        counts.append(Index(tmp_path, db).catch_up())
        db.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    db = connect(tmp_path)
    assert sum(counts) == rows(db, "exchanges") == len(set(ids(db))) == 9000
    db.close()


def test_records_that_arrive_meanwhile_are_indexed_too(
    tmp_path: Path, db: sqlite3.Connection
) -> None:
    made = writer(tmp_path, keep=Keep(200_000, 1e9))
    made.start()
    done = threading.Event()

    def write() -> None:
        for number in range(60):
            made.append([exchange(timing=exchange().timing, id=f"{number}-{n}") for n in range(5)])
        made.close()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    index = Index(tmp_path, db)
    while not done.is_set():
        index.catch_up()
    thread.join()
    index.catch_up()
    on_disk = sum(p.read_bytes().count(b'"kind"') for p in files(tmp_path))
    lines = sum(p.read_bytes().count(b"\n") for p in files(tmp_path))
    assert rows(db, "exchanges") == lines - on_disk
    assert db.execute("SELECT max(at) FROM exchanges").fetchone()[0] >= START * 1e6
