"""A clean chat stream, as it is remembered for those that its upstream writes in the same way.

What belongs here: which streams may be remembered (one choice with texts that stops, to a request without
tools, formats or anything else that asks for a relation), what may differ in another one, and what must hold
for it then. What doesn't: going along with another one (streamlike.py), patterns (likeness.py), and every
doubt, which is for the full check (stream.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from teeline.validators.checks.chat import DAY
from teeline.validators.checks.chatknown import (
    COUNT,
    EARLIEST,
    LONGEST_ID,
    TIME,
    Asked,
    asked_plainly,
    counters_of,
)
from teeline.validators.checks.chatstream import PADDING
from teeline.validators.checks.context import Context
from teeline.validators.checks.estimate import is_plausible
from teeline.validators.checks.marks import note_object
from teeline.validators.fast import Hole as TextHole
from teeline.validators.fast import HoleKind, OpenText, Template
from teeline.validators.fields.usage import CHAT_USAGE
from teeline.validators.likeness import PLAIN, Hole, Likeness, Path, likeness_of, places_of
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation

DATA: Final = b"data: "
END: Final = b"\n\n"
DONE: Final = b"data: [DONE]\n\n"
ROOM: Final = 64 * 1024
"""The limits of a line and an event are at least this where streams are remembered: no event that is like a
remembered one reaches it."""
_MAX_BLOCKS: Final = 8
_MAX_KEPT: Final = 16 * 1024
"""Bytes of the events that a stream is remembered by."""
_CONTENT: Final[Path] = ("choices", 0, "delta", "content")
_FINGERPRINT: Final = "system_fingerprint"
_EVENT_STREAM: Final = "text/event-stream"
_CHAT: Final = Operation.CHAT

Value = Mapping[str, Any]
Constants = tuple[bytes, ...]
"""What is the same in all chunks of a stream: its id, its time, and its fingerprint where it has one."""


class Chunk(NamedTuple):
    """One chunk of a clean stream: its JSON as it came, and as it was read."""

    data: bytes
    value: Value


class Holes(NamedTuple):
    """The members of a remembered chunk that may differ, the constants first."""

    holes: tuple[Hole, ...]


class KnownStream:
    """A clean stream that others may be like. ``holes`` are those of its first chunk.

    ``closing`` are the chunks at its end: the one with the finish_reason, and one with usage where it came.
    ``opened`` and ``ended`` are what its first chunk and all of it show of the vendor.
    """

    __slots__ = (
        "_counters",
        "_details",
        "_first",
        "_text",
        "_usage",
        "closing",
        "constants",
        "ended",
        "holes",
        "model",
        "opened",
    )

    def __init__(
        self, first: Chunk, text: Chunk, closing: Sequence[Chunk], usage: Mapping[str, int]
    ) -> None:
        """ValueError where the chunks have too little in common to be told by their bytes."""
        constants = _constants(first.value)
        self.constants = len(constants)
        self.holes = (*constants, *_padding(first.value))
        self.model: str = first.value["model"]
        self._first = _parts(first.data, [hole.path for hole in self.holes])
        self._text = _TextForm(text, constants)
        self._usage = dict(usage)
        self._counters: tuple[str, ...] = ()
        if len(closing) > 1:
            counters = counters_of(closing[1].value["usage"], usage)
            if counters is None:
                raise ValueError("counters that are no integers")
            self._counters = counters
        self._details = sum(name.startswith(CHAT_USAGE.prompt_details) for name in self._counters)
        counts = tuple(Hole(("usage", *name.split(".")), COUNT) for name in self._counters)
        self.closing = tuple(
            _likeness(chunk, (*constants, *(counts if n else ()), *_padding(chunk.value)))
            for n, chunk in enumerate(closing)
        )
        self.opened, self.ended = Exchange(), Exchange()
        note_object(self.opened, first.value)
        for chunk in (first, text, closing[-1]):
            note_object(self.ended, chunk.value)

    def template(self, constants: Constants) -> Template:
        """What a text of a stream with these constants looks like."""
        return self._text.template(constants)

    def first(self, holes: Sequence[bytes]) -> bytes:
        """The first event of a stream, which has these in its holes."""
        return b"".join([part + (holes[n] if n >= 0 else b"") for part, n in self._first])

    def usage(self, holes: Sequence[bytes], asked: Asked, size: int) -> dict[str, int] | None:
        """The counters of a last chunk with these in its holes, to a request of so many bytes; None where
        something is to be said of them."""
        counts = [*map(int, holes[self.constants : self.constants + len(self._counters)])]
        if not _hold(counts, self._details, asked, size):
            return None
        return self._usage | dict(zip(self._counters, counts, strict=True))


class _TextForm:
    """The bytes of a chunk with a text: what stands between its holes and its stream's constants."""

    __slots__ = ("_parts", "_template")

    def __init__(self, text: Chunk, constants: Sequence[Hole]) -> None:
        padding = _padding(text.value)
        if len(padding) > 1:
            raise ValueError("more than one padding")
        paths = [*(hole.path for hole in constants), _CONTENT, *(hole.path for hole in padding)]
        content = len(constants)
        parts = _parts(text.data, paths)
        holes = [
            TextHole(paths[number], HoleKind.TEXT if number == content else HoleKind.STRING)
            for _, number in parts[:-1]
            if number >= content
        ]
        self._parts = [(part, number if number < content else -1) for part, number in parts]
        self._template = Template(self._spans([b""] * content), holes, 0, NOBODY)

    def _spans(self, constants: Sequence[bytes]) -> list[bytes]:
        spans, span = [], b""
        for part, constant in self._parts:
            if constant < 0:
                spans.append(span + part)
                span = b""
            else:
                span += part + constants[constant]
        return spans

    def template(self, constants: Constants) -> Template:
        return self._template.refilled(self._spans(constants))


def _parts(data: bytes, paths: Sequence[Path]) -> list[tuple[bytes, int]]:
    """The event of a chunk around these members: what stands before each, and which one it is; what stands
    behind all of them comes last, with -1. ValueError where they are not apart."""
    places = places_of(data, paths)
    if places is None:
        raise ValueError("members that are not apart")
    parts, at, before = [], 0, DATA
    for start, end, number in places:
        quoted = data[start] == ord('"')
        parts.append((before + data[at : start + quoted], number))
        at, before = end - quoted, b""
    return [*parts, (data[at:] + END, -1)]


def _likeness(chunk: Chunk, holes: tuple[Hole, ...]) -> Likeness[Holes]:
    made = likeness_of(chunk.data, Holes(holes))
    if made is None:
        raise ValueError("a chunk whose holes are not apart")
    return made


def _constants(value: Value) -> tuple[Hole, ...]:
    named = [Hole(("id",), PLAIN), Hole(("created",), TIME)]
    if value.get(_FINGERPRINT):
        named.append(Hole((_FINGERPRINT,), PLAIN))
    return tuple(named)


def _padding(value: Value) -> tuple[Hole, ...]:
    return tuple(Hole((name,), PLAIN) for name in PADDING if isinstance(value.get(name), str))


def _hold(counts: Sequence[int], details: int, asked: Asked, size: int) -> bool:
    """Whether nothing is to be said of the counters of an answer that holds something.

    They are those of the prompt, of what was generated and of both, then their parts: so many of the prompt,
    and the rest. ``size``: bytes of the request.
    """
    prompt, completion, total, *parts = counts
    if not (prompt and completion and total == prompt + completion):
        return False
    # The sum of all parts is within the whole: so is each that the full check looks at.
    if parts and (sum(parts[:details]) > prompt or sum(parts[details:]) > completion):
        return False
    if asked.limit is not None and completion > asked.limit:
        return False
    return is_plausible(prompt, size)


# -- which streams ----------------------------------------------------------------------------------------


def asked_of(ctx: Context) -> Asked | None:
    """What a stream is looked at for, of a request that asks for nothing which needs the full check; None
    where it may ask for more, or where there is something to the stream's head."""
    request = ctx.request
    if ctx.operation is not _CHAT or not (request.known and request.stream):
        return None
    if ctx.exchange.method != "POST" or ctx.request_names.coded:
        return None
    if ctx.content_type.media != _EVENT_STREAM or "content-length" in ctx.names.at:
        return None
    if min(ctx.limits.line, ctx.limits.event) < ROOM:
        return None
    return asked_plainly(request.document)


def is_possible(ctx: Context, constants: Constants) -> bool:
    """Whether nothing is to be said of an id and a time, and all is short enough to be kept as it is."""
    if not EARLIEST <= int(constants[1]) <= ctx.report.at + DAY:
        return False
    return all(0 < len(constant) <= LONGEST_ID for constant in constants)


class Recorder:
    """Keeps the events of a stream that the full check looks at, to remember it if it turns out clean."""

    __slots__ = ("_blocks", "_breaches", "_ctx", "_size")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._breaches = ctx.report.breaches
        self._blocks: list[bytes] = []
        self._size = 0

    def keep(self, block: bytes, *, whole: bool) -> None:
        """``block`` was read as it stands, ``whole`` if it is one event."""
        self._size += len(block) if whole else _MAX_KEPT
        if self._size < _MAX_KEPT and len(self._blocks) < _MAX_BLOCKS:
            self._blocks.append(block)
        else:
            self._size = _MAX_KEPT
            self._blocks.clear()

    def learn(self) -> None:
        """The stream is complete: remembers it if nothing was found in it."""
        ctx, history = self._ctx, self._ctx.history
        if history is None or ctx.report.breaches != self._breaches or not self._blocks:
            return
        known = known_stream(ctx, self._blocks)
        if known is not None:
            history.streams[ctx.request.include_usage].learn(*known)


def known_stream(ctx: Context, blocks: Sequence[bytes]) -> tuple[bytes, KnownStream] | None:
    """What is to be remembered of a clean stream of these events, and the first chunk that it is found by;
    None for an unusual one."""
    *framed, last = blocks
    if last != DONE or not all(map(_is_framed, framed)):
        return None
    chunks = [
        Chunk(block[len(DATA) : -len(END)], orjson.loads(block[len(DATA) :])) for block in framed
    ]
    first, *others = chunks
    texts = [chunk for chunk in others if _says(chunk.value)]
    closing = others[len(texts) :]
    if not texts or others[0] is not texts[0] or not _opens(first.value) or not _close(closing):
        return None
    try:
        known = KnownStream(first, texts[0], closing, ctx.exchange.usage)
    except ValueError:
        return None
    return (first.data, known) if _is_one(known, chunks, texts) else None


def _is_framed(block: bytes) -> bool:
    return (
        block.startswith(DATA)
        and block.find(b"\n") == len(block) - len(END)
        and block.endswith(END)
        and b"\r" not in block
    )


def _delta(value: Value) -> tuple[Value, Any]:
    """The delta and the finish_reason of a chunk's only choice; empty where there is none."""
    choices = value["choices"]
    if len(choices) != 1 or value.get("usage") is not None or value.get("moderation") is not None:
        return {}, None
    choice = choices[0]
    if choice.get("logprobs") is not None or type(choice.get("delta")) is not dict:
        return {}, None
    return choice["delta"], choice.get("finish_reason")


def _opens(value: Value) -> bool:
    """Whether a chunk brings the role and nothing else."""
    delta, finish = _delta(value)
    role = isinstance(delta.get("role"), str) and finish is None
    return role and not any(text for name, text in delta.items() if name != "role")


def _says(value: Value) -> bool:
    """Whether a chunk brings a text and nothing else."""
    delta, finish = _delta(value)
    return delta.keys() == {"content"} and bool(delta["content"]) and finish is None


def _close(closing: Sequence[Chunk]) -> bool:
    """Whether chunks end a stream that stops: with its reason, and then with usage or nothing."""
    if not 0 < len(closing) < 3:
        return False
    delta, finish = _delta(closing[0].value)
    if finish != "stop" or any(delta.values()):
        return False
    usage = closing[-1].value
    return len(closing) == 1 or (usage["choices"] == [] and type(usage.get("usage")) is dict)


def _is_one(known: KnownStream, chunks: Sequence[Chunk], texts: Sequence[Chunk]) -> bool:
    """Whether the stream is like itself: its chunks have the same constants, and its texts one form."""
    first = likeness_of(chunks[0].data, known)
    holes = None if first is None else first.holes(chunks[0].data)
    if holes is None:
        return False
    constants = holes[: known.constants]
    for like, chunk in zip(known.closing, chunks[-len(known.closing) :], strict=True):
        found = like.holes(chunk.data)
        if found is None or found[: known.constants] != constants:
            return False
    template = known.template(constants)
    if known.first(holes) != DATA + chunks[0].data + END:
        return False
    blocks = [DATA + chunk.data + END for chunk in texts]
    return all(template.match(block, 0) == len(block) for block in blocks)


class _Nobody:
    """Takes texts that are looked at by whoever matched them."""

    holes: Sequence[TextHole] = ()
    deaf = True

    def expected(self) -> bytes:
        return b""

    def skip(self, index: int, byte: int) -> None:
        """Nothing depends on the place."""

    def add_all(self, texts: list[bytes]) -> None:
        """Nothing depends on the texts."""

    def add(self, text: bytes | str, index: int, byte: int) -> None:
        """Nothing depends on the text."""


NOBODY: Final[OpenText] = _Nobody()
