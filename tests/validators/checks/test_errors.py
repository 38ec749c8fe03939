"""An error body is read for what a client gets to see of it, and for nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validators.answers import (
    ASKED,
    JSON_HEADERS,
    completion,
    dumps,
    everything,
    finding,
    ids,
    inspected,
    opening,
    streamed,
)

ERROR = {"message": "No", "type": "invalid_request_error", "param": None, "code": None}
RETRY = (*JSON_HEADERS, ("retry-after", "1"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-600, 600)
    | st.floats()
    | st.sampled_from(["", "x", "error", "server_error"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "type", "code", "param", "choices", "object", "detail", "msg"]
            ),
            inner,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 422, 429])
def test_an_official_error_breaks_nothing_under_any_status(status: int) -> None:
    assert ids(inspected(dumps({"error": ERROR}), status=status, headers=RETRY)) == set()


@pytest.mark.parametrize(
    "body",
    [
        completion(),
        {"error": ERROR, "choices": [], "id": 5, "usage": "none"},
        {"error": ERROR, **completion(created="x")},
        {"error": ERROR, "object": "response", "output": None},
    ],
)
def test_a_body_with_the_shape_of_an_answer_is_an_error_all_the_same(body: Any) -> None:
    """P1: nothing of chat is looked for under the status of an error."""
    found = everything(inspected(dumps(body), status=400))
    assert {rule.partition(".")[0] for rule in found} <= {"error", "http"}


@given(JSON, st.sampled_from([400, 401, 429, 500, 503]), st.booleans())
@settings(max_examples=200, derandomize=True, deadline=None, database=None)
def test_whatever_is_in_an_error_body_only_rules_about_errors_come_of_it(
    body: Any, status: int, stream: bool
) -> None:
    seen = inspected(dumps(body), {**ASKED, "stream": stream}, status=status)
    assert {v.rule.family for v in seen.violations} <= {"error", "http"}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", {"error.not-json"}),
        (b"Bad Gateway", {"error.not-json"}),
        (b"<html>502</html>", {"error.not-json"}),
        (b'{"error": {', {"error.not-json"}),
        (b"null", {"error.no-envelope"}),
        (b"[]", {"error.no-envelope"}),
        (b'"oops"', {"error.no-envelope"}),
        (b"{}", {"error.no-envelope"}),
        (b'{"error": null}', {"error.no-envelope"}),
        (b'{"error": ""}', {"error.no-envelope"}),
        (b'{"error": []}', {"error.no-envelope"}),
        (b'{"error": "x"}', {"error.string"}),
        (b'{"detail": "x"}', {"error.no-envelope"}),
        (b'{"message": "x"}', {"error.top-level-message"}),
        (b'{"error": {}}', {"error.message-missing", "error.type-missing"}),
        (b'{"error": {"message": {}, "type": "x"}}', {"error.message-missing"}),
        (b'{"error": {"message": "x", "type": "x", "code": 1.5}}', {"error.code-type"}),
        (b'{"error": {"message": "x", "type": "x", "code": true}}', {"error.code-type"}),
    ],
)
def test_each_way_to_hide_the_reason_has_its_rule(body: bytes, found: set[str]) -> None:
    """P9: one cause, one rule."""
    assert ids(inspected(body, status=400)) == found


def test_an_error_object_in_a_stream_is_read_by_the_same_rules() -> None:
    bad = {"message": "", "code": 7}
    found = ids(streamed(opening(), {"error": bad}))
    assert found == {"error.message-missing", "error.type-missing", "error.code-type"}


@pytest.mark.parametrize(
    ("body", "rule", "pointer"),
    [
        ({"error": {"type": "x"}}, "error.message-missing", "/error/message"),
        ({"error": {"message": "x", "type": "x"}}, "error.param-missing", "/error/param"),
        ([{"error": {"type": "x"}}], "error.message-missing", "/0/error/message"),
        ([{"error": {**ERROR, "code": 404}}], "error.code-status-mismatch", "/0/error/code"),
        ({"message": "x", "code": 404}, "error.code-status-mismatch", "/code"),
        ({"message": "x", "type": "server_error"}, "error.type-status-mismatch", "/type"),
        ({"error": {**ERROR, "code": 404}}, "error.code-status-mismatch", "/error/code"),
    ],
)
def test_the_place_of_a_fault_is_where_the_error_stood(body: Any, rule: str, pointer: str) -> None:
    assert finding(inspected(dumps(body), status=400), rule).place.pointer == pointer


@pytest.mark.parametrize(
    ("status", "kind", "code", "contradicts"),
    [
        (400, "invalid_request_error", None, False),
        (500, "invalid_request_error", None, True),
        (500, "server_error", None, False),
        (400, "server_error", None, True),
        (429, "insufficient_quota", "insufficient_quota", False),
        (500, "insufficient_quota", None, True),
        (503, "x", "insufficient_quota", True),
        (429, "rate_limit_error", None, False),
        (418, "anything", None, False),
        (400, 5, None, False),
    ],
)
def test_a_type_contradicts_a_status_if_a_client_would_retry_otherwise(
    status: int, kind: Any, code: Any, contradicts: bool
) -> None:
    body = dumps({"error": {**ERROR, "type": kind, "code": code}})
    found = ids(inspected(body, status=status, headers=RETRY))
    assert ("error.type-status-mismatch" in found) is contradicts


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("Incorrect API key provided: sk-abcd****wxyz", False),
        ("key sk-abcdefghijklmnopqrstuvwx", True),
        ("ask-abcdefghijklmnopqrstuvwxyz", False),
        ("sk-short", False),
        ("call https://user:pass@host.example/v1 failed", True),
        ("see https://host.example:8080/docs", False),
        ("mail me@host.example", False),
        ("Traceback (most recent call last):\n  File", True),
        ("Error: x\n    at handler (/srv/app.js:12:5)", True),
        ("Error\n  at the end of the day (12:30)", False),
        ("meet me at noon (see page:3)", False),
    ],
)
def test_a_leak_is_a_whole_key_credentials_or_a_stack_trace(text: str, leaks: bool) -> None:
    for body in (dumps({"error": {**ERROR, "message": text}}), text.encode()):
        raw = body if b"\\n" not in body else body.replace(b"\\n", b"\n")
        seen = inspected(raw, status=401)
        assert ("error.secret-leak" in ids(seen)) is leaks
        assert "abcdefghij" not in "".join(v.evidence for v in seen.violations)


def cpu_of(body: bytes) -> float:
    """CPU seconds that an error body takes; the better of two."""

    def once() -> float:
        start = time.process_time()
        assert "error.not-json" in ids(inspected(body, status=500))
        return time.process_time() - start

    return min(once() for _ in range(2))


@pytest.mark.parametrize(
    "unit",
    [
        b"\n",
        b"\n ",
        b"\t",
        b"sk-",
        b"http://",
        b"http://a:",
        b"\n at ",
        b"\nat a(",
        b"a" * 63 + b":",
        b"model ",
        b"invalid api ",
    ],
)
def test_no_error_body_takes_more_than_linear_time(unit: bytes) -> None:
    """A hostile body holds up every other stream: sixteen times the bytes, not 256 times the time."""
    count = 2_000 // len(unit)
    assert cpu_of(unit * count * 16) < 100 * max(cpu_of(unit * count), 5e-4)
