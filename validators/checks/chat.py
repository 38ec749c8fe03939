"""A whole ``chat.completion``: the shape, the fields, and what must hold between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from teeline.validators.checks import cross
from teeline.validators.checks.context import Context
from teeline.validators.checks.shapes import CHAT_SHAPES, shape_of
from teeline.validators.checks.structured import check_answer
from teeline.validators.checks.tools import check_calls, check_finish, message_calls
from teeline.validators.checks.usage import check_usage, check_zeros
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.chat import CHOICE, COMPLETION
from teeline.validators.fields.table import walk
from teeline.validators.fields.usage import CHAT_USAGE
from teeline.validators.fields.words import REASONING_MEMBERS

DAY = 86400.0
_NOTHING = frozenset[str]()
_PAYLOADS = ("tool_calls", "refusal", "audio", "function_call")


def check_chat(ctx: Context, value: Any) -> None:
    """Checks the document of a 2xx answer to a chat request without ``stream``."""
    if not isinstance(value, dict):
        ctx.report("chat.body-not-object", "", value)
        return
    foreign = shape_of(value, CHAT_SHAPES)
    if foreign:
        note_error(ctx, value)
        ctx.report(foreign, "", value, words=True)
        return
    walk(COMPLETION, value, "", ctx.report)
    check_created(ctx, value.get("created"), "chat.created-range")
    made = value.get("id")
    if isinstance(made, str) and made and not made.startswith("chatcmpl-"):
        ctx.report("chat.id-prefix", "/id", made)
    note_answer(ctx, value)
    choices = _listed(ctx, value.get("choices"))
    read = [_Choice(ctx, choice, f"/choices/{n}") for n, choice in enumerate(choices)]
    answered = any(choice.answered for choice in read)
    _check_indexes(ctx, read)
    if read:
        cross.check_choice_count(ctx, len(read))
    cross.check_model(ctx, value.get("model"))
    _check_usage(
        ctx, value.get("usage"), answered=answered, finish=[c.finish for c in read if c.finish]
    )


def note_error(ctx: Context, value: Mapping[str, Any]) -> None:
    """Keeps the type of an error for the exchange's facts."""
    error = value.get("error")
    kind = error.get("type") if isinstance(error, dict) else value.get("type")
    ctx.exchange.error_type = kind if isinstance(kind, str) and 0 < len(kind) <= 64 else "error"


def note_answer(ctx: Context, value: Mapping[str, Any]) -> None:
    """Keeps the id and the model of an answer for the exchange's facts."""
    exchange = ctx.exchange
    for name, slot in (("id", "response_id"), ("model", "response_model")):
        text = value.get(name)
        if isinstance(text, str) and text:
            setattr(exchange, slot, text[:256])


def check_created(ctx: Context, created: Any, rule: str) -> None:
    """A plausible Unix time in seconds: not a constant 0, not milliseconds, not the future."""
    if isinstance(created, bool) or not isinstance(created, (int, float)):
        return
    if created - created != 0:
        return  # no number at all, or an infinite one: chat.created-type has it
    if created < 1e9 or created > ctx.report.at + DAY:
        ctx.report(rule, "/created", created)


def _listed(ctx: Context, choices: Any) -> list[Any]:
    """The elements of ``choices``; none where it is no array, which its field rule has."""
    if choices == []:
        ctx.report("chat.choices-empty", "/choices", choices)
    return choices if isinstance(choices, list) else []


def _check_indexes(ctx: Context, choices: Sequence[_Choice]) -> None:
    indexes = [choice.index for choice in choices]
    if indexes == [0]:
        return
    if not indexes or any(i is None for i in indexes):
        return
    wanted = list(range(len(indexes)))
    if sorted(i for i in indexes if i is not None) != wanted:
        ctx.report("chat.choice-index-set", "/choices", detail=f"indexes {indexes[:8]}")
    elif indexes != wanted:
        ctx.report("chat.choice-index-order", "/choices", detail=f"indexes {indexes[:8]}")


def _check_usage(ctx: Context, usage: Any, *, answered: bool, finish: list[str]) -> None:
    if usage is None:
        if not ctx.joined:
            ctx.report("usage.missing", "/usage", usage)
        return
    counts = check_usage(ctx, usage, CHAT_USAGE, "/usage")
    if counts is not None:
        check_zeros(ctx, counts, CHAT_USAGE, "/usage", answered=answered)
        cross.check_tokens(ctx, counts[CHAT_USAGE.completion], finish, "/usage/completion_tokens")


class _Choice:
    """One element of ``choices``: checked when it is made."""

    def __init__(self, ctx: Context, value: Any, pointer: str) -> None:
        self._ctx = ctx
        self._pointer = pointer
        self.index: int | None = None
        self.finish: str | None = None
        self.answered = False
        if isinstance(value, dict):
            self._check(value)
        else:
            ctx.report("chat.choice-not-object", pointer, value)

    def _check(self, value: Mapping[str, Any]) -> None:
        ctx, pointer = self._ctx, self._pointer
        skip = _NOTHING
        if "delta" in value and value.get("message") is None:
            ctx.report("chat.delta-instead-of-message", f"{pointer}/delta", value["delta"])
            skip = frozenset({"message"})
        ctx.report.subject = value
        walk(CHOICE, value, pointer, ctx.report, skip)
        index = value.get("index")
        self.index = index if isinstance(index, int) and not isinstance(index, bool) else None
        finish = value.get("finish_reason")
        self.finish = finish if isinstance(finish, str) else None
        if self.finish is not None:
            ctx.finished(self.finish)
        message = value.get("message")
        if isinstance(message, dict):
            self._message(message, f"{pointer}/message")
            self._logprobs(value.get("logprobs"), message)

    def _message(self, message: Mapping[str, Any], pointer: str) -> None:
        ctx = self._ctx
        content = message.get("content")
        payload = any(message.get(name) for name in _PAYLOADS)
        self.answered = bool(content) or payload
        if "content" not in message and not payload:
            ctx.report("chat.content-key-missing", f"{pointer}/content")
        elif self.finish == "stop" and content in (None, "") and not payload:
            ctx.report("chat.empty-answer", f"{pointer}/content", content)
        if "refusal" not in message:
            ctx.report("chat.refusal-key-missing", f"{pointer}/refusal")
        for name in REASONING_MEMBERS:
            if message.get(name) is not None:
                ctx.report("chat.reasoning-extension", f"{pointer}/{name}", message[name])
        self._calls(message, pointer)
        if isinstance(content, str):
            self._text(content, f"{pointer}/content")
        check_answer(
            ctx,
            content,
            f"{pointer}/content",
            finish=self.finish,
            refused=bool(message.get("refusal")),
            called=bool(message.get("tool_calls") or message.get("function_call")),
        )

    def _calls(self, message: Mapping[str, Any], pointer: str) -> None:
        ctx = self._ctx
        calls = message_calls(ctx, message.get("tool_calls"), f"{pointer}/tool_calls")
        if calls is not None:
            check_calls(ctx, calls, cut=self.finish == "length")
            at = f"{self._pointer}/finish_reason"
            check_finish(ctx, len(calls), self.finish, at, refused=bool(message.get("refusal")))
        called = message.get("function_call")
        if self.finish == "function_call" and called is None:
            ctx.report("chat.finish-without-function-call", f"{pointer}/function_call", ABSENT)
        if called is not None and ctx.request.known and ctx.request.document.get("tools"):
            ctx.report("cross.function-call-for-tools", f"{pointer}/function_call", called)

    def _text(self, content: str, pointer: str) -> None:
        if content.lstrip().startswith("<think>"):
            self._ctx.report(
                "chat.think-tags-in-content", pointer, detail='"content" starts with <think>'
            )
        watch = cross.TextWatch(self._ctx)
        watch.feed(content, pointer)
        cross.check_replaced(
            self._ctx, replaced=watch.replaced, finish=self.finish, pointer=pointer
        )

    def _logprobs(self, logprobs: Any, message: Mapping[str, Any]) -> None:
        ctx, pointer = self._ctx, f"{self._pointer}/logprobs"
        if isinstance(message.get("content"), str) and message["content"]:
            cross.check_logprobs(ctx, present=cross.holds_logprobs(logprobs), pointer=pointer)
        if isinstance(logprobs, dict):
            _check_positive(ctx, logprobs, pointer)
            cross.check_top_logprobs(ctx, logprobs, pointer)


def _check_positive(ctx: Context, logprobs: Mapping[str, Any], pointer: str) -> None:
    """The logarithm of a probability is never above 0."""
    for part in ("content", "refusal"):
        tokens = logprobs.get(part)
        for n, token in enumerate(tokens if isinstance(tokens, list) else ()):
            number = token.get("logprob") if isinstance(token, dict) else None
            if isinstance(number, int | float) and not isinstance(number, bool) and number > 0:
                ctx.report("chat.logprob-out-of-range", f"{pointer}/{part}/{n}/logprob", number)
                return
