"""Filling the index from the files: whatever was written since it was last looked at.

What belongs here: which lines are new, and what of a record is indexed. What doesn't: tables
(schema.py), questions (query.py).

Any number of processes may do this at the same time, beside those that write the log: each batch of
lines is a transaction that begins where the last one, whoever made it, has ended. A file that is no
longer there, or that was changed behind the index's back, is taken out (and read anew).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.audit.chain import MAX_LINE, seconds
from teeline.proxy.audit.files import LogName, is_packed, listed, open_log
from teeline.proxy.audit.packing import DamagedError
from teeline.proxy.audit.record import LOST
from teeline.proxy.audit.sums import MOST_TIMES, TABLES, Exchange, Sums, Violation
from teeline.proxy.text import int64

SEVERITIES: Final = {"info": 1, "warn": 2, "fail": 3}
VERDICTS: Final = {"pass": 1, "warn": 2, "fail": 3}

_BATCH: Final = 2000
_WORDS: Final = 100_000
_HEAD: Final = 67
"""Bytes at a line's end that hold its hash."""

_EXCHANGE = f"INSERT INTO exchanges VALUES ({', '.join('?' * len(Exchange._fields))})"
_VIOLATION = f"INSERT INTO violations VALUES ({', '.join('?' * len(Violation._fields))})"

Progress = Callable[[int, int], None]
"""Told of bytes done and bytes to do."""


class Position(NamedTuple):
    """How far a file is indexed: bytes, lines, and the end of the last line.

    ``settled``: it is packed and was read to its end, so that nothing more can come.
    """

    file: int
    offset: int
    line: int
    head: str
    settled: bool = False


class _Word(NamedTuple):
    id: int
    file: int


class Step(NamedTuple):
    """A step of catching up: its records, and the bytes done and to do, all files together."""

    records: int
    done: int
    total: int


class Line(NamedTuple):
    offset: int
    number: int
    data: bytes


class Index:
    """The index of the log in ``folder``, through one connection; used from one thread."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self.folder = folder
        self.db = db
        self._words: dict[str, _Word] = {}

    def catch_up(self, progress: Progress = lambda done, of: None) -> int:
        """Indexes what is new; how many records that were. OSError, sqlite3.Error."""
        added = 0
        for step in self.steps():
            added += step.records
            progress(step.done, step.total)
        return added

    def steps(self, lines: int = _BATCH) -> Iterator[Step]:
        """The same bit by bit: each step is a transaction of at most so many lines.

        OSError, sqlite3.Error.
        """
        files = listed(self.folder)
        self._forget(dict(files))
        done = 0
        waiting = {name: self._waiting(name, path) for name, path in files}
        total = sum(waiting.values())
        for name, path in files:
            if waiting[name]:
                for records, size in self._file(name, path, lines):
                    done += size
                    yield Step(records, done, max(total, done))

    def word(self, text: str, file: int) -> int:
        """The number of a word that a record of a file uses; within a transaction that may write."""
        known = self._words.get(text)
        if known is None or known.file < file:
            known = self._marked(text, file)
            if len(self._words) >= _WORDS:
                self._words.clear()
            self._words[text] = known
        return known.id

    def _marked(self, text: str, file: int) -> _Word:
        """A word, made where there is none, that now has this file as its youngest or a younger one."""
        found = self.db.execute("SELECT id, file FROM words WHERE word = ?", (text,)).fetchone()
        if found is None:
            sql = "INSERT INTO words (word, file) VALUES (?, ?)"
            return _Word(self.db.execute(sql, (text, file)).lastrowid or 0, file)
        word = _Word(*found)
        if word.file >= file:
            return word
        self.db.execute("UPDATE words SET file = ? WHERE id = ?", (file, word.id))
        return _Word(word.id, file)

    def _position(self, name: LogName) -> Position | None:
        row = self.db.execute(
            "SELECT id, offset, line, head, settled FROM files WHERE chain = ? AND number = ?", name
        ).fetchone()
        return None if row is None else Position(*row)

    def _waiting(self, name: LogName, path: Path) -> int:
        """Bytes of a file that aren't indexed yet, about; 0 for none or where it is gone."""
        position = self._position(name)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return 0
        if position is None:
            return size
        if is_packed(path):
            return 0 if position.settled else size
        return size - position.offset if size >= position.offset else size

    def _file(self, name: LogName, path: Path, most: int) -> Iterator[tuple[int, int]]:
        """Batches of a file: records and bytes, each in a transaction of its own."""
        try:
            with closing(_Reader(path)) as reader:
                while (done := self._step(name, reader, most))[1]:
                    yield done
        except FileNotFoundError:
            return  # retention was faster
        except DamagedError:
            pass  # verify says so; what came before is indexed
        if is_packed(path):
            self.db.execute("UPDATE files SET settled = 1 WHERE chain = ? AND number = ?", name)

    def _step(self, name: LogName, reader: _Reader, most: int) -> tuple[int, int]:
        try:
            with _transaction(self.db):
                return self._batch(name, reader, most)
        except BaseException:
            self._words.clear()  # some may be of the transaction that is no more
            raise

    def _batch(self, name: LogName, reader: _Reader, most: int) -> tuple[int, int]:
        position = self._position(name)
        if position is not None and not reader.seek(position):
            self._drop(position.file)
            reader.rewind()
            position = None
        if position is None:
            position = self._begin(name)
        lines = reader.lines(most)
        if not lines:
            return 0, 0
        records, skipped = self._add(position.file, lines)
        last = lines[-1]
        end = last.offset + len(last.data)
        self.db.execute(
            "UPDATE files SET offset = ?, line = ?, head = ?, skipped = skipped + ?, settled = 0"
            " WHERE id = ?",
            (end, last.number, _head(last.data), skipped, position.file),
        )
        return records, end - position.offset

    def _begin(self, name: LogName) -> Position:
        cursor = self.db.execute(
            "INSERT INTO files (chain, number) VALUES (?, ?)",
            name,
        )
        return Position(cursor.lastrowid or 0, 0, 0, "")

    def _add(self, file: int, lines: list[Line]) -> tuple[int, int]:
        """Indexes lines; how many records of exchanges they were, and how many no lines of a log."""
        first = self.db.execute("SELECT coalesce(max(n), 0) + 1 FROM exchanges").fetchone()[0]
        exchanges: list[Exchange] = []
        violations: list[Violation] = []
        sums = Sums(SEVERITIES["fail"])
        skipped = 0
        for line in lines:
            try:
                fields = orjson.loads(line.data)
                at = _microseconds(fields["ts"])
                if "kind" not in fields:
                    number = first + len(exchanges)
                    row = self._exchange(number, file, line, at, fields)
                    broken = self._violations(row, fields.get("violations"))
                    violations += broken
                    exchanges.append(row)
                    sums.add(row, broken)
                elif fields["kind"] == LOST:
                    self.db.execute(
                        "INSERT INTO losses VALUES (?, ?, ?)", (file, at, _count(fields["count"]))
                    )
            except (ValueError, TypeError, KeyError, AttributeError):
                # Damaged lines are verify's to name; here they must only not be in the way.
                skipped += 1
        self.db.executemany(_EXCHANGE, exchanges)
        self.db.executemany(_VIOLATION, violations)
        sums.write(self.db)
        return len(exchanges), skipped

    def _exchange(
        self, number: int, file: int, line: Line, at: int, fields: Mapping[str, Any]
    ) -> Exchange:
        timing, capture = fields["timing"], fields.get("capture")
        start = timing["start"]
        request_id = fields["request_id"]
        return Exchange(
            number,
            file,
            line.offset,
            len(line.data),
            line.number,
            at,
            str(fields["id"]),
            self.word(str(fields["upstream"] or ""), file),
            self.word(str(fields["model"] or ""), file),
            self.word(str(fields["operation"] or ""), file),
            fields["stream"] is True,
            None if fields["status"] is None else _count(fields["status"]),
            None if request_id is None else str(request_id),
            self.word(str(fields["client"].get("key") or ""), file),
            VERDICTS[fields["verdict"]],
            VERDICTS[fields["client_verdict"]],
            self.word(str(fields["ended"] or ""), file),
            self.word(str(fields["inspection"] or ""), file),
            _since(start, timing["end"]),
            _since(start, timing["first_byte"]),
            _count(fields["events"]),
            _count(fields["bytes"]["response"]),
            isinstance(capture, dict) and capture.get("state") != "lost",
        )

    def _violations(self, exchange: Exchange, found: Any) -> list[Violation]:
        file = exchange.file
        return [
            Violation(
                exchange.n,
                exchange.at,
                self.word(str(each["rule"]), file),
                self.word(str(each["rule"]).partition(".")[0], file),
                SEVERITIES[each["severity"]],
                max(0, min(_count(each["count"]), MOST_TIMES)),
                self.word(str(each["message"]), file),
            )
            for each in found
        ]

    def _forget(self, present: Mapping[LogName, Path]) -> None:
        """Takes out what retention has deleted."""
        known = self.db.execute("SELECT id, chain, number FROM files").fetchall()
        for file, chain, number in known:
            if LogName(chain, number) not in present:
                with _transaction(self.db):
                    self._drop(file)
                    self._drop_words()

    def _drop_words(self) -> None:
        """Takes out the words that files which are gone were the last to use.

        Another process may still know their numbers; it asks again before it uses one for a younger
        file than it did before, which any file is that it can still index.
        """
        oldest = self.db.execute("SELECT coalesce(min(id), 1 << 62) FROM files").fetchone()[0]
        self.db.execute("DELETE FROM words WHERE file < ?", (oldest,))
        self._words.clear()

    def _drop(self, file: int) -> None:
        of_file = "(SELECT n FROM exchanges WHERE file = ?)"
        self.db.execute(f"DELETE FROM violations WHERE exchange IN {of_file}", (file,))
        for table in ("exchanges", "losses", *TABLES):
            self.db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        self.db.execute("DELETE FROM files WHERE id = ?", (file,))


class _Reader:
    """Whole lines of a file from an offset on; a packed file can only be read forwards."""

    def __init__(self, path: Path) -> None:
        """OSError."""
        self._path = path
        self._file = open_log(path)
        self._offset = 0
        self._number = 0

    def close(self) -> None:
        self._file.close()

    def seek(self, position: Position) -> bool:
        """Goes where a position says; False where the file isn't what it was at that time."""
        if position.offset == self._offset:
            self._number = position.line
            return True
        # Another process was here, or an earlier run: does the line before end as it did then?
        known = min(_HEAD, position.offset)
        if not self._skip_to(position.offset - known):
            return False
        head = self._file.read(known)
        self._offset += len(head)
        self._number = position.line
        return head.decode("latin-1") == position.head

    def rewind(self) -> None:
        """Back to the start."""
        self._file.close()
        self._file = open_log(self._path)
        self._offset = self._number = 0

    def lines(self, most: int) -> list[Line]:
        """The next whole lines; none where there is no more."""
        lines: list[Line] = []
        while len(lines) < most:
            data = self._file.readline(MAX_LINE + 1)
            if not data.endswith(b"\n"):
                # The end, or a line under way; one that is too long ends what can be indexed.
                self._back(len(data))
                break
            self._number += 1
            lines.append(Line(self._offset, self._number, data))
            self._offset += len(data)
        return lines

    def _skip_to(self, offset: int) -> bool:
        if self._file.seekable():
            self._offset = self._file.seek(offset)
            return True
        if offset < self._offset:
            return False
        while self._offset < offset:
            piece = self._file.read(min(MAX_LINE, offset - self._offset))
            if not piece:
                return False
            self._offset += len(piece)
        return True

    def _back(self, size: int) -> None:
        if size and self._file.seekable():
            self._file.seek(-size, os.SEEK_CUR)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _head(line: bytes) -> str:
    return line[-_HEAD:].decode("latin-1")


def _microseconds(ts: object) -> int:
    at = seconds(ts)
    if at is None:
        raise ValueError("no time")
    return round(at * 1e6)


def _since(start: Any, at: Any) -> int | None:
    return None if at is None else _count(round((at - start) * 1e6))


def _count(number: Any) -> int:
    return int64(int(number))
