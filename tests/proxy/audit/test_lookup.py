"""What is shown comes from the files, whatever the index says."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from teeline.proxy.audit.index import Index
from teeline.proxy.audit.lookup import GoneError, Lookup, upstream_url
from teeline.proxy.audit.packing import pack
from teeline.proxy.audit.query import Entry, Filters, search
from teeline.proxy.audit.schema import connect
from tests.proxy.audit.logs import edit, files, write_log


def indexed(folder: Path) -> list[Entry]:
    db = connect(folder)
    Index(folder, db).catch_up()
    found = list(search(db, Filters(), newest=False))
    db.close()
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_records_are_found_in_any_order(tmp_path: Path, packed: bool) -> None:
    write_log(tmp_path, 50)
    found = indexed(tmp_path)
    if packed:
        assert pack(files(tmp_path)[0], None)
    lookup = Lookup(tmp_path)
    for entry in (*found, *reversed(found)):
        record = lookup.record(entry)
        assert record.intact
        assert record.fields["id"] == entry.id
        assert record.fields["seq"] == entry.line
    assert lookup.opening(found[0])["kind"] == "open"
    lookup.close()


def test_a_record_that_was_edited_in_place_is_shown_as_such(tmp_path: Path) -> None:
    write_log(tmp_path)
    entry = indexed(tmp_path)[0]
    edit(files(tmp_path)[0], lambda lines: [x.replace(b"gpt-4o", b"gpt-9o") for x in lines])
    with closing(Lookup(tmp_path)) as lookup:
        record = lookup.record(entry)
    assert (record.intact, record.fields["model"]) == (False, "gpt-9o-mini")


def test_a_record_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    write_log(tmp_path)
    entry = indexed(tmp_path)[1]
    edit(files(tmp_path)[0], lambda lines: [lines[0], b"x" + lines[1], *lines[2:]])
    with closing(Lookup(tmp_path)) as lookup, pytest.raises(GoneError, match="isn't where"):
        lookup.record(entry)
    files(tmp_path)[0].unlink()
    with pytest.raises(GoneError, match="deleted"):
        Lookup(tmp_path).record(entry)


@pytest.mark.parametrize(
    "opening", [{}, {"upstreams": None}, {"upstreams": []}, {"upstreams": {"a": 1}}]
)
def test_a_base_url_that_is_not_on_record_is_none(opening: dict[str, object]) -> None:
    assert upstream_url(opening, "a") is None
    assert upstream_url({"upstreams": {"a": "https://a"}}, "a") == "https://a"
