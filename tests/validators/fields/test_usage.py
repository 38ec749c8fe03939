"""The tables of usage objects have the counters of the official types."""

from __future__ import annotations

from openai.types import completion_usage
from openai.types.responses import response_usage

from teeline.validators.fields.usage import (
    CHAT_USAGE,
    COMPLETION_COUNTERS,
    MODALITIES,
    PROMPT_COUNTERS,
    RESPONSES_USAGE,
)


def test_chat_usage_has_the_members_of_the_official_type() -> None:
    ours = {*CHAT_USAGE.keys, CHAT_USAGE.prompt_details, CHAT_USAGE.completion_details}
    assert ours == set(completion_usage.CompletionUsage.model_fields)


def test_responses_usage_has_the_members_of_the_official_type() -> None:
    ours = {
        *RESPONSES_USAGE.keys,
        RESPONSES_USAGE.prompt_details,
        RESPONSES_USAGE.completion_details,
    }
    assert ours == set(response_usage.ResponseUsage.model_fields)


def test_the_counters_of_the_details_are_the_official_ones() -> None:
    assert set(PROMPT_COUNTERS) == set(completion_usage.PromptTokensDetails.model_fields)
    assert set(COMPLETION_COUNTERS) == set(completion_usage.CompletionTokensDetails.model_fields)


def test_what_responses_usage_requires_is_what_the_official_types_require() -> None:
    """The chat types require no counter in their details."""
    details = (response_usage.InputTokensDetails, response_usage.OutputTokensDetails)
    needed = {n for d in details for n, f in d.model_fields.items() if f.is_required()}
    assert needed == {"cached_tokens", "reasoning_tokens", "cache_write_tokens"}
    assert RESPONSES_USAGE.counters_required and not CHAT_USAGE.counters_required


def test_each_api_is_foreign_to_the_other() -> None:
    assert CHAT_USAGE.foreign == (RESPONSES_USAGE.prompt, RESPONSES_USAGE.completion)
    assert RESPONSES_USAGE.foreign == (CHAT_USAGE.prompt, CHAT_USAGE.completion)


def test_modalities_are_counters_that_share_their_total() -> None:
    assert set(MODALITIES) <= {*PROMPT_COUNTERS, *COMPLETION_COUNTERS}
