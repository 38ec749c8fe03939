"""Connections as servers write them, for tests of the fast path: streams of texts, and faults in them.

What belongs here: bytes of both sides. What doesn't: what is found in them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from teeline.validators.model import Side
from teeline.validators.nnrp.examples import Sent, conversation
from teeline.validators.wire.nnrp import Message, packed
from tests.validators.streams import COMPACT, TEXTS, WRITERS, Dumps, chunk

STREAM: Mapping[str, Any] = {"on": "nnrp-stream"}
ENVELOPE: Mapping[str, Any] = {
    "schema_version": "openai-compatible/1",
    "operation": "chat.completions.create",
    "body": {
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    },
}


def text(delta: Any, index: Any = 0, **members: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "index": index, "delta": delta, **members}


def chunked(delta: str, index: int = 0) -> dict[str, Any]:
    """A text delta with the chunk that it came from."""
    return text(delta, index, openai_chunk=chunk({"content": delta}, index))


def partial(event: Any, number: int, frame: int = 1, **fields: Any) -> bytes:
    """The PARTIAL_RESULT of this number; ``fields`` are those of its metadata, ``dumps`` writes the event."""
    dumps: Dumps = fields.pop("dumps", COMPACT)
    body = event if isinstance(event, bytes) else dumps(event).encode("utf-8", "surrogatepass")
    meta = b"".join(
        fields.get(name, default).to_bytes(size, "little")
        for name, default, size in (
            ("operation", frame + 1000, 8),
            ("sequence", number, 8),
            ("object", 0, 8),
            ("delta_sequence", 0, 8),
            ("body_bytes", len(body), 4),
            ("flags", 0, 4),
        )
    )
    header = dict(fields.get("header", {}))
    session = fields.get("session", 1)
    return packed(header.pop("type", Message.PARTIAL_RESULT), meta, body, session, frame, **header)


def opened(frames: int = 1, nnrp: Any = None) -> list[Sent]:
    """The opening of a connection, and a submit a frame."""
    envelope = ENVELOPE if nnrp is None else {**ENVELOPE, "nnrp": nnrp}
    submits = [
        COMPACT({"c": "FRAME_SUBMIT", "frame": frame, "json": envelope})
        for frame in range(1, frames + 1)
    ]
    bare = {**STREAM, "remove": ["/4", "/3", "/2", "/1"], "insert": {"1": submits}}
    return list(conversation(bare).sent)


def stream(texts: Sequence[str], dumps: Dumps = COMPACT, *, chunks: bool = False) -> list[Sent]:
    """A clean stream of one operation but for its text, which ends empty."""
    make = chunked if chunks else text
    packets = [partial(make(t), n, dumps=dumps) for n, t in enumerate(texts, 1)]
    end = conversation({**STREAM, "set": {"/4": '{"s":"RESULT_PUSH"}'}}).sent[-1].data
    return [*opened(), *(Sent(Side.RESPONSE, data, 1.0) for data in (*packets, end))]


class Disordered:
    """Connections of several operations with whatever may go wrong in them, the same ones for a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._sequence = dict.fromkeys(range(1, 4), 0)
        self._dumps = self._chance.choice(WRITERS)
        self._chunks = self._chance.random() < 0.3

    def sent(self) -> list[Sent]:
        chance = self._chance
        nnrp = chance.choice([None, {"timeout_ms": 3000}, {"timeout_ms": "x"}, {}])
        packets = opened(frames=chance.randint(1, 3), nnrp=nnrp)
        at = packets[-1].at
        for _ in range(chance.randint(5, 60)):
            at += chance.choice([0.0, 0.0, 0.0, 0.01, 0.5])
            packets += (Sent(side, data, at) for side, data in self._next())
        return packets

    def _next(self) -> Iterator[tuple[Side, bytes]]:
        chance, frame = self._chance, self._chance.choice([1, 1, 1, 2, 3])
        if chance.random() < 0.04:
            yield Side.REQUEST, self._from_client(frame)
            return
        self._sequence[frame] += 1
        if chance.random() < 0.05:
            yield Side.RESPONSE, self._other(frame)
            return
        index = chance.choice([0, 0, 0, 1])
        delta = chance.choice(
            [*TEXTS, "", "y" * 5000] if chance.random() < 0.2 else ["Hello", " x"]
        )
        event = chunked(delta, index) if self._chunks else text(delta, index)
        if chance.random() < 0.15:
            event = self._odd(event)
        fields = self._fields() if chance.random() < 0.12 else {}
        yield (
            Side.RESPONSE,
            partial(event, self._sequence[frame], frame, dumps=self._dumps, **fields),
        )

    def _odd(self, event: dict[str, Any]) -> Any:
        chance = self._chance
        data: bytes = self._dumps(event).encode("utf-8", "surrogatepass")
        return chance.choice(
            [
                event | {"delta": chance.choice([None, 7, "\ud800", "\udc00", "\x00"])},
                event | {"index": chance.choice([None, -1, True, 2, 1.5])},
                event | {"vendor": chance.random()},
                event | {"type": chance.choice(["response.usage", "x", None])},
                event | {"openai_chunk": chunk({"content": "other"})},
                {"type": "response.usage", "usage": {"input_tokens": 1}},
                data.replace(b"l", b"\xff", 1),
                data.replace(b'"delta"', b'"delta":1,"delta"', 1),
                data + b"\n",
                data + data,
                data[:-1],
                b"data: " + data,
                b"",
            ]
        )

    def _fields(self) -> dict[str, Any]:
        return self._chance.choice(
            [
                {"sequence": 1},
                {"sequence": 0},
                {"flags": 1},
                {"flags": 2},
                {"operation": 0},
                {"operation": 77},
                {"body_bytes": 3},
                {"object": 9, "delta_sequence": 4},
                {"session": 2},
                {"header": {"version": 2}},
                {"header": {"flags": 64}},
                {"header": {"flags": 4}},
                {"header": {"type": Message.PROGRESS}},
                {"header": {"wire_format": 1}},
            ]
        )

    def _other(self, frame: int) -> bytes:
        kinds = [Message.RESULT_PUSH, Message.RESULT_DROP, Message.ERROR, Message.SESSION_CLOSE]
        kind = self._chance.choice([*kinds, Message.BACKPRESSURE, Message.PING])
        sizes = {Message.RESULT_PUSH: 64, Message.SESSION_CLOSE: 24, Message.ERROR: 32}
        meta = bytes(sizes.get(kind, 32 if kind is Message.BACKPRESSURE else 0))
        return packed(kind, meta, b"", 1, frame)

    def _from_client(self, frame: int) -> bytes:
        kind = self._chance.choice([Message.CANCEL, Message.FRAME_CANCEL, Message.SESSION_CLOSE])
        meta = bytes({Message.CANCEL: 32, Message.SESSION_CLOSE: 24}.get(kind, 0))
        return packed(kind, meta, b"", 1, self._chance.choice([0, frame]))
