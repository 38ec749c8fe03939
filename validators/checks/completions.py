"""A whole ``text_completion``: the shape, the fields, and what must hold between them.

What belongs here: answers of ``POST /completions``, the older API beside chat, and what they share with
its streams (completionstream.py): the number of answers, usage, log probabilities, the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from teeline.validators.checks import cross
from teeline.validators.checks.chat import check_created, note_answer, note_error
from teeline.validators.checks.context import Context
from teeline.validators.checks.shapes import COMPLETION_SHAPES, shape_of
from teeline.validators.checks.usage import check_usage, check_zeros
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.completions import COMPLETION_CHOICE, TEXT_COMPLETION
from teeline.validators.fields.table import walk
from teeline.validators.fields.usage import CHAT_USAGE


def check_completion(ctx: Context, value: Any) -> None:
    """Checks the document of a 2xx answer to a completions request without ``stream``."""
    if not isinstance(value, dict):
        ctx.report("completions.not-object", "", value)
        return
    foreign = shape_of(value, COMPLETION_SHAPES)
    if foreign:
        note_error(ctx, value)
        ctx.report(foreign, "", value, words=True)
        return
    walk(TEXT_COMPLETION, value, "", ctx.report)
    check_created(ctx, value.get("created"), "completions.created-range")
    note_answer(ctx, value)
    cross.check_model(ctx, value.get("model"))
    choices = value.get("choices")
    if choices == []:
        ctx.report("completions.choices-empty", "/choices", choices)
    listed = choices if isinstance(choices, list) else []
    read = [_Choice(ctx, choice, f"/choices/{n}") for n, choice in enumerate(listed)]
    if read:
        _check_indexes(ctx, read)
        cross.check_choice_count(ctx, len(read), prompts=ctx.request.inputs("prompt"))
    _check_usage(ctx, value.get("usage"), read)


class _Choice:
    """One element of ``choices``: checked when it is made."""

    def __init__(self, ctx: Context, value: Any, pointer: str) -> None:
        self.index: int | None = None
        self.finish: str | None = None
        self.text = ""
        if not isinstance(value, dict):
            ctx.report("completions.choices-type", pointer, value)
            return
        walk(COMPLETION_CHOICE, value, pointer, ctx.report)
        index, finish, text = value.get("index"), value.get("finish_reason"), value.get("text")
        self.index = index if isinstance(index, int) and not isinstance(index, bool) else None
        if isinstance(finish, str):
            self.finish = finish
            ctx.finished(finish)
        check_logprobs_shape(ctx, value.get("logprobs"), f"{pointer}/logprobs")
        if isinstance(text, str) and text:
            self.text = text
            self._check_text(ctx, value, pointer)

    def _check_text(self, ctx: Context, value: Mapping[str, Any], pointer: str) -> None:
        present = cross.holds_logprobs(value.get("logprobs"))
        cross.check_logprobs(ctx, present=present, pointer=f"{pointer}/logprobs")
        watch = text_watch(ctx)
        if watch is not None:
            watch.feed(self.text, f"{pointer}/text")
            cross.check_replaced(
                ctx, replaced=watch.replaced, finish=self.finish, pointer=f"{pointer}/text"
            )


def _check_indexes(ctx: Context, choices: Sequence[_Choice]) -> None:
    """The indexes are 0 to n-1, in whatever order; ones that are no integers have been reported."""
    indexes = [choice.index for choice in choices if choice.index is not None]
    if len(indexes) == len(choices) and sorted(indexes) != list(range(len(indexes))):
        detail = f"indexes {indexes[:8]}"
        ctx.report("completions.choice-index-set", "/choices", detail=detail)


def _check_usage(ctx: Context, usage: Any, choices: Sequence[_Choice]) -> None:
    if usage is None:
        ctx.report("usage.missing", "/usage", usage)
        return
    spoke = any(choice.text for choice in choices)
    counts = check_usage(ctx, whole_usage(usage, spoke=spoke), CHAT_USAGE, "/usage")
    if counts is not None:
        answered = spoke and is_generated(ctx)
        check_zeros(ctx, counts, CHAT_USAGE, "/usage", answered=answered)
        finish = [choice.finish for choice in choices if choice.finish]
        at = "/usage/completion_tokens"
        cross.check_tokens(ctx, counts[CHAT_USAGE.completion], finish, at, answers(ctx))


# -- shared with streams ------------------------------------------------------------------------------


def answers(ctx: Context) -> int | None:
    """How many answers are generated and counted: the best ones of more, for each prompt."""
    best = ctx.request.integer("best_of") or 1
    return max(ctx.request.choices, best) * (ctx.request.inputs("prompt") or 1)


def is_generated(ctx: Context) -> bool:
    """Whether a text is certainly the model's: with ``echo`` it begins with the prompt."""
    return ctx.request.known and ctx.request.flag("echo") is not True


def whole_usage(usage: Any, *, spoke: bool) -> Any:
    """Usage with the counter that official answers leave out where every text is empty."""
    if spoke or not isinstance(usage, dict) or usage.get("completion_tokens") is not None:
        return usage
    # Counted so that what is there must still add up.
    return {**usage, "completion_tokens": 0} if usage.get("prompt_tokens") is not None else usage


def text_watch(ctx: Context) -> cross.TextWatch | None:
    """Looks for what must not be in a text; None where the text is the prompt, too."""
    return cross.TextWatch(ctx) if is_generated(ctx) else None


def check_logprobs_shape(ctx: Context, logprobs: Any, pointer: str) -> None:
    """What the field table can't say: which arrays there are, and that they are about the same tokens."""
    if not isinstance(logprobs, dict) or not logprobs:
        return
    tokens, numbers = logprobs.get("tokens", ABSENT), logprobs.get("token_logprobs", ABSENT)
    if tokens is ABSENT and numbers is ABSENT:
        ctx.report("completions.logprobs-shape", pointer, logprobs)
    elif isinstance(tokens, list) and isinstance(numbers, list) and len(tokens) != len(numbers):
        detail = f"{len(tokens)} tokens, {len(numbers)} token_logprobs"
        ctx.report("completions.logprobs-shape", f"{pointer}/token_logprobs", detail=detail)
