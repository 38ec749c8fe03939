"""A request line names its operation, and its model, whatever stands before the API's own path."""

from __future__ import annotations

import pytest

from teeline.validators.operation import (
    Operation,
    asks_in_body,
    is_beta,
    model_of,
    operation_of,
    path_of,
    route_of,
)


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


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("/v1/models", ""),
        ("/v1/models/", ""),
        ("/openai/models?api-version=2024-10-21", ""),
        ("/v1/models/gpt-4o-mini", "gpt-4o-mini"),
        ("/v1/models/meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/v1/models/meta-llama%2FLlama-3.1-8B-Instruct?x=1", "meta-llama/Llama-3.1-8B-Instruct"),
        ("//v1//models//org/m/", "org/m"),
        ("/v1/models/%ff%zz", "\ufffd%zz"),
    ],
)
def test_a_model_may_have_slashes_in_its_name(target: str, model: str) -> None:
    assert operation_of("GET", target) is Operation.MODELS
    assert model_of(target) == model


def test_a_base_url_that_holds_the_word_models_still_has_a_list() -> None:
    assert model_of("/models/some-org/some-model/v1/models") == ""


@pytest.mark.parametrize(
    "target",
    ["/api/v1/models/count", "/api/v1/models/user", "/api/v1/models/openai/gpt-4o/endpoints"],
)
def test_what_gateways_serve_beside_models_is_not_judged_as_a_model(target: str) -> None:
    assert operation_of("GET", target) is Operation.OTHER


@pytest.mark.parametrize("target", ["/v1/chat/completions?x=1", "http://h/v1/models", "/" * 5000])
def test_a_request_line_says_all_of_it_at_once(target: str) -> None:
    """The second time as well, when it may be remembered."""
    for _ in range(2):
        route = route_of("GET", target)
        assert route.operation is operation_of("GET", target)
        assert route.reported == route.operation.reported
        assert route.asks_in_body is asks_in_body("GET", target)
        assert route.is_beta is is_beta(target)
        assert route.path == path_of(target)
