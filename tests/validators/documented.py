"""The documented fields of chat answers, each with the rule that its absence breaks and that of a wrong type.

What belongs here: rows, transcribed from the API's specification and from what each rule says, by hand: a
second writing of what validators/fields says. What doesn't: breaking anything (faults.py).
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A documented field: what its absence breaks (empty: optional), and what another type breaks."""

    path: str
    absent: str
    wrong: str


def _rows(text: str, **words: str) -> tuple[Row, ...]:
    """One row a line: path, rule of absence (``-`` for none), rule of a wrong type (``=``: the same)."""
    rows = []
    for line in text.format(**words).strip().splitlines():
        path, absent, wrong = line.split()
        rows.append(Row(path, absent.strip("-"), (absent if wrong == "=" else wrong).strip("-")))
    return tuple(rows)


_USAGE = """
usage/prompt_tokens usage.keys-missing usage.not-integer
usage/completion_tokens usage.keys-missing usage.not-integer
usage/total_tokens usage.keys-missing usage.not-integer
usage/prompt_tokens_details - usage.details-type
usage/completion_tokens_details - usage.details-type
usage/prompt_tokens_details/cached_tokens - usage.details-type
usage/prompt_tokens_details/audio_tokens - usage.details-type
usage/completion_tokens_details/reasoning_tokens - usage.details-type
usage/completion_tokens_details/accepted_prediction_tokens - usage.details-type
"""
_LOGPROBS = """
choices/*/logprobs - {rule}
choices/*/logprobs/content {rule} =
choices/*/logprobs/refusal - {rule}
choices/*/logprobs/content/*/token {rule} =
choices/*/logprobs/content/*/logprob {number} =
choices/*/logprobs/content/*/bytes - {rule}
choices/*/logprobs/content/*/top_logprobs {rule} =
choices/*/logprobs/content/*/top_logprobs/*/token {rule} =
choices/*/logprobs/content/*/top_logprobs/*/logprob {number} =
choices/*/logprobs/content/*/top_logprobs/*/bytes - {rule}
choices/*/logprobs/content/*/top_logprobs/*/bytes/* - {rule}
"""
DOCUMENT = (
    *_rows(
        """
id chat.id-missing =
object chat.object-wrong =
created chat.created-type =
model chat.model-type =
service_tier - chat.service-tier-type
system_fingerprint - chat.system-fingerprint-type
choices chat.choices-not-array =
choices/* - chat.choice-not-object
choices/*/index chat.choice-index-type =
choices/*/finish_reason chat.finish-missing chat.finish-unknown
choices/*/message chat.message-missing =
choices/*/message/role chat.role-wrong =
choices/*/message/content - chat.content-not-string
choices/*/message/refusal chat.refusal-key-missing chat.refusal-type
choices/*/message/annotations - chat.annotations-shape
choices/*/message/annotations/* - chat.annotations-shape
choices/*/message/annotations/*/type chat.annotations-shape =
choices/*/message/annotations/*/url_citation chat.annotations-shape =
choices/*/message/annotations/*/url_citation/start_index chat.annotations-shape =
choices/*/message/annotations/*/url_citation/end_index chat.annotations-shape =
choices/*/message/annotations/*/url_citation/url chat.annotations-shape =
choices/*/message/annotations/*/url_citation/title chat.annotations-shape =
choices/*/message/tool_calls tools.finish-without-calls tools.calls-not-array
choices/*/message/tool_calls/* - tools.calls-not-array
choices/*/message/tool_calls/*/id tools.id-missing =
choices/*/message/tool_calls/*/type tools.type-missing =
choices/*/message/tool_calls/*/function tools.name-missing =
choices/*/message/tool_calls/*/function/name tools.name-missing =
choices/*/message/tool_calls/*/function/arguments tools.args-type =
choices/*/message/tool_calls/*/custom tools.custom-shape =
choices/*/message/tool_calls/*/custom/name tools.custom-shape =
choices/*/message/tool_calls/*/custom/input tools.custom-shape =
choices/*/message/function_call chat.finish-without-function-call chat.function-call-shape
choices/*/message/function_call/name chat.function-call-shape =
choices/*/message/function_call/arguments chat.function-call-shape =
choices/*/message/audio chat.empty-answer chat.audio-shape
choices/*/message/audio/id chat.audio-shape =
choices/*/message/audio/expires_at chat.audio-shape =
choices/*/message/audio/data chat.audio-shape =
choices/*/message/audio/transcript chat.audio-shape =
usage usage.missing usage.not-object
"""
    ),
    *_rows(_USAGE),
    *_rows(_LOGPROBS, rule="chat.logprobs-shape", number="chat.logprob-out-of-range"),
)
CHUNK = (
    *_rows(
        """
id chatstream.id-missing =
object chatstream.object-wrong =
created chatstream.created-type =
model chatstream.model-type =
service_tier - chat.service-tier-type
obfuscation - chatstream.obfuscation-type
choices chatstream.choices-not-array =
choices/* - chatstream.choice-index-type
choices/*/index chatstream.choice-index-type =
choices/*/finish_reason chatstream.finish-key-missing chatstream.finish-unknown
choices/*/delta chatstream.delta-missing =
choices/*/delta/role chatstream.role-missing chatstream.role-wrong
choices/*/delta/content - chatstream.content-not-string
choices/*/delta/refusal - chatstream.refusal-type
choices/*/delta/function_call - chatstream.function-call-shape
choices/*/delta/function_call/name - chatstream.function-call-shape
choices/*/delta/function_call/arguments - chatstream.function-call-shape
choices/*/delta/tool_calls - tools.calls-not-array
choices/*/delta/tool_calls/* - tools.calls-not-array
choices/*/delta/tool_calls/*/index chatstream.tool-index-type =
choices/*/delta/tool_calls/*/id tools.id-missing =
choices/*/delta/tool_calls/*/type chatstream.tool-type-missing =
choices/*/delta/tool_calls/*/function chatstream.tool-function-missing =
choices/*/delta/tool_calls/*/function/name tools.name-missing =
choices/*/delta/tool_calls/*/function/arguments - chatstream.tool-args-type
choices/*/delta/tool_calls/*/custom/name tools.custom-shape =
choices/*/delta/tool_calls/*/custom/input - chatstream.tool-args-type
usage chatstream.choices-empty-no-usage usage.not-object
"""
    ),
    *_rows(_USAGE),
    *_rows(_LOGPROBS, rule="chatstream.logprobs-shape", number="chatstream.logprobs-shape"),
)
ENUMS = {
    "object": {"chat.object-wrong", "chatstream.object-wrong"},
    "choices/*/finish_reason": {"chat.finish-unknown", "chatstream.finish-unknown"},
    "choices/*/message/role": {"chat.role-wrong"},
    "choices/*/delta/role": {"chatstream.role-wrong"},
    "choices/*/message/tool_calls/*/type": {"tools.type-unknown"},
    "choices/*/delta/tool_calls/*/type": {"tools.type-unknown"},
    "choices/*/message/annotations/*/type": {"chat.annotations-shape"},
    "service_tier": {"chat.service-tier-unknown"},
}
