"""Forms: what peers can make a process remember, and how long it may take them."""

from __future__ import annotations

import time

import pytest

from teeline.proxy import form as form_module
from teeline.proxy.form import LONGEST, AnswerForm, Form, RequestForm
from teeline.proxy.head import RequestHead
from teeline.proxy.parse import HeadReader


@pytest.fixture
def patterns(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], object]:
    """What is remembered of forms, empty."""
    made: dict[tuple[str, ...], object] = {}
    monkeypatch.setattr(form_module, "_patterns", made)
    return made


def request(reader: HeadReader, *lines: bytes) -> RequestHead:
    found = reader.request(b"\r\n".join((b"GET / HTTP/1.1", b"Host: h", *lines, b"", b"")))
    assert found is not None
    return found[0]


def learnt(start: bytes, *fields: tuple[bytes, bytes]) -> Form:
    form = (
        AnswerForm(start, 200, fields) if start.startswith(b"HTTP") else RequestForm(start, fields)
    )
    form.learn()
    return form


def test_names_that_were_seen_are_remembered_up_to_a_bound() -> None:
    for number in range(3000):
        sent = request(HeadReader(), b"X-%d: 1" % number).forwarded(b"/", b"h")
        assert sent.endswith(b"X-%d: 1\r\n\r\n" % number)
    assert len(form_module._names) <= 1024


def test_a_form_is_learnt_when_it_comes_a_second_time(
    patterns: dict[tuple[str, ...], object],
) -> None:
    """A pattern costs more than a head, and most senders on a connection of one request never need it."""
    reader = HeadReader()
    request(reader, b"A: 1")
    request(reader, b"B: 1")
    assert not patterns
    request(reader, b"B: 2")
    assert list(patterns) == [("Host", "B")]


def test_forms_are_remembered_up_to_a_bound_and_heads_read_beyond_it(
    patterns: dict[tuple[str, ...], object],
) -> None:
    reader = HeadReader()
    for number in range(300):
        for value in (b"1", b"2", b"3"):
            head = request(reader, b"X-%d: %b" % (number, value))
            assert head.headers[1] == (f"X-{number}", value.decode())
    assert len(patterns) == 256


def test_no_value_is_remembered_beyond_its_connection(
    patterns: dict[tuple[str, ...], object],
) -> None:
    reader = HeadReader()
    for number in range(3):
        lines = (
            b"Authorization: Bearer sk-%d" % number,
            b"Proxy-Authorization: Basic c2s%d" % number,
        )
        request(reader, *lines)
    assert len(patterns) == 1
    kept = repr(list(patterns.items())) + repr(form_module._names)
    assert "sk-" not in kept
    assert "c2s" not in kept


@pytest.mark.parametrize(("fields", "name"), [(64, b"X-%d"), (2, b"X-%d" + b"x" * 512)])
def test_a_head_of_many_or_long_names_is_not_learnt(
    fields: int, name: bytes, patterns: dict[tuple[str, ...], object]
) -> None:
    """It would hold up streams for milliseconds."""
    reader = HeadReader()
    for value in (b"1", b"2", b"3"):
        request(reader, *(name % number + b": " + value for number in range(fields)))
    assert not patterns


@pytest.mark.parametrize("unit", [b"a", b"a ", b" a"])
def test_a_value_is_looked_at_once(unit: bytes, patterns: dict[tuple[str, ...], object]) -> None:
    """Whatever it ends with: sixteen times the bytes take no more than about as many times as long.

    Tried again from each byte they would take 256 times as long. CPU time, the least of many tries.
    """
    form = learnt(b"HTTP/1.1 200 OK", (b"X", b"a"))

    def least(size: int) -> float:
        data = b"HTTP/1.1 200 OK\r\nX: a" + unit * (size // len(unit)) + b"\x7f\r\n\r\n"
        times: list[float] = []
        for _ in range(20):
            before = time.thread_time()
            assert form.match(data) is None
            times.append(time.thread_time() - before)
        return min(times)

    assert least(4000) < least(250) * 64


def test_a_head_that_is_not_whole_is_not_recognised(
    patterns: dict[tuple[str, ...], object],
) -> None:
    form = learnt(b"HTTP/1.1 200 OK", (b"X", b"a"), (b"Y", b"a"))
    whole = b"HTTP/1.1 200 OK\r\nX: b\r\nY: c\r\n\r\n"
    assert form.match(whole) == (len(whole), ("b", "c"))
    assert all(form.match(whole[:cut]) is None for cut in range(len(whole)))
    assert form.match(whole.replace(b"c", b"c" * LONGEST)) is None


def test_a_start_line_belongs_to_a_form(patterns: dict[tuple[str, ...], object]) -> None:
    form = learnt(b"GET /a HTTP/1.1", (b"A", b"1"))
    assert form.match(b"GET /a HTTP/1.1\r\nA: 22\r\n\r\nrest") == (26, ("22",))
    for start in (b"GET /b HTTP/1.1", b"GET /a HTTP/1.0", b"GET /a HTTP/1.1 ", b"POST /a HTTP/1.1"):
        assert form.match(start + b"\r\nA: 22\r\n\r\n") is None
