"""A chat stream: chunks, errors and ``[DONE]`` in their order.

What belongs here: what the chunks of one stream share, and what must have come by its end. Framing is in
stream.py, a single choice in chatchoice.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from teeline.validators.alike import comparable
from teeline.validators.checks import cross
from teeline.validators.checks.chatchoice import StreamedChoice
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
from teeline.validators.checks.context import Context
from teeline.validators.checks.reporter import Reporter
from teeline.validators.checks.shapes import CHUNK_SHAPES, shape_of
from teeline.validators.evidence import ABSENT
from teeline.validators.fast import Hole, HoleKind, OpenText
from teeline.validators.fields.chat import CHUNK, CHUNK_CHOICE
from teeline.validators.fields.table import walk
from teeline.validators.model import Unit

_ENVELOPE = EnvelopeRules(
    id_changes="chatstream.id-changes",
    model_changes="chatstream.model-changes",
    created_changes="chatstream.created-changes",
    created_range="chatstream.created-range",
)
_USAGE = UsageRules(
    missing="chatstream.usage-missing",
    on_choice_chunk="chatstream.usage-on-choice-chunk",
    not_last="chatstream.usage-not-last",
    repeated="chatstream.usage-repeated",
    null_missing="chatstream.usage-null-missing",
    unrequested="chatstream.usage-unrequested",
)
_ERRORS = ErrorRules(
    well_formed="chatstream.error-object",
    beside_choices="chatstream.error-beside-choices",
    malformed="chatstream.error-malformed",
    before_content="chatstream.error-before-content",
)
_AZURE_SKIP = frozenset({"id", "object", "model", "created", "choices"})
_FULL_SKIP = frozenset({"object"})
_DELTA_SKIP = frozenset({"delta"})
_NOTHING = frozenset[str]()
PADDING = ("obfuscation", "p")
"""Strings beside a chunk's choices that hide the length of its text: OpenAI's, Mistral's."""


class ChatStream:
    """Takes the events of one answer to a chat request with ``stream``."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._choices: dict[int, StreamedChoice] = {}
        self._chunks = 0
        self._done = 0
        # an error or a foreign protocol came: only framing is of interest from here on
        self._over = False
        self._lost = False  # an event could not be read: what is missing may have been in it
        self._before: _Usual | None = None  # the last chunk, where the next may be like it
        self._envelope = Envelope(ctx, _ENVELOPE)
        self._usage = StreamUsage(ctx, _USAGE)

    # -- events ---------------------------------------------------------------------------------------

    def done(self) -> None:
        """``[DONE]`` in any of its spellings."""
        self._before = None
        self._done += 1
        if self._done > 1 and not self._over:
            self._ctx.report("chatstream.done-repeated", detail="[DONE] again")

    @property
    def ended(self) -> bool:
        """Whether ``[DONE]`` has come."""
        return self._done > 0

    def unreadable(self) -> None:
        """An event whose data no client can read (its own rule has been reported)."""
        self._before = None
        self._lost = True

    def event(self, value: Any, name: str) -> None:
        """One event's document; ``name`` is its ``event`` field."""
        before, report = self._before, self._ctx.report
        if before is not None and before.goes_on(value, report):
            return
        breaches = report.breaches
        self._before = None
        self._event(value, name)
        if report.breaches == breaches and not (self._over or self._done):
            self._before = self._usual(value)

    def _event(self, value: Any, name: str) -> None:
        report = self._ctx.report
        if self._over:
            return
        if self._done:
            report("chatstream.data-after-done", "", value, words=True)
            return
        if not isinstance(value, dict):
            report("chatstream.chunk-not-object", "", value)
            self._lost = True
            return
        first = not self._chunks
        if check_stream_error(self._ctx, value, name, _ERRORS, first=first):
            self._over = True
            return
        foreign = "" if "choices" in value else shape_of(value, CHUNK_SHAPES)
        if foreign:
            report(foreign, "/type", value.get("type"), words=True)
            # A ping is one event between chunks; anything else is a whole stream of another API.
            self._over = foreign != "chatstream.ping-event"
            return
        self._chunk(value)

    def _chunk(self, value: Mapping[str, Any]) -> None:
        self._chunks += 1
        report = self._ctx.report
        choices = value.get("choices")
        usual = _only_delta(choices)
        azure = usual is None and is_filter_chunk(value)
        full = usual is None and not azure and _is_full_completion(value)
        if azure:
            report("chatstream.azure-filter", "/choices", detail="a content filter's annotation")
            walk(CHUNK, value, "", report, _AZURE_SKIP)
        else:
            if full:
                report("chatstream.full-completion-as-chunk", "", value, words=True)
            walk(CHUNK, value, "", report, _FULL_SKIP if full else _NOTHING)
            self._envelope.check(value)
        if usual is not None:
            lenient = value.get("usage") is not None
            self._choice(usual, "/choices/0", 0, full=False, lenient=lenient)
        elif isinstance(choices, list):
            self._all_choices(value, choices, azure=azure, full=full)
        if not (azure or full):
            usage = value.get("usage", ABSENT)
            self._usage.chunk(value, usage, has_choices=bool(choices))

    # -- choices ---------------------------------------------------------------------------------------

    def _all_choices(
        self, value: Mapping[str, Any], choices: list[Any], *, azure: bool, full: bool
    ) -> None:
        if not choices and not azure and not (value.get("usage") or value.get("moderation")):
            self._ctx.report("chatstream.choices-empty-no-usage", "/choices", choices)
        for n, choice in enumerate(choices):
            pointer = f"/choices/{n}"
            if not isinstance(choice, dict):
                self._ctx.report("chatstream.choice-index-type", pointer, choice)
            elif not (azure and is_annotation(choice)):
                lenient = value.get("usage") is not None
                self._choice(choice, pointer, n, full=full, lenient=lenient)

    def _choice(
        self, choice: Mapping[str, Any], pointer: str, position: int, *, full: bool, lenient: bool
    ) -> None:
        report = self._ctx.report
        delta, message = choice.get("delta"), choice.get("message")
        skip = _NOTHING
        if delta is None and isinstance(message, dict):
            if not full:
                report("chatstream.message-instead-of-delta", f"{pointer}/message", message)
            again = any(choice.get("index") == index for index in self._choices)
            left_out = ("tool_calls", "role") if again else ("tool_calls",)
            delta = {name: v for name, v in message.items() if name not in left_out}
            skip = _DELTA_SKIP
        elif message is not None and delta is not None:
            report("chatstream.message-beside-delta", f"{pointer}/message", message)
        walk(CHUNK_CHOICE, choice, pointer, report, skip)
        state = self._state(choice.get("index"), position)
        if state is not None:
            if skip or not isinstance(delta, dict):
                state.wordless = True
            state.feed(
                choice,
                delta if isinstance(delta, dict) else {},
                pointer,
                lenient=lenient,
                member="message" if skip else "delta",
            )

    def _state(self, index: Any, position: int) -> StreamedChoice | None:
        if isinstance(index, bool) or not isinstance(index, int):
            index = position
        state = self._choices.get(index)
        if state is None:
            if len(self._choices) >= self._ctx.limits.choices:
                self._ctx.partial("choice-limit")
                return None
            if not self._choices and index != 0:
                self._ctx.report(
                    "chatstream.first-choice-not-zero", f"/choices/{position}/index", index
                )
            # Several choices were asked for and one has come: what repeats may be another one's.
            alone = not self._choices and self._ctx.request.choices > 1
            for other in self._choices.values():
                other.release()
            state = self._choices[index] = StreamedChoice(self._ctx, index, alone=alone)
        return state

    # -- a chunk like the one before ---------------------------------------------------------------------

    def _usual(self, value: Any) -> _Usual | None:
        """What the next chunk is compared with, where this one, of which nothing was found, brought a text
        to an open choice and nothing else."""
        if not isinstance(value, dict) or value.get("usage") is not None or value.get("moderation"):
            return None
        choices = value.get("choices")
        choice = _only_delta(choices)
        if choice is None or choice.get("logprobs") is not None or not _is_text(choice["delta"]):
            return None
        state = self._choices.get(choice.get("index", 0))
        chunk = comparable(value, ("choices",), ("created",))
        inner = comparable(choice, ("delta",), ("index",))
        if state is None or state.finish is not None or chunk is None or inner is None:
            return None
        return _Usual(chunk, inner, state)

    # -- the fast path -----------------------------------------------------------------------------------

    def open_text(self, value: Mapping[str, Any]) -> OpenText | None:
        """The open choice that the chunk before, taken without a finding, has carried on with a text."""
        choices = value.get("choices")
        if self._over or self._done or value.get("usage") is not None:
            return None
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            return None
        index = choices[0].get("index")
        state = self._choices.get(index) if isinstance(index, int) else None
        holes = state.holes(choices[0], ("choices", 0)) if state is not None else []
        if state is None or not holes:
            return None
        padding = [(name,) for name in PADDING if isinstance(value.get(name), str)]
        return _ChoiceText(state, [*holes, *(Hole(path, HoleKind.STRING) for path in padding)])

    # -- the end -----------------------------------------------------------------------------------------

    def close(self, *, cut: bool) -> None:
        """The stream is over. ``cut``: it was broken off, which has a rule of its own (P9)."""
        report = self._ctx.report
        if self._over:
            return
        if not self._chunks:
            if not cut and not self._lost and not report.has("chatstream.ping-event"):
                report("chatstream.no-chunks", detail="no chunk in the stream")
            return
        missing = not cut and not self._lost
        if not self._done and not cut:
            report("chatstream.done-missing", detail="the body ended without data: [DONE]")
        if missing:
            self._finishes()
        whole = missing and all(c.finish is not None for c in self._choices.values())
        if whole or (missing and self._done):
            for choice in self._choices.values():
                choice.close()
        if missing:
            self._indexes()
            self._answers()
            finish = [c.finish for c in self._choices.values() if c.finish is not None]
            answered = any(c.answered for c in self._choices.values())
            complete = bool(self._done) and not report.has("chatstream.data-after-done")
            self._usage.close(complete=complete, answered=answered, finish=finish)
        for choice in self._choices.values():
            choice.release()

    def _finishes(self) -> None:
        for choice in self._choices.values():
            if choice.finish is None and not choice.empty_finish:
                self._ctx.report.place(Unit.EVENT, *choice.place)
                self._ctx.report(
                    "chatstream.finish-missing",
                    f"{choice.pointer}/finish_reason",
                    detail=f"choice {choice.index} never got a finish_reason",
                )

    def _indexes(self) -> None:
        """The indexes of a stream are 0 to n-1, each for one choice."""
        report = self._ctx.report
        if report.has("chatstream.choice-index-type", "chatstream.choices-not-array"):
            return
        seen = sorted(self._choices)
        wanted = self._ctx.request.choices
        shared = [c for c in self._choices.values() if c.openings > 1]
        if wanted > len(seen) and shared:
            shared[0].forget()
            report.place(Unit.EVENT, *shared[0].place)
            report(
                "chatstream.choice-index-shared",
                f"{shared[0].pointer}/index",
                detail=f"n is {wanted}, index {shared[0].index} opened or finished "
                f"{shared[0].openings} times, seen {seen[:8]}",
            )
        elif seen != list(range(len(seen))):
            report("chatstream.choice-index-gap", "/choices/0/index", detail=f"indexes {seen[:8]}")
        else:
            cross.check_choice_count(self._ctx, len(seen))

    def _answers(self) -> None:
        choices = list(self._choices.values())
        silent = [c for c in choices if not (c.answered or c.reasoned or c.wordless)]
        if choices and silent == choices and any(c.finish == "stop" for c in choices):
            self._ctx.report.place(Unit.EVENT, *choices[0].place)
            self._ctx.report("chatstream.no-content", detail="finish_reason stop, nothing was said")


class _Usual:
    """A chunk that brought a text to an open choice, of which nothing was found."""

    __slots__ = ("_choice", "_chunk", "_state")

    def __init__(
        self, chunk: dict[str, Any], choice: dict[str, Any], state: StreamedChoice
    ) -> None:
        self._chunk = chunk
        self._choice = choice
        self._state = state

    def goes_on(self, value: Any, report: Reporter) -> bool:
        """Whether an event is another chunk of this kind; its text is then taken in."""
        if type(value) is not dict:
            return False
        like = self._chunk
        like["choices"] = choices = value.get("choices")
        if value != like or type(value["created"]) is not int:
            return False
        if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
            return False
        choice, like = choices[0], self._choice
        like["delta"] = delta = choice.get("delta")
        if choice != like or type(choice["index"]) is not int or not _is_text(delta):
            return False
        self._state.place = (report.index, report.byte)
        self._state.hear(delta["content"], "/choices/0/delta")
        return True


def _is_text(delta: Any) -> TypeGuard[dict[str, str]]:
    """Whether a delta holds a content that is not empty, and nothing else."""
    if type(delta) is not dict or len(delta) != 1:
        return False
    content = delta.get("content")
    return type(content) is str and content != ""


class _ChoiceText:
    """An open choice as the fast path sees it: a chunk that only carries on a text does nothing else."""

    __slots__ = ("_choice", "holes")

    def __init__(self, choice: StreamedChoice, holes: Sequence[Hole]) -> None:
        self._choice = choice
        self.holes = holes

    @property
    def deaf(self) -> bool:
        return not self._choice.listens

    def expected(self) -> bytes:
        """Chunks have no number."""
        return b""

    def skip(self, index: int, byte: int) -> None:
        self._choice.place = (index, byte)

    def add_all(self, texts: list[bytes]) -> None:
        """Chunks have no number."""

    def add(self, text: bytes | str, index: int, byte: int) -> None:
        choice = self._choice
        choice.place = (index, byte)
        if text and (choice.listens or isinstance(text, str)):
            choice.hear(text if isinstance(text, str) else text.decode(), "/choices/0/delta")


def _only_delta(choices: Any) -> Mapping[str, Any] | None:
    """The one choice of the usual chunk, a delta: neither a filter's annotation nor a whole answer."""
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice: Mapping[str, Any] = choices[0]
    return choice if choice.get("delta") is not None else None


def _is_full_completion(value: Mapping[str, Any]) -> bool:
    if value.get("object") != "chat.completion":
        return False
    choices = value.get("choices")
    return any(
        isinstance(c, dict) and "message" in c and c.get("delta") is None
        for c in (choices if isinstance(choices, list) else ())
    )
