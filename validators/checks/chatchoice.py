"""One choice of a chat stream: an automaton over its chunks.

What belongs here: what a choice's deltas may hold and in which order. What the chunks of a stream share
(envelope, usage, errors, the end) is in chatstream.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeline.validators.checks import cross
from teeline.validators.checks.context import Context
from teeline.validators.checks.structured import check_answer, joined_text
from teeline.validators.checks.tools import check_calls, check_finish
from teeline.validators.checks.toolstream import ToolStream
from teeline.validators.evidence import ABSENT
from teeline.validators.fast import Hole, HoleKind
from teeline.validators.fields.words import (
    FINISH_REASONS,
    FOREIGN_FINISH_REASONS,
    REASONING_MEMBERS,
)
from teeline.validators.model import Unit

_CUMULATIVE_CHUNKS = 3
_CUMULATIVE_START = 4
_CUMULATIVE_KEPT = 1 << 20
_HELD = 64

AFTER_FINISH = {
    # (payload in the delta, a finish_reason, the same one as before) -> rule; absent: legal
    (True, False, False): ("chatstream.content-after-finish",),
    (False, True, True): ("chatstream.finish-repeated",),
    (False, True, False): ("chatstream.finish-changes",),
    (True, True, True): ("chatstream.content-after-finish", "chatstream.finish-repeated"),
    (True, True, False): ("chatstream.content-after-finish", "chatstream.finish-changes"),
}
"""What a chunk of a choice breaks once the choice has finished; an empty delta breaks nothing."""

NO_TEXT = ("tool_calls", "refusal", "audio", "function_call", "reasoning_details")
"""Members of a delta that bring something else than a text."""
TEXTS = {
    "content": HoleKind.TEXT,
    "reasoning_content": HoleKind.STRING,
    "reasoning": HoleKind.STRING,
}
"""Texts of a delta: only of content is more looked at than that it is there."""


class StreamedChoice:
    """The state of one index. ``finish`` is its finish_reason, None while it is open.

    ``alone``: it is the only index so far although more were asked for. What repeats is then held back,
    since several answers on one index have a rule of their own, which only the end can tell.
    """

    __slots__ = (
        "_ctx",
        "_cumulative",
        "_first",
        "_grown",
        "_held",
        "_joined",
        "_previous",
        "_roles",
        "_watch",
        "answered",
        "empty_finish",
        "finish",
        "finishes",
        "function_call",
        "index",
        "listens",
        "logprobs",
        "place",
        "pointer",
        "reasoned",
        "refused",
        "spoke",
        "tools",
        "wordless",
    )

    def __init__(self, ctx: Context, index: int, *, alone: bool = False) -> None:
        self._ctx = ctx
        self._held: list[tuple[str, str, Any, tuple[int, int]]] | None = [] if alone else None
        self.index = index
        self.finish: str | None = None
        self.finishes = 0
        self.empty_finish = False
        self.answered = False
        self.spoke = False
        self.refused = False
        self.reasoned = False
        self.function_call = False
        self.logprobs = False
        self.wordless = False  # a fault has taken its content or calls away
        self.tools = ToolStream(ctx)
        self.place = (0, 0)
        self.pointer = "/choices/0"
        self._first = True
        self._roles = 0
        self._cumulative = 0  # contents so far that start with the one before; -1: no more
        self._grown = 0
        self._previous = ""
        self._watch = cross.TextWatch(ctx)
        self._joined = joined_text(ctx)
        self.listens = True  # something still looks at content, whatever it says

    @property
    def openings(self) -> int:
        """How many times this index opened with a role or finished: more than once is two choices."""
        return max(self._roles, self.finishes)

    def feed(
        self,
        choice: Mapping[str, Any],
        delta: Mapping[str, Any],
        pointer: str,
        *,
        lenient: bool,
        member: str = "delta",
    ) -> None:
        """Takes one chunk of the choice.

        ``lenient``: an empty delta here owes no finish_reason key. ``member``: where the delta stood.
        """
        self.place = (self._ctx.report.index, self._ctx.report.byte)
        self.pointer = pointer
        payload = self._delta(delta, f"{pointer}/{member}")
        logprobs = choice.get("logprobs")
        if logprobs is not None:
            self._logprobs(logprobs, f"{pointer}/logprobs")
        value = choice.get("finish_reason", ABSENT)
        finish = self._finish_word(value, pointer)
        if self.finish is not None:
            self._after_finish(payload, finish, pointer)
            return
        # Official audio streams end with a delta that holds the audio's expiry and nothing else.
        if value is ABSENT and not (lenient and not delta) and delta.keys() != {"audio"}:
            self._ctx.report("chatstream.finish-key-missing", f"{pointer}/finish_reason")
        if finish is not None:
            self.finish = finish
            self.finishes = 1
            self._ctx.finished(finish)
            if delta.get("content"):
                self._ctx.report(
                    "chatstream.finish-with-content",
                    f"{pointer}/{member}/content",
                    delta["content"],
                )

    def _logprobs(self, value: Any, pointer: str) -> None:
        self.logprobs = self.logprobs or cross.holds_logprobs(value)
        if isinstance(value, dict):
            cross.check_top_logprobs(self._ctx, value, pointer)

    def _after_finish(self, payload: bool, finish: str | None, pointer: str) -> None:
        if finish is not None:
            self.finishes += 1
        for rule in AFTER_FINISH.get((payload, finish is not None, finish == self.finish), ()):
            if rule == "chatstream.finish-repeated":
                self._repeats(rule, f"{pointer}/finish_reason", finish)
            else:
                at = "delta" if rule == "chatstream.content-after-finish" else "finish_reason"
                self._ctx.report(
                    rule, f"{pointer}/{at}", ABSENT if finish is None else finish, words=True
                )

    def _repeats(self, rule: str, pointer: str, value: Any) -> None:
        """Reports what came again, or holds it back."""
        report = self._ctx.report
        if self._held is None:
            report(rule, pointer, value, words=True)
        elif len(self._held) < _HELD:
            self._held.append((rule, pointer, value, (report.index, report.byte)))

    def release(self) -> None:
        """Another index has come, or the end: what was held back are repetitions after all."""
        held, self._held = self._held, None
        report = self._ctx.report
        kept = (report.unit, report.index, report.byte)
        for rule, pointer, value, place in held or ():
            report.place(Unit.EVENT, *place)
            report(rule, pointer, value, words=True)
        report.place(*kept)

    def forget(self) -> None:
        """Several answers share this index: that names the repetitions."""
        self._held = None

    def _finish_word(self, value: Any, pointer: str) -> str | None:
        """The finish_reason of a chunk; None where it has none. Words outside the enum still finish."""
        if value is None or value is ABSENT:
            return None
        if value == "":
            self.empty_finish = True
            self._ctx.report("chatstream.finish-empty-string", f"{pointer}/finish_reason", value)
            return None
        if value not in FINISH_REASONS if isinstance(value, str) else True:
            foreign = isinstance(value, str) and value in FOREIGN_FINISH_REASONS
            rule = "chatstream.finish-foreign" if foreign else "chatstream.finish-unknown"
            self._ctx.report(rule, f"{pointer}/finish_reason", value, words=True)
        return value if isinstance(value, str) else "<none>"

    # -- the delta ---------------------------------------------------------------------------------------

    def _delta(self, delta: Mapping[str, Any], pointer: str) -> bool:
        """Takes a delta's members in; whether it carries anything that a client would lose."""
        if self._first or "role" in delta:
            self._role(delta, pointer)
        payload = False
        content = delta.get("content")
        if isinstance(content, str) and content:
            payload = self.spoke = self.answered = True
            self.hear(content, pointer)
            if len(delta) == 1:
                return True  # the usual delta; nothing else is in it
        elif content is not None and content != "":
            self.wordless = True
        if delta.get("tool_calls") is not None:
            payload |= self.tools.feed(delta["tool_calls"], f"{pointer}/tool_calls")
            self.answered = True
        if delta.get("refusal"):
            payload = self.refused = self.answered = True
        if delta.get("audio"):
            self.answered = True
        if delta.get("function_call"):
            payload = self.answered = self.function_call = True
        if any(delta.get(name) for name in REASONING_MEMBERS):
            self.reasoned = True
        return payload

    def _role(self, delta: Mapping[str, Any], pointer: str) -> None:
        role = delta.get("role")
        if isinstance(role, str):
            self._roles += 1
            if self._roles > 1:
                self._repeats("chatstream.role-repeated", f"{pointer}/role", role)
        elif self._first and role is None:
            self._ctx.report(
                "chatstream.role-missing", f"{pointer}/role", delta.get("role", ABSENT)
            )
        self._first = False

    def hear(self, content: str, pointer: str) -> None:
        """Takes a piece of content that is not empty; ``pointer`` is its delta's."""
        if self.listens or not content.isascii():
            self._watch.feed(content, f"{pointer}/content")
        if self._joined is not None:
            self._joined.feed(content)
        if self._cumulative >= 0:
            self._compare(content)

    def _compare(self, content: str) -> None:
        """Whether contents go on to repeat the one before, as cumulative ones do."""
        before = self._previous
        goes_on = (
            len(content) <= _CUMULATIVE_KEPT and content.startswith(before)
            if before
            else len(content) >= _CUMULATIVE_START
        )
        self._cumulative = self._cumulative + 1 if goes_on else -1
        self._grown += goes_on and len(content) > len(before) > 0
        self._previous = content if goes_on else ""
        self.listens = goes_on or self._watch.searches or self._joined is not None

    # -- the fast path ------------------------------------------------------------------------------------

    def holes(self, choice: Mapping[str, Any], at: tuple[str | int, ...]) -> list[Hole]:
        """What may differ in the next chunk if it only carries on a text, as ``choice`` did; else nothing."""
        delta = choice.get("delta")
        if self.finish is not None or not isinstance(delta, dict) or "role" in delta:
            return []
        if any(delta.get(name) for name in NO_TEXT):
            return []
        return [
            Hole((*at, "delta", name), kind)
            for name, kind in TEXTS.items()
            if isinstance(delta.get(name), str) and delta[name]
        ]

    # -- the end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The stream is over, and nothing that was sent is missing: what holds for the whole choice."""
        ctx = self._ctx
        pointer = self.pointer
        ctx.report.place(Unit.EVENT, *self.place)
        if self._cumulative >= _CUMULATIVE_CHUNKS and self._grown >= _CUMULATIVE_CHUNKS - 1:
            ctx.report(
                "chatstream.content-cumulative",
                f"{pointer}/delta/content",
                detail=f"{self._cumulative} contents, each starting with the one before",
            )
        if not self.wordless:
            calls = self.tools.finish(self.finish)
            check_calls(ctx, calls, cut=self.finish == "length")
            ctx.report.place(Unit.EVENT, *self.place)
            if not self.tools.unreadable:
                at = f"{pointer}/finish_reason"
                check_finish(ctx, len(calls), self.finish, at, refused=self.refused)
        if self._joined is not None and not self.wordless:
            check_answer(
                ctx,
                self._joined.text,
                f"{pointer}/delta/content",
                finish=self.finish,
                refused=self.refused,
                called=len(self.tools) > 0 or self.function_call,
            )
        cross.check_replaced(
            ctx,
            replaced=self._watch.replaced,
            finish=self.finish,
            pointer=f"{pointer}/delta/content",
        )
        if self.function_call and ctx.request.known and ctx.request.document.get("tools"):
            ctx.report("cross.function-call-for-tools", f"{pointer}/delta/function_call")
        if self.spoke:
            cross.check_logprobs(ctx, present=self.logprobs, pointer=f"{pointer}/logprobs")
