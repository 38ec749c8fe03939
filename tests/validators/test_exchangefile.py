"""An exchange file is read as it was meant or refused in words, and replayed in wire order."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teeline.validators.events import Output, RequestHead, ResponseHead
from teeline.validators.exchangefile import (
    MAX_BYTES,
    ExchangeFileError,
    RecordedExchange,
    loads,
    parse,
    replay,
)
from teeline.validators.model import Ended


def document(**changes: Any) -> dict[str, Any]:
    """A legal exchange file's object; ``response_x`` changes member ``x`` of the response."""
    whole: dict[str, Any] = {
        "v": 1,
        "endpoint": "/v1/chat/completions",
        "request": {"model": "m"},
        "response": {"status": 200, "headers": {}, "body_text": "{}"},
    }
    for key, value in changes.items():
        member = key.removeprefix("response_")
        (whole["response"] if member != key else whole)[member] = value
    return whole


class Recorder:
    """An inspector that writes down what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def request_head(self, head: RequestHead, at: float) -> Iterable[Output]:
        return self._note("request_head", head, at)

    def request_body(self, data: bytes, at: float) -> Iterable[Output]:
        return self._note("request_body", data, at)

    def request_end(self, at: float) -> Iterable[Output]:
        return self._note("request_end", at)

    def response_head(self, head: ResponseHead, at: float) -> Iterable[Output]:
        return self._note("response_head", head, at)

    def response_body(self, data: bytes, at: float) -> Iterable[Output]:
        return self._note("response_body", data, at)

    def end(self, ended: Ended, at: float) -> Iterable[Output]:
        return self._note("end", ended, at)

    def _note(self, *call: Any) -> Iterable[Output]:
        self.calls.append(call)
        return ()


def replayed(recorded: RecordedExchange, **options: Any) -> list[tuple[Any, ...]]:
    recorder = Recorder()
    assert replay(recorder, recorded, 5.0, **options) == []
    return recorder.calls


def test_head_body_and_end_come_in_wire_order_with_the_given_time() -> None:
    recorded = parse(document(response_headers=[["A", "1"], ["a", "2"]]))
    assert replayed(recorded) == [
        ("request_head", RequestHead("POST", "/v1/chat/completions", ()), 5.0),
        ("request_body", b'{"model": "m"}', 5.0),
        ("request_end", 5.0),
        ("response_head", ResponseHead(200, (("A", "1"), ("a", "2"))), 5.0),
        ("response_body", b"{}", 5.0),
        ("end", Ended.COMPLETE, 5.0),
    ]


def test_a_request_that_was_not_recorded_gets_a_head_and_never_an_end() -> None:
    """P7: rules that need the request are off where it was not read to its end."""
    names = [call[0] for call in replayed(parse(document(request=None)))]
    assert names == ["request_head", "response_head", "response_body", "end"]


def test_an_empty_request_body_is_a_request_that_ended() -> None:
    names = [call[0] for call in replayed(parse(document(request=None, request_base64="")))]
    assert names[:2] == ["request_head", "request_end"]


def test_request_base64_is_the_request_byte_for_byte() -> None:
    raw = b'{"a":1,"a":NaN}\xff'
    encoded = base64.b64encode(raw).decode("ascii")
    assert parse(document(request=None, request_base64=encoded)).request_body == raw


@pytest.mark.parametrize(
    ("members", "reads"),
    [
        ({"chunks": ["da", "", "ta"]}, (b"da", b"ta")),
        ({"chunks_base64": ["4g==", "gqw="]}, (b"\xe2", b"\x82\xac")),
        ({"body_text": "\u20ac", "chunks_base64": ["4g==", "gqw="]}, (b"\xe2", b"\x82\xac")),
        ({"body_base64": "AAE="}, (b"\x00\x01",)),
        ({"body_text": ""}, ()),
        ({"body_text": "ab", "chunks": None}, (b"ab",)),
    ],
)
def test_a_body_is_read_in_the_recorded_pieces(
    members: dict[str, Any], reads: tuple[bytes, ...]
) -> None:
    given = document()
    given["response"] = {"status": 200, **members}
    assert parse(given).reads == reads


def test_a_cut_of_the_caller_replaces_the_recorded_reads() -> None:
    recorded = parse(document(response_chunks=["{", "}"], response_body_text=None))
    calls = replayed(recorded, cut=lambda body: [body[:1], b"", body[1:]])
    assert [call[1] for call in calls if call[0] == "response_body"] == [b"{", b"", b"}"]


@pytest.mark.parametrize(
    ("word", "ended"),
    [
        ("closed", Ended.COMPLETE),
        ("aborted", Ended.UPSTREAM_ABORTED),
        ("client_closed", Ended.CLIENT_CLOSED),
    ],
)
def test_the_connection_says_how_the_exchange_ended(word: str, ended: Ended) -> None:
    assert parse(document(response_connection=word)).ended is ended


def test_headers_that_were_not_recorded_are_none_at_all() -> None:
    """P8: an empty list and an absent member mean the same."""
    assert parse(document(request_headers=[])).request.headers == ()
    bare = document()
    del bare["response"]["headers"]
    assert parse(bare).response.headers == ()


def test_header_text_beyond_latin_1_becomes_the_bytes_that_were_sent() -> None:
    recorded = parse(document(response_headers={"x-a": "\u20ac", "x-b": "\xe9"}))
    assert recorded.response.headers == (("x-a", "\xe2\x82\xac"), ("x-b", "\xe9"))


def test_unknown_members_are_ignored_and_v_may_be_absent() -> None:
    plain = document(expect={"verdict": "fail"}, response_why="x")
    del plain["v"]
    assert parse(plain) == parse(document())


def test_a_byte_order_mark_before_the_file_is_no_part_of_it() -> None:
    assert loads(b"\xef\xbb\xbf" + json.dumps(document()).encode()) == parse(document())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the top level must be an object"),
        (document(v=2), "v must be 1 (or absent)"),
        (document(v=True), "v must be 1 (or absent)"),
        ({"response": {}}, "endpoint must be a string (it is absent)"),
        (document(endpoint=7), "endpoint must be a string"),
        (
            document(endpoint="/v1/chat HTTP/1.1"),
            "endpoint must be the request's path and query, without spaces",
        ),
        (
            document(endpoint=""),
            "endpoint must be the request's path and query, without spaces",
        ),
        (document(method="GET /"), "method must be an HTTP method"),
        (document(name=1), "name must be a string"),
        (document(response=None), "response must be an object"),
        (document(response_status="200"), "response.status must be an integer"),
        (document(response_status=True), "response.status must be an integer"),
        (document(response_status=103), "response.status must be a final status, 200 to 999"),
        (
            document(response_headers=7),
            "response.headers must be an object or a list of [name, value]",
        ),
        (document(request_headers=[["a"]]), "request_headers must hold pairs of name and value"),
        (
            document(response_headers={"a": ["b"]}),
            "response.headers must hold names and values that are strings",
        ),
        (
            document(response_headers={"a": "\ud800"}),
            "response.headers holds half a surrogate pair: use base64",
        ),
        (document(request_base64="AA=="), "request and request_base64 exclude each other"),
        (document(request=None, request_base64="%"), "request_base64 must be base64"),
        (document(request=None, request_base64=7), "request_base64 must be a string"),
        (
            document(response_body_text=None),
            "response must have one of body_text, body_base64, chunks, chunks_base64",
        ),
        (
            document(response_body_base64="AA=="),
            "response.body_text and .body_base64 exclude each other",
        ),
        (
            document(response_body_text=None, response_chunks=[], response_chunks_base64=[]),
            "response.chunks and .chunks_base64 exclude each other",
        ),
        (document(response_body_text=7), "response.body_text must be a string"),
        (
            document(response_body_text="\ud800"),
            "response.body_text holds half a surrogate pair: use base64",
        ),
        (document(response_chunks=[1]), "response.chunks must be a list of strings"),
        (document(response_chunks=["x"]), "response.chunks joined must be response.body_text"),
        (
            document(response_connection="open"),
            "response.connection must be closed, aborted or client_closed",
        ),
    ],
)
def test_what_is_no_exchange_file_is_refused_with_the_member_that_is_wrong(
    given: Any, message: str
) -> None:
    with pytest.raises(ExchangeFileError) as caught:
        parse(given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        (b"", "not JSON: Expecting value (line 1, column 1)"),
        (b'{"v": 1,\n}', "not JSON: Expecting property name"),
        (b'{"v": 1,\n"a" 2}', "not JSON: Expecting ':' delimiter (line 2, column 5)"),
        (b'{"request": NaN}', "not JSON: NaN; a body that holds it goes in as base64"),
        (b'{"request": 1e999}', "a number is too large: a body that holds it goes in as base64"),
        (b"[" * 100_000, "not JSON that can be read: nested too deeply"),
        (b'{"v": ' + b"9" * 5000 + b"}", "not JSON that can be read: Exceeds the limit"),
        (b" " * (MAX_BYTES + 1), "larger than 67108864 bytes"),
    ],
)
def test_bytes_that_are_no_json_are_refused_with_the_place(data: bytes, message: str) -> None:
    with pytest.raises(ExchangeFileError) as caught:
        loads(data)
    assert str(caught.value).startswith(message)


# -- times ------------------------------------------------------------------------------------------


def timed(times: Any) -> dict[str, Any]:
    exchange = document(response_chunks=["a", "b"], response_times=times)
    del exchange["response"]["body_text"]
    return exchange


@pytest.mark.parametrize("times", [[0, 1, 2], [0.5, 0.5, 0.5, 9], [0, 0, 0]])
def test_times_are_the_heads_one_a_read_and_perhaps_the_ends(times: list[float]) -> None:
    recorder = Recorder()
    replay(recorder, parse(timed(times)), 100.0)
    seen = [
        call[-1] for call in recorder.calls if call[0].startswith("response") or call[0] == "end"
    ]
    assert seen == [100.0 + after for after in [*times, *times[-1:]][:4]]


def test_times_may_be_left_out_and_an_own_cut_leaves_them_aside() -> None:
    assert parse(timed(None)).times == ()
    recorder = Recorder()
    replay(recorder, parse(timed([1, 2, 3])), 100.0, cut=lambda body: [body])
    assert {call[-1] for call in recorder.calls} == {100.0}


@pytest.mark.parametrize(
    "times",
    ["", {}, [], [0], [0, 1], [0, 1, 2, 3, 4], [2, 1, 3], [0, 1, None], [0, 1, True],
     [-1, 0, 1], [0, 1, 1e12], [0, 1, float("nan")], [0, 1, 10**400]],
)  # fmt: skip
def test_other_times_are_an_error_that_says_what_to_change(times: Any) -> None:
    with pytest.raises(ExchangeFileError, match=r"response\.times must"):
        parse(timed(times))


# -- anything ---------------------------------------------------------------------------------------


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
members = st.sampled_from(
    ["v", "name", "method", "endpoint", "request", "request_base64", "request_headers", "response"]
)
response_members = st.sampled_from(
    [
        "status",
        "headers",
        "body_text",
        "body_base64",
        "chunks",
        "chunks_base64",
        "times",
        "connection",
    ]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(members, json_values), st.dictionaries(response_members, json_values))
def test_any_json_value_is_either_parsed_or_refused(
    whole: dict[str, Any], response: dict[str, Any]
) -> None:
    """Nothing but ExchangeFileError gets out, whatever a file holds."""
    merged = document() | whole
    if isinstance(merged["response"], dict):
        merged["response"] = document()["response"] | merged["response"] | response
    try:
        assert isinstance(parse(merged), RecordedExchange)
    except ExchangeFileError as error:
        assert "\n" not in str(error)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_either_an_exchange_or_refused(data: bytes) -> None:
    with pytest.raises(ExchangeFileError):
        loads(data)
