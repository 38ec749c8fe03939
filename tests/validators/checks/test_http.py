"""The head of an answer is read by RFC 9110 and by what official answers hold, where it was recorded."""

from __future__ import annotations

import pytest

from teeline.validators.model import Severity
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
    spoken,
    stream,
)
from tests.validators.exchanges import NOW

BODY = dumps(completion())
ERROR = dumps({"error": {"message": "x", "type": "x", "param": None, "code": None}})
PAST, SOON, LATE = (
    "Mon, 12 Jan 2026 10:00:00 GMT",
    "Mon, 30 Nov 2026 00:53:50 GMT",
    "Tue, 12 Jan 2027 10:00:00 GMT",
)
OFFICIAL = (
    ("content-type", "application/json"),
    ("openai-version", "2020-10-01"),
    ("openai-processing-ms", "300"),
    ("x-request-id", "req_1"),
    ("x-ratelimit-limit-requests", "500"),
    ("x-ratelimit-limit-tokens", "30000"),
    ("x-ratelimit-remaining-requests", "499"),
    ("x-ratelimit-remaining-tokens", "29990"),
    ("x-ratelimit-remaining-tokens-usage-based", "29990"),
    ("x-ratelimit-reset-requests", "120ms"),
    ("x-ratelimit-reset-tokens", "9h9m9.9s"),
    ("x-ratelimit-reset-input-images", "6m0s"),
)


def test_official_fields_break_nothing_at_all() -> None:
    assert everything(inspected(BODY, headers=OFFICIAL)) == set()


def test_the_names_of_fields_have_no_case() -> None:
    fields = tuple((name.title(), value) for name, value in OFFICIAL)
    assert everything(inspected(BODY, headers=fields)) == set()


@pytest.mark.parametrize(
    ("status", "rule"),
    [
        (200, ""),
        (201, "http.status-2xx-odd"),
        (202, "http.status-2xx-odd"),
        (206, "http.status-2xx-odd"),
        (301, "http.redirect"),
        (302, "http.redirect"),
        (307, "http.redirect"),
        (308, "http.redirect"),
        (304, ""),
        (400, ""),
        (404, ""),
        (431, ""),
        (418, "http.status-nonstandard"),
        (500, ""),
        (504, ""),
        (520, "http.status-nonstandard"),
        (529, "http.status-nonstandard"),
        (599, "http.status-nonstandard"),
        (999, "http.status-nonstandard"),
    ],
)
def test_each_status_has_its_rule_or_none(status: int, rule: str) -> None:
    found = everything(inspected(ERROR if status >= 400 else BODY, status=status, headers=()))
    assert {r for r in found if "status" in r or "redirect" in r} == ({rule} if rule else set())


def test_the_status_of_any_other_operation_may_be_any_2xx() -> None:
    assert ids(inspected(b"", status=201, target="/v1/realtime/calls")) == set()


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0", ""),
        ("1", ""),
        ("1.5", ""),
        (" 20 ", ""),
        ("120", ""),
        ("121", "http.retry-after-large"),
        ("999999999999999999", "http.retry-after-large"),
        ("-1", "http.retry-after-invalid"),
        ("soon", "http.retry-after-invalid"),
        ("1e3", "http.retry-after-invalid"),
        ("1s", "http.retry-after-invalid"),
        ("9" * 400, "http.retry-after-invalid"),
        ("nan", "http.retry-after-invalid"),
        (SOON, ""),
        (LATE, "http.retry-after-large"),
        (PAST, "http.retry-after-invalid"),
        ("Mon, 99 Foo 2026 25:61:61 GMT", "http.retry-after-invalid"),
        ("Mon, 30 Nov 2026 00:53:50 CET", "http.retry-after-invalid"),
        ("2026-11-30T00:53:50Z", "http.retry-after-invalid"),
    ],
)
def test_retry_after_is_seconds_or_a_date_to_come(value: str, rule: str) -> None:
    """RFC 9110 10.2.3; the time of the read is 20 seconds before SOON."""
    headers = (*OFFICIAL, ("Retry-After", value))
    found = everything(inspected(ERROR, status=429, headers=headers, at=1_796_000_010.0))
    assert {r for r in found if "retry" in r} == ({rule} if rule else set())


def test_a_date_counts_from_the_answers_own_where_it_has_one() -> None:
    """A capture is read long after it was made."""
    headers = (*OFFICIAL, ("retry-after", "Mon, 12 Jan 2026 10:00:30 GMT"), ("date", PAST))
    assert not {
        r for r in everything(inspected(ERROR, status=429, headers=headers)) if "retry" in r
    }


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("500", ""),
        ("120000", ""),
        ("120001", "http.retry-after-large"),
        ("-5", "http.retry-after-invalid"),
        ("1s", "http.retry-after-invalid"),
    ],
)
def test_retry_after_ms_is_milliseconds(value: str, rule: str) -> None:
    headers = (*OFFICIAL, ("retry-after-ms", value))
    found = everything(inspected(ERROR, status=429, headers=headers))
    assert {r for r in found if "retry" in r} == ({rule} if rule else set())


@pytest.mark.parametrize(
    ("status", "code", "missing"),
    [
        (429, None, True),
        (503, None, True),
        (500, None, False),
        (400, None, False),
        (429, "insufficient_quota", False),
        (429, "rate_limit_exceeded", True),
    ],
)
def test_a_rate_limit_says_when_to_come_back_and_an_empty_account_need_not(
    status: int, code: str | None, missing: bool
) -> None:
    body = dumps({"error": {"message": "x", "type": "x", "param": None, "code": code}})
    for text in (body, b"not json") if code is None else (body,):
        found = ids(inspected(text, status=status, headers=OFFICIAL))
        assert ("http.retry-after-missing" in found) is missing


@pytest.mark.parametrize(
    ("name", "value", "broken"),
    [
        ("x-ratelimit-limit-requests", "500", False),
        ("x-ratelimit-limit-requests", "0", False),
        ("X-RateLimit-Remaining-Tokens", " 12 ", False),
        ("x-ratelimit-limit-requests", "many", True),
        ("x-ratelimit-limit-requests", "", True),
        ("x-ratelimit-limit-requests", "1s", True),
        ("x-ratelimit-limit-requests", "1,000", True),
        ("x-ratelimit-remaining-requests", "9" * 4_000, True),
        ("x-ratelimit-reset-requests", "1s", False),
        ("x-ratelimit-reset-requests", "120ms", False),
        ("x-ratelimit-reset-requests", "1d2h3m4.5s", False),
        ("x-ratelimit-reset-requests", "17", False),
        ("x-ratelimit-reset-requests", "2026-11-30T12:00:00Z", False),
        ("x-ratelimit-reset-requests", "soon", True),
        ("x-ratelimit-reset-requests", "1x", True),
        ("x-ratelimit-reset-requests", "s", True),
        ("x-ratelimit-abusepenalty-active", "maybe", False),
        ("x-ratelimit-key", "abc", False),
        ("x-ratelimit-limit", "many", False),
        ("anthropic-ratelimit-requests-limit", "many", False),
    ],
)
def test_a_rate_limit_field_is_an_amount_or_a_duration(name: str, value: str, broken: bool) -> None:
    found = ids(inspected(BODY, headers=(*JSON_HEADERS, (name, value))))
    assert found == ({"http.ratelimit-format"} if broken else set())


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        ("application/json; charset=utf-8", False),
        ('application/json; charset="UTF-8"', False),
        ("application/json;charset=us-ascii", False),
        ("application/json; x=1; Charset = UTF8", False),
        ("application/json; charset=gbk", True),
        ("application/json; charset=iso-8859-1", True),
        ("application/json; charset", False),
        ("application/json; charset=", False),
    ],
)
def test_a_charset_is_utf_8_or_a_part_of_it(kind: str, broken: bool) -> None:
    found = ids(inspected(BODY, headers=(("content-type", kind), ("x-request-id", "r"))))
    assert found == ({"http.charset-not-utf8"} if broken else set())


@pytest.mark.parametrize("name", ["x-request-id", "apim-request-id", "CF-Ray"])
def test_any_of_the_known_request_ids_will_do(name: str) -> None:
    assert "http.request-id-missing" not in everything(inspected(BODY, headers=((name, "1"),)))


def test_what_only_official_answers_have_is_no_more_than_an_observation() -> None:
    seen = inspected(BODY, headers=(("content-type", "application/json"),))
    head = {v.rule.id: v.severity for v in seen.violations}
    assert head == dict.fromkeys(
        ("http.request-id-missing", "http.processing-ms-missing", "http.ratelimit-missing"),
        Severity.INFO,
    )


def test_a_place_in_the_head_has_neither_number_nor_offset() -> None:
    for request, headers, body, rule in (
        (ASKED, JSON_HEADERS, BODY, "http.ratelimit-missing"),
        (STREAMED, JSON_HEADERS, stream(*spoken("a")), "sse.content-type"),
        (ASKED, SSE_HEADERS, stream(*spoken("a")), "cross.json-answered-with-stream"),
    ):
        place = finding(inspected(body, request, headers=headers), rule).place
        assert tuple(place) == ("response", "head", 0, 0, "")


def test_findings_carry_the_time_of_the_read() -> None:
    assert finding(inspected(BODY, headers=JSON_HEADERS), "http.ratelimit-missing").at == NOW
