"""The quick way through a stream of PARTIAL_RESULTs: text deltas that look like one that was accepted.

What it may do: one transition, a further piece of text for a choice of an operation, and only for a packet
whose header and metadata have the values that such a packet has, and whose body equals a template's but in
its text. A template is learnt from a body that the full check took without a finding (validators/fast.py
says how its holes are proven); a chunk that repeats the text has it in a hole, too. Accepting means: nothing
to report, and the state that the full check would have left.

What it may not do: report, or guess. An operation is armed by the full check of a text delta, and disarmed
by every packet that takes the full check, and by whatever may change the operation from outside. Everything
else, and every doubt, is the full check's. tests/validators/nnrp/test_fast.py holds the two together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

import orjson

from teeline.validators.checks.joined import Joined
from teeline.validators.fast import Hole, HoleKind, spans_of
from teeline.validators.fields.nnrp import is_count
from teeline.validators.limits import Limits
from teeline.validators.model import Side, Unit
from teeline.validators.nnrp.operation import Operation
from teeline.validators.wire.nnrp import HEADER_BYTES, MAGIC, METADATA_LENGTHS, Message, Packet

MAX_TEXT: Final = 4096
"""Bytes of a text. A longer one is worth a full check."""
MAX_BODY: Final = 16 * 1024
"""Bytes of a body that a template is learnt from."""
MAX_TEMPLATES: Final = 8
"""Of one operation: one a choice, or a form that chunks have."""
CREDIT: Final = 6
EARNED: Final = 64
"""Templates that an operation may learn at first, and accepted packets that pay for one more."""

MOST_PENDING: Final = 64
"""Accepted packets of an operation that are noted together."""

_META: Final = METADATA_LENGTHS[Message.PARTIAL_RESULT]
_FIXED: Final = HEADER_BYTES + _META
_PREFIX: Final = Struct("<4sBBBBII").pack(
    MAGIC, 1, 0, Message.PARTIAL_RESULT, HEADER_BYTES, 0, _META
)
"""How a packet begins whose header has nothing wrong and no flags."""
_LAYOUT: Final = Struct("<16sI8s12xQQ16xII")
"""Prefix, body_len, session and frame; operation_id, result_sequence, body_bytes, flags of the metadata.

View, route, trace, object and delta sequence are nobody's business: the full check looks at none of them.
"""
_unpack: Final = _LAYOUT.unpack_from
_KEY: Final = Struct("<II")
_PLAIN: Final = rb"([ !#-\[\]-~\x80-\xff]{1,%d}+)" % MAX_TEXT
"""What stands for itself in a JSON string, where it is UTF-8."""


class _Template:
    """The bytes of one body with its text taken out: ``spans`` stand before, between and behind it.

    ``fits`` matches a body whose text needs no decoding, but may be above ASCII; the text is its group 1.
    ``heard`` are texts that were accepted and that ``to`` is still to be told; templates of one choice
    share it.
    """

    __slots__ = ("_between", "_first", "_fixed", "_last", "_lead", "fits", "heard", "to")

    def __init__(self, spans: list[bytes], to: Joined, heard: list[bytes]) -> None:
        self._first, self._last = spans[0], spans[-1]
        self._lead = len(self._first)
        self._between = tuple(spans[1:-1])
        self._fixed = sum(map(len, spans))
        first, second, *others = map(re.escape, spans)
        pattern = first + _PLAIN + second + b"".join(rb"\1" + span for span in others)
        self.fits = re.compile(pattern).fullmatch
        self.to = to
        self.heard = heard

    def text(self, data: bytes, start: int, end: int) -> bytes | None:
        """The text of the body that lies there, in UTF-8; None where it is another one."""
        size = end - start - self._fixed
        if self._between:
            size, odd = divmod(size, len(self._between) + 1)
            if odd:
                return None
        if not 0 < size <= MAX_TEXT or not data.startswith(self._first, start):
            return None
        if not data.startswith(self._last, end - len(self._last)):
            return None
        at = start + self._lead
        text = data[at : at + size]
        for between in self._between:
            at += size
            if not (data.startswith(between, at) and data.startswith(text, at + len(between))):
                return None
            at += len(between)
        return _decoded(text)


def _decoded(text: bytes) -> bytes | None:
    """What stands between the quotes of a string as what it means; None where that is no string."""
    try:
        value = orjson.loads(b'"' + text + b'"')
    except orjson.JSONDecodeError:
        return None
    return value.encode() if isinstance(value, str) else None


class _Stream:
    """One operation: its templates, what its next packet must be, and what was accepted and not yet noted.

    ``pending`` are time, size, number and offset of these packets; their texts wait in the templates.
    """

    __slots__ = ("accepted", "deadline", "id", "learnt", "op", "pending", "sequence", "templates")

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.id = 0
        self.sequence = 0
        self.deadline = math.inf
        self.templates: list[_Template] = []
        self.pending: list[tuple[float, int, int, int]] = []
        self.learnt = 0
        self.accepted = 0

    def settle(self) -> None:
        """Notes the accepted packets as the full check does each."""
        op, pending = self.op, self.pending
        if not pending:
            return
        exchange, report = op.exchange, op.report
        timing = exchange.timing
        for template in self.templates:
            if template.heard:
                template.to.add_all(template.heard)
                template.heard.clear()
        op.timeline.reads(exchange.events + 1, pending)
        last = pending[0][0] if timing.last_byte is None else timing.last_byte
        for at, size, _, _ in pending:
            exchange.response_bytes += size
            if at - last > timing.largest_gap:
                timing.largest_gap = at - last
            last = at
        exchange.events += len(pending)
        timing.last_byte = op.latest_partial = report.at = last
        op.sequence = self.sequence
        report.side, report.unit = Side.RESPONSE, Unit.PACKET
        _, _, report.index, report.byte = pending[-1]
        self.accepted += len(pending)
        pending.clear()


class FastText:
    """The streams of one connection's server. ``armed`` are those whose next text may be accepted.

    ``at`` is the time of the read that ``run`` is called for. What was accepted is noted later, many packets
    at once: ``settle`` before anybody looks at an operation.
    """

    __slots__ = ("_longest", "_streams", "armed", "at")

    def __init__(self, limits: Limits) -> None:
        self._longest = min(limits.body, limits.packet) - _FIXED
        self.armed: dict[bytes, _Stream] = {}
        self._streams: dict[bytes, _Stream] = {}
        self.at = 0.0

    # -- the hot part ----------------------------------------------------------------------------------

    def run(self, data: bytes, start: int, base: int, index: int) -> tuple[int, int]:
        """Takes packets as long as they are accepted; a ``wire.nnrp.Run``."""
        whole, at, armed, longest = len(data), self.at, self.armed, self._longest
        while start + _FIXED < whole:
            prefix, size, key, named, sequence, told, flags = _unpack(data, start)
            stream = armed.get(key)
            if stream is None or prefix != _PREFIX or told != size or flags:
                break
            if named != stream.id or sequence <= stream.sequence or at > stream.deadline:
                break
            body = start + _FIXED
            end = body + size
            if end > whole or size > longest:
                break
            for template in stream.templates:
                found = template.fits(data, body, end)
                text = found[1] if found is not None else None
                if text is None or not text.isascii():
                    text = template.text(data, body, end)
                if text is not None:
                    break
            else:
                break
            index += 1
            template.heard.append(text)
            stream.pending.append((at, end - start, index, base + start))
            stream.sequence = sequence
            if len(stream.pending) == MOST_PENDING:
                stream.settle()
            start = end
        return start, index

    def settle(self) -> None:
        """Notes everything that was accepted."""
        for stream in self.armed.values():
            stream.settle()

    # -- arming ----------------------------------------------------------------------------------------

    def arm(self, op: Operation, packet: Packet, named: int, event: Mapping[str, Any]) -> None:
        """Takes a text delta that the full check accepted; ``named`` is the operation_id beside it."""
        key = _KEY.pack(op.session, op.frame)
        stream = self._streams.get(key)
        if stream is None or stream.op is not op:
            stream = self._streams[key] = _Stream(op)
        if not op.sequence or op.final_partial or op.terminal or op.cancelled:
            return
        if not self._known(stream, packet.body, event):
            return
        stream.id, stream.sequence = named, op.sequence
        stream.deadline = _deadline(op)
        self.armed[key] = stream

    def _known(self, stream: _Stream, body: bytes, event: Mapping[str, Any]) -> bool:
        """Whether there is a template that the body fits: an old one, or one that is made of it."""
        if any(t.text(body, 0, len(body)) is not None for t in stream.templates):
            return True
        if stream.learnt >= CREDIT + stream.accepted // EARNED:
            return False
        stream.learnt += 1
        made = _learnt(stream, body, event)
        if made is not None:
            stream.templates = [*stream.templates[1 - MAX_TEMPLATES :], made]
        return made is not None

    def disarm(self, op: Operation) -> None:
        """Something else has come for an operation."""
        if self.armed:
            stream = self.armed.pop(_KEY.pack(op.session, op.frame), None)
            if stream is not None:
                stream.settle()

    def disarm_all(self) -> None:
        """Something has come that may be about any operation."""
        self.settle()
        self.armed.clear()

    def forget(self, op: Operation) -> None:
        """An operation is over."""
        key = _KEY.pack(op.session, op.frame)
        if key in self._streams and self._streams[key].op is op:
            self._streams.pop(key).settle()
            self.armed.pop(key, None)


def _deadline(op: Operation) -> float:
    """Until when nothing is to be said of the timeout that the client set."""
    timeout = op.hints.get("timeout_ms")
    if op.timed_out or not op.timed or not is_count(timeout):
        return math.inf
    return op.at + float(timeout) / 1000


def _learnt(stream: _Stream, body: bytes, event: Mapping[str, Any]) -> _Template | None:
    """The template of an accepted body; None for one whose text can't be told apart from the rest."""
    index, delta = event.get("index"), event.get("delta")
    to = stream.op.texts.get(index if is_count(index) else None)
    if to is None or len(body) > MAX_BODY or not isinstance(delta, str):
        return None
    holes = [Hole(("delta",), HoleKind.TEXT)]
    if (path := _repeated(event.get("openai_chunk"), delta)) is not None:
        holes.append(Hole(("openai_chunk", *path), HoleKind.TEXT))
    found = spans_of(body, event, holes)
    if found is None:
        return None
    heard: list[bytes] = next((t.heard for t in stream.templates if t.to is to), [])
    return _Template(found[0], to, heard)


def _repeated(chunk: Any, delta: str) -> tuple[str | int, ...] | None:
    """Where a chunk says the text again: what the event's delta is held against."""
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    for n, choice in enumerate(choices if isinstance(choices, list) else ()):
        told = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(told, dict) and told.get("content") == delta:
            return ("choices", n, "delta", "content")
    return None
