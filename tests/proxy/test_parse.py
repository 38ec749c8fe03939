"""Heads: what llhttp and the bytes agree on, at any cut; everything else is no head."""

from __future__ import annotations

import pytest

from teeline.proxy.parse import MAX_FIELDS, HeadError, HeadReader

REQUEST = (
    b"POST /v1/x?a HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nX-Blank:  a \t\r\nContent-Length: 3\r\n\r\n"
)
ANSWER = b"HTTP/1.1 200 All right\r\nX: \xe9\r\ncontent-length:0\r\n\r\n"


@pytest.mark.parametrize("cut", range(1, len(REQUEST)))
def test_a_request_is_the_same_however_it_is_cut(cut: int) -> None:
    reader = HeadReader()
    assert reader.request(REQUEST[:cut]) is None
    found = reader.request(REQUEST[cut:] + b"abc")
    assert found is not None
    head, rest = found
    assert (head.method, head.target, head.version) == (b"POST", b"/v1/x?a", b"HTTP/1.1")
    assert head.lines == [b"Host: h", b"X-Empty:", b"X-Blank:  a \t", b"Content-Length: 3"]
    assert head.fields[2] == (b"X-Blank", b"a")
    assert (head.length, rest) == (3, b"abc")


@pytest.mark.parametrize("cut", range(1, len(ANSWER)))
def test_an_answer_is_the_same_however_it_is_cut(cut: int) -> None:
    reader = HeadReader()
    assert reader.answer(ANSWER[:cut]) is None
    found = reader.answer(ANSWER[cut:])
    assert found is not None
    assert (found[0].start, found[0].status) == (b"HTTP/1.1 200 All right", 200)
    assert found[0].lines == [b"X: \xe9", b"content-length:0"]


def test_empty_lines_before_a_request_are_skipped_and_begin_none() -> None:
    reader = HeadReader()
    assert reader.request(b"\r\n\r\n") is None
    assert not reader.begun
    found = reader.request(b"\r\n" + REQUEST)
    assert found is not None
    assert found[0].method == b"POST"


BAD_REQUESTS = {
    "bare LF ends a line": b"GET / HTTP/1.1\nHost: h\r\n\r\n",
    "bare LF ends a field": b"GET / HTTP/1.1\r\nHost: h\nX: 1\r\n\r\n",
    "bare LF ends the head": b"GET / HTTP/1.1\r\nHost: h\n\n",
    "bare CR in a value": b"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
    "a blank before the colon": b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
    "a blank in a name": b"GET / HTTP/1.1\r\nHost: h\r\nX y: 1\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\nHost: h\r\n: 1\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n",
    "a folded field": b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
    "a folded first field": b"GET / HTTP/1.1\r\n X: a\r\nHost: h\r\n\r\n",
    "a NUL in a value": b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
    "a NUL in a name": b"GET / HTTP/1.1\r\nHost: h\r\nX\0: 1\r\n\r\n",
    "a NUL in the target": b"GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n",
    "two blanks in the line": b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
    "a blank behind the line": b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
    "a tab in the line": b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
    "no version": b"GET /\r\nHost: h\r\n\r\n",
    "HTTP/0.9": b"GET / HTTP/0.9\r\nHost: h\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: h\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "lower-case http": b"GET / http/1.1\r\nHost: h\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\nX: 1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "the same length twice": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
    b"Content-Length: 1\r\n\r\n",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n",
    "a signed length": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n",
    "a negative length": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
    "an empty length": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
    "a length of blanks": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1 1\r\n\r\n",
    "a hexadecimal length": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\n",
    "a boundless length": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: "
    + b"9" * 30
    + b"\r\n\r\n",
    "length and coding": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "coding and length": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Length: 1\r\n\r\n",
    "two codings": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "a hidden coding": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
    b"Transfer-Encoding: x\r\n\r\n",
    "a coding that is not last": b"POST / HTTP/1.1\r\nHost: h\r\n"
    b"Transfer-Encoding: chunked, gzip\r\n\r\n",
    "another coding": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "identity": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n",
    "a coding like chunked": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "a quoted coding": b'POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "chunked"\r\n\r\n',
    "a coding behind a vertical tab": b"POST / HTTP/1.1\r\nHost: h\r\n"
    b"Transfer-Encoding: \x0bchunked\r\n\r\n",
    "an empty coding": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n",
    "a coding with HTTP/1.0": b"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a target above ASCII": b"GET /\xe9 HTTP/1.1\r\nHost: h\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "SSH": b"SSH-2.0-x\r\n",
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_what_is_no_request_is_refused_at_any_cut(name: str) -> None:
    data = BAD_REQUESTS[name]
    for size in (1, 7, len(data)):
        reader = HeadReader()
        with pytest.raises(HeadError) as caught:
            for at in range(0, len(data), size):
                assert reader.request(data[at : at + size]) is None
        assert not caught.value.too_large


BAD_ANSWERS = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a status of 0": b"HTTP/1.1 000 OK\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\nX: 1\n\n",
    "bare LF among others": b"HTTP/1.1 200 OK\r\nX: 1\nContent-Length: 1\r\n\r\n",
    "a folded field": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
    "a blank before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
    "a NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
    "length and coding": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "two codings": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "a coding with HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_what_is_no_answer_is_refused_at_any_cut(name: str) -> None:
    data = BAD_ANSWERS[name]
    for size in (1, 7, len(data)):
        reader = HeadReader()
        with pytest.raises(HeadError):
            for at in range(0, len(data), size):
                assert reader.answer(data[at : at + size]) is None


@pytest.mark.parametrize("size", [1000, 70_000])
def test_a_head_is_as_long_as_its_limit_and_no_longer(size: int) -> None:
    start, end = b"GET / HTTP/1.1\r\nHost: h\r\nX: ", b"\r\n\r\n"
    fits = start + b"x" * (size - len(start) - len(end)) + end
    assert HeadReader(size).request(fits) is not None
    for head in (fits[:-4] + b"x" + end, fits[:-4] + b"xxxxxx"):
        with pytest.raises(HeadError) as caught:
            HeadReader(size).request(head)
        assert caught.value.too_large


def test_fields_are_counted() -> None:
    start, field = b"GET / HTTP/1.1\r\nHost: h\r\n", b"X: 1\r\n"
    assert HeadReader().request(start + field * (MAX_FIELDS - 1) + b"\r\n") is not None
    with pytest.raises(HeadError) as caught:
        HeadReader().request(start + field * MAX_FIELDS + b"\r\n")
    assert caught.value.too_large


def test_two_requests_are_one_and_the_bytes_of_the_other() -> None:
    get = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    reader = HeadReader()
    found = reader.request(get + get)
    assert found is not None
    assert found[1] == get
