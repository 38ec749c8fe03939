"""Heads: what llhttp and the bytes agree on, at any cut; everything else is no head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.form import Usual
from teeline.proxy.head import AnswerHead, RequestHead
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
    form = head.form
    assert (form.method, form.target, form.version) == (b"POST", b"/v1/x?a", b"HTTP/1.1")
    assert head.lines == [b"Host: h", b"X-Empty:", b"X-Blank:  a \t", b"Content-Length: 3"]
    assert head.headers[2] == ("X-Blank", "a")
    assert (head.length, rest) == (3, b"abc")


@pytest.mark.parametrize("cut", range(1, len(ANSWER)))
def test_an_answer_is_the_same_however_it_is_cut(cut: int) -> None:
    reader = HeadReader()
    assert reader.answer(ANSWER[:cut]) is None
    found = reader.answer(ANSWER[cut:])
    assert found is not None
    assert (found[0].form.start, found[0].status) == (b"HTTP/1.1 200 All right", 200)
    assert found[0].lines == [b"X: \xe9", b"content-length:0"]


def test_empty_lines_before_a_request_are_skipped_and_begin_none() -> None:
    reader = HeadReader()
    assert reader.request(b"\r\n\r\n") is None
    assert not reader.begun
    found = reader.request(b"\r\n" + REQUEST)
    assert found is not None
    assert found[0].form.method == b"POST"


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


# -- heads that come again on a connection -----------------------------------------------------------

ASKED = (
    b"POST /v1/x?a HTTP/1.1\r\nHost: h\r\nX-Id: a1\r\nConnection: keep-alive\r\n"
    b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
    b"Content-Length: 3\r\nTE: trailers\r\n\r\n"
)
ANSWERED = (
    b"HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nX-Request-Id: req_1\r\n"
    b"Content-Length: 3\r\nKeep-Alive: timeout=5\r\n\r\n"
)


def taken(reader: HeadReader, data: bytes, *, answer: bool) -> object:
    """All that a head is to its readers, or that it is none."""
    try:
        found = reader.answer(data) if answer else reader.request(data)
    except HeadError as error:
        return error.too_large
    if found is None:
        return None
    head, rest = found
    form = head.form
    said: tuple[object, ...]
    if isinstance(head, RequestHead):
        said = (head.form.method, head.form.target, head.form.version, head.event(b"/t"))
        said += (head.forwarded(b"/t", b"up"), head.forwarded(b"/t", b"up", upgrade=True))
    else:
        assert isinstance(head, AnswerHead)
        said = (head.form.start, head.status, head.event(), head.framing(b"GET"))
        said += (head.forwarded(), head.forwarded(b"close", chunked=False))
    same = (head.raw, head.lines, head.headers, head.length, head.trace, form.chunked, form.listed)
    return (*same, form.persistent, form.has_host, form.switches, form.special, *said, rest)


def known(first: bytes, usual: Usual | None = None, *, answer: bool) -> HeadReader:
    """A reader to which a head's form is known: the same with another value came twice."""
    reader = HeadReader(usual=usual)
    for head in (first.replace(b"X-", b"X-Y"), first.replace(b": 3", b": 4"), first, first):
        assert taken(reader, head, answer=answer)
    return reader


def same_as_alone(first: bytes, second: bytes, *, answer: bool = False) -> None:
    """What is said of a head doesn't depend on the ones before, on its connection or on others."""
    alone, usual = taken(HeadReader(), second, answer=answer), Usual()
    assert taken(known(first, usual, answer=answer), second, answer=answer) == alone
    assert taken(HeadReader(usual=usual), second, answer=answer) == alone


@pytest.mark.parametrize("rest", [b"", b"abc", b"abcGET / HTTP/1.1\r\n"])
def test_a_request_head_that_comes_again_is_the_same_head(rest: bytes) -> None:
    """What was made of it, for the upstream and for the inspector, is made once."""
    reader = HeadReader()
    once, again = reader.request(ASKED), reader.request(ASKED + rest)
    assert once is not None
    assert again is not None
    assert again[0] is once[0]
    assert again[1] == rest
    same_as_alone(ASKED, ASKED + rest)


@pytest.mark.parametrize("rest", [b"", b"abc", b"abcHTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_head_that_comes_again_is_what_it_was(rest: bytes) -> None:
    same_as_alone(ANSWERED, ANSWERED + rest, answer=True)


VALUES = [
    (ASKED, b"X-Id: a1", b"X-Id: b2 c, d;e"),
    (ASKED, b"Content-Length: 3", b"Content-Length: 12345"),
    (ASKED, b"TE: trailers", b"TE: trailers, deflate"),
    (ASKED, b"-0af7651916cd43dd8448eb211c80319c-", b"-1bf7651916cd43dd8448eb211c80319d-"),
    (ANSWERED, b"12:00:00", b"12:00:01"),
    (ANSWERED, b"req_1", b"req_20"),
    (ANSWERED, b"Content-Length: 3", b"Content-Length: 0"),
    (ANSWERED, b"timeout=5", b"timeout=5, max=99"),
]


@pytest.mark.parametrize(("first", "before", "after"), VALUES)
def test_a_head_with_other_values_is_what_it_would_be_alone(
    first: bytes, before: bytes, after: bytes
) -> None:
    same_as_alone(first, first.replace(before, after), answer=first is ANSWERED)


def test_values_that_cannot_be_misread_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    asking, answering = known(ASKED, answer=False), known(ANSWERED, answer=True)
    monkeypatch.setattr("teeline.proxy.parse._judged", None)
    for first, before, after in VALUES:
        reader, answer = (asking, False) if first is ASKED else (answering, True)
        assert isinstance(taken(reader, first.replace(before, after), answer=answer), tuple)


def test_a_further_connection_to_the_same_place_needs_no_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, usual, usual_answer = ASKED.replace(b"?a", b""), Usual(), Usual()
    known(plain, usual, answer=False)
    known(ANSWERED, usual_answer, answer=True)
    monkeypatch.setattr("teeline.proxy.parse._judged", None)
    assert taken(HeadReader(usual=usual), plain.replace(b"a1", b"b2"), answer=False)
    assert taken(HeadReader(usual=usual_answer), ANSWERED.replace(b"_1", b"_2"), answer=True)


@pytest.mark.parametrize("target", [b"/v1/x?key=secret", b"/" + b"secret" * 40])
def test_a_target_that_may_hold_a_key_does_not_outlive_its_connection(target: bytes) -> None:
    usual = Usual()
    known(ASKED.replace(b"/v1/x?a", target), usual, answer=False)
    assert usual.form is None


OTHER_LINES = [
    *(b"X-Id : a1", b"X-Id:a1", b"X-Id:  a1", b"X-Id: a1 ", b"X-Id: ", b"X-Id:", b"x-id: a1"),
    *(b"X-Id: \xe9", b"X-Id: a\x00", b"X-Id: a\nb", b"X-Id: a\rb", b"X-Id: a\tb", b"X-Id: a\x7f"),
    *(b"X-Id: a\r\n b", b" X-Id: a1", b"X-Id: a1\r\nX-More: 1", b"X-Other: a1", b"Host: h"),
    *(b"Content-Length: 3", b"Transfer-Encoding: chunked", b"X-Id", b": a1", b"", b"\r\nX-Id: a1"),
]


@pytest.mark.parametrize("line", OTHER_LINES)
def test_a_head_with_other_lines_is_what_it_would_be_alone(line: bytes) -> None:
    same_as_alone(ASKED, ASKED.replace(b"X-Id: a1", line))


OTHER_FRAMES = [
    *(b"Content-Length: +3", b"Content-Length: 3, 3", b"Content-Length: 0x3", b"Content-Length: "),
    *(b"Content-Length: 3 ", b"Content-Length: " + b"1" * 18, b"Content-Length: " + b"1" * 19),
    *(b"Content-Length: \xb2", b"Transfer-Encoding: chunked", b"Connection: close", b"X: 3"),
]


@pytest.mark.parametrize("line", OTHER_FRAMES)
@pytest.mark.parametrize("first", [ASKED, ANSWERED])
def test_a_head_with_another_frame_is_what_it_would_be_alone(first: bytes, line: bytes) -> None:
    same_as_alone(first, first.replace(b"Content-Length: 3", line), answer=first is ANSWERED)


@pytest.mark.parametrize("value", [b"close", b"upgrade", b"keep-alive, X-Id", b"\xe9", b"a b"])
def test_another_word_on_the_connection_counts(value: bytes) -> None:
    same_as_alone(ASKED, ASKED.replace(b"keep-alive", value))


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_no_head_before_makes_a_bad_request_a_good_one(name: str) -> None:
    same_as_alone(ASKED, BAD_REQUESTS[name])


@given(st.binary(max_size=12), st.sampled_from([b"a1", b"keep-alive", b"3", b"trailers", b"h"]))
def test_a_request_with_any_value_is_what_it_would_be_alone(value: bytes, instead: bytes) -> None:
    same_as_alone(ASKED, ASKED.replace(b": " + instead + b"\r\n", b": " + value + b"\r\n"))


@given(st.binary(max_size=12), st.sampled_from([b"req_1", b"3", b"timeout=5", b"200 OK"]))
def test_an_answer_with_any_value_is_what_it_would_be_alone(value: bytes, instead: bytes) -> None:
    second = ANSWERED.replace(b" " + instead + b"\r\n", b" " + value + b"\r\n")
    same_as_alone(ANSWERED, second, answer=True)


def test_an_interim_head_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered are the heads that come once an exchange."""
    reader = known(ANSWERED, answer=True)
    interim = reader.answer(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ANSWERED)
    assert interim is not None
    monkeypatch.setattr("teeline.proxy.parse._judged", None)
    assert reader.answer(interim[1]) is not None


def test_a_head_of_unusual_size_is_not_remembered() -> None:
    long = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 5000 + b"\r\n\r\n"
    usual = Usual()
    reader = HeadReader(usual=usual)
    once, again = reader.request(long), reader.request(long)
    assert once is not None
    assert again is not None
    assert once[0] is not again[0]
    assert usual.form is None


def test_a_head_that_varies_keeps_to_the_limit() -> None:
    reader = HeadReader(len(ASKED))
    assert reader.request(ASKED) is not None
    with pytest.raises(HeadError) as caught:
        reader.request(ASKED.replace(b"a1", b"a12"))
    assert caught.value.too_large
