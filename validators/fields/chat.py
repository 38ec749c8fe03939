"""Chat Completions: ``chat.completion`` and ``chat.completion.chunk`` (OpenAI API specification 2.3.0).

Tool calls and usage have tables of their own (tools.py, usage.py); what relates fields to each other is in
checks/chat.py and checks/chatstream.py.
"""

from __future__ import annotations

from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    Field,
    Table,
    optional,
    required,
)
from teeline.validators.fields.words import (
    CHAT_SERVICE_TIERS,
    DELTA_ROLES,
    FINISH_REASONS,
    FOREIGN_FINISH_REASONS,
    REASONING_MEMBERS,
)


def _logprobs(shape: str, number: str) -> Table:
    top = Table(
        "top_logprobs[]",
        (
            required("token", STRING, shape),
            required("logprob", NUMBER, number),
            optional("bytes", ARRAY, shape, items=required("", INTEGER, shape)),
        ),
    )
    token = Table(
        "logprobs.content[]",
        (
            required("token", STRING, shape),
            required("logprob", NUMBER, number),
            optional("bytes", ARRAY, shape, items=required("", INTEGER, shape)),
            required("top_logprobs", ARRAY, shape, items=required("", OBJECT, shape, table=top)),
        ),
    )
    tokens = required("", OBJECT, shape, table=token)
    return Table(
        "logprobs",
        (
            Field("content", ARRAY, absent=shape, wrong=shape, nullable=True, items=tokens),
            optional("refusal", ARRAY, shape, items=tokens),
        ),
    )


_SERVICE_TIER = optional(
    "service_tier",
    STRING,
    "chat.service-tier-type",
    values=CHAT_SERVICE_TIERS,
    outside="chat.service-tier-unknown",
)

_URL_CITATION = Table(
    "url_citation",
    (
        required("end_index", INTEGER, "chat.annotations-shape"),
        required("start_index", INTEGER, "chat.annotations-shape"),
        required("url", STRING, "chat.annotations-shape"),
        required("title", STRING, "chat.annotations-shape"),
    ),
)

_ANNOTATION = Table(
    "annotations[]",
    (
        required(
            "type",
            STRING,
            "chat.annotations-shape",
            values=frozenset({"url_citation"}),
            outside="chat.annotations-shape",
        ),
        required("url_citation", OBJECT, "chat.annotations-shape", table=_URL_CITATION),
    ),
)

FUNCTION_CALL = Table(
    "function_call",
    (
        required("arguments", STRING, "chat.function-call-shape"),
        required("name", STRING, "chat.function-call-shape"),
    ),
)

_AUDIO = Table(
    "audio",
    (
        required("id", STRING, "chat.audio-shape"),
        required("expires_at", INTEGER, "chat.audio-shape"),
        required("data", STRING, "chat.audio-shape"),
        required("transcript", STRING, "chat.audio-shape"),
    ),
)

MESSAGE = Table(
    "message",
    (
        optional("content", STRING, "chat.content-not-string"),
        optional("refusal", STRING, "chat.refusal-type"),
        optional("tool_calls", ANY),
        optional(
            "annotations",
            ARRAY,
            "chat.annotations-shape",
            items=required("", OBJECT, "chat.annotations-shape", table=_ANNOTATION),
        ),
        required(
            "role",
            STRING,
            "chat.role-wrong",
            values=frozenset({"assistant"}),
            outside="chat.role-wrong",
        ),
        optional("function_call", OBJECT, "chat.function-call-shape", table=FUNCTION_CALL),
        optional("audio", OBJECT, "chat.audio-shape", table=_AUDIO),
    ),
    extensions=frozenset(REASONING_MEMBERS),
)

CHOICE = Table(
    "choices[]",
    (
        Field(
            "finish_reason",
            STRING,
            absent="chat.finish-missing",
            wrong="chat.finish-unknown",
            values=FINISH_REASONS,
            outside="chat.finish-unknown",
            named=dict.fromkeys(FOREIGN_FINISH_REASONS, "chat.finish-foreign"),
        ),
        required("index", INTEGER, "chat.choice-index-type"),
        required("message", OBJECT, "chat.message-missing", table=MESSAGE),
        optional(
            "logprobs",
            OBJECT,
            "chat.logprobs-shape",
            table=_logprobs("chat.logprobs-shape", "chat.logprob-out-of-range"),
        ),
    ),
    unknown="chat.unknown-field",
)

COMPLETION = Table(
    "chat.completion",
    (
        required("id", STRING, "chat.id-missing", empty="chat.id-empty"),
        required("choices", ARRAY, "chat.choices-not-array"),
        required("created", INTEGER, "chat.created-type", integral="chat.created-integral-float"),
        required("model", STRING, "chat.model-type", empty="chat.model-empty"),
        optional("metadata", ANY),
        _SERVICE_TIER,
        optional("system_fingerprint", STRING, "chat.system-fingerprint-type"),
        required(
            "object",
            STRING,
            "chat.object-wrong",
            values=frozenset({"chat.completion"}),
            outside="chat.object-wrong",
        ),
        optional("usage", ANY),
        optional("moderation", ANY),
    ),
    unknown="chat.unknown-field",
)

DELTA_FUNCTION_CALL = Table(
    "delta.function_call",
    (
        optional("arguments", STRING, "chatstream.function-call-shape"),
        optional("name", STRING, "chatstream.function-call-shape"),
    ),
)

DELTA = Table(
    "delta",
    (
        optional("content", STRING, "chatstream.content-not-string"),
        optional(
            "function_call", OBJECT, "chatstream.function-call-shape", table=DELTA_FUNCTION_CALL
        ),
        optional("tool_calls", ANY),
        optional(
            "role",
            STRING,
            "chatstream.role-wrong",
            values=DELTA_ROLES,
            outside="chatstream.role-wrong",
            named=dict.fromkeys(DELTA_ROLES - {"assistant"}, "chatstream.role-not-assistant"),
        ),
        optional("refusal", STRING, "chatstream.refusal-type"),
        optional("audio", ANY),
    ),
    extensions=frozenset(REASONING_MEMBERS),
)

CHUNK_CHOICE = Table(
    "choices[]",
    (
        required("delta", OBJECT, "chatstream.delta-missing", table=DELTA),
        optional(
            "logprobs",
            OBJECT,
            "chatstream.logprobs-shape",
            table=_logprobs("chatstream.logprobs-shape", "chatstream.logprobs-shape"),
        ),
        required("index", INTEGER, "chatstream.choice-index-type"),
        # finish_reason: null until the last chunk of a choice; see checks/chatstream.py
        optional("finish_reason", ANY),
    ),
)

CHUNK = Table(
    "chat.completion.chunk",
    (
        required("id", STRING, "chatstream.id-missing", empty="chatstream.id-empty"),
        required("choices", ARRAY, "chatstream.choices-not-array"),
        required(
            "created", INTEGER, "chatstream.created-type", integral="chat.created-integral-float"
        ),
        required("model", STRING, "chatstream.model-type"),
        optional("obfuscation", STRING, "chatstream.obfuscation-type"),
        _SERVICE_TIER,
        optional("system_fingerprint", ANY),
        required(
            "object",
            STRING,
            "chatstream.object-wrong",
            values=frozenset({"chat.completion.chunk"}),
            outside="chatstream.object-wrong",
        ),
        optional("usage", ANY),
        optional("moderation", ANY),
    ),
)
