"""Which operation a request line names, and which model."""

from __future__ import annotations

import pytest

from teeline.validators.operation import Operation, model_of, operation_of


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
