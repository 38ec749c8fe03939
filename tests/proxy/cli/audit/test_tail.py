"""``teeline audit tail`` shows what comes, once each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from teeline.proxy.audit.index import Index
from teeline.proxy.audit.query import Filters
from teeline.proxy.audit.schema import connect
from teeline.proxy.cli.audit.tail import _follow
from tests.proxy.audit.logs import writer
from tests.proxy.cli.audit.logs import IDS, audit, log
from tests.proxy.samples import exchange


def test_the_last_ones_come_in_the_order_of_time(tmp_path: Path) -> None:
    result = audit("tail", "--dir", log(tmp_path), "-n", 2, "--no-follow", "--format", "json")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == IDS[-2:]


def test_new_records_that_pass_are_followed(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.start()
    made.append([exchange(id="before")])
    db = connect(tmp_path)
    index = Index(tmp_path, db)
    index.catch_up()

    def ticks() -> Iterator[None]:
        for number in range(3):
            made.append([exchange(id=f"new-{number}"), exchange(id="x", upstream="other")])
            yield
            yield

    found = list(_follow(index, Filters(upstream=("my-relay",)), 1, ticks()))
    assert [entry.id for entry in found] == ["new-0", "new-1", "new-2"]
    made.close()
    db.close()
