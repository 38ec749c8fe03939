"""A JSON body is decoded strictly: each fault has its rule and its byte, and hides what follows from it."""

from __future__ import annotations

import pytest

from tests.validators.answers import (
    ASKED,
    JSON_HEADERS,
    SSE_HEADERS,
    STREAMED,
    completion,
    dumps,
    everything,
    finding,
    ids,
    inspected,
)

BODY = dumps(completion())


@pytest.mark.parametrize(
    ("body", "rule", "needle", "pointer"),
    [
        (BODY[:-1], "http.json-invalid", None, ""),
        (BODY.replace(b'"index":0', b"index:0"), "http.json-invalid", b"index:0", ""),
        (BODY + b"\n{}", "http.json-trailing", b"\n{}", ""),
        (BODY + b"data: [DONE]", "http.json-trailing", b"data: [", ""),
        (b"\xef\xbb\xbf" + BODY, "http.json-bom", b"\xef", ""),
        (b"\r\n" + BODY, "http.json-whitespace", b"\r\n", ""),
        (
            BODY.replace(b'"Hello"', b'"\\ud83d"'),
            "http.json-surrogate",
            b"\\ud83d",
            "/choices/0/message/content",
        ),
        (BODY.replace(b'"Hello"', b'"\xff"'), "http.utf8-invalid", b"\xff", ""),
        (
            BODY.replace(b'"index":0', b'"index":1,"index":0'),
            "http.json-duplicate-key",
            b'"index":0',
            "/choices/0/index",
        ),
        (
            BODY.replace(b'"usage":', b'"x":{"y":[NaN]},"usage":'),
            "http.json-nonfinite",
            b"NaN",
            "/x/y/0",
        ),
        (BODY.replace(b'"usage":', b'"x":1e999,"usage":'), "http.json-nonfinite", b"1e999", "/x"),
    ],
)
def test_a_fault_of_json_is_found_at_its_byte_and_pointer(
    body: bytes, rule: str, needle: bytes | None, pointer: str
) -> None:
    place = finding(inspected(body), rule).place
    start = body.index(needle) if needle else len(body)
    assert place.byte in (start, start + (needle or b"").startswith(b"\n"))
    assert place.pointer == pointer


@pytest.mark.parametrize("body", [b"", b"{", b"nope", b"<html>", b'{"choices": [}', b"\xff\xfe"])
def test_a_body_that_is_no_json_breaks_no_rule_about_fields(body: bytes) -> None:
    """P9."""
    found = everything(inspected(body))
    assert {rule.partition(".")[0] for rule in found} == {"http"}
    assert len(ids(inspected(body))) >= 1


def test_a_document_with_forgivable_faults_is_checked_all_the_same() -> None:
    body = b"\xef\xbb\xbf" + dumps(completion(created="x")) + b"}"
    assert ids(inspected(body)) == {"http.json-bom", "http.json-trailing", "chat.created-type"}


@pytest.mark.parametrize(
    ("body", "html"),
    [
        (b"<!DOCTYPE html><p>", True),
        (b"<!doctype HTML>", True),
        (b"  \n<html lang=en>", True),
        (b"<head></head>", True),
        (b"<body>502", True),
        (b"<!-- x --><html>", True),
        (b"<?xml version='1.0'?>", True),
        (b"<h1>502</h1>", False),
        (b'"<html>"', False),
        (b"x<html>", False),
    ],
)
def test_html_is_told_from_what_is_merely_no_json(body: bytes, html: bool) -> None:
    for request in (ASKED, STREAMED):
        assert ("http.html-200" in ids(inspected(body, request))) is html


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        ("application/json", False),
        ("application/json; charset=utf-8", False),
        ("Application/JSON", False),
        (" application/json ", False),
        ("application/problem+json", False),
        ("application/vnd.api+json;v=1", False),
        ("text/json", True),
        ("text/plain", True),
        ("text/event-stream", True),
        ("application/jsonx", True),
        ("", True),
    ],
)
def test_the_media_type_of_json_is_a_json_one(kind: str, broken: bool) -> None:
    seen = inspected(BODY, headers=(("Content-Type", kind), ("x-request-id", "r")))
    assert ids(seen) == ({"http.json-content-type"} if broken else set())


def test_a_media_type_is_shown_as_a_literal_and_not_at_any_length() -> None:
    seen = inspected(BODY, headers=(("content-type", "text/\x1b[31m" + "x" * 5_000),))
    shown = finding(seen, "http.json-content-type").evidence
    assert "\x1b" not in shown and len(shown) < 120


def test_a_body_is_one_document_and_its_place_has_no_number() -> None:
    seen = inspected(dumps([]))
    place = finding(seen, "chat.body-not-object").place
    assert (place.side, place.unit, place.index, place.byte) == ("response", "body", 0, 0)


@pytest.mark.parametrize(
    "target", ["/v1/embeddings", "/v1/completions", "/v1/models", "/v1/responses"]
)
def test_the_body_of_every_operation_is_json(target: str) -> None:
    method = "GET" if target == "/v1/models" else "POST"
    request = None if method == "GET" else ASKED
    for body, rule in ((b"{", "http.json-invalid"), (b"", "http.body-empty")):
        assert rule in ids(inspected(body, request, method=method, target=target))


def test_a_stream_that_was_answered_with_json_is_named_once_and_its_type_is_no_matter() -> None:
    for headers in (JSON_HEADERS, SSE_HEADERS, (("content-type", "text/plain"),)):
        assert ids(inspected(BODY, STREAMED, headers=headers)) == {
            "cross.stream-answered-with-json"
        }
