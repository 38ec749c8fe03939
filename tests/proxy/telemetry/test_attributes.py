"""What spans say is bounded, however many names clients and relays make up."""

from __future__ import annotations

import pytest

from teeline.proxy.telemetry import names
from teeline.proxy.telemetry.attributes import Describer, Folding, nanoseconds, operation_name
from tests.proxy.samples import exchange


def test_only_models_that_were_served_get_into_span_names() -> None:
    describer = Describer()
    assert describer.span_name(exchange(model="made-up", status=404)) == "chat"
    assert describer.span_name(exchange(model="gpt-4o")) == "chat gpt-4o"
    assert describer.span_name(exchange(model="gpt-4o", status=500)) == "chat gpt-4o"
    assert describer.span_name(exchange(model=None)) == "chat"


def test_the_number_of_span_names_is_bounded() -> None:
    describer = Describer()
    found = {describer.span_name(exchange(model=f"model-{n}")) for n in range(1000)}
    assert len(found) == 101
    assert "chat" in found


@pytest.mark.parametrize("value", ["x" * 65, "a b", "\x1b", "", "é"])
def test_what_looks_like_no_name_is_never_admitted(value: str) -> None:
    assert not Folding(10).admit(value)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("chat", "chat"),
        ("responses", "chat"),
        ("completions", "text_completion"),
        ("embeddings", "embeddings"),
        ("models", "models"),
        ("connection", "connection"),
        ("", "other"),
    ],
)
def test_operations_have_their_names_of_the_conventions(operation: str, name: str) -> None:
    assert operation_name(exchange(operation=operation)) == name


def test_responses_are_told_from_chat_by_the_api_type() -> None:
    assert Describer().span(exchange(operation="responses"))[names.OPENAI_API_TYPE] == "responses"


def test_unknown_facts_have_no_attributes() -> None:
    made = exchange(
        model=None,
        stream=False,
        status=None,
        usage={},
        finish=[],
        response_id=None,
        response_model=None,
        operation="models",
        ended=None,
    )
    assert set(Describer().span(made)) == {
        names.EXCHANGE_ID,
        names.UPSTREAM,
        names.PROVIDER_NAME,
        names.OPERATION_NAME,
        names.REQUEST_STREAM,
        names.VERDICT,
        names.CLIENT_VERDICT,
        names.VIOLATIONS,
        names.INSPECTION,
    }


def test_times_are_nanoseconds_within_their_type() -> None:
    assert nanoseconds(1.5) == 1_500_000_000
    assert nanoseconds(-1.0) == 0
    assert nanoseconds(1e30) == 2**64 - 1


def test_every_own_name_is_in_the_own_namespace() -> None:
    own = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
    known = (
        "teeline",
        names.OTHER,
        names.OVERFLOW,
        "gen_ai.",
        "openai",
        "error.",
        "http.",
        "server.",
        names.SNAPSHOT,
    )
    assert all(value.startswith(known) for value in own)


def test_the_profile_is_an_attribute_where_one_was_applied() -> None:
    described = Describer().span(exchange(profile="mistral"))
    assert described[names.PROFILE] == "mistral"
    assert names.PROFILE not in Describer().span(exchange())
