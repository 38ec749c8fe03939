"""What is exported is read back by `teeline check`, with the findings that were recorded."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.audit.bodies import BodyStore, Keep
from teeline.proxy.audit.export import Export, Source
from teeline.proxy.audit.index import Index
from teeline.proxy.audit.lookup import Lookup
from teeline.proxy.audit.query import Filters, in_files
from teeline.proxy.audit.schema import connect
from teeline.proxy.capture import Budget, Recording
from teeline.proxy.inputs.items import Item
from teeline.proxy.inputs.reading import read
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.exchangefile import RecordedExchange
from teeline.validators.model import Ended
from tests.proxy.audit.logs import files, writer
from tests.proxy.samples import START, exchange, violation

Write = Callable[[Export, Iterable[Source]], Iterator[bytes]]
STREAM = b'data: {"id":"\xc3\xa4"}\n\ndata: [DONE]\n\n'


def recording(response: bytes = STREAM, limit: int = 1000) -> Recording:
    made = Recording(limit, Budget(100_000))
    made.request_head(RequestHead("POST", "/v1/chat/completions", (("Content-Type", "a/json"),)))
    made.request_body(b'{"model": "m", "stream": true}')
    made.response_head(ResponseHead(200, (("Content-Type", "text/event-stream"),)))
    made.response_body(response)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = writer(tmp_path)
    log._bodies = BodyStore(tmp_path, Keep(1 << 30, 1e9))
    log.start()
    log.append(
        [
            exchange(violation(), recording=recording()),
            exchange(recording=recording(b"\xff\x00", 1000), ended=Ended.UPSTREAM_ABORTED),
            exchange(recording=recording(limit=31)),
            exchange(),
            exchange(status=None, ended=Ended.REFUSED),
        ]
    )
    log.close()
    return tmp_path


def exported(folder: Path, write: Write) -> tuple[bytes, Export]:
    db = connect(folder)
    Index(folder, db).catch_up()
    export, lookup = Export(folder), Lookup(folder)
    sources = (
        Source(lookup.record(entry), "https://relay.example/v1")
        for entry in in_files(db, Filters())
    )
    data = b"".join(write(export, sources))
    lookup.close()
    db.close()
    return data, export


def reread(data: bytes) -> list[Any]:
    items = list(read(io.BytesIO(data), "x", START + 1000))
    assert all(isinstance(item, Item) for item in items), items
    return [item.source for item in items if isinstance(item, Item)]


def test_json_lines_are_the_records_byte_for_byte(folder: Path) -> None:
    data, export = exported(folder, Export.lines)
    lines = files(folder)[0].read_bytes().splitlines(keepends=True)
    assert data == b"".join(lines[1:6])
    assert (export.written, export.left_out) == (5, {})
    assert len(reread(data)) == 5


def test_exchange_files_have_what_was_sent_and_the_rest_is_counted(folder: Path) -> None:
    data, export = exported(folder, Export.exchanges)
    first, second = reread(data)
    assert isinstance(first, RecordedExchange)
    assert first.request_body == b'{"model": "m", "stream": true}'
    assert (first.reads, first.ended) == ((STREAM,), Ended.COMPLETE)
    assert (second.reads, second.ended) == ((b"\xff\x00",), Ended.UPSTREAM_ABORTED)
    assert first.response.headers == (("Content-Type", "text/event-stream"),)
    assert export.written == 2
    assert dict(export.left_out) == {
        "the bodies are partial": 1,
        "no bodies were captured": 1,
        "no answer came": 1,
    }


def test_a_key_leaves_a_field_behind_that_says_nothing_of_it(tmp_path: Path) -> None:
    """`check` would else tell of a client without a key, where there was one."""
    log = writer(tmp_path)
    log._bodies = BodyStore(tmp_path, Keep(1 << 30, 1e9))
    log.start()
    keys = ("6f0c21d9e8a7b345", "")
    log.append([exchange(recording=recording(), client_key=key) for key in keys])
    log.close()
    for write in (Export.exchanges, Export.har):
        data, _ = exported(tmp_path, write)
        assert b"6f0c21d9e8a7b345" not in data
        with_key, without = (dict(source.request.headers) for source in reread(data))
        assert with_key == {"Content-Type": "a/json", "authorization": "<redacted>"}
        assert without == {"Content-Type": "a/json"}


def test_a_har_has_every_record_and_says_what_was_not_saved(folder: Path) -> None:
    data, export = exported(folder, Export.har)
    assert (export.written, export.left_out) == (5, {})
    entries = json.loads(data)["log"]["entries"]
    assert entries[0]["request"]["url"] == "https://relay.example/v1/chat/completions"
    assert entries[0]["startedDateTime"] == "2026-11-30T12:01:07.250000Z"
    assert (entries[0]["time"], entries[0]["timings"]["wait"]) == (1500, 200)
    assert entries[3]["response"]["content"]["comment"] == "no bodies were captured"
    sources = reread(data)
    assert sources[0].reads == (STREAM,)
    assert (sources[1].reads, sources[1].ended) == ((b"\xff\x00",), Ended.UPSTREAM_ABORTED)
    assert [type(source).__name__ for source in sources[2:]] == ["Exchange"] * 3


def test_an_empty_har_is_one(tmp_path: Path) -> None:
    assert json.loads(b"".join(Export(tmp_path).har([])))["log"]["entries"] == []
