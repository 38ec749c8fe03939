"""A chat stream: chunks, errors and ``[DONE]`` in their order.

What belongs here: what the chunks of one stream share, and what must have come by its end. Framing is in
stream.py, a single choice in chatchoice.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from teeline.validators.checks import cross
from teeline.validators.checks.chat import check_created
from teeline.validators.checks.chatchoice import StreamedChoice
from teeline.validators.checks.context import Context
from teeline.validators.checks.errors import check_error_object
from teeline.validators.checks.shapes import CHUNK_SHAPES, shape_of
from teeline.validators.checks.usage import check_usage, check_zeros
from teeline.validators.evidence import ABSENT
from teeline.validators.fast import Hole, HoleKind, OpenText
from teeline.validators.fields.chat import CHUNK, CHUNK_CHOICE
from teeline.validators.fields.table import walk
from teeline.validators.fields.usage import CHAT_USAGE
from teeline.validators.model import Unit

_FILTER_MEMBERS = ("content_filter_offsets", "content_filter_results", "content_filter_result")
_AZURE_SKIP = frozenset({"id", "object", "model", "created", "choices"})
_FULL_SKIP = frozenset({"object"})
PADDING = ("obfuscation", "p")
"""Strings beside a chunk's choices that hide the length of its text: OpenAI's, Mistral's."""


class ChatStream:
    """Takes the events of one answer to a chat request with ``stream``."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._choices: dict[int, StreamedChoice] = {}
        self._begun = False  # a chunk has come
        self._done = 0
        self._over = (
            False  # an error or a foreign protocol: only framing is of interest from here on
        )
        self._lost = False  # an event could not be read: what is missing may have been in it
        self._id: str | None = None
        self._model: str | None = None
        self._created: Any = None
        self._usage = _StreamUsage(ctx)

    # -- events ---------------------------------------------------------------------------------------

    def done(self) -> None:
        """``[DONE]`` in any of its spellings."""
        self._done += 1
        if self._done > 1:
            self._ctx.report("chatstream.done-repeated", detail="[DONE] again")

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
            report("chatstream.data-after-done", "", value, words=True)
            return
        if not isinstance(value, dict):
            report("chatstream.chunk-not-object", "", value)
            self._lost = True
            return
        if self._over:
            return
        if self._error(value, name):
            self._over = True
            return
        foreign = shape_of(value, CHUNK_SHAPES)
        if foreign:
            report(foreign, "/type", value.get("type"), words=True)
            # A ping is one event between chunks; anything else is a whole stream of another API.
            self._over = foreign != "chatstream.ping-event"
            return
        self._chunk(value)

    def _error(self, value: Mapping[str, Any], name: str) -> bool:
        """Whether an event is an error, well-formed or not; reports what it is."""
        report = self._ctx.report
        error = value.get("error")
        if not error and not _malformed_error(value, name):
            return False
        self._ctx.exchange.error_type = "error"
        if isinstance(error, dict):
            beside = "choices" in value
            rule = "chatstream.error-beside-choices" if beside else "chatstream.error-object"
            report(rule, "/error", error)
            check_error_object(self._ctx, error, "/error")
        else:
            report("chatstream.error-malformed", "/error" if error else "", error or value)
        if not self._begun:
            report(
                "chatstream.error-before-content", "", detail=f"event {report.index} is an error"
            )
        return True

    def _chunk(self, value: Mapping[str, Any]) -> None:
        self._begun = True
        report = self._ctx.report
        choices = value.get("choices")
        azure = _is_azure(value)
        full = not azure and _is_full_completion(value)
        if azure:
            report("chatstream.azure-filter", "/choices", detail="a content filter's annotation")
            walk(CHUNK, value, "", report, _AZURE_SKIP)
        else:
            if full:
                report("chatstream.full-completion-as-chunk", "", value, words=True)
            walk(CHUNK, value, "", report, _FULL_SKIP if full else frozenset())
            self._envelope(value)
        if isinstance(choices, list):
            self._all_choices(value, choices, azure=azure, full=full)
        if not (azure or full):
            self._usage.chunk(value, bool(choices))

    def _envelope(self, value: Mapping[str, Any]) -> None:
        """id, model and created are the same in all chunks."""
        ctx, report = self._ctx, self._ctx.report
        made, model, created = value.get("id"), value.get("model"), value.get("created")
        if isinstance(made, str) and made:
            if self._id is None:
                self._id = made
                ctx.exchange.response_id = made[:256]
            elif made != self._id:
                report("chatstream.id-changes", "/id", made)
        if isinstance(model, str) and model:
            if self._model is None:
                self._model = model
                ctx.exchange.response_model = model[:256]
                cross.check_model(ctx, model)
            elif model != self._model:
                report("chatstream.model-changes", "/model", model, words=True)
        check_created(ctx, created, "chatstream.created-range")
        if self._created is None:
            self._created = created
        elif created is not None and created != self._created:
            report("chatstream.created-changes", "/created", created)

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
            elif not (azure and _is_annotation(choice)):
                lenient = value.get("usage") is not None
                self._choice(choice, pointer, n, full=full, lenient=lenient)

    def _choice(
        self, choice: Mapping[str, Any], pointer: str, position: int, *, full: bool, lenient: bool
    ) -> None:
        report = self._ctx.report
        delta, message = choice.get("delta"), choice.get("message")
        skip = frozenset[str]()
        if delta is None and isinstance(message, dict):
            if not full:
                report("chatstream.message-instead-of-delta", f"{pointer}/message", message)
            again = any(choice.get("index") == index for index in self._choices)
            left_out = ("tool_calls", "role") if again else ("tool_calls",)
            delta = {name: v for name, v in message.items() if name not in left_out}
            skip = frozenset({"delta"})
        elif message is not None and delta is not None:
            report("chatstream.message-beside-delta", f"{pointer}/message", message)
        walk(CHUNK_CHOICE, choice, pointer, report, skip)
        state = self._state(choice.get("index"), position)
        if state is not None:
            if skip or not isinstance(delta, dict):
                state.wordless = True
            state.feed(choice, delta if isinstance(delta, dict) else {}, pointer, lenient=lenient)

    def _state(self, index: Any, position: int) -> StreamedChoice | None:
        if isinstance(index, bool) or not isinstance(index, int):
            index = position
        state = self._choices.get(index)
        if state is None:
            if len(self._choices) >= self._ctx.limits.choices:
                self._ctx.partial("choice-limit")
                return None
            if not self._choices and index != 0:
                self._ctx.report("chatstream.first-choice-not-zero", "/choices/0/index", index)
            # Several choices were asked for and one has come: what repeats may be another one's.
            alone = not self._choices and self._ctx.request.choices > 1
            for other in self._choices.values():
                other.release()
            state = self._choices[index] = StreamedChoice(self._ctx, index, alone=alone)
        return state

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
        if not self._begun:
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
            self._usage.close(complete=bool(self._done), answered=answered, finish=finish)
        for choice in self._choices.values():
            choice.release()

    def _finishes(self) -> None:
        for choice in self._choices.values():
            if choice.finish is None and not choice.empty_finish:
                self._ctx.report.place(Unit.EVENT, *choice.place)
                self._ctx.report(
                    "chatstream.finish-missing",
                    "/choices/0/finish_reason",
                    detail=f"choice {choice.index} never got a finish_reason",
                )

    def _indexes(self) -> None:
        """The indexes of a stream are 0 to n-1, each for one choice."""
        report = self._ctx.report
        if not self._choices or report.has("chatstream.choice-index-type"):
            return
        seen = sorted(self._choices)
        wanted = self._ctx.request.choices
        shared = [c for c in self._choices.values() if c.openings > 1]
        if wanted > len(seen) and shared:
            shared[0].forget()
            report.place(Unit.EVENT, *shared[0].place)
            report(
                "chatstream.choice-index-shared",
                "/choices/0/index",
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


class _ChoiceText:
    """An open choice as the fast path sees it: chunks are of no other effect than on their choice."""

    __slots__ = ("_choice", "holes")

    def __init__(self, choice: StreamedChoice, holes: Sequence[Hole]) -> None:
        self._choice = choice
        self.holes = holes

    def expected(self) -> bytes:
        """Chunks have no number."""
        return b""

    def add(self, text: bytes | str, index: int, byte: int) -> None:
        choice = self._choice
        choice.place = (index, byte)
        if text and (choice.listens or isinstance(text, str)):
            choice.hear(
                text if isinstance(text, str) else text.decode(), "/choices/0/delta/content"
            )


class _StreamUsage:
    """Where usage stands in a stream, and what it says."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._chunks = 0
        self._with_choices = 0
        self._without_choices = 0
        self._key_missing = False
        self._later = False  # a chunk without usage came after the last usage
        self._place = (0, 0)
        self._counts: dict[str, int] | None = None

    def chunk(self, value: Mapping[str, Any], has_choices: bool) -> None:
        usage = value.get("usage", ABSENT)
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
        if has_choices:
            self._with_choices += 1
        else:
            self._without_choices += 1
        asked = self._ctx.request.member("stream_options").get("continuous_usage_stats") is True
        if self._chunks > 1 and not asked:
            report("chatstream.usage-repeated", "/usage", usage)
        self._counts = check_usage(self._ctx, usage, CHAT_USAGE, "/usage")

    def close(self, *, complete: bool, answered: bool, finish: list[str]) -> None:
        ctx, report = self._ctx, self._ctx.report
        known = ctx.request.known
        if not self._chunks:
            if (
                known
                and ctx.request.include_usage
                and complete
                and not report.has("chatstream.data-after-done")
            ):
                report("chatstream.usage-missing", "/usage", detail="include_usage was asked for")
            return
        report.place(Unit.EVENT, *self._place)
        if not self._without_choices:
            report("chatstream.usage-on-choice-chunk", "/usage", detail="usage only beside choices")
        if self._later:
            report("chatstream.usage-not-last", "/usage", detail="a chunk without usage follows")
        if known and not ctx.request.include_usage:
            report(
                "chatstream.usage-unrequested", "/usage", detail="usage came without include_usage"
            )
        elif known and self._key_missing:
            report(
                "chatstream.usage-null-missing", "/usage", detail='chunks without a "usage" member'
            )
        if self._counts is not None:
            check_zeros(ctx, self._counts, CHAT_USAGE, "/usage", answered=answered)
            completion = self._counts[CHAT_USAGE.completion]
            cross.check_tokens(ctx, completion, finish, "/usage/completion_tokens")


def _malformed_error(value: Mapping[str, Any], name: str) -> bool:
    """What is meant as an error but has no ``error`` member that a client would see."""
    if value.get("choices") is not None:
        return False
    if name == "error" or value.get("type") == "error" or value.get("object") == "error":
        return True
    said = value.get("msg", value.get("message"))
    return "code" in value and isinstance(said, str)


def _is_azure(value: Mapping[str, Any]) -> bool:
    """P5: the rows that Azure's content filter adds to a stream."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        return False
    if not choices:
        return "prompt_filter_results" in value
    return all(isinstance(c, dict) and _is_annotation(c) for c in choices)


def _is_annotation(choice: Mapping[str, Any]) -> bool:
    return (
        choice.get("delta") is None
        and "message" not in choice
        and any(m in choice for m in _FILTER_MEMBERS)
    )


def _is_full_completion(value: Mapping[str, Any]) -> bool:
    choices = value.get("choices")
    return value.get("object") == "chat.completion" and any(
        isinstance(c, dict) and "message" in c and c.get("delta") is None
        for c in (choices if isinstance(choices, list) else ())
    )
