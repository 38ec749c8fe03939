"""What a file is shows in what it holds, and what can't be read in it is named."""

from __future__ import annotations

import copy
import io
import json
import random
from typing import Any

import pytest

from teeline.proxy.audit.chain import Chain
from teeline.proxy.audit.record import exchange_record
from teeline.proxy.inputs import reading
from teeline.proxy.inputs.items import Item, Problem
from teeline.proxy.inputs.reading import read
from teeline.validators.exchangefile import RecordedExchange
from teeline.validators.model import Exchange
from teeline.validators.rules import examples
from tests.proxy.inputs.test_har import entry, har
from tests.proxy.samples import exchange, violation
from tests.validators.mutations import ODD_BYTES, ODD_VALUES

GOOD = examples.exchange({"on": "chat"})
NAMED = {**GOOD, "name": "one"}


def items(data: bytes) -> list[Item | Problem]:
    return list(read(io.BytesIO(data), "f", 1_796_000_000.0))


def shown(data: bytes) -> list[str]:
    """``name`` or ``name@line`` of what was read, and the texts of problems."""
    return [
        found.text if isinstance(found, Problem) else f"{found.name}@{found.line}"
        for found in items(data)
    ]


def dumps(value: Any, **layout: Any) -> bytes:
    return json.dumps(value, **layout).encode()


@pytest.mark.parametrize("layout", [{}, {"indent": 1}])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n \n", b"\r\n"])
@pytest.mark.parametrize("after", [b"", b"\n", b"\n\n \n"])
def test_an_exchange_file_is_one_however_it_is_laid_out(
    layout: dict[str, Any], before: bytes, after: bytes
) -> None:
    (item,) = items(before + dumps(NAMED, **layout) + after)
    assert isinstance(item, Item) and isinstance(item.source, RecordedExchange)
    assert item.name == "one"


def test_lines_of_exchange_files_are_exchanges_with_their_lines() -> None:
    assert shown(b"\n" + dumps(NAMED) + b"\r\n\n" + dumps(GOOD) + b"\n" + dumps(NAMED)) == [
        "one@2",
        "line 4@4",
        "one@5",
    ]


def test_a_broken_line_is_named_and_costs_the_others_nothing() -> None:
    first, broken, last = shown(dumps(NAMED) + b'\n{"endpoint": 5}\n' + dumps(NAMED))
    assert (first, last) == ("one@1", "one@3")
    assert broken == "line 2: not an exchange file: endpoint must be a string"


@pytest.mark.parametrize("layout", [{}, {"indent": 4}])
def test_a_har_is_told_by_its_log(layout: dict[str, Any]) -> None:
    data = dumps(har(entry(), entry(comment="x")), **layout)
    assert shown(b"\xef\xbb\xbf" + data + b"\n") == ["entry 1@1", "entry 2: x@1"]


def test_an_audit_log_is_told_by_its_first_line() -> None:
    chain = Chain("c")
    lines = [chain.link(1.0, {"kind": "open"}), chain.link(2.0, exchange_record(exchange()))]
    (item,) = items(b"".join(lines))
    assert isinstance(item, Item) and isinstance(item.source, Exchange)
    assert item.line == 2


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b" \n\n", "not JSON"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"[]", "the top level must be an object"),
        (b"5", "the top level must be an object"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"log": {}}', "log.entries must be a list"),
        (b"<html>\n</html>", "not JSON"),
        (b'{"v": 2, "endpoint": "/v1/x", "response": {}}', "v must be 1"),
    ],
)
def test_what_is_no_recording_is_a_problem_of_the_file(data: bytes, text: str) -> None:
    (problem,) = items(data)
    assert isinstance(problem, Problem)
    assert text in problem.text
    assert (problem.file, problem.line) == ("f", 0)


def test_files_and_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a line that is too long, numbers of lines would be wrong: the rest is not read."""
    monkeypatch.setattr(reading, "MAX_BYTES", 3000)
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 4000)
    assert shown(b"{" + b" " * 5000) == ["larger than 4000 bytes"]
    lines = dumps(NAMED) + b"\n" + b'{"a":"' + b"x" * 5000 + b'"}\n' + dumps(NAMED)
    first, *rest = shown(lines)
    assert first == "one@1"
    assert rest == ["line 2: larger than 3000 bytes; it and what follows is not read"]


# -- whatever a file holds -----------------------------------------------------------------------


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every member and element inside a document, as its holder and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    here = [(value, key) for key in keys]
    inner = [value[key] for key in keys if isinstance(value[key], dict | list)]
    return [*here, *(spot for each in inner for spot in spots(each))]


@pytest.mark.parametrize("kind", ["har", "audit", "exchange"])
def test_any_value_in_any_place_of_any_format_is_read_or_named_and_never_raises(kind: str) -> None:
    whole: Any = {
        "har": har(entry(comment="x"), entry()),
        "audit": json.loads(Chain("c").link(1.0, exchange_record(exchange(violation())))),
        "exchange": NAMED,
    }[kind]
    chance = random.Random(7)
    for _ in range(1500):
        document = copy.deepcopy(whole)
        for _ in range(chance.choice((1, 1, 2))):
            holder, key = chance.choice(spots(document))
            holder[key] = copy.deepcopy(chance.choice(ODD_VALUES))
        for found in items(dumps(document)):
            assert isinstance(found, Problem) or found.name is not None


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_read_or_named_and_never_raise(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(dumps(har(entry())) + b"\n" + dumps(NAMED) + b"\n")
    for _ in range(50):
        at = chance.randrange(len(data))
        data[at : at + chance.randrange(4)] = chance.choice(ODD_BYTES)
        items(bytes(data))
        items(bytes(data[at:]))
