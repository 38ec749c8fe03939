"""A request line names its operation whatever stands before the API's own path."""

from __future__ import annotations

import pytest

from teeline.validators.operation import Operation, asks_in_body, is_beta, operation_of


@pytest.mark.parametrize(
    ("method", "target", "operation"),
    [
        ("POST", "/v1/responses", Operation.RESPONSES),
        ("POST", "/openai/v1/responses?api-version=preview", Operation.RESPONSES),
        ("POST", "//v1//responses/", Operation.RESPONSES),
        ("GET", "/v1/responses/resp_1?stream=true&starting_after=4", Operation.RESPONSES),
        ("POST", "/v1/responses/resp_1/cancel", Operation.RESPONSES),
        ("DELETE", "/v1/responses/resp_1", Operation.RESPONSES_LIGHT),
        ("GET", "/v1/responses/resp_1/input_items?limit=2", Operation.RESPONSES_LIGHT),
        ("POST", "/v1/responses/input_tokens", Operation.RESPONSES_LIGHT),
        ("POST", "/v1/responses/compact", Operation.RESPONSES_LIGHT),
        ("POST", "/v1/chat/completions", Operation.CHAT),
        ("POST", "/v1/completions", Operation.COMPLETIONS),
        ("GET", "/v1/models/meta/llama", Operation.MODELS),
        ("GET", "/v1/responses", Operation.OTHER),
        ("DELETE", "/v1/responses/resp_1/input_items", Operation.OTHER),
        ("POST", "/v1/audio/speech", Operation.OTHER),
    ],
)
def test_paths_are_matched_by_their_end(method: str, target: str, operation: Operation) -> None:
    assert operation_of(method, target) is operation


@pytest.mark.parametrize(
    ("method", "target", "asks"),
    [
        ("POST", "/v1/responses", True),
        ("POST", "/v1/chat/completions?x=1", True),
        ("POST", "/v1/responses/resp_1/cancel", False),
        ("POST", "/v1/responses/compact", False),
        ("GET", "/v1/responses/resp_1", False),
    ],
)
def test_only_a_request_that_creates_something_says_what_it_must_be(
    method: str, target: str, asks: bool
) -> None:
    """The body of a cancellation, ``{}`` at most, asks for no tools and no model."""
    assert asks_in_body(method, target) is asks


def test_an_operation_without_rules_of_its_own_is_reported_as_other() -> None:
    assert Operation.RESPONSES_LIGHT.reported == "other"
    assert Operation.RESPONSES.reported == "responses"


@pytest.mark.parametrize(
    ("target", "beta"),
    [
        ("/v1/responses?beta=true", True),
        ("/v1/responses?stream=true&beta=true", True),
        ("/v1/responses?beta=false", False),
        ("/v1/responses?alphabeta=true", False),
        ("/v1/beta=true", False),
    ],
)
def test_the_query_names_the_beta_form(target: str, beta: bool) -> None:
    assert is_beta(target) is beta
