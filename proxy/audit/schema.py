"""The tables of the index beside an audit log, and how it is opened.

What belongs here: tables, indexes, the connection. What doesn't: filling it (index.py) and asking it
(query.py, statistics.py).

The index holds nothing that isn't in the files: it may be deleted, and is then made again. Words
that repeat (names, rules, messages) stand once in ``words``, with the youngest file that uses them (the
numbers of files are never used again); times are whole microseconds. Each column that can be asked
for has an index that ends in the time, so that the newest records of an answer come first without
being sorted.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from teeline.proxy.audit.files import FILE_MODE

FILENAME: Final = "index.sqlite3"
VERSION: Final = 2
"""Changes with the tables: an index of another version is made again."""

BUSY_SECONDS: Final = 30.0
"""How long a connection waits for another one that writes."""
_CACHE_KIB: Final = 64 * 1024
_DAMAGED: Final = frozenset(
    (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR_SHORT_READ)
)

_TABLES: Final = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT, chain TEXT NOT NULL, number INTEGER NOT NULL,
    offset INTEGER NOT NULL DEFAULT 0, line INTEGER NOT NULL DEFAULT 0,
    head TEXT NOT NULL DEFAULT '', skipped INTEGER NOT NULL DEFAULT 0,
    settled INTEGER NOT NULL DEFAULT 0, UNIQUE (chain, number)
);
CREATE TABLE words (
    id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE, file INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE exchanges (
    n INTEGER PRIMARY KEY, file INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    line INTEGER NOT NULL, at INTEGER NOT NULL, id TEXT NOT NULL, upstream INTEGER NOT NULL,
    model INTEGER NOT NULL, operation INTEGER NOT NULL, stream INTEGER NOT NULL, status INTEGER,
    request_id TEXT, key INTEGER NOT NULL, verdict INTEGER NOT NULL, client INTEGER NOT NULL,
    ended INTEGER NOT NULL, inspection INTEGER NOT NULL, duration INTEGER, first_byte INTEGER,
    events INTEGER NOT NULL, received INTEGER NOT NULL, captured INTEGER NOT NULL
);
CREATE TABLE violations (
    exchange INTEGER NOT NULL, at INTEGER NOT NULL, rule INTEGER NOT NULL, family INTEGER NOT NULL,
    severity INTEGER NOT NULL, count INTEGER NOT NULL, message INTEGER NOT NULL
);
CREATE TABLE losses (file INTEGER NOT NULL, at INTEGER NOT NULL, count INTEGER NOT NULL);
CREATE TABLE totals (
    file INTEGER NOT NULL, hour INTEGER NOT NULL, upstream INTEGER NOT NULL, model INTEGER NOT NULL,
    operation INTEGER NOT NULL, stream INTEGER NOT NULL, verdict INTEGER NOT NULL,
    exchanges INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (file, hour, upstream, model, operation, stream, verdict)
) WITHOUT ROWID;
CREATE TABLE broken (
    file INTEGER NOT NULL, hour INTEGER NOT NULL, upstream INTEGER NOT NULL, rule INTEGER NOT NULL,
    severity INTEGER NOT NULL, exchanges INTEGER NOT NULL, times INTEGER NOT NULL,
    PRIMARY KEY (file, hour, upstream, rule, severity)
) WITHOUT ROWID;
CREATE TABLE broken_ever (
    file INTEGER NOT NULL, upstream INTEGER NOT NULL, rule INTEGER NOT NULL,
    severity INTEGER NOT NULL, exchanges INTEGER NOT NULL, times INTEGER NOT NULL,
    PRIMARY KEY (file, upstream, rule, severity)
) WITHOUT ROWID;
CREATE TABLE failures (
    file INTEGER NOT NULL, hour INTEGER NOT NULL, upstream INTEGER NOT NULL, family INTEGER NOT NULL,
    exchanges INTEGER NOT NULL, PRIMARY KEY (file, hour, upstream, family)
) WITHOUT ROWID;
"""
_INDEXES: Final = """
CREATE INDEX exchange_file ON exchanges (file, offset);
CREATE INDEX exchange_at ON exchanges (at);
CREATE INDEX exchange_id ON exchanges (id);
CREATE INDEX exchange_request_id ON exchanges (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX exchange_upstream ON exchanges (upstream, at);
CREATE INDEX exchange_model ON exchanges (model, at);
CREATE INDEX exchange_operation ON exchanges (operation, at);
CREATE INDEX exchange_status ON exchanges (status, at);
CREATE INDEX exchange_key ON exchanges (key, at);
CREATE INDEX exchange_verdict ON exchanges (verdict, at);
CREATE INDEX exchange_client ON exchanges (client, at);
CREATE INDEX exchange_ended ON exchanges (ended, at);
CREATE INDEX violation_exchange ON violations (exchange);
CREATE INDEX violation_rule ON violations (rule, at);
CREATE INDEX violation_family ON violations (family, at);
CREATE INDEX violation_severity ON violations (severity, at);
CREATE INDEX violation_message ON violations (message, at);
CREATE INDEX loss_file ON losses (file);
"""


def connect(
    folder: Path, path: Path | None = None, *, busy: float = BUSY_SECONDS
) -> sqlite3.Connection:
    """The index of the log in ``folder``, made where there is none; sqlite3.Error.

    Where the folder can't be written, the index is in memory and as short-lived as the command.
    ``path`` puts it elsewhere. ``busy`` seconds are waited for others that write.
    """
    path = path or folder / FILENAME
    if touch(path) is None:
        return _prepared(_opened(":memory:", busy))
    try:
        return _prepared(_opened(path, busy))
    except sqlite3.DatabaseError as error:
        if not is_damaged(error):
            raise
        delete(path)
        touch(path)
        return _prepared(_opened(path, busy))


def reader(folder: Path) -> sqlite3.Connection:
    """A connection that only asks, for one thread and one question or a few.

    It waits for nobody and writes nothing, so that it can be opened beside any number of others and
    while the index is being filled. An index that is made anew is another file: whoever asks again
    later opens again. sqlite3.OperationalError where there is no index (yet).
    """
    path = (folder / FILENAME).absolute()
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        if version_of(db) != VERSION:
            raise sqlite3.OperationalError("the index is being made")
    except BaseException:
        db.close()
        raise
    return db


def touch(path: Path) -> tuple[int, int] | None:
    """Makes the index's file where there is none, for its owner alone; which file it is (device and
    inode), None where it can't be written.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino
    finally:
        os.close(fd)


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether an error says that the index is no use, rather than busy or short of room.

    Not a database, or one that a crash of the machine or somebody's hand damaged: it is to be
    deleted and made anew, since the files are the truth.
    """
    return getattr(error, "sqlite_errorcode", 0) in _DAMAGED


def delete(path: Path) -> None:
    """Takes an index away, with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _opened(path: Path | str, busy: float) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=busy, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        # Nothing is lost with it that the files don't hold.
        db.execute("PRAGMA synchronous=OFF")
        db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        db.execute("PRAGMA temp_store=MEMORY")
        # A long reader lets the write-ahead log grow; it need not stay that large.
        db.execute(f"PRAGMA journal_size_limit={_CACHE_KIB * 1024}")
    except BaseException:
        db.close()
        raise
    return db


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        _make_ready(db)
    except BaseException:
        db.close()
        raise
    return db


def _make_ready(db: sqlite3.Connection) -> None:
    if version_of(db) != VERSION:
        db.execute("BEGIN IMMEDIATE")
        if version_of(db) != VERSION:
            _make(db)
        db.execute("COMMIT")


def version_of(db: sqlite3.Connection) -> int:
    """Which tables an index has; 0 where it has none yet."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make(db: sqlite3.Connection) -> None:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    tables = db.execute(sql).fetchall()
    for (name,) in tables:
        db.execute(f'DROP TABLE "{name}"')
    for statement in (_TABLES + _INDEXES).split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version={VERSION}")
