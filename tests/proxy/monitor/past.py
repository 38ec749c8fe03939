"""Audit logs with their index, for the tests of what the page asks of the past."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from teeline.proxy.audit import schema
from teeline.proxy.audit.index import Index
from teeline.validators.model import Exchange, Timing
from tests.proxy.audit.logs import Clock, writer
from tests.proxy.samples import START, exchange, violation


def record(folder: Path, exchanges: Sequence[Exchange], clock: Clock | None = None) -> None:
    """Writes exchanges to a log, a second apart, and indexes them."""
    now = clock or Clock()
    made = writer(folder, now)
    made.start()
    for each in exchanges:
        made.append([each])
        now.now += 1
    made.close()
    with closing(schema.connect(folder)) as db:
        Index(folder, db).catch_up()


@contextmanager
def indexed(folder: Path, exchanges: Sequence[Exchange]) -> Iterator[sqlite3.Connection]:
    """A connection that asks the index of these exchanges."""
    record(folder, exchanges)
    with closing(schema.reader(folder)) as db:
        yield db


def mixed(count: int) -> list[Exchange]:
    """Exchanges of two upstreams and three models, of which every third breaks something."""
    made = []
    for number in range(count):
        broken = [violation()] if number % 3 == 0 else []
        made.append(
            exchange(
                *broken,
                id=f"{number:032x}",
                upstream=("main", "spare")[number % 2],
                model=("a", "b", None)[number % 3],
                status=(200, 429, 503)[number % 3],
                request_id=f"req-{number}",
                timing=Timing(START + number, START + number + 0.1, None, None, START + number + 1),
            )
        )
    return made
