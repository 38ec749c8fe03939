"""An inspector takes one exchange as the wire had it, and closes it once, with its facts."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
import zstandard

from teeline.validators.events import (
    Closed,
    Found,
    Opened,
    Output,
    RequestHead,
    ResponseHead,
    SchemaCheck,
    SchemaError,
    SchemaResult,
)
from teeline.validators.inspector import Inspector, InspectorMisuse
from teeline.validators.model import Ended, Exchange, Headers
from tests.validators.answers import (
    ASKED,
    JSON_HEADERS,
    SSE_HEADERS,
    STREAMED,
    USAGE,
    WITH_USAGE,
    chunk,
    completion,
    dumps,
    everything,
    finding,
    ids,
    inspected,
    opening,
    spoken,
    stream,
    streamed,
)
from tests.validators.exchanges import NOW, Cut, byte_by_byte, findings, partition, whole

T = NOW
"""All times here count from it."""
HEAD = RequestHead("POST", "/v1/chat/completions?key=1", ())
CUTS = pytest.mark.parametrize(
    "cut", [whole, byte_by_byte, partition(5)], ids=["whole", "bytes", "pieces"]
)


def started(request: Any = ASKED, status: int = 200, headers: Headers = ()) -> Inspector:
    """An inspector that has seen the request and the answer's head."""
    inspector = Inspector(Exchange(id="given"))
    inspector.request_head(HEAD, T + 10)
    inspector.request_body(dumps(request), T + 11)
    inspector.request_end(T + 12)
    inspector.response_head(ResponseHead(status, headers), T + 13)
    return inspector


# -- what comes out, and when ----------------------------------------------------------------------


def test_an_exchange_opens_with_its_request_line() -> None:
    exchange = Exchange(id="given")
    [opened] = Inspector(exchange).request_head(HEAD, T + 10)
    assert opened == Opened(exchange)
    assert (exchange.id, exchange.method, exchange.operation) == ("given", "POST", "chat")
    assert exchange.path == "/v1/chat/completions"
    assert exchange.timing.start == T + 10


def test_a_finding_comes_out_with_the_bytes_that_show_it() -> None:
    inspector = started(STREAMED, headers=SSE_HEADERS)
    assert list(inspector.response_body(b"data: [1", T + 14)) == []
    [found] = inspector.response_body(b"]\n\n", T + 15)
    assert isinstance(found, Found) and found.violation.rule.id == "chatstream.chunk-not-object"
    assert found.violation.at == T + 15


def test_closed_is_the_last_thing_and_comes_once() -> None:
    inspector = started(headers=JSON_HEADERS)
    inspector.response_body(b"{", T + 14)
    *before, last = inspector.end(Ended.COMPLETE, T + 15)
    assert last == Closed(inspector.exchange)
    assert [o.violation.rule.id for o in before if isinstance(o, Found)] == ["http.json-invalid"]
    assert list(inspector.expire(T + 16)) == []
    with pytest.raises(InspectorMisuse):
        inspector.end(Ended.COMPLETE, T + 17)


@pytest.mark.parametrize("ended", Ended)
def test_an_exchange_may_end_before_anything_of_it_came(ended: Ended) -> None:
    inspector = Inspector(Exchange())
    inspector.request_head(HEAD, T + 1)
    assert list(inspector.end(ended, T + 2)) == [Closed(inspector.exchange)]
    assert (inspector.exchange.ended, inspector.exchange.status) == (ended, None)
    assert inspector.exchange.violations == []


# -- facts -----------------------------------------------------------------------------------------


def test_the_facts_of_a_document() -> None:
    body = dumps(completion())
    seen = inspected(body, headers=(*JSON_HEADERS, ("apim-request-id", "other")))
    assert (seen.model, seen.stream, seen.status) == ("gpt-4o-mini", False, 200)
    assert seen.request_bytes == len(dumps(ASKED)) and seen.response_bytes == len(body)
    assert (seen.request_id, seen.response_id) == ("req_1", "chatcmpl-1")
    assert (seen.response_model, seen.finish, seen.events) == ("gpt-4o-mini", ["stop"], 0)
    assert seen.usage == USAGE and seen.error_type is None
    assert (seen.ended, seen.inspection) == (Ended.COMPLETE, "full")


def test_the_facts_of_a_stream() -> None:
    last = chunk(choices=[], usage=USAGE)
    seen = streamed(*(e | {"usage": None} for e in spoken("a", "b")), last, request=WITH_USAGE)
    assert (seen.stream, seen.events, seen.finish) == (True, 5, ["stop"])
    assert (seen.response_id, seen.response_model) == ("chatcmpl-1", "gpt-4o-mini")
    assert seen.usage == USAGE and ids(seen) == set()


def test_the_facts_of_an_error() -> None:
    error = {"message": "x", "type": "requests", "param": None, "code": None}
    assert inspected(dumps({"error": error}), status=429).error_type == "requests"
    assert inspected(b"oops", status=502).error_type == "502"
    assert streamed(opening(), {"error": error}).error_type == "requests"
    assert inspected(dumps({"error": error})).error_type == "requests"


@pytest.mark.parametrize(
    ("value", "announced"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("text/plain", False),
    ],
)
def test_an_event_stream_is_known_by_the_answers_head(value: str, announced: bool) -> None:
    assert not Exchange().event_stream
    inspector = started(headers=(("Content-Type", value),))
    assert inspector.exchange.event_stream is announced


@pytest.mark.parametrize("name", ["x-request-id", "X-Request-Id", "apim-request-id"])
def test_the_relays_request_id_is_kept(name: str) -> None:
    assert inspected(dumps(completion()), headers=((name, "r" * 300),)).request_id == "r" * 256


def test_times_are_those_that_were_given() -> None:
    inspector = started(STREAMED, headers=SSE_HEADERS)
    inspector.response_body(b": wait\n\n", T + 14)
    inspector.response_body(stream(opening(), done=False), T + 16.5)
    inspector.response_body(stream(chunk(finish="stop")), T + 17)
    inspector.end(Ended.COMPLETE, T + 18)
    timing = inspector.exchange.timing
    assert (timing.start, timing.first_byte, timing.first_event) == (T + 10, T + 13, T + 16.5)
    assert (timing.last_byte, timing.end, timing.largest_gap) == (T + 17, T + 18, 2.5)


def test_without_a_body_there_are_no_times_of_one() -> None:
    inspector = started(status=304)
    inspector.end(Ended.COMPLETE, T + 14)
    timing = inspector.exchange.timing
    assert (timing.first_event, timing.last_byte, timing.largest_gap) == (None, None, 0.0)


# -- P7 and P8: what was not recorded --------------------------------------------------------------

ASKS_MUCH = {
    "model": "claude-3",
    "messages": [{"role": "user", "content": "Hi"}],
    "n": 3,
    "logprobs": True,
    "max_tokens": 1,
    "stop": "Hello",
}


@pytest.mark.parametrize(
    "sent",
    [
        {"request": None},
        {"request_body": b""},
        {"request_body": dumps(ASKS_MUCH)[:-1]},
        {"request_body": b"[" + dumps(ASKS_MUCH) + b"]"},
        {"request_body": b"\xff\xfe"},
        {"request_body": b"a=b&c=d"},
        {"request_body": dumps(ASKS_MUCH), "request_headers": (("content-encoding", "rot13"),)},
        {"request_body": dumps(ASKS_MUCH), "request_headers": (("content-encoding", "gzip"),)},
    ],
)
def test_a_request_that_was_not_fully_read_asks_for_nothing(sent: dict[str, Any]) -> None:
    """P7."""
    assert ids(inspected(dumps(completion()), **sent)) == set()
    assert ids(inspected(stream(*spoken("Hello")), headers=SSE_HEADERS, **sent)) == set()


def test_a_request_that_was_read_asks_for_what_it_says() -> None:
    assert ids(inspected(dumps(completion()), ASKS_MUCH)) == {
        "cross.model-substituted",
        "cross.choices-too-few",
        "cross.logprobs-missing",
        "cross.stop-sequence",
    }


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_a_request_with_a_content_coding_is_read_as_any_other(
    pack: Callable[[bytes], bytes],
) -> None:
    coding = "gzip" if pack is gzip.compress else "deflate"
    seen = inspected(
        dumps(completion()),
        request_body=pack(dumps({**ASKED, "n": 2})),
        request_headers=(("Content-Encoding", coding),),
    )
    assert ids(seen) == {"cross.choices-too-few"} and seen.model == "gpt-4o-mini"


def test_a_request_that_has_not_ended_is_not_known() -> None:
    inspector = Inspector(Exchange())
    inspector.request_head(HEAD, T + 1)
    inspector.request_body(dumps(ASKS_MUCH), T + 1)
    inspector.response_head(ResponseHead(200, JSON_HEADERS), T + 2)
    inspector.response_body(dumps(completion()), T + 3)
    inspector.end(Ended.COMPLETE, T + 4)
    assert ids(inspector.exchange) == set() and inspector.exchange.model is None


def test_a_request_may_come_in_any_pieces() -> None:
    inspector = Inspector(Exchange())
    inspector.request_head(HEAD, T + 1)
    for piece in byte_by_byte(dumps({**ASKED, "stream": True})):
        assert not inspector.request_body(piece, T + 1)
    inspector.request_end(T + 2)
    assert inspector.exchange.stream and inspector.exchange.model == "gpt-4o-mini"


def test_rules_about_header_fields_are_off_where_none_were_recorded() -> None:
    """P8."""
    for body, request in ((dumps(completion()), ASKED), (stream(*spoken("a")), STREAMED)):
        assert everything(inspected(body, request, headers=())) == set()
    assert ids(inspected(b"x", status=429, headers=())) == {"error.not-json"}


def test_rules_about_header_fields_are_on_where_one_was_recorded() -> None:
    assert ids(inspected(dumps(completion()), headers=(("date", "x"),))) == {
        "http.json-content-type"
    }


# -- content codings -------------------------------------------------------------------------------


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("GZIP", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstandard.compress),
    ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
    ("identity", bytes),
]
each_coding = pytest.mark.parametrize(
    ("coding", "pack"), CODINGS, ids=[f"{n}-{c}" for n, (c, _) in enumerate(CODINGS)]
)


@CUTS
@each_coding
def test_a_coded_body_is_inspected_like_a_plain_one(
    coding: str, pack: Callable[[bytes], bytes], cut: Cut
) -> None:
    bad = completion(created="yesterday")
    events = stream(opening(), chunk({"content": 7}), chunk(finish="stop"), done=False)
    for body, request, headers in (
        (dumps(bad), ASKED, JSON_HEADERS),
        (events, STREAMED, SSE_HEADERS),
    ):
        plain = inspected(body, request, headers=headers)
        field = ("content-encoding", coding)
        packed = pack(body)
        seen = inspected(packed, request, headers=(*headers, field), cut=cut)
        assert findings(seen) == findings(plain) and seen.inspection == "full"
        assert seen.response_bytes == len(packed)


@CUTS
@each_coding
def test_places_in_a_coded_body_count_decoded_bytes(
    coding: str, pack: Callable[[bytes], bytes], cut: Cut
) -> None:
    body = stream(opening(), b": " + b"x" * 50_000 + b"\n\n", chunk({"content": 7}))
    headers = (*SSE_HEADERS, ("content-encoding", coding))
    seen = inspected(pack(body), STREAMED, headers=headers, cut=cut)
    place = finding(seen, "chatstream.content-not-string").place
    assert (place.index, place.byte) == (2, body.index(b"data: ", 50_000))


@CUTS
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_coding_that_is_declared_and_not_applied_is_a_mismatch_and_nothing_else(
    coding: str, cut: Cut
) -> None:
    """P9: a body that can't be decoded is neither bad JSON nor a broken stream."""
    for body, request in ((dumps(completion()), ASKED), (stream(*spoken("a")), STREAMED)):
        headers = (("content-encoding", coding),)
        seen = inspected(body, request, headers=headers, cut=cut)
        assert ids(seen) == {"http.encoding-mismatch"}
        assert coding in finding(seen, "http.encoding-mismatch").evidence


@pytest.mark.parametrize(
    ("coding", "pack"), [c for c in CODINGS if c[0] in ("gzip", "deflate", "br", "zstd")]
)
def test_a_coded_body_that_ends_too_early_is_a_mismatch_if_it_ended_of_itself(
    coding: str, pack: Callable[[bytes], bytes]
) -> None:
    body, headers = pack(dumps(completion()))[:-4], (*JSON_HEADERS, ("content-encoding", coding))
    assert ids(inspected(body, headers=headers)) == {"http.encoding-mismatch"}
    broken = inspected(body, headers=headers, ended=Ended.UPSTREAM_ABORTED)
    assert ids(broken) == {"http.truncated"}
    for ended in (Ended.CLIENT_CLOSED, Ended.TIMEOUT, Ended.SHUTDOWN):
        assert ids(inspected(body, headers=headers, ended=ended)) == set()


def test_what_was_found_in_a_coded_stream_before_it_broke_stays_found() -> None:
    packed = gzip.compress(stream(chunk({"content": "a"}), *[chunk({"content": "b"})] * 500))
    headers = (*SSE_HEADERS, ("content-encoding", "gzip"))
    seen = inspected(packed[:-200], STREAMED, headers=headers, ended=Ended.UPSTREAM_ABORTED)
    assert ids(seen) == {"chatstream.role-missing", "http.truncated"}


@pytest.mark.parametrize("coding", ["rot13", "gzip, rot13", "compress", "aes128gcm"])
def test_a_coding_that_is_not_known_is_said_and_no_finding(coding: str) -> None:
    seen = inspected(b"\x00\x01", headers=(*JSON_HEADERS, ("content-encoding", coding)))
    assert ids(seen) == set() and seen.inspection == "none (unknown-coding)"


def test_more_codings_than_anyone_needs_are_said_to_be_too_many() -> None:
    packed = dumps(completion())
    for _ in range(5):
        packed = gzip.compress(packed)
    seen = inspected(packed, headers=(*JSON_HEADERS, ("content-encoding", "gzip," * 4 + "gzip")))
    assert ids(seen) == set() and seen.inspection == "partial (decoded-limit)"


def test_bytes_behind_the_end_of_a_coding_hide_nothing_of_what_came_before() -> None:
    bad = completion(created="yesterday")
    headers = (*JSON_HEADERS, ("content-encoding", "gzip"))
    assert "chat.created-type" in ids(
        inspected(gzip.compress(dumps(bad)) + b"\0\0", headers=headers)
    )


@pytest.mark.parametrize(
    ("offered", "coding", "broken"),
    [
        ((), "br", False),
        (("gzip, deflate",), "gzip", False),
        (("gzip, deflate",), "br", True),
        (("gzip, deflate",), "zstd", True),
        (("gzip", "br"), "br", False),
        (("GZip;q=0.5",), "gzip", False),
        (("*",), "br", False),
        (("gzip, *;q=0.1",), "br", False),
        (("gzip;q=1.0, br;q=0",), "br", True),
        (("gzip, *;q=0",), "br", True),
        (("br, *;q=0",), "br", False),
        (("x-gzip",), "gzip", False),
        (("",), "gzip", True),
        (("identity",), "gzip", True),
    ],
)
def test_a_coding_must_be_one_that_the_client_offered(
    offered: tuple[str, ...], coding: str, broken: bool
) -> None:
    """RFC 9110 12.5.3: without the field any coding is acceptable, with q=0 none is."""
    pack = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstandard.compress}[coding]
    seen = inspected(
        pack(dumps(completion())),
        headers=(*JSON_HEADERS, ("content-encoding", coding)),
        request_headers=tuple(("Accept-Encoding", value) for value in offered),
    )
    assert ids(seen) == ({"http.encoding-not-offered"} if broken else set())


# -- answers without a body ------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 404, 429])
def test_an_answer_to_head_has_no_body_whatever_its_fields_say(status: int) -> None:
    headers = (*JSON_HEADERS, ("content-length", "1000"), ("content-encoding", "gzip"))
    seen = inspected(b"", None, method="HEAD", target="/v1/models", status=status, headers=headers)
    assert ids(seen) <= {"http.retry-after-missing"}


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (200, {"http.body-empty"}),
        (204, {"http.body-empty"}),
        (205, {"http.status-2xx-odd"}),
        (304, set()),
        (302, {"http.redirect"}),
        (404, {"error.not-json"}),
    ],
)
def test_an_empty_body_is_found_where_json_was_due(status: int, found: set[str]) -> None:
    assert ids(inspected(b"", status=status)) == found


@pytest.mark.parametrize("ended", [Ended.CLIENT_CLOSED, Ended.TIMEOUT, Ended.SHUTDOWN])
def test_a_body_that_was_not_waited_for_is_not_empty(ended: Ended) -> None:
    """P2."""
    for request in (ASKED, STREAMED):
        assert ids(inspected(b"", request, ended=ended)) == set()
        assert ids(inspected(dumps(completion())[:40], request, ended=ended)) == set()


# -- schema checks ---------------------------------------------------------------------------------

SCHEMA = {"type": "object", "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def calling(calls: int = 1) -> tuple[Inspector, list[Output]]:
    """An exchange that has ended with this many calls, and what came of its end."""
    inspector = started({**ASKED, "tools": [TOOL]}, headers=JSON_HEADERS)
    entries = [CALL | {"id": f"call_{n}"} for n in range(calls)]
    body = completion({"content": None, "tool_calls": entries})
    body["choices"][0]["finish_reason"] = "tool_calls"
    inspector.response_body(dumps(body), T + 20)
    return inspector, list(inspector.end(Ended.COMPLETE, T + 21))


MISMATCH = SchemaResult((SchemaError("", "required"),))


def test_an_exchange_with_schema_checks_out_stays_open() -> None:
    inspector, outputs = calling(2)
    checks = [o for o in outputs if isinstance(o, SchemaCheck)]
    assert [(c.schema, c.document) for c in checks] == [(SCHEMA, {})] * 2
    assert inspector.pending == 2 and Closed(inspector.exchange) not in outputs


def test_the_last_result_closes_it() -> None:
    inspector, outputs = calling(2)
    first, second = (o for o in outputs if isinstance(o, SchemaCheck))
    assert list(inspector.schema_result(second.ticket, SchemaResult(), T + 22)) == []
    assert inspector.pending == 1
    [found, closed] = inspector.schema_result(first.ticket, MISMATCH, T + 23)
    assert isinstance(found, Found)
    assert found.violation.rule.id == "tools.args-strict-schema-mismatch"
    assert found.violation.at == T + 23
    assert found.violation.place.pointer == "/choices/0/message/tool_calls/0/function/arguments"
    assert closed == Closed(inspector.exchange) and inspector.pending == 0


def test_results_that_do_not_come_in_time_are_given_up_and_said() -> None:
    inspector, outputs = calling(2)
    first, second = (o for o in outputs if isinstance(o, SchemaCheck))
    inspector.schema_result(first.ticket, SchemaResult(), T + 22)
    assert list(inspector.expire(T + 23)) == [Closed(inspector.exchange)]
    assert inspector.exchange.inspection == "partial (schema-timeout)" and inspector.pending == 0
    assert list(inspector.schema_result(second.ticket, MISMATCH, T + 24)) == []
    assert list(inspector.expire(T + 25)) == []
    assert ids(inspector.exchange) == set()


@pytest.mark.parametrize("reason", ["timeout", "too-large", "remote-reference", "bad-schema"])
def test_a_schema_that_could_not_be_checked_is_said(reason: str) -> None:
    inspector, outputs = calling()
    [check] = (o for o in outputs if isinstance(o, SchemaCheck))
    result = SchemaResult(unchecked=reason)
    assert list(inspector.schema_result(check.ticket, result, T + 22)) == [
        Closed(inspector.exchange)
    ]
    assert inspector.exchange.inspection == f"partial (schema-{reason})"


def test_an_open_exchange_does_not_expire() -> None:
    inspector = started()
    assert list(inspector.expire(T + 20)) == []
    assert inspector.exchange.inspection == "full"
