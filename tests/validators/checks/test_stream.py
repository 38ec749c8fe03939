"""An event stream as a body: where its events begin and end, how it may end, and what each event holds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from teeline.validators.model import Ended, Exchange
from tests.validators.answers import (
    SSE_HEADERS,
    STREAMED,
    WITH_USAGE,
    chunk,
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
from tests.validators.exchanges import NOW, byte_by_byte, findings

CHUNKS = spoken("Hello", " there")
BOM = b"\xef\xbb\xbf"
BODY = stream(*CHUNKS)
STARTS = [n for n in range(len(BODY)) if BODY.startswith(b"data:", n)]


def read(body: bytes, ended: Ended = Ended.COMPLETE, request: Any = STREAMED) -> Exchange:
    return inspected(body, request, headers=SSE_HEADERS, ended=ended)


# -- the end, at every byte ------------------------------------------------------------------------

LEFT = [Ended.CLIENT_CLOSED, Ended.TIMEOUT, Ended.SHUTDOWN]


@pytest.mark.parametrize("ended", LEFT)
def test_a_stream_that_was_left_at_any_byte_lacks_nothing(ended: Ended) -> None:
    """P2."""
    for end in range(len(BODY)):
        assert ids(read(BODY[:end], ended, WITH_USAGE)) == set()


@pytest.mark.parametrize("ended", LEFT)
def test_a_stream_that_was_left_behind_its_end_marker_is_judged_whole(ended: Ended) -> None:
    """Clients close their connection on reading [DONE]: what the answer lacks, it lacks."""
    assert ids(read(BODY, ended, WITH_USAGE)) == {"chatstream.usage-missing"}


def test_a_stream_that_broke_off_at_any_byte_is_truncated_and_nothing_else() -> None:
    """P9: what is missing lies behind the break."""
    for end in range(len(BODY) + 1):
        assert ids(read(BODY[:end], Ended.UPSTREAM_ABORTED, WITH_USAGE)) == {"http.truncated"}


def test_a_stream_that_ended_of_itself_at_any_byte_says_what_is_missing() -> None:
    """Inside a line, behind an event without its blank line, between events: each has its own rule."""
    for end in range(16, len(BODY)):
        start = max(s for s in STARTS if s < end)
        block, number = BODY[start:end], STARTS.index(start)
        found = ids(read(BODY[:end]))
        if end in STARTS:  # after a whole event
            wanted = {"chatstream.done-missing"}
            if number < 3:
                wanted.add("chatstream.finish-missing")
        elif block.startswith(b"data: [DONE]"):
            wanted = {"sse.done-unterminated"}
        elif number < 4 and block.rstrip(b"\n").endswith(b"]}"):
            wanted = {"sse.final-blank-missing", "chatstream.done-missing"}
            if number < 3:
                wanted.add("chatstream.finish-missing")
        else:
            wanted = {"sse.eof-mid-event"}
        assert found == wanted, (end, block)


@pytest.mark.parametrize(
    ("tail", "found"),
    [
        (b"", set()),
        (b"\n", set()),
        (b": bye", set()),
        (b": bye\n", set()),
        (b"event: x\n", set()),
        (b"da", {"sse.eof-mid-event"}),
        (b"data", {"sse.eof-mid-event"}),
        (b"data: ", {"sse.eof-mid-event"}),
        (b"data: {", {"sse.eof-mid-event"}),
        (b"data: {}", {"sse.final-blank-missing", "chatstream.data-after-done"}),
        (b"data: [DONE]", {"sse.done-unterminated", "chatstream.done-repeated"}),
        (b'{"error": {"message": "x"}}\n', {"sse.unprefixed-lines"}),
    ],
)
def test_what_stands_behind_the_last_event_is_looked_at(tail: bytes, found: set[str]) -> None:
    assert ids(read(BODY + tail)) == found


# -- [DONE] ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"data: [DONE]", set()),
        (b"data:[DONE]", set()),
        (b"data: [DONE] ", {"chatstream.done-suffix"}),
        (b"data: [DONE]x", {"chatstream.done-suffix"}),
        (b"data: [done]", {"chatstream.done-malformed"}),
        (b"data: [Done]", {"chatstream.done-malformed"}),
        (b'data: "[DONE]"', {"chatstream.done-malformed"}),
        (b"data:  [DONE]", {"chatstream.done-malformed"}),
        (b'data: {"done": true}', {"chatstream.done-malformed"}),
        (b'data: {"done":true}', {"chatstream.done-malformed"}),
        (b'data: {"done": false}', None),
        (b"event: done\ndata: [DONE]", set()),
        (b"data: [DONE]\ndata: ", None),
    ],
)
def test_done_has_one_spelling_and_the_others_still_end_the_stream(
    line: bytes, found: set[str] | None
) -> None:
    body = stream(*CHUNKS, done=False) + line + b"\n\n"
    if found is None:
        assert "chatstream.done-malformed" not in ids(read(body))
    else:
        assert ids(read(body)) == found


def test_done_is_not_counted_among_the_events() -> None:
    seen = read(BODY + b"data: [DONE]\n\n" + stream(CHUNKS[1], done=False))
    assert finding(seen, "chatstream.data-after-done").place.index == 5
    assert read(BODY).events == 4


# -- places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("before", [b"", b": c\n", b"event: x\nid: 1\n", b": a\n: b\n\n", BOM])
def test_the_place_of_an_event_is_its_first_data_line_in_the_body(
    before: bytes, end: bytes
) -> None:
    events = [opening(), chunk({"content": "é" * 9}), chunk({"content": 7})]
    rest = b"" if before == BOM else before
    blocks = before + rest.join(b"data: " + dumps(event) + b"\n\n" for event in events)
    body = blocks.replace(b"\n", end)
    place = finding(read(body, Ended.CLIENT_CLOSED), "chatstream.content-not-string").place
    starts = [n for n in range(len(body)) if body.startswith(b"data: {", n)]
    assert (place.side, place.unit, place.index, place.byte) == ("response", "event", 3, starts[2])
    assert place.pointer == "/choices/0/delta/content"


def test_a_block_without_data_has_no_number_and_takes_none() -> None:
    body = b"event: ping\n\n" + stream(opening(), b"retry: 1\n\n", chunk({"content": 7}))
    seen = read(body)
    assert finding(seen, "sse.block-without-data").count == 2
    assert finding(seen, "chatstream.content-not-string").place.index == 2


@pytest.mark.parametrize(
    ("value", "rule", "needle", "pointer"),
    [
        (b'"content":NaN', "http.json-nonfinite", b"NaN", "/choices/0/delta/content"),
        (b'"content":"\\ud83d"', "http.json-surrogate", b"\\ud83d", "/choices/0/delta/content"),
        (b'"x":1,"x":2', "http.json-duplicate-key", b'"x":2', "/choices/0/delta/x"),
        (b'"content":"\xff"', "sse.utf8-invalid", b"\xff", ""),
        (b'"content":x', "sse.data-invalid-json", b"x}", ""),
    ],
)
def test_the_place_of_a_fault_inside_an_event_is_its_byte_in_the_body(
    value: bytes, rule: str, needle: bytes, pointer: str
) -> None:
    bad = b"data: " + dumps(chunk({"content": "?"})).replace(b'"content":"?"', value) + b"\n\n"
    body = stream(opening(), b": c\n\n", bad, chunk(finish="stop"))
    place = finding(read(body), rule).place
    assert (place.index, place.pointer) == (2, pointer)
    assert place.byte == body.index(needle, body.index(b": c"))


def test_a_finding_that_only_the_end_shows_lies_at_the_last_event_of_what_it_is_about() -> None:
    body = stream(opening(0), opening(1), chunk({"content": "x"}, "stop", 1))
    place = finding(read(body, request={**STREAMED, "n": 2}), "chatstream.finish-missing").place
    assert (place.index, place.byte) == (1, 0)
    place = finding(read(stream(*CHUNKS, done=False)), "chatstream.done-missing").place
    assert place.index == 4


def test_counts_go_over_the_whole_stream() -> None:
    bad = [chunk({"content": n}) for n in range(5)]
    seen = streamed(opening(), *bad, chunk(finish="stop"))
    violation = finding(seen, "chatstream.content-not-string")
    assert (violation.count, violation.place.index) == (5, 2)


def test_a_finding_has_the_time_of_the_read_that_showed_it() -> None:
    assert finding(streamed([]), "chatstream.chunk-not-object").at == NOW


# -- what one event holds --------------------------------------------------------------------------


def between(*events: Any) -> bytes:
    """Between the first chunk of an answer and its rest."""
    return stream(opening(), *events, chunk({"content": "x"}), chunk(finish="stop"))


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (b"data\n\n", {"sse.empty-data"}),
        (b"data: \n\n", {"sse.empty-data"}),
        (b"data:  \n\n", {"sse.empty-data", "sse.extra-space"}),
        (b"data: x\n\n", {"sse.data-invalid-json"}),
        (b"data: 5\n\n", {"chatstream.chunk-not-object"}),
        (b"data: []\n\n", {"chatstream.chunk-not-object"}),
        (b"data: null\n\n", {"chatstream.chunk-not-object"}),
        (b'data: "[DON"\n\n', {"chatstream.chunk-not-object"}),
        (b"data:  " + dumps(CHUNKS[1]) + b"\n\n", {"sse.extra-space"}),
        (
            b"data: " + dumps(CHUNKS[1]) + b"\ndata: " + dumps(CHUNKS[1]) + b"\n\n",
            {"sse.separator-missing"},
        ),
        (b"data: " + dumps(CHUNKS[1]) + dumps(CHUNKS[1]) + b"\n\n", {"sse.several-json-values"}),
        (b"data: " + dumps(CHUNKS[1]) + b"}\n\n", {"sse.data-invalid-json"}),
        (b"data: " + dumps(CHUNKS[1]) + b" \n\n", set()),
        (b"data: " + dumps(CHUNKS[1]).replace(b",", b",\ndata: ") + b"\n\n", set()),
        (
            b"data: " + dumps(CHUNKS[1]).replace(b",", b",\n") + b"\n\n",
            {"sse.unprefixed-lines", "sse.data-invalid-json"},
        ),
        (b" data: " + dumps(CHUNKS[1]) + b"\n\n", {"sse.field-name-malformed"}),
        (dumps(CHUNKS[1]) + b"\n\n", {"sse.unprefixed-lines"}),
        (b": {}\n\n", set()),
        (b"data: \xef\xbb\xbf" + dumps(CHUNKS[1]) + b"\n\n", {"sse.data-invalid-json"}),
    ],
)
def test_what_is_wrong_with_an_event_is_said_once_and_the_stream_goes_on(
    block: bytes, found: set[str]
) -> None:
    assert ids(read(between(block))) == found


def test_each_value_of_one_event_is_a_chunk_of_its_own() -> None:
    """What a client loses is looked into all the same."""
    several = b"data: " + dumps(chunk({"content": 1})) + dumps(chunk({"content": 2})) + b"\n\n"
    lines = several.replace(b"}{", b"}\ndata: {")
    for block in (several, lines):
        assert finding(read(between(block)), "chatstream.content-not-string").count == 2


@pytest.mark.parametrize("join", [b"", b"\ndata: "])
def test_an_unreadable_event_takes_what_may_have_been_in_it(join: bytes) -> None:
    """P9: a finish_reason that nobody can read is not missing."""
    bad = b"data: {" + join + b'"choices\n\n'
    assert ids(read(stream(opening(), bad))) == {"sse.data-invalid-json"}


def test_a_stream_of_another_operation_is_looked_into_as_far_as_it_is_json() -> None:
    body = b"data: {\n\ndata: {}\n\n"
    for target in ("/v1/completions", "/v1/embeddings"):
        seen = inspected(body, STREAMED, target=target, headers=SSE_HEADERS)
        assert "sse.data-invalid-json" in ids(seen)


@pytest.mark.parametrize(
    "body",
    [b"", b"\n", b": x\n\n", b"data: [DONE]\n\n", b": x\n\ndata: [DONE]\n\n", b"event: x\n\n"],
)
def test_a_stream_without_a_chunk_is_no_answer(body: bytes) -> None:
    assert ids(read(body)) - {"sse.block-without-data"} == {"chatstream.no-chunks"}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_findings_come_out_the_same_in_reads_of_any_size(size: int) -> None:
    body = between(b"data: {}{}\n\n", b"id: 1\n\n", b"data: x\r\n\r\n", chunk({"content": 7}))
    pieces = [body[n : n + size] for n in range(0, len(body), size)]
    seen = inspected(body, STREAMED, cut=lambda _: pieces)
    assert (
        findings(seen)
        == findings(inspected(body, STREAMED))
        == findings(inspected(body, STREAMED, cut=byte_by_byte))
    )


def test_ordinary_streams_give_observations_alone() -> None:
    body = b"retry: 5\n\n" + BODY.replace(b"data: ", b"id: 1\nevent: message\ndata:").replace(
        b"\n", b"\r\n"
    )
    assert everything(read(body)) >= {"sse.line-ending", "sse.no-space", "sse.id-retry-fields"}
    assert ids(read(body)) == {"sse.block-without-data"}


def cpu_of_values(count: int) -> float:
    """CPU seconds that one event of so many JSON values takes; the better of two."""
    body = stream(opening(), b"data: " + b"{}" * count + b"\n\n")

    def once() -> float:
        start = time.process_time()
        assert "sse.several-json-values" in ids(read(body))
        return time.process_time() - start

    return min(once() for _ in range(2))


def test_an_event_of_many_values_costs_what_its_bytes_cost() -> None:
    """One event holds up every other stream: 32 times the bytes, not 32 times 256 times the work."""
    assert cpu_of_values(16_000) < 4 * 32 * cpu_of_values(500)
