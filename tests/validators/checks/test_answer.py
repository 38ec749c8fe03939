"""What an answer's body is shows in its first bytes, not in its fields, and however they are cut."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from teeline.validators.checks.answer import AnswerBody
from teeline.validators.checks.context import Context
from teeline.validators.checks.request import facts_of
from teeline.validators.events import ResponseHead
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Headers
from teeline.validators.operation import Operation
from tests.validators.answers import (
    ASKED,
    JSON_HEADERS,
    SSE_HEADERS,
    STREAMED,
    completion,
    dumps,
    everything,
    ids,
    inspected,
    opening,
    spoken,
    stream,
)
from tests.validators.exchanges import byte_by_byte, findings

BOM = b"\xef\xbb\xbf"
JSON = dumps(completion())
SSE = stream(*spoken("Hello"))
HTML = b"<!DOCTYPE html><html><body>502</body></html>"
NDJSON = b"".join(dumps(event) + b"\n" for event in spoken("Hello"))
PLAIN = b"upstream request timeout"
LATE = b"error: upstream went away\n\n" + SSE
NO_TYPE: Headers = (("x-request-id", "req_1"),)
NOT_JSON = "http.json-content-type"
NOT_SSE = "sse.content-type"


@pytest.mark.parametrize(
    ("body", "request_", "headers", "found"),
    [
        # one JSON document
        (JSON, ASKED, JSON_HEADERS, set()),
        (b"\n\r\n \t" + JSON + b"\n", ASKED, JSON_HEADERS, set()),
        (BOM + JSON, ASKED, JSON_HEADERS, {"http.json-bom"}),
        (BOM + b"\n\n" + JSON, ASKED, JSON_HEADERS, {"http.json-bom"}),
        (JSON, STREAMED, SSE_HEADERS, {"cross.stream-answered-with-json"}),
        (JSON, STREAMED, JSON_HEADERS, {"cross.stream-answered-with-json"}),
        (JSON, None, JSON_HEADERS, set()),
        (JSON, ASKED, SSE_HEADERS, {NOT_JSON}),
        (JSON, ASKED, NO_TYPE, {NOT_JSON}),
        # an event stream
        (SSE, STREAMED, SSE_HEADERS, set()),
        (SSE, STREAMED, JSON_HEADERS, {NOT_SSE}),
        (SSE, STREAMED, NO_TYPE, {NOT_SSE}),
        (SSE, None, SSE_HEADERS, set()),
        (SSE, ASKED, SSE_HEADERS, {"cross.json-answered-with-stream"}),
        (SSE, ASKED, JSON_HEADERS, {"cross.json-answered-with-stream", NOT_SSE}),
        (b": comment first\n\n" + SSE, STREAMED, SSE_HEADERS, set()),
        (b":\n" + SSE, STREAMED, SSE_HEADERS, set()),
        (b"\n\n" + SSE, STREAMED, SSE_HEADERS, set()),
        (BOM + SSE, STREAMED, SSE_HEADERS, {"sse.bom"}),
        (b"retry: 5\n" + SSE, STREAMED, SSE_HEADERS, set()),
        (b"event: x\n" + SSE, STREAMED, SSE_HEADERS, set()),
        (SSE.replace(b"\n", b"\r\n"), STREAMED, SSE_HEADERS, set()),
        (SSE.replace(b"\n", b"\r"), STREAMED, SSE_HEADERS, set()),
        # a stream behind a first line that is none of the grammar's
        (b'error: {"code": 1}\n\n' + SSE, STREAMED, SSE_HEADERS, {"sse.unprefixed-lines"}),
        (LATE, STREAMED, SSE_HEADERS, set()),
        (LATE, STREAMED, JSON_HEADERS, {NOT_SSE}),
        # neither
        (NDJSON, STREAMED, SSE_HEADERS, {"sse.no-event-stream"}),
        (PLAIN, STREAMED, SSE_HEADERS, {"sse.no-event-stream"}),
        (PLAIN, ASKED, JSON_HEADERS, {"http.json-invalid"}),
        (HTML, STREAMED, SSE_HEADERS, {"http.html-200"}),
        (HTML, ASKED, JSON_HEADERS, {"http.html-200"}),
        (BOM + b"\n" + HTML, ASKED, JSON_HEADERS, {"http.html-200"}),
        (b"", STREAMED, SSE_HEADERS, {"chatstream.no-chunks"}),
        (b"\n \n", STREAMED, SSE_HEADERS, {"chatstream.no-chunks"}),
        (b"", ASKED, JSON_HEADERS, {"http.body-empty"}),
        (b" \n", ASKED, JSON_HEADERS, {"http.body-empty"}),
        # one byte
        (b"{", ASKED, JSON_HEADERS, {"http.json-invalid"}),
        (b"d", ASKED, JSON_HEADERS, {"http.json-invalid"}),
        (b"7", ASKED, JSON_HEADERS, {"chat.body-not-object"}),
        (b":", STREAMED, SSE_HEADERS, {"chatstream.no-chunks"}),
        (b"d", STREAMED, SSE_HEADERS, {"sse.no-event-stream"}),
        (b"7", STREAMED, SSE_HEADERS, {"sse.no-event-stream"}),
    ],
)
def test_each_kind_of_body_is_told_by_its_first_bytes(
    body: bytes, request_: Any, headers: Headers, found: set[str]
) -> None:
    assert ids(inspected(body, request_, headers=headers)) == found


ODD_STARTS = [
    JSON,
    SSE,
    HTML,
    NDJSON,
    PLAIN,
    LATE,
    BOM + SSE,
    BOM + JSON,
    b"\n\n" + JSON,
    b"\r\n : x\n\n" + SSE,
    b"  : x\n\n" + SSE,
    b"\n\t : x\n\n" + SSE,
    b"  data: x\n\n" + SSE,
    BOM + b"\n" * 100 + SSE,
    b" " * 100 + SSE,
    b"\n" * 100 + b" data: 1\n\n" + SSE,
    b"data" + b" " * 20 + b": x\n\n" + SSE,
    b"data\n\n" + SSE,
    b"dat",
    b"event",
    b"retry : 1\n\n" + SSE,
    b"DATA: x\n\n" + SSE,
    BOM,
    BOM[:2],
    BOM + BOM + SSE,
    b"id",
    b"\r\r\r" + SSE,
    b"[DONE]\n\n" + SSE,
    b'"data: x"',
    b"datadatadatadatadata: 1\n\n" + SSE,
]


@pytest.mark.parametrize("start", ODD_STARTS, ids=lambda start: repr(start[:24]))
def test_the_kind_does_not_depend_on_the_first_cuts(start: bytes) -> None:
    """Every way to cut the first bytes in three, asked for or not, whatever the fields say."""
    for request in (ASKED, STREAMED, None):
        for headers in (JSON_HEADERS, SSE_HEADERS):
            expected = findings(inspected(start, request, headers=headers))
            for a, b in combinations([*range(1, min(len(start), 10)), 18, 66, 70], 2):
                pieces = [p for p in (start[:a], start[a:b], start[b:]) if p]
                seen = inspected(start, request, headers=headers, cut=lambda _, p=pieces: p)  # type: ignore[misc]
                assert findings(seen) == expected, (a, b)
            seen = inspected(start, request, headers=headers, cut=byte_by_byte)
            assert findings(seen) == expected


def test_a_stream_is_looked_into_while_it_runs() -> None:
    """Its first line is enough: one byte more than its name."""
    ctx = context()
    body = AnswerBody(ctx)
    for piece in byte_by_byte(stream([], done=False)):
        body.feed(piece)
    assert ctx.report.has("chatstream.chunk-not-object")


def context(operation: Operation = Operation.CHAT, limits: Limits = DEFAULT_LIMITS) -> Context:
    ctx = Context(Exchange(), operation, limits)
    ctx.request = facts_of(STREAMED, operation)
    ctx.answers(ResponseHead(200, SSE_HEADERS))
    return ctx


@pytest.mark.parametrize("body", [JSON, SSE, HTML, b"\x00\xff" * 1000, b""])
def test_the_answer_to_any_other_operation_is_neither_looked_into_nor_kept(body: bytes) -> None:
    for target in ("/v1/audio/speech", "/v1/files/f/content"):
        seen = inspected(body, ASKED, target=target, limits=Limits(body=10))
        assert ids(seen) == set() and seen.inspection == "full"
        assert seen.response_bytes == len(body)


def test_an_error_of_any_other_operation_is_looked_into() -> None:
    assert ids(inspected(b"x", ASKED, target="/v1/audio/speech", status=500)) == {"error.not-json"}


@pytest.mark.parametrize("body", [JSON, SSE, HTML, NDJSON, PLAIN, b""])
@pytest.mark.parametrize("ended", [Ended.CLIENT_CLOSED, Ended.TIMEOUT, Ended.SHUTDOWN])
def test_a_body_that_was_left_says_nothing_of_its_end(body: bytes, ended: Ended) -> None:
    """P2, at any byte."""
    for end in range(0, len(body), 7):
        seen = inspected(body[:end], STREAMED, headers=NO_TYPE, ended=ended)
        assert ids(seen) <= {NOT_SSE}


@pytest.mark.parametrize("body", [JSON, HTML, NDJSON, PLAIN])
def test_a_body_that_broke_off_is_truncated_and_nothing_else(body: bytes) -> None:
    """P9."""
    for end in range(0, len(body), 7):
        seen = inspected(body[:end], ASKED, ended=Ended.UPSTREAM_ABORTED)
        assert ids(seen) == {"http.truncated"}


def test_a_status_of_an_error_decides_before_the_body_does() -> None:
    """P1: neither a stream nor a completion is looked for in the body of an error."""
    for body in (SSE, JSON, stream(opening())):
        found = everything(inspected(body, STREAMED, status=400))
        assert {rule.partition(".")[0] for rule in found} == {"error", "http"}
