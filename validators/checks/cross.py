"""An answer against what its request asked for, calls apart (tools.py).

What belongs here: relations that answers of several operations share, streamed or not. All of it is off
where the request was not fully read (P7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.tools import check_call_as_text
from teeline.validators.operation import Operation

_ALIASES = {
    "gpt-4-vision-preview": "gpt-4-1106-vision-preview",
    "gpt-4-turbo-preview": "gpt-4-0125-preview",
    "davinci-002": "davinci:2023-07-21-v2",
    "babbage-002": "babbage:2023-07-21-v2",
}
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
REPLACEMENT = "\ufffd"


def check_model(ctx: Context, model: Any, pointer: str = "/model") -> None:
    """A model that has nothing to do with the requested one."""
    if not is_wanted(ctx, model):
        ctx.report("cross.model-substituted", pointer, model, words=True)


def is_wanted(ctx: Context, model: Any) -> bool:
    """Whether a model may be the requested one, as far as both are known."""
    wanted = ctx.request.document.get("model")
    if not ctx.request.known or not isinstance(wanted, str) or not isinstance(model, str):
        return True
    if not wanted or not model or "/deployments/" in ctx.exchange.path:
        return True  # Azure names deployments in the path, and they are called anything
    if model.startswith(wanted) and "/" not in model[len(wanted) :]:
        return True  # the usual: an alias and its dated version
    return _ALIASES.get(wanted) == model or _related(_bare(wanted), _bare(model))


def _bare(model: str) -> str:
    """A model's name without provider prefix, variant suffix and punctuation."""
    return _PUNCTUATION.sub("", model.lower().rsplit("/", 1)[-1].partition("@")[0])


def _related(wanted: str, got: str) -> bool:
    return wanted.startswith(got) or got.startswith(wanted)


def check_choice_count(
    ctx: Context, count: int, pointer: str = "/choices", prompts: int | None = 1
) -> None:
    """``prompts``: each is answered n times; None where their number can't be told."""
    if not ctx.request.known or prompts is None:
        return
    wanted = ctx.request.choices * prompts
    if count != wanted:
        rule = "cross.choices-too-many" if count > wanted else "cross.choices-too-few"
        asked = f"n is {ctx.request.choices}" + (f", {prompts} prompts" if prompts > 1 else "")
        ctx.report(rule, pointer, detail=f"{asked}, {count} came")


def check_tokens(
    ctx: Context, completion: int, finish: list[str], pointer: str, answers: int | None = None
) -> None:
    """Generated tokens against the requested limit, which holds for each of the ``answers``."""
    limit = ctx.request.integer("max_completion_tokens") or ctx.request.integer("max_tokens")
    if limit is None:
        return
    cut = finish == ["length"]
    check_limit(ctx, limit, completion, pointer, cut=cut, times=answers or ctx.request.choices)


def check_limit(
    ctx: Context, limit: int | None, generated: int, pointer: str, *, cut: bool, times: int = 1
) -> None:
    """Generated tokens against a limit that may be None; ``cut``: the answer says that it ended there."""
    if limit is None or limit < 1:
        return
    detail = f"limit {limit}, generated {generated}"
    if generated > limit * times:
        ctx.report("cross.max-tokens-exceeded", pointer, detail=detail)
    elif cut and generated < limit // 2:
        ctx.report("cross.length-without-limit", pointer, detail=detail)


def holds_logprobs(value: Any) -> bool:
    """Whether anything stands in a ``logprobs`` member, of whatever shape."""
    return (
        any(v is not None for v in value.values()) if isinstance(value, dict) else value is not None
    )


def check_logprobs(ctx: Context, *, present: bool, pointer: str) -> None:
    """Whether logprobs came as they were asked for. Call it for answers that hold text."""
    asked = _asks_logprobs(ctx)
    if asked and not present:
        ctx.report("cross.logprobs-missing", pointer)
    elif present and asked is False:
        ctx.report(
            "cross.logprobs-unrequested", pointer, detail='"logprobs" present, not asked for'
        )


def _asks_logprobs(ctx: Context) -> bool | None:
    """None where it can't be told. Legacy completions ask by a number, which is read in two ways at 0."""
    if not ctx.request.known:
        return None
    if ctx.operation is Operation.COMPLETIONS:
        alternatives = ctx.request.integer("logprobs")
        return None if alternatives == 0 else alternatives is not None
    return ctx.request.flag("logprobs") is True


def check_top_logprobs(ctx: Context, logprobs: Mapping[str, Any], pointer: str) -> None:
    """More alternatives a token than asked for."""
    if not ctx.request.known or ctx.request.flag("logprobs") is not True:
        return
    asked = ctx.request.integer("top_logprobs") or 0
    for part in ("content", "refusal"):
        tokens = logprobs.get(part)
        for n, token in enumerate(tokens if isinstance(tokens, list) else ()):
            top = token.get("top_logprobs") if isinstance(token, dict) else None
            if isinstance(top, list) and len(top) > asked:
                at = f"{pointer}/{part}/{n}/top_logprobs"
                ctx.report(
                    "cross.top-logprobs-count", at, detail=f"asked for {asked}, {len(top)} came"
                )
                return


class TextWatch:
    """What must not show up in a choice's text, looked for as the text comes in pieces.

    Holds no more of the text than the longest thing it looks for.
    """

    __slots__ = ("_ctx", "_keep", "_markers", "_stops", "_tail", "replaced")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        stop = ctx.request.document.get("stop")
        stops = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
        self._stops = tuple(s for s in stops[:4] if isinstance(s, str) and 0 < len(s) <= 256)
        self._markers = ctx.request.tools_sent
        self._keep = max((len(s) for s in self._stops), default=0)
        if self._markers:
            self._keep = max(self._keep, 16)
        self._tail = ""
        self.replaced = False

    @property
    def searches(self) -> bool:
        """Whether it looks for more than U+FFFD, which plain ASCII can't hold."""
        return self._keep > 0

    def feed(self, text: str, pointer: str) -> None:
        if REPLACEMENT in text and not self.replaced:
            self.replaced = True
        if not self._keep:
            return
        window = self._tail + text
        if any(stop in window for stop in self._stops):
            detail = 'a "stop" string is in the text'
            self._ctx.report("cross.stop-sequence", pointer, detail=detail)
            self._stops = ()  # once in a choice says it all
        if self._markers and check_call_as_text(self._ctx, window, pointer):
            self._markers = False
        self._tail = window[-self._keep :]


def check_replaced(ctx: Context, *, replaced: bool, finish: str | None, pointer: str) -> None:
    """U+FFFD in the answer that the request does not hold; a length limit may cut a character."""
    if not replaced or finish == "length" or not ctx.request.known:
        return
    # Bytes that were no UTF-8 have a rule of their own; our own decoding put U+FFFD in their place.
    if ctx.report.has("http.utf8-invalid", "sse.utf8-invalid"):
        return
    if not (ctx.request.replaced or holds_replacement(ctx.request.document)):
        ctx.report("cross.replacement-characters", pointer, detail="U+FFFD in the text")


def holds_replacement(document: Any) -> bool:
    """Whether U+FFFD stands anywhere in a document."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if REPLACEMENT in value:
                return True
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False
