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
USAGE_CACHE_CREATION_INPUT_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
REQUEST_ENCODING_FORMATS: Final = "gen_ai.request.encoding_formats"
EMBEDDINGS_DIMENSION_COUNT: Final = "gen_ai.embeddings.dimension.count"
OUTPUT_TYPE: Final = "gen_ai.output.type"
TOKEN_TYPE: Final = "gen_ai.token.type"
OPENAI_API_TYPE: Final = "openai.api.type"
OPENAI_REQUEST_SERVICE_TIER: Final = "openai.request.service_tier"
OPENAI_RESPONSE_SERVICE_TIER: Final = "openai.response.service_tier"
OPENAI_RESPONSE_SYSTEM_FINGERPRINT: Final = "openai.response.system_fingerprint"

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

COUNT: Final = "teeline.count"
"""How often the rule was broken in this exchange; in a summary, in how many exchanges."""
LEFT_OUT: Final = "teeline.left_out"
"""Records of the same kind that were left out since the last one that was sent."""

# --- teeline: other events ----------------------------------------------------------------------
SUMMARY_EVENT: Final = "teeline.violation.summary"
SINCE: Final = "teeline.since"
AUDIT_EVENT: Final = "teeline.audit.record"
AUDIT_HEAD_EVENT: Final = "teeline.audit.head"
AUDIT_CHAIN: Final = "teeline.audit.chain"
AUDIT_SEQ: Final = "teeline.audit.seq"
AUDIT_HASH: Final = "teeline.audit.hash"
AUDIT_PREV: Final = "teeline.audit.prev"
AUDIT_KIND: Final = "teeline.audit.kind"
"""Of records that are no exchange: open, lost, retention, close."""

# --- metrics: GenAI -----------------------------------------------------------------------------
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
TIME_PER_OUTPUT_CHUNK: Final = "gen_ai.client.operation.time_per_output_chunk"

# --- metrics: teeline ---------------------------------------------------------------------------
EXCHANGES: Final = "teeline.exchanges"
VIOLATIONS_FOUND: Final = "teeline.violations"
INSPECTION_SKIPPED: Final = "teeline.inspection.skipped"
INSPECTION_LAG: Final = "teeline.inspection.lag"
OPEN_STREAMS: Final = "teeline.open_streams"
EXPORT_DROPPED: Final = "teeline.export.dropped"
AUDIT_RECORDS: Final = "teeline.audit.records"
AUDIT_LOST: Final = "teeline.audit.lost"
WORKERS: Final = "teeline.workers"
WORKER_RESTARTS: Final = "teeline.worker.restarts"
REASON: Final = "teeline.reason"
SIGNAL: Final = "teeline.signal"
OVERFLOW: Final = "otel.metric.overflow"
"""The SDK specification's mark of the series that takes what no series has room for."""

OTHER: Final = "other"
"""What unknown models and operations fold into."""

OPERATIONS: Final = {
    "chat": "chat",
    # The conventions count the Responses API as chat; openai.api.type tells the two apart.
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
"""teeline's operations by the name that the conventions have for them; others keep their own."""

SETTINGS: Final = {
    "max_tokens": REQUEST_MAX_TOKENS,
    "temperature": REQUEST_TEMPERATURE,
    "top_p": REQUEST_TOP_P,
    "frequency_penalty": REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": REQUEST_PRESENCE_PENALTY,
    "seed": REQUEST_SEED,
    "choices": REQUEST_CHOICE_COUNT,
    "encoding_format": REQUEST_ENCODING_FORMATS,
    "dimensions": EMBEDDINGS_DIMENSION_COUNT,
    "output": OUTPUT_TYPE,
    "service_tier": OPENAI_REQUEST_SERVICE_TIER,
}
"""What a request set (validators/checks/settings.py) by its attribute."""

API_TYPES: Final = {"chat": "chat_completions", "responses": "responses"}

USAGE: Final = {
    "prompt_tokens": USAGE_INPUT_TOKENS,
    "input_tokens": USAGE_INPUT_TOKENS,
    "completion_tokens": USAGE_OUTPUT_TOKENS,
    "output_tokens": USAGE_OUTPUT_TOKENS,
    "cached_tokens": USAGE_CACHE_READ_INPUT_TOKENS,
    "cache_write_tokens": USAGE_CACHE_CREATION_INPUT_TOKENS,
    "reasoning_tokens": USAGE_REASONING_OUTPUT_TOKENS,
}
"""The last part of a counter's wire name (``prompt_tokens_details.cached_tokens``) by its
attribute.
"""
