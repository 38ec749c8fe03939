"""``teeline audit tail`` shows what comes, once each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from teeline.proxy.audit.indexkeeper import LastingIndex
from teeline.proxy.audit.packing import pack
from teeline.proxy.audit.query import Filters
from teeline.proxy.audit.schema import FILENAME
from teeline.proxy.cli.audit.tail import _follow
from teeline.validators.model import Timing
from tests.proxy.audit.logs import Clock, files, writer
from tests.proxy.cli.audit.logs import IDS, audit, log
from tests.proxy.samples import START, exchange


def test_the_last_ones_come_in_the_order_of_time(tmp_path: Path) -> None:
    result = audit("tail", "--dir", log(tmp_path), "-n", 2, "--no-follow", "--format", "json")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == IDS[-2:]


def test_new_records_that_pass_are_followed(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.start()
    made.append([exchange(id="before")])
    log = LastingIndex(tmp_path)
    log.catch_up()

    def ticks() -> Iterator[None]:
        for number in range(3):
            made.append([exchange(id=f"new-{number}"), exchange(id="x", upstream="other")])
            yield
            yield

    found = list(_follow(log, Filters(upstream=("my-relay",)), 1, ticks()))
    assert [entry.id for _, entry in found] == ["new-0", "new-1", "new-2"]
    made.close()
    log.close()


def test_rotation_packing_and_a_new_index_neither_hide_nor_repeat_a_record(tmp_path: Path) -> None:
    clock = Clock()
    made = writer(tmp_path, clock)
    made.start()
    log = LastingIndex(tmp_path)
    numbers = itertools.count()

    def append() -> None:
        number = next(numbers)
        timing = Timing(START + number, end=START + number + 0.5)
        made.append([exchange(id=f"{number:032x}", timing=timing)])

    append()
    log.catch_up()

    def ticks() -> Iterator[None]:
        append()
        yield
        clock.now += 90_000
        append()
        assert len(files(tmp_path)) == 2
        yield
        assert pack(files(tmp_path)[0], None)
        append()
        yield
        (tmp_path / FILENAME).unlink()
        append()
        yield
        yield

    found = [entry.id for _, entry in _follow(log, Filters(), 1, ticks())]
    assert found == [f"{number:032x}" for number in range(1, 5)]
    made.close()
    log.close()
