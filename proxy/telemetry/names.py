"""Every name that leaves teeline by telemetry, and nothing else.

The GenAI names are those of open-telemetry/semantic-conventions-genai as of November 2026, where
all of them are still in development: a change there is a change of this file alone. (The same names
in ``opentelemetry.semconv._incubating`` are deprecated, so they aren't imported.)
"""

from __future__ import annotations

from typing import Final

SNAPSHOT: Final = "2026-11"
"""The state of the GenAI conventions that these names follow."""

SCOPE: Final = "teeline"

# --- GenAI: attributes --------------------------------------------------------------------------
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
OPENAI_API_TYPE: Final = "openai.api.type"

PROVIDER_OPENAI: Final = "openai"

# --- General, stable ----------------------------------------------------------------------------
ERROR_TYPE: Final = "error.type"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# --- teeline: attributes of a span --------------------------------------------------------------
EXCHANGE_ID: Final = "teeline.exchange.id"
UPSTREAM: Final = "teeline.upstream"
VERDICT: Final = "teeline.verdict"
CLIENT_VERDICT: Final = "teeline.client_verdict"
VIOLATIONS: Final = "teeline.violations"
INSPECTION: Final = "teeline.inspection"
ENDED: Final = "teeline.ended"
PROFILE: Final = "teeline.profile"
"""The vendor profile that was applied; absent where none was."""

# --- teeline: the event of a violation ----------------------------------------------------------
VIOLATION_EVENT: Final = "teeline.violation"
RULE: Final = "teeline.rule"
SEVERITY: Final = "teeline.severity"
SIDE: Final = "teeline.side"
PLACE_UNIT: Final = "teeline.place.unit"
PLACE_INDEX: Final = "teeline.place.index"
PLACE_BYTE: Final = "teeline.place.byte"
PLACE_POINTER: Final = "teeline.place.pointer"
MESSAGE: Final = "teeline.message"
EVIDENCE: Final = "teeline.evidence"

# --- teeline: metrics ---------------------------------------------------------------------------
EXPORT_DROPPED: Final = "teeline.export.dropped"

OPERATIONS: Final = {
    "chat": "chat",
    # The conventions count the Responses API as chat; openai.api.type tells the two apart.
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
"""teeline's operations by the name that the conventions have for them; others keep their own."""

API_TYPES: Final = {"chat": "chat_completions", "responses": "responses"}

USAGE: Final = {
    "prompt_tokens": USAGE_INPUT_TOKENS,
    "input_tokens": USAGE_INPUT_TOKENS,
    "completion_tokens": USAGE_OUTPUT_TOKENS,
    "output_tokens": USAGE_OUTPUT_TOKENS,
    "cached_tokens": USAGE_CACHE_READ_INPUT_TOKENS,
    "reasoning_tokens": USAGE_REASONING_OUTPUT_TOKENS,
}
"""The last part of a counter's wire name (``prompt_tokens_details.cached_tokens``) by its
attribute.
"""
