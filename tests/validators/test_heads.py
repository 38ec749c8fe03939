"""The names of a head say where its fields are, whatever their case, and a head of any size is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.validators.heads import FieldNames, content_type, names_of
from teeline.validators.model import Headers

NAMES = st.sampled_from(
    [
        "Content-Type",
        "content-type",
        "X-Request-Id",
        "apim-request-id",
        "X-RateLimit-Limit-Requests",
        "x-ratelimit-reset-tokens",
        "Authorization",
        "cookie",
        "x-api-key",
        "Content-Encoding",
        "retry-after",
    ]
)


@given(st.lists(st.tuples(NAMES, st.text(max_size=4)), max_size=12))
def test_fields_are_where_their_names_say(fields: list[tuple[str, str]]) -> None:
    headers: Headers = tuple(fields)
    names = names_of(headers)
    for wanted in ("content-type", "x-request-id", "cookie", "x-other"):
        expected = [value for name, value in headers if name.lower() == wanted]
        assert names.values(headers, wanted) == expected
    assert [headers[p][0].lower() for p in names.keys] == [
        name.lower() for name, _ in headers if name.lower() in ("authorization", "x-api-key")
    ]
    assert names.coded is any(name.lower() == "content-encoding" for name, _ in headers)
    assert names.retries is any(name.lower() == "retry-after" for name, _ in headers)
    assert [limit.name for limit in names.rate_limits] == [
        name.lower() for name, _ in headers if name.lower().startswith("x-ratelimit-")
    ]


def test_heads_of_the_same_names_share_what_is_known_of_them() -> None:
    assert names_of((("A", "1"), ("B", "2"))) is names_of((("A", "3"), ("B", "4")))
    assert names_of((("A", "1"),)) is not names_of((("a", "1"),))


def test_a_head_without_fields_has_none() -> None:
    names = names_of(())
    assert (names.request_id, names.type, names.limited, names.usual) == (-1, -1, False, False)


def test_the_id_that_reports_show_is_the_first_of_the_preferred_field() -> None:
    names = FieldNames(("apim-request-id", "x-request-id", "X-Request-Id", "cf-ray"))
    assert names.request_id == 1
    assert FieldNames(("cf-ray", "APIM-request-id")).request_id == 1
    assert FieldNames(("cf-ray",)).request_id == -1


@pytest.mark.parametrize(
    ("name", "credential"),
    [
        ("Authorization", True),
        ("X-Goog-Api-Key", True),
        ("ocp-apim-subscription-key", True),
        ("Cookie", True),
        ("x-token", True),
        ("tokens", False),
        ("x-request-id", False),
    ],
)
def test_fields_that_may_say_who_a_client_is(name: str, credential: bool) -> None:
    assert bool(FieldNames((name,)).credentials) is credential


@pytest.mark.parametrize(
    ("value", "media", "charset"),
    [
        ("application/json", "application/json", ""),
        (" Text/Event-Stream ; Charset=\"UTF-8\"", "text/event-stream", "utf-8"),
        ("a/b; boundary=x; charset=latin1; charset=utf-8", "a/b", "latin1"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_a_content_type_is_its_media_type_and_its_charset(
    value: str, media: str, charset: str
) -> None:
    assert content_type(value) == (media, charset)
