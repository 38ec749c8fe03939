"""What becomes of heads: fields that travel, framing, targets."""

from __future__ import annotations

import pytest

from teeline.proxy.head import (
    HOP_BY_HOP,
    Framing,
    begins_with,
    for_inspector,
    origin_form,
    request_framing,
    request_head,
    response_framing,
    response_head,
    upstream_target,
)

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


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP))
def test_a_field_of_a_hop_does_not_travel_in_either_direction(name: bytes) -> None:
    fields = ((name.title(), b"x"), (b"Kept", b"1"))
    sent = request_head("GET", b"/", (*fields, (b"Host", b"h")), b"up", close=False)
    assert sent == b"GET / HTTP/1.1\r\nKept: 1\r\nHost: up\r\n\r\n"
    assert response_head(200, b"OK", fields) == b"HTTP/1.1 200 OK\r\nKept: 1\r\n\r\n"


def test_connection_cannot_take_the_frame_off_a_body() -> None:
    fields = (
        (b"Connection", b"Content-Length, Transfer-Encoding , Host, X"),
        (b"Host", b"h"),
        (b"Content-Length", b"1"),
        (b"X", b"1"),
    )
    head = request_head("POST", b"/", fields, b"up", close=False)
    assert head == b"POST / HTTP/1.1\r\nHost: up\r\nContent-Length: 1\r\n\r\n"


def test_a_request_without_host_gets_the_upstreams_first() -> None:
    head = request_head("GET", b"/", ((b"A", b"1"),), b"up:8080", close=True)
    assert head == b"GET / HTTP/1.1\r\nHost: up:8080\r\nA: 1\r\nConnection: close\r\n\r\n"


def test_a_client_of_http_1_0_gets_no_transfer_encoding() -> None:
    fields = ((b"Transfer-Encoding", b"chunked"), (b"A", b"1"))
    head = response_head(200, b"OK", fields, chunked=False, close=True)
    assert head == b"HTTP/1.1 200 OK\r\nA: 1\r\nConnection: close\r\n\r\n"


def test_a_requests_framing_is_its_fields() -> None:
    assert request_framing(()) is Framing.NONE
    assert request_framing(((b"CONTENT-length", b"0"),)) is Framing.LENGTH
    assert request_framing(((b"transfer-ENCODING", b"gzip, chunked"),)) is Framing.CHUNKED


@pytest.mark.parametrize(
    ("method", "status", "fields", "chunked", "framing"),
    [
        ("GET", 200, ((b"Content-Length", b"5"),), False, Framing.LENGTH),
        ("GET", 200, ((b"Transfer-Encoding", b"chunked"),), True, Framing.CHUNKED),
        ("GET", 200, ((b"Transfer-Encoding", b"gzip"),), False, Framing.CLOSE),
        ("GET", 200, (), False, Framing.CLOSE),
        ("HEAD", 200, ((b"Content-Length", b"5"),), False, Framing.NONE),
        ("GET", 204, (), False, Framing.NONE),
        ("GET", 304, ((b"Content-Length", b"5"),), False, Framing.NONE),
    ],
)
def test_an_answers_framing_is_that_of_rfc_9112(
    method: str,
    status: int,
    fields: tuple[tuple[bytes, bytes], ...],
    chunked: bool,
    framing: Framing,
) -> None:
    assert response_framing(method, status, fields, chunked) is framing


def test_an_inspector_gets_every_field_and_every_byte() -> None:
    fields = ((b"Connection", b"close"), (b"X", bytes(range(0x80, 0x100))))
    assert for_inspector(fields)[1][1].encode("latin-1") == bytes(range(0x80, 0x100))
    assert len(for_inspector(fields)) == 2
