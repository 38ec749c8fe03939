"""Legacy completions: ``text_completion``, as a whole and as a chunk (OpenAI API specification 2.3.0).

The two share one shape. In a stream finish_reason is null until the last chunk of a choice, although the
specification does not say so. What relates fields to each other is in checks/completions.py and
checks/completionstream.py.
"""

from __future__ import annotations

from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    WHOLE,
    Field,
    Table,
    optional,
    required,
)
from teeline.validators.fields.words import COMPLETION_FINISH_REASONS, FOREIGN_FINISH_REASONS

_SHAPE = "completions.logprobs-shape"

# Elements may be null: the first token of an echoed prompt has no probability.
_LOGPROBS = Table(
    "logprobs",
    (
        optional("text_offset", ARRAY, _SHAPE, items=optional("", INTEGER, _SHAPE)),
        optional("token_logprobs", ARRAY, _SHAPE, items=optional("", NUMBER, _SHAPE)),
        optional("tokens", ARRAY, _SHAPE, items=optional("", STRING, _SHAPE)),
        optional("top_logprobs", ARRAY, _SHAPE, items=optional("", OBJECT, _SHAPE)),
    ),
)

_SHARED = (
    required("index", INTEGER, "completions.choice-index-type"),
    optional("logprobs", OBJECT, _SHAPE, table=_LOGPROBS),
    required("text", STRING, "completions.text-type"),
)

COMPLETION_CHOICE = Table(
    "choices[]",
    (
        Field(
            "finish_reason",
            STRING,
            absent="completions.finish-missing",
            wrong="completions.finish-unknown",
            values=COMPLETION_FINISH_REASONS,
            outside="completions.finish-unknown",
            named=dict.fromkeys(FOREIGN_FINISH_REASONS, "completions.finish-foreign"),
        ),
        *_SHARED,
    ),
)

# finish_reason: null until the last chunk of a choice; see checks/completionstream.py
COMPLETION_CHUNK_CHOICE = Table("choices[]", (optional("finish_reason", ANY), *_SHARED))

TEXT_COMPLETION = Table(
    "text_completion",
    (
        required("id", STRING, "completions.id-missing", empty="completions.id-empty"),
        required("choices", ARRAY, "completions.choices-type"),
        required("created", WHOLE, "completions.created-type"),
        required("model", STRING, "completions.model-type"),
        optional("system_fingerprint", STRING, "completions.system-fingerprint-type"),
        required(
            "object",
            STRING,
            "completions.object-wrong",
            values=frozenset({"text_completion"}),
            outside="completions.object-wrong",
        ),
        optional("usage", ANY),
    ),
)
