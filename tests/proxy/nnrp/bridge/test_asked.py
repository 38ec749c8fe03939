"""What of a request becomes the envelope, and what is kept out of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.nnrp.bridge.asked import (
    BASELINE,
    CHAT,
    MODELS,
    asked_of,
    hint_fields,
    hints_of,
    request_id,
)
from teeline.proxy.nnrp.bridge.failure import FailureError
from teeline.validators.nnrp.capabilities import Capabilities, Declared

BODY = b'{"model":"m","messages":[]}'


def asked(data: bytes, hints: dict[str, Any] | None = None) -> dict[str, Any]:
    found = asked_of(CHAT, data, "req_1", hints or {}, BASELINE)
    envelope: dict[str, Any] = json.loads(found.envelope)
    return envelope


def test_the_body_stands_in_the_envelope_as_its_bytes() -> None:
    found = asked_of(CHAT, b"\r\n" + BODY + b" ", "req_1", {}, BASELINE)
    assert found.envelope.endswith(b'"body":' + BODY + b"}")
    assert (found.model, found.stream, found.include_usage) == ("m", False, False)


def test_hints_stand_beside_the_body_and_only_where_there_are_some() -> None:
    assert asked(BODY, {"timeout_ms": 5})["nnrp"] == {"timeout_ms": 5}
    assert "nnrp" not in asked(BODY)


def test_what_the_bridge_goes_by_is_read() -> None:
    data = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
    found = asked_of(CHAT, data, "req_1", {"timeout_ms": 7}, BASELINE)
    assert (found.stream, found.include_usage, found.timeout_ms) == (True, True, 7)


def test_a_list_of_models_is_asked_with_an_empty_body() -> None:
    declared = Capabilities({MODELS: Declared()})
    found = asked_of(MODELS, b"", "req_1", {}, declared)
    assert json.loads(found.envelope)["body"] == {}


@given(
    st.dictionaries(
        st.text().filter(lambda name: name not in ("nnrp", "stream")),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=5,
    )
)
def test_every_body_that_is_json_is_in_its_envelope_as_it_was(body: dict[str, Any]) -> None:
    assert asked(json.dumps(body).encode())["body"] == body


@given(st.binary(max_size=60))
def test_bytes_that_are_no_body_are_refused_and_never_raise_otherwise(data: bytes) -> None:
    try:
        assert isinstance(asked(data)["body"], dict)
    except FailureError as failure:
        assert failure.status == 400


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("mine", "mine"),
        ("a" * 128, "a" * 128),
        ("a" * 129, "made"),
        ("", "made"),
        ("a b", "made"),
        ("a\x1b", "made"),
        ("\u00e4", "made"),
        (None, "made"),
    ],
)
def test_a_request_id_is_repeated_only_where_it_is_fit(given_: str | None, expected: str) -> None:
    assert request_id(given_, "made") == expected


def test_hints_are_read_from_their_fields_alone() -> None:
    wanted = hint_fields(["X-Timeout-Ms=timeout_ms", "X-Class=class"])
    fields = {"x-timeout-ms": "7", "x-class": "batch", "x-other": "1", "timeout_ms": "1"}
    assert hints_of(fields, wanted) == {"timeout_ms": 7, "class": "batch"}
    assert hints_of({}, wanted) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("true", True), ("null", None), ("a", "a"), ("[1]", "[1]"), ("", "")],
)
def test_a_hint_is_a_json_scalar_or_a_text(text: str, value: Any) -> None:
    assert hints_of({"x": text}, {"x": "any"}) == {"any": value}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("timeout_ms", "-1"),
        ("timeout_ms", "1.5"),
        ("timeout_ms", "true"),
        ("timeout_ms", "soon"),
        ("diagnostics", "yes"),
        ("any", "x" * 257),
    ],
)
def test_hints_that_the_profile_does_not_take_are_refused(name: str, text: str) -> None:
    with pytest.raises(FailureError) as caught:
        hints_of({"x": text}, {"x": name})
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "text", ["", "X", "=a", "X=", "X Y=a", "X=a b", "Authorization=auth", "api-key=a", "Cookie=c"]
)
def test_what_is_no_hint_or_carries_credentials_can_t_be_configured(text: str) -> None:
    with pytest.raises(ValueError):
        hint_fields([text])
