"""A line can be read back, its hash holds exactly for its bytes, and it follows the line before."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.audit.chain import (
    GENESIS,
    Chain,
    LineError,
    Position,
    digest_of,
    intact,
    parse,
    seconds,
    timestamp,
)
from tests.proxy.samples import START


def test_a_line_is_json_with_its_place_in_the_chain() -> None:
    chain = Chain("c")
    line = chain.link(START, {"id": "x"})
    fields = json.loads(line)
    assert list(fields) == ["v", "chain", "seq", "ts", "id", "prev", "hash"]
    assert fields["v"] == 1
    assert fields["seq"] == 1
    assert fields["ts"] == "2026-11-30T12:01:07.250000Z"
    assert fields["prev"] == GENESIS


def test_the_hash_is_sha256_of_the_bytes_before_it() -> None:
    line = Chain("c").link(START, {"id": 'an ,"hash":" inside'})
    body, _, rest = line.rpartition(b',"hash":')
    assert json.loads(b'{"hash":' + rest)["hash"] == hashlib.sha256(body).hexdigest()


def test_each_line_names_the_hash_of_the_line_before() -> None:
    chain = Chain("c")
    first, second = chain.link(START, {}), chain.link(START, {})
    assert json.loads(second)["prev"] == json.loads(first)["hash"]
    assert chain.position == Position(2, json.loads(second)["hash"])


def test_a_chain_set_back_writes_the_same_line_again() -> None:
    chain = Chain("c")
    before = chain.position
    line = chain.link(START, {"id": "x"})
    chain.position = before
    assert chain.link(START, {"id": "x"}) == line


@given(st.dictionaries(st.text(max_size=5).map("x".__add__), st.integers(-9, 9)))
def test_whatever_was_written_is_read_back(fields: dict[str, int]) -> None:
    try:
        line = Chain("c").link(START, fields).removesuffix(b"\n")
    except TypeError:
        return  # a lone surrogate, which JSON can't say
    record = parse(line)
    assert (record.chain, record.seq, record.prev, record.kind) == ("c", 1, GENESIS, "")
    assert record.hash == digest_of(line)
    assert intact(line) == record


HASH = ',"hash":"' + "0" * 64 + '"}'


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        '{"a":1' + HASH.upper().replace("HASH", "hash").replace("0", "A"),
        "[1" + HASH,
        '{"chain":1,"seq":1,"prev":"' + GENESIS + '"' + HASH,
        '{"chain":"c","seq":0,"prev":"' + GENESIS + '"' + HASH,
        '{"chain":"c","seq":true,"prev":"' + GENESIS + '"' + HASH,
        '{"chain":"c","seq":1,"prev":"x"' + HASH,
        '{"chain":"c","seq":1,"prev":"' + GENESIS + '","kind":7' + HASH,
        '{"chain":"c","seq":1,"prev":"' + GENESIS + '"' + HASH + " ",
    ],
)
def test_what_is_no_line_of_a_log_is_refused(line: str) -> None:
    with pytest.raises(LineError):
        parse(line.encode())
    assert intact(line.encode()) is None


def test_times_are_read_back_and_other_values_are_not() -> None:
    assert seconds(timestamp(START)) == START
    assert seconds("yesterday") is None
    assert seconds(5) is None
