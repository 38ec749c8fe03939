"""A HAR is read as each tool writes it: what was saved is checked, what was not is said."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from teeline.proxy.inputs.har import NO_ANSWER, NO_BODY, is_har, items
from teeline.proxy.inputs.items import Item, Problem
from teeline.validators.exchangefile import RecordedExchange, replay
from teeline.validators.inspector import Inspector
from teeline.validators.model import Ended, Exchange
from teeline.validators.rules import examples

NOW = 1_796_000_000.0
EXAMPLE = examples.exchange({"on": "chat"})
ANSWER = base64.b64decode(EXAMPLE["response"]["body_base64"]).decode()
REQUEST = json.dumps(EXAMPLE["request"])


def entry(
    *,
    request: Mapping[str, Any] | None = None,
    response: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """An entry with nothing wrong in it."""
    return {
        "startedDateTime": "2026-11-01T10:00:00.000Z",
        "time": 350.5,
        "request": {
            "method": "POST",
            "url": "https://relay.example/v1/chat/completions?key=secret",
            "httpVersion": "h2",
            "headers": [{"name": "content-type", "value": "application/json"}],
            "postData": {"mimeType": "application/json", "text": REQUEST},
            **(request or {}),
        },
        "response": {
            "status": 200,
            "headers": [{"name": "content-type", "value": "application/json"}],
            "content": {"size": len(ANSWER), "mimeType": "application/json", "text": ANSWER},
            "bodySize": -1,
            **(response or {}),
        },
        "timings": {
            "blocked": 1,
            "dns": -1,
            "connect": 20,
            "ssl": 10,
            "send": 1,
            "wait": 278,
            "receive": 50.5,
        },
        **more,
    }


def har(*entries: Any) -> dict[str, Any]:
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "x", "version": "1"},
            "entries": list(entries),
        }
    }


def read(*entries: Any) -> list[Item | Problem]:
    return list(items(har(*entries), "x.har", NOW))


def recorded(**changes: Any) -> RecordedExchange:
    (item,) = read(entry(**changes))
    assert isinstance(item, Item) and isinstance(item.source, RecordedExchange)
    return item.source


def unseen(**changes: Any) -> Exchange:
    (item,) = read(entry(**changes))
    assert isinstance(item, Item) and isinstance(item.source, Exchange)
    return item.source


def content(**members: Any) -> dict[str, Any]:
    return {"content": members}


def test_an_entry_becomes_the_exchange_that_it_was() -> None:
    found = recorded()
    assert found.request.method == "POST"
    assert found.request_body == REQUEST.encode()
    assert found.response.status == 200
    assert found.reads == (ANSWER.encode(),)
    assert found.ended is Ended.COMPLETE


def test_the_host_is_known_to_the_inspector_and_the_query_is_not_kept() -> None:
    inspector = Inspector(Exchange())
    replay(inspector, recorded(), NOW)
    assert inspector.exchange.marks.host == "relay.example"
    assert inspector.exchange.path == "/v1/chat/completions"
    assert inspector.exchange.violations[0].severity.word == "info"


START = 1_793_527_200.0


def test_timings_give_the_moments_and_ssl_is_part_of_connect() -> None:
    found = recorded()
    assert found.at == START
    assert found.times == pytest.approx((0.3, 0.3505, 0.3505))


def test_the_reads_of_a_stream_were_not_saved_and_get_no_times() -> None:
    """All in one read after a long wait would look like a relay that buffers."""
    found = recorded(response=content(text='data: {"a":1}\n\ndata: [DONE]\n\n'))
    assert (found.at, found.times) == (START, ())


@pytest.mark.parametrize(
    "started", [None, 5, "", "yesterday", "1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "9" * 40]
)
def test_a_clock_that_can_not_be_believed_gives_no_time(started: Any) -> None:
    assert recorded(startedDateTime=started).at is None


@pytest.mark.parametrize(
    "started",
    [
        "2026-11-01T10:00:00.000Z",
        "2026-11-01T12:00:00.000+02:00",
        "2026-11-01T10:00:00.0000000Z",
        " 2026-11-01T10:00:00+00:00",
    ],
)
def test_times_are_read_as_each_tool_writes_them(started: str) -> None:
    assert recorded(startedDateTime=started).at == START


@pytest.mark.parametrize("timings", [None, [], {}, {"wait": "x", "send": None, "receive": True}])
def test_timings_of_any_shape_step_never_back(timings: Any) -> None:
    times = recorded(timings=timings, time=-1).times
    assert list(times) == sorted(times)


# -- bodies --------------------------------------------------------------------------------------


def test_base64_is_decoded_with_line_breaks_in_it() -> None:
    text = base64.encodebytes(ANSWER.encode()).decode()
    assert recorded(response=content(text=text, encoding="base64")).reads == (ANSWER.encode(),)


def test_text_that_is_called_base64_and_is_none_is_text() -> None:
    assert recorded(response=content(text=ANSWER, encoding="base64")).reads == (ANSWER.encode(),)


def test_a_request_in_base64_is_decoded() -> None:
    data = {"text": base64.b64encode(REQUEST.encode()).decode(), "encoding": "base64"}
    assert recorded(request={"postData": data}).request_body == REQUEST.encode()


def test_a_body_was_decoded_so_that_its_content_encoding_is_gone() -> None:
    headers = [{"name": "Content-Encoding", "value": "br"}, {"name": "x", "value": "y"}]
    found = recorded(response={"headers": headers})
    assert found.response.headers == (("x", "y"),)


def test_a_body_that_was_saved_with_its_coding_keeps_it() -> None:
    import gzip

    text = base64.b64encode(gzip.compress(ANSWER.encode())).decode()
    headers = [{"name": "Content-Encoding", "value": "gzip"}]
    found = recorded(response={"headers": headers, **content(text=text, encoding="base64")})
    assert found.response.headers == (("Content-Encoding", "gzip"),)


def test_pseudo_fields_are_no_header_fields() -> None:
    headers = [
        {"name": ":authority", "value": "x"},
        {"name": "Accept", "value": "*/*", "comment": ""},
    ]
    assert recorded(request={"headers": headers}).request.headers == (("Accept", "*/*"),)


def test_half_a_surrogate_pair_costs_nobody_an_entry() -> None:
    found = recorded(
        request={"headers": [{"name": "x", "value": "\ud800"}]},
        response=content(text='{"a":"\ud800"}'),
    )
    assert found.reads == (b'{"a":"\xed\xa0\x80"}',)


@pytest.mark.parametrize(
    "response",
    [
        content(size=0, mimeType="text/event-stream"),
        content(size=120, mimeType="text/event-stream", text=""),
        content(comment="Response bodies are not included.", size=0),
        {"content": None},
        {"content": {"text": 5}},
    ],
)
def test_a_body_that_was_not_saved_is_no_empty_body(response: dict[str, Any]) -> None:
    exchange = unseen(response=response)
    assert exchange.inspection == NO_BODY
    assert (exchange.status, exchange.operation) == (200, "chat")
    assert exchange.path == "/v1/chat/completions"


def test_an_empty_body_that_was_saved_is_empty() -> None:
    assert recorded(response=content(text="", size=0)).reads == ()
    assert recorded(response={"bodySize": 0, **content(size=0)}).reads == ()
    assert recorded(response={"status": 204, "content": {}}).reads == ()


@pytest.mark.parametrize("status", [0, -1, 101])
def test_an_exchange_without_an_answer_is_listed_and_not_inspected(status: int) -> None:
    exchange = unseen(response={"status": status, "_error": "net::ERR_CONNECTION_REFUSED"})
    assert exchange.inspection == NO_ANSWER
    assert exchange.status is None


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (None, Ended.COMPLETE),
        ("", Ended.COMPLETE),
        ("net::ERR_ABORTED", Ended.CLIENT_CLOSED),
        ("NS_BINDING_ABORTED", Ended.CLIENT_CLOSED),
        ("net::ERR_INCOMPLETE_CHUNKED_ENCODING", Ended.UPSTREAM_ABORTED),
        ("net::ERR_CONNECTION_RESET", Ended.UPSTREAM_ABORTED),
    ],
)
def test_what_ended_an_answer_before_its_time_is_told_apart(error: Any, ended: Ended) -> None:
    assert recorded(response={"_error": error}).ended is ended


# -- entries -------------------------------------------------------------------------------------


def page(url: str, method: str = "GET", **response: Any) -> dict[str, Any]:
    return entry(request={"method": method, "url": url, "postData": None}, response=response)


def test_a_page_s_own_files_are_no_calls_and_the_numbers_count_them() -> None:
    html = {"mimeType": "text/html", "text": "<html>"}
    found = read(
        page("https://site.example/", content=html),
        page("https://site.example/models", content=html),
        page("https://relay.example/v1/chat/completions", "OPTIONS"),
        entry(comment="the  first\ncall"),
        page("https://relay.example/v1/models", content=html),
    )
    assert [item.name for item in found if isinstance(item, Item)] == [
        "entry 4: the first call",
        "entry 5",
    ]


def test_a_request_with_a_model_is_a_call_wherever_it_went() -> None:
    (item,) = read(entry(request={"url": "https://relay.example/chat"}))
    assert isinstance(item, Item)


def test_a_har_without_a_call_says_so() -> None:
    assert read(page("https://site.example/"), page("https://site.example/a.js")) == [
        Problem("x.har", "none of its 2 entries looks like a call of the API")
    ]


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (5, "request must be an object"),
        ({}, "request must be an object"),
        (entry(request={"url": ""}), "request.url must be a string"),
        (entry(request={"method": "A B", "url": "/v1/chat/completions"}), ""),
        (entry(response={"status": "200"}), "response.status must be an integer"),
        (entry(response={"status": True}), "response.status must be an integer"),
        (entry(response={"headers": 5}), "response.headers must be a list"),
        (entry(response={"headers": [5]}), "must hold objects with name and value"),
        ({**entry(), "response": None}, "response must be an object"),
    ],
)
def test_a_broken_entry_is_named_and_costs_the_others_nothing(broken: Any, text: str) -> None:
    found = read(entry(), broken, entry())
    problems = [p.text for p in found if isinstance(p, Problem)]
    if text:
        assert len(problems) == 1
        assert problems[0].startswith("entry 2: ")
        assert text in problems[0]
    assert [i.name for i in found if isinstance(i, Item)] == ["entry 1", "entry 3"]


@pytest.mark.parametrize("entries", [None, {}, "x"])
def test_a_har_without_a_list_of_entries_is_none(entries: Any) -> None:
    (problem,) = items({"log": {"entries": entries}}, "x.har", NOW)
    assert isinstance(problem, Problem) and "log.entries must be a list" in problem.text


def test_what_is_meant_as_a_har_is_told_by_its_log() -> None:
    assert is_har(har())
    assert not is_har({"log": []})
    assert not is_har([])
    assert not is_har({"endpoint": "/v1/models"})


def sent(creator: str, *entries: Any) -> list[dict[str, str]]:
    """The request fields of each exchange in a HAR of some recorder."""
    document = har(*entries)
    document["log"]["creator"]["name"] = creator
    found = [item for item in items(document, "x.har", NOW) if isinstance(item, Item)]
    return [dict(i.source.request.headers) for i in found if isinstance(i.source, RecordedExchange)]


def test_a_key_that_chrome_takes_out_of_a_har_is_not_missed() -> None:
    """Its export leaves authorization and cookies out unless it is told not to."""
    kept = [{"name": "content-type", "value": "application/json"}]
    with_key = entry(request={"headers": [*kept, {"name": "Authorization", "value": "Bearer k"}]})
    plain = {"content-type": "application/json"}
    assert sent("WebInspector", entry(), 7) == [plain | {"authorization": "<redacted>"}]
    assert sent("mitmproxy", entry()) == [plain]
    assert sent("WebInspector", entry(), with_key) == [plain, plain | {"Authorization": "Bearer k"}]
    assert sent("WebInspector", entry(request={"headers": []})) == [{}]
