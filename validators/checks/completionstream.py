"""A stream of legacy completions: chunks of text, errors and ``[DONE]`` in their order.

What belongs here: the automaton of a choice, which is far smaller than chat's, and what must have come by
the end. What streams of chunks share is in chunks.py, what a whole answer shares in completions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeline.validators.checks import cross
from teeline.validators.checks.chunks import (
    Envelope,
    EnvelopeRules,
    ErrorRules,
    StreamUsage,
    UsageRules,
    check_stream_error,
    is_annotation,
    is_filter_chunk,
)
from teeline.validators.checks.completions import (
    answers,
    check_logprobs_shape,
    is_generated,
    text_watch,
    whole_usage,
)
from teeline.validators.checks.context import Context
from teeline.validators.checks.shapes import COMPLETION_CHUNK_SHAPES, shape_of
from teeline.validators.evidence import ABSENT
from teeline.validators.fast import OpenText
from teeline.validators.fields.completions import COMPLETION_CHUNK_CHOICE, TEXT_COMPLETION
from teeline.validators.fields.table import walk
from teeline.validators.fields.words import COMPLETION_FINISH_REASONS, FOREIGN_FINISH_REASONS
from teeline.validators.model import Unit

_ENVELOPE = EnvelopeRules(
    id_changes="completions.id-changes",
    model_changes="completions.model-changes",
    created_changes="",
    created_range="completions.created-range",
)
_USAGE = UsageRules(
    missing="completions.usage-missing",
    on_choice_chunk="completions.usage-on-choice-chunk",
    not_last="completions.usage-not-last",
    repeated="completions.usage-repeated",
    null_missing="",
    unrequested="",
)
_ERRORS = ErrorRules(
    well_formed="completions.error-object",
    beside_choices="completions.error-object",
    malformed="completions.error-malformed",
    before_content="completions.error-before-content",
)
_AZURE_SKIP = frozenset({"id", "object", "model", "created", "choices"})

AFTER_FINISH = {
    # (text in the chunk, a finish_reason, the same one as before) -> rules; absent: legal
    (True, False, False): ("completions.text-after-finish",),
    (False, True, True): ("completions.finish-repeated",),
    (False, True, False): ("completions.finish-changes",),
    (True, True, True): ("completions.text-after-finish", "completions.finish-repeated"),
    (True, True, False): ("completions.text-after-finish", "completions.finish-changes"),
}
"""What a chunk of a choice breaks once the choice has finished; an empty text breaks nothing."""


class CompletionStream:
    """Takes the events of one answer to a completions request with ``stream``."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._choices: dict[int, _StreamedText] = {}
        self._chunks = 0
        self._done = 0
        self._over = False  # an error or another protocol: only framing is of interest from here on
        self._lost = False  # something could not be read: what is missing may have been in it
        self._envelope = Envelope(ctx, _ENVELOPE)
        self._usage = StreamUsage(ctx, _USAGE)

    # -- events ---------------------------------------------------------------------------------------

    def done(self) -> None:
        """``[DONE]`` in any of its spellings."""
        self._done += 1
        if self._done > 1:
            self._ctx.report("completions.done-repeated", detail="[DONE] again")

    @property
    def ended(self) -> bool:
        """Whether ``[DONE]`` has come."""
        return self._done > 0

    def unreadable(self) -> None:
        """An event whose data no client can read (its own rule has been reported)."""
        self._lost = True

    def event(self, value: Any, name: str) -> None:
        """One event's document; ``name`` is its ``event`` field."""
        report = self._ctx.report
        if self._done:
            report("completions.data-after-done", "", value, words=True)
            return
        if not isinstance(value, dict):
            report("completions.not-object", "", value)
            self._lost = True
            return
        if self._over:
            return
        first = not self._chunks
        if check_stream_error(self._ctx, value, name, _ERRORS, first=first):
            self._over = True
            return
        foreign = shape_of(value, COMPLETION_CHUNK_SHAPES)
        if foreign:
            self._foreign(foreign, value)
        else:
            self._chunk(value)

    def _foreign(self, rule: str, value: Mapping[str, Any]) -> None:
        """A ping is one event between chunks, chunks of chat may be some among others, the rest is all."""
        at = "/choices" if rule == "completions.chat-shape" else "/type"
        self._ctx.report(rule, at, value.get(at[1:]), words=True)
        if rule == "completions.chat-shape":
            self._chunks += 1
            self._lost = True
        elif rule != "completions.ping-event":
            self._over = True

    def _chunk(self, value: Mapping[str, Any]) -> None:
        self._chunks += 1
        report = self._ctx.report
        azure = is_filter_chunk(value)
        walk(TEXT_COMPLETION, value, "", report, _AZURE_SKIP if azure else frozenset())
        if azure:
            return
        self._envelope.check(value)
        choices = value.get("choices")
        if not isinstance(choices, list):
            self._lost = True  # completions.choices-type has it
        elif not choices and not value.get("usage"):
            report("completions.choices-empty-no-usage", "/choices", choices)
        for n, choice in enumerate(choices if isinstance(choices, list) else ()):
            self._choice(choice, f"/choices/{n}", n)
        spoke = any(choice.spoke for choice in self._choices.values())
        usage = whole_usage(value.get("usage", ABSENT), spoke=spoke)
        self._usage.chunk(value, usage, has_choices=bool(choices))

    def _choice(self, choice: Any, pointer: str, position: int) -> None:
        if not isinstance(choice, dict):
            self._ctx.report("completions.choices-type", pointer, choice)
            self._lost = True
        elif not is_annotation(choice):
            walk(COMPLETION_CHUNK_CHOICE, choice, pointer, self._ctx.report)
            state = self._state(choice.get("index"), position)
            if state is not None:
                state.feed(choice, pointer)

    def _state(self, index: Any, position: int) -> _StreamedText | None:
        if isinstance(index, bool) or not isinstance(index, int):
            if (answers(self._ctx) or 1) > 1 or len(self._choices) > 1:
                self._lost = True  # whose text or end it was is not known (P9)
                return None
            index = position
        state = self._choices.get(index)
        if state is None:
            if len(self._choices) >= self._ctx.limits.choices:
                self._ctx.partial("choice-limit")
                self._lost = True
                return None
            state = self._choices[index] = _StreamedText(self._ctx, index)
        return state

    def open_text(self, value: Mapping[str, Any]) -> OpenText | None:
        """Legacy streams are rare: every chunk has its full check."""
        return None

    # -- the end --------------------------------------------------------------------------------------

    def close(self, *, cut: bool) -> None:
        """The stream is over. ``cut``: it was broken off, which has a rule of its own (P9)."""
        report = self._ctx.report
        if self._over or cut:
            return
        if not self._chunks:
            if not self._lost and not report.has("completions.ping-event"):
                report("completions.no-chunks", detail="no chunk in the stream")
            return
        if not self._done:
            report("completions.done-missing", detail="the body ended without data: [DONE]")
        if self._lost:
            return
        finished = [choice for choice in self._choices.values() if choice.close()]
        self._indexes()
        spoke = any(choice.spoke for choice in self._choices.values())
        self._usage.close(
            complete=bool(self._done) and not report.has("completions.data-after-done"),
            answered=spoke and is_generated(self._ctx),
            finish=[choice.finish for choice in finished if choice.finish],
            answers=answers(self._ctx),
        )

    def _indexes(self) -> None:
        """The indexes of a stream are 0 to n-1."""
        ctx = self._ctx
        if ctx.report.has("completions.choice-index-type") or self._is_choiceless():
            return
        seen = sorted(self._choices)
        if seen != list(range(len(seen))):
            detail = f"indexes {seen[:8]}"
            ctx.report("completions.choice-index-set", "/choices/0/index", detail=detail)
        else:
            cross.check_choice_count(ctx, len(seen), prompts=ctx.request.inputs("prompt"))

    def _is_choiceless(self) -> bool:
        """Whether no choice came, and a rule has said why (P9)."""
        named = ("completions.choices-type", "completions.choices-empty-no-usage")
        return not self._choices and self._ctx.report.has(*named)


class _StreamedText:
    """The state of one index: an automaton with two states, open and finished."""

    __slots__ = ("_ctx", "_index", "_logprobs", "_odd", "_place", "_watch", "finish", "spoke")

    def __init__(self, ctx: Context, index: int) -> None:
        self._ctx = ctx
        self._index = index
        self.finish: str | None = None
        self.spoke = False
        self._odd = False  # a finish_reason came that is none
        self._logprobs = False
        self._place = (0, 0)
        self._watch = text_watch(ctx)

    def feed(self, choice: Mapping[str, Any], pointer: str) -> None:
        """Takes one chunk of the choice."""
        ctx, report = self._ctx, self._ctx.report
        self._place = (report.index, report.byte)
        text, logprobs = choice.get("text"), choice.get("logprobs")
        check_logprobs_shape(ctx, logprobs, f"{pointer}/logprobs")
        self._logprobs = self._logprobs or cross.holds_logprobs(logprobs)
        speaks = isinstance(text, str) and text != ""
        if speaks:
            self.spoke = True
            if self._watch is not None:
                self._watch.feed(str(text), f"{pointer}/text")
        at = f"{pointer}/finish_reason"
        finish = self._finish_word(choice.get("finish_reason", ABSENT), at)
        if self.finish is not None:
            self._after_finish(speaks, finish, pointer)
        elif finish is not None:
            self.finish = finish
            ctx.finished(finish)

    def _finish_word(self, value: Any, pointer: str) -> str | None:
        """The finish_reason of a chunk; None where it has none. Words outside the enum still finish."""
        if value is None:
            return None
        if value is ABSENT:
            if self.finish is None:
                self._ctx.report("completions.finish-key-missing", pointer)
            return None
        if not isinstance(value, str) or value not in COMPLETION_FINISH_REASONS:
            foreign = isinstance(value, str) and value in FOREIGN_FINISH_REASONS
            rule = "completions.finish-foreign" if foreign else "completions.finish-unknown"
            self._ctx.report(rule, pointer, value, words=True)
            # An empty word comes on every chunk of those that send it, and ends nothing.
            self._odd = True
        return value if isinstance(value, str) and value else None

    def _after_finish(self, speaks: bool, finish: str | None, pointer: str) -> None:
        for rule in AFTER_FINISH.get((speaks, finish is not None, finish == self.finish), ()):
            at = "text" if rule == "completions.text-after-finish" else "finish_reason"
            self._ctx.report(
                rule, f"{pointer}/{at}", ABSENT if finish is None else finish, words=True
            )

    def close(self) -> bool:
        """The stream is over, and nothing that was sent is missing; whether the choice had finished."""
        ctx = self._ctx
        ctx.report.place(Unit.EVENT, *self._place)
        pointer = f"/choices/{self._index}"
        if self.finish is None and not self._odd:
            ctx.report(
                "completions.finish-missing",
                "/choices/0/finish_reason",
                detail=f"choice {self._index} never got a finish_reason",
            )
        if self._watch is not None:
            replaced = self._watch.replaced
            cross.check_replaced(
                ctx, replaced=replaced, finish=self.finish, pointer=f"{pointer}/text"
            )
        if self.spoke:
            cross.check_logprobs(ctx, present=self._logprobs, pointer=f"{pointer}/logprobs")
        return self.finish is not None
