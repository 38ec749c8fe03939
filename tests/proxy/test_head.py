"""What becomes of heads: fields that travel, framing, targets."""

from __future__ import annotations

import pytest

from teeline.proxy.form import HOP_BY_HOP, Framing
from teeline.proxy.framing import ChunkedBody, LengthBody
from teeline.proxy.head import (
    AnswerHead,
    RequestHead,
    begins_with,
    origin_form,
    upstream_target,
)
from teeline.proxy.parse import HeadReader

TARGETS = [
    # target, prefix, base, what the upstream gets
    (b"/v1/models", b"", b"", b"/v1/models"),
    (b"/v1/models", b"", b"/v1", b"/v1/models"),
    (b"/models", b"", b"/v1", b"/v1/models"),
    (b"/v1", b"", b"/v1", b"/v1"),
    (b"/v1?a", b"", b"/v1", b"/v1?a"),
    (b"/v1/", b"", b"/v1", b"/v1/"),
    (b"/v1beta/models", b"", b"/v1", b"/v1/v1beta/models"),
    (b"/v1/models", b"", b"/openai/v1", b"/openai/v1/models"),
    (b"/v1/models", b"", b"/api", b"/api/v1/models"),
    (b"/v1/v1/models", b"", b"/v1", b"/v1/v1/models"),
    (b"//v1/models", b"", b"/v1", b"/v1//v1/models"),
    (b"/", b"", b"/api", b"/api/"),
    (b"/a/v1/models", b"/a", b"/v1", b"/v1/models"),
    (b"/a", b"/a", b"", b"/"),
    (b"/a?b", b"/a", b"", b"/?b"),
    (b"/a", b"/a", b"/v1", b"/v1"),
    (b"/a/a/x", b"/a", b"", b"/a/x"),
    (b"*", b"", b"/v1", b"*"),
    (b"http://h/v1/models?q", b"", b"/v1", b"/v1/models?q"),
    (b"http://h?q=/x", b"", b"", b"/?q=/x"),
    (b"http://h", b"", b"/v1", b"/v1/"),
]


@pytest.mark.parametrize(("target", "prefix", "base", "expected"), TARGETS)
def test_a_target_keeps_its_bytes_and_gets_the_base_urls_path(
    target: bytes, prefix: bytes, base: bytes, expected: bytes
) -> None:
    assert upstream_target(target, prefix, base) == expected


def test_a_prefix_ends_at_a_slash_or_the_query() -> None:
    assert all(begins_with(target, b"/a") for target in (b"/a", b"/a/", b"/a/b", b"/a?b"))
    assert not any(begins_with(target, b"/a") for target in (b"/ab", b"/", b"/A", b"/a%2Fb", b"a"))


def test_a_path_that_holds_a_url_is_no_absolute_form() -> None:
    assert origin_form(b"/proxy/http://h/x") == b"/proxy/http://h/x"


def request(*lines: bytes, start: bytes = b"GET / HTTP/1.1") -> RequestHead:
    found = HeadReader().request(b"\r\n".join((start, *lines, b"", b"")))
    assert found is not None
    return found[0]


def answer(*lines: bytes, start: bytes = b"HTTP/1.1 200 OK") -> AnswerHead:
    found = HeadReader().answer(b"\r\n".join((start, *lines, b"", b"")))
    assert found is not None
    return found[0]


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP))
def test_a_field_of_a_hop_does_not_travel_in_either_direction(name: bytes) -> None:
    lines = (name.title() + b": x", b"Kept: 1")
    sent = request(*lines, b"Host: h").forwarded(b"/", b"up")
    assert sent == b"GET / HTTP/1.1\r\nKept: 1\r\nHost: up\r\n\r\n"
    assert answer(*lines).forwarded() == b"HTTP/1.1 200 OK\r\nKept: 1\r\n\r\n"


def test_connection_cannot_take_the_frame_off_a_body() -> None:
    head = request(
        b"Connection: Content-Length, Transfer-Encoding , Host, X",
        b"Host: h",
        b"Content-Length: 1",
        b"X: 1",
        start=b"POST / HTTP/1.1",
    ).forwarded(b"/", b"up")
    assert head == b"POST / HTTP/1.1\r\nHost: up\r\nContent-Length: 1\r\n\r\n"


def test_lines_keep_their_blanks_and_bytes() -> None:
    lines = (b"A:1", b"B:   2 \t", b"C:", b"D: \xe9\tx", b"a: 3")
    assert answer(*lines).forwarded().split(b"\r\n")[1:-2] == list(lines)


def test_a_request_without_host_gets_the_upstreams_first() -> None:
    head = request(b"A: 1", start=b"GET / HTTP/1.0").forwarded(b"/", b"up:8080")
    assert head == b"GET / HTTP/1.0\r\nHost: up:8080\r\nA: 1\r\n\r\n"


def test_what_a_client_says_of_its_connection_is_said_of_the_one_behind() -> None:
    def last(start: bytes, option: bytes) -> bytes:
        sent = request(b"Host: h", b"Connection: " + option, start=start).forwarded(b"/", b"h")
        return sent.split(b"\r\n")[-3]

    assert last(b"GET / HTTP/1.1", b"close") == b"Connection: close"
    assert last(b"GET / HTTP/1.1", b"keep-alive") == b"Host: h"
    assert last(b"GET / HTTP/1.0", b"Keep-Alive") == b"Connection: keep-alive"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ((b"A: 1", b"B: 2"), (b"A: 1", b"B: 2")),
        ((b"A: 1", b"Connection: keep-alive", b"B: 2"), (b"A: 1", b"B: 2")),
        ((b"connection: Keep-Alive", b"A: Connection: x"), (b"A: Connection: x",)),
        ((b"A: 1", b"CONNECTION: close"), (b"A: 1",)),
        ((b"A: 1", b"Connection:keep-alive", b"B: 2"), (b"A: 1", b"B: 2")),
        ((b"A: 1", b"Connection:  keep-alive \t", b"B: 2"), (b"A: 1", b"B: 2")),
        ((b"A: 1", b"Connection: keep-alive, B", b"B: 2"), (b"A: 1",)),
        ((b"Connection: keep-alive", b"Keep-Alive: timeout=5", b"B: 2"), (b"B: 2",)),
        ((b"Connection: keep-alive", b"Connection: keep-alive", b"A: 1"), (b"A: 1",)),
        ((b"Connection:", b"A: 1"), (b"A: 1",)),
        ((b"Connection: keep-alive",), ()),
        ((b"Host: h", b"A: 1"), (b"Host: h", b"A: 1")),
        ((b"Connection: keep-alive", b"Host: h"), (b"Host: h",)),
    ],
)
def test_an_answer_goes_out_as_the_lines_of_it_that_are_kept(
    lines: tuple[bytes, ...], kept: tuple[bytes, ...]
) -> None:
    """Whichever way its bytes come about: as they were, with a line cut out, or put together."""
    head = answer(*lines)
    assert head.kept(None, upgrade=False) == list(kept)
    assert head.forwarded() == b"\r\n".join((b"HTTP/1.1 200 OK", *kept, b"", b""))


def test_a_client_of_http_1_0_gets_no_transfer_encoding() -> None:
    head = answer(b"Transfer-Encoding: chunked", b"A: 1").forwarded(b"close", chunked=False)
    assert head == b"HTTP/1.1 200 OK\r\nA: 1\r\nConnection: close\r\n\r\n"


def test_an_upgrade_travels_only_where_it_is_let_through() -> None:
    lines = (b"Host: h", b"Connection: keep-alive, Upgrade", b"Upgrade: websocket")
    head = request(*lines)
    assert head.form.switches
    assert b"pgrade" not in head.forwarded(b"/", b"h")
    through = head.forwarded(b"/", b"h", upgrade=True)
    assert b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" in through
    assert not request(b"Host: h", b"Connection: Upgrade", b"Upgrade: h2c").form.switches
    assert not request(b"Host: h", b"Upgrade: websocket").form.switches


def test_a_request_has_the_body_that_its_fields_say() -> None:
    assert not request(b"Host: h").has_body
    assert not request(b"Host: h", b"CONTENT-length: 0").has_body
    assert request(b"Host: h", b"CONTENT-length: 1").has_body
    assert request(b"Host: h", b"transfer-ENCODING: Chunked").has_body
    assert request(b"Host: h", b"CONTENT-length: 0").body().done
    assert isinstance(request(b"Host: h", b"CONTENT-length: 1").body(), LengthBody)
    assert isinstance(request(b"Host: h", b"transfer-ENCODING: Chunked").body(), ChunkedBody)


@pytest.mark.parametrize(
    ("method", "status", "line", "framing"),
    [
        (b"GET", b"200", b"Content-Length: 5", Framing.LENGTH),
        (b"GET", b"200", b"Transfer-Encoding: chunked", Framing.CHUNKED),
        (b"GET", b"200", b"A: 1", Framing.CLOSE),
        (b"HEAD", b"200", b"Content-Length: 5", Framing.NONE),
        (b"GET", b"204", b"A: 1", Framing.NONE),
        (b"GET", b"304", b"Content-Length: 5", Framing.NONE),
    ],
)
def test_an_answers_framing_is_that_of_rfc_9112(
    method: bytes, status: bytes, line: bytes, framing: Framing
) -> None:
    head = answer(line, start=b"HTTP/1.1 " + status + b" x")
    assert head.framing(method) is framing


def test_an_inspector_gets_every_field_and_every_byte() -> None:
    above = bytes(range(0x80, 0x100))
    headers = answer(b"Connection: close", b"x-Y:  " + above).headers
    assert headers == (("Connection", "close"), ("x-Y", above.decode("latin-1")))
