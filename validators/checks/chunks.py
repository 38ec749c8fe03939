"""What streams of chunks share: chat's and those of legacy completions.

What belongs here: the constant members of a stream's chunks, where usage stands, and errors among chunks.
Each takes the rules that it reports from the protocol that uses it. What doesn't: choices and what they
say (chatchoice.py, completionstream.py), framing (stream.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from teeline.validators.checks import cross
from teeline.validators.checks.chat import check_created
from teeline.validators.checks.context import Context
from teeline.validators.checks.errors import check_error_object
from teeline.validators.checks.usage import check_usage, check_zeros
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.usage import CHAT_USAGE
from teeline.validators.model import Unit

Counts = dict[str, int]


class EnvelopeRules(NamedTuple):
    """An empty one: nothing is reported."""

    id_changes: str
    model_changes: str
    created_changes: str
    created_range: str


class Envelope:
    """id, model and created are the same in all chunks of a stream."""

    __slots__ = ("_created", "_ctx", "_fine", "_id", "_model", "_rules")

    def __init__(self, ctx: Context, rules: EnvelopeRules) -> None:
        self._ctx = ctx
        self._rules = rules
        self._id: str | None = None
        self._model: str | None = None
        self._created: Any = None
        self._fine: tuple[Any, Any, Any] | None = None  # the members of a chunk without a breach

    def check(self, value: Mapping[str, Any]) -> None:
        members = (value.get("id"), value.get("model"), value.get("created"))
        if members != self._fine:
            before = self._ctx.report.breaches
            self._check(*members)
            if self._ctx.report.breaches == before:
                self._fine = members

    def _check(self, made: Any, model: Any, created: Any) -> None:
        ctx, rules = self._ctx, self._rules
        if isinstance(made, str) and made:
            if self._id is None:
                self._id = made
                ctx.exchange.response_id = made[:256]
            elif made != self._id:
                ctx.report(rules.id_changes, "/id", made)
        if isinstance(model, str) and model:
            if self._model is None:
                self._model = model
                ctx.exchange.response_model = model[:256]
                cross.check_model(ctx, model)
            elif model != self._model:
                ctx.report(rules.model_changes, "/model", model, words=True)
        check_created(ctx, created, rules.created_range)
        if self._created is None:
            self._created = created
        elif created is not None and created != self._created and rules.created_changes:
            ctx.report(rules.created_changes, "/created", created)


# -- usage --------------------------------------------------------------------------------------------


class UsageRules(NamedTuple):
    """An empty one: nothing is reported."""

    missing: str
    on_choice_chunk: str
    not_last: str
    repeated: str
    null_missing: str
    unrequested: str


class StreamUsage:
    """Where usage stands in a stream, and what it says."""

    def __init__(self, ctx: Context, rules: UsageRules) -> None:
        self._ctx = ctx
        self._rules = rules
        self._chunks = 0
        self._without_choices = 0
        self._key_missing = False
        self._later = False  # a chunk without usage came after the last usage
        self._place = (0, 0)
        self._counts: Counts | None = None

    def chunk(self, value: Mapping[str, Any], usage: Any, *, has_choices: bool) -> None:
        """Takes one chunk; ``usage`` is what stands there, ABSENT for nothing."""
        if usage is ABSENT:
            self._key_missing = True
        if usage is None or usage is ABSENT:
            moderation = not has_choices and value.get("moderation") is not None
            self._later |= self._chunks > 0 and not moderation
            return
        report = self._ctx.report
        self._chunks += 1
        self._later = False
        self._place = (report.index, report.byte)
        if not has_choices:
            self._without_choices += 1
        asked = self._ctx.request.member("stream_options").get("continuous_usage_stats") is True
        if self._chunks > 1 and not asked:
            report(self._rules.repeated, "/usage", usage)
        self._counts = check_usage(self._ctx, usage, CHAT_USAGE, "/usage")

    def close(
        self, *, complete: bool, answered: bool, finish: list[str], answers: int | None = None
    ) -> None:
        """The stream is over. ``complete``: its end marker came and nothing behind it."""
        ctx, report, rules = self._ctx, self._ctx.report, self._rules
        if not self._chunks:
            if ctx.request.known and ctx.request.include_usage and complete:
                report(rules.missing, "/usage", detail="include_usage was asked for")
            return
        report.place(Unit.EVENT, *self._place)
        if not self._without_choices:
            report(rules.on_choice_chunk, "/usage", detail="usage only beside choices")
        if self._later:
            report(rules.not_last, "/usage", detail="a chunk without usage follows")
        if ctx.request.known:
            self._against_request()
        if self._counts is not None:
            check_zeros(ctx, self._counts, CHAT_USAGE, "/usage", answered=answered)
            completion = self._counts[CHAT_USAGE.completion]
            cross.check_tokens(ctx, completion, finish, "/usage/completion_tokens", answers)

    def _against_request(self) -> None:
        ctx, rules = self._ctx, self._rules
        if not ctx.request.include_usage:
            if rules.unrequested:
                detail = "usage came without include_usage"
                ctx.report(rules.unrequested, "/usage", detail=detail)
        elif self._key_missing and rules.null_missing:
            ctx.report(rules.null_missing, "/usage", detail='chunks without a "usage" member')


# -- errors -------------------------------------------------------------------------------------------


class ErrorRules(NamedTuple):
    well_formed: str
    beside_choices: str
    malformed: str
    before_content: str


def check_stream_error(
    ctx: Context, value: Mapping[str, Any], name: str, rules: ErrorRules, *, first: bool
) -> bool:
    """Whether an event is an error, well-formed or not; reports what it is.

    ``name`` is the event's ``event`` field; ``first``: no chunk came before it.
    """
    error = value.get("error")
    if not error and (value.get("choices") is not None or not _malformed_error(value, name)):
        return False
    ctx.exchange.error_type = "error"
    if isinstance(error, dict):
        beside = "choices" in value
        ctx.report(rules.beside_choices if beside else rules.well_formed, "/error", error)
        check_error_object(ctx, error, "/error")
    else:
        ctx.report(rules.malformed, "/error" if error else "", error or value)
    if first:
        ctx.report(rules.before_content, "", detail=f"event {ctx.report.index} is an error")
    return True


def _malformed_error(value: Mapping[str, Any], name: str) -> bool:
    """What is meant as an error but has no ``error`` member that a client would see, nor choices."""
    if name == "error" or value.get("type") == "error" or value.get("object") == "error":
        return True
    said = value.get("msg", value.get("message"))
    return "code" in value and isinstance(said, str)


# -- rows that Azure adds (P5) ------------------------------------------------------------------------

_FILTER_MEMBERS = ("content_filter_offsets", "content_filter_results", "content_filter_result")


def is_filter_chunk(value: Mapping[str, Any]) -> bool:
    """Whether a chunk is one that Azure's content filter adds to a stream."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        return False
    if not choices:
        return "prompt_filter_results" in value
    return all(isinstance(choice, dict) and is_annotation(choice) for choice in choices)


def is_annotation(choice: Mapping[str, Any]) -> bool:
    """A choice that holds the filter's results and none of the members that carry an answer."""
    return (
        choice.get("delta") is None
        and "message" not in choice
        and "text" not in choice
        and any(name in choice for name in _FILTER_MEMBERS)
    )
