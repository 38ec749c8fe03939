"""The tables of the index beside an audit log, and how it is opened.

What belongs here: tables, indexes, the connection. What doesn't: filling it (index.py) and asking it
(query.py, statistics.py).

The index holds nothing that isn't in the files: it may be deleted, and is then made again. Words
that repeat (names, rules, messages) stand once in ``words``; times are whole microseconds. Each
column that can be asked for has an index that ends in the time, so that the newest records of an
answer come first without being sorted.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from teeline.proxy.audit.files import FILE_MODE

FILENAME: Final = "index.sqlite3"
VERSION: Final = 1
"""Changes with the tables: an index of another version is made again."""

_BUSY_SECONDS: Final = 30.0
_CACHE_KIB: Final = 64 * 1024

_TABLES: Final = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY, chain TEXT NOT NULL, number INTEGER NOT NULL,
    offset INTEGER NOT NULL DEFAULT 0, line INTEGER NOT NULL DEFAULT 0,
    head TEXT NOT NULL DEFAULT '', skipped INTEGER NOT NULL DEFAULT 0,
    settled INTEGER NOT NULL DEFAULT 0, UNIQUE (chain, number)
);
CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE);
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
CREATE INDEX violation_at ON violations (at);
CREATE INDEX violation_rule ON violations (rule, at);
CREATE INDEX violation_family ON violations (family, at);
CREATE INDEX violation_severity ON violations (severity, at);
CREATE INDEX violation_message ON violations (message, at);
CREATE INDEX loss_file ON losses (file);
"""


def connect(folder: Path, path: Path | None = None) -> sqlite3.Connection:
    """The index of the log in ``folder``, made where there is none; sqlite3.Error.

    Where the folder can't be written, the index is in memory and as short-lived as the command.
    ``path`` puts it elsewhere.
    """
    path = path or folder / FILENAME
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    except OSError:
        return _prepared(sqlite3.connect(":memory:", isolation_level=None))
    try:
        return _prepared(_opened(path))
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        # Not a database, or one that a crash of the machine damaged: the files are the truth.
        _delete(path)
        return _prepared(_opened(path))


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    return db


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    # Nothing is lost with it that the files don't hold.
    db.execute("PRAGMA synchronous=OFF")
    db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    db.execute("PRAGMA temp_store=MEMORY")
    if version_of(db) != VERSION:
        db.execute("BEGIN IMMEDIATE")
        if version_of(db) != VERSION:
            _make(db)
        db.execute("COMMIT")
    return db


def version_of(db: sqlite3.Connection) -> int:
    """Which tables an index has; 0 where it has none yet."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make(db: sqlite3.Connection) -> None:
    tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in tables:
        db.execute(f'DROP TABLE "{name}"')
    for statement in (_TABLES + _INDEXES).split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version={VERSION}")


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
