"""Events as no server should send them: those of the profile, of which some members are anything at all."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

_ANY: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**70,
    1.5,
    "",
    "a",
    "call_1",
    "\ud800",
    [],
    [1],
    {},
    {"a": []},
]


def _maybe(chance: random.Random, right: Any) -> Any:
    """What is right, or now and then anything."""
    return chance.choice(_ANY) if chance.random() < 0.15 else right


def _call(chance: random.Random) -> Any:
    function = {
        "name": _maybe(chance, "f"),
        "arguments": _maybe(chance, chance.choice(["", "{", "}"])),
    }
    call = {
        "id": _maybe(chance, chance.choice(["call_1", "call_2", None])),
        "index": _maybe(chance, chance.randrange(2)),
        "function": _maybe(chance, function),
    }
    return _maybe(chance, call)


def _chunk(chance: random.Random) -> Any:
    delta = {
        "content": _maybe(chance, chance.choice(["a", "b", ""])),
        "tool_calls": _maybe(chance, [_call(chance) for _ in range(chance.randrange(3))]),
    }
    choice = {
        "index": _maybe(chance, chance.randrange(2)),
        "delta": _maybe(chance, delta),
        "message": _maybe(chance, delta),
        "finish_reason": _maybe(chance, None),
    }
    return {
        "object": "chat.completion.chunk",
        "id": _maybe(chance, "c"),
        "model": _maybe(chance, "m"),
        "created": _maybe(chance, 1),
        "choices": _maybe(chance, [_maybe(chance, choice)]),
        "output": _maybe(chance, [_call(chance), {"type": "message", "content": [_call(chance)]}]),
        "usage": _maybe(chance, None),
    }


def _event(chance: random.Random) -> dict[str, Any]:
    kind = chance.choice(
        ["output_text.delta"] * 4
        + ["tool_call.started", "tool_call.delta", "tool_call.completed"] * 2
        + ["usage", "completed", "diagnostics"]
    )
    event = {
        "index": _maybe(chance, chance.randrange(2)),
        "delta": _maybe(chance, chance.choice(["a", "b"])),
        "item_id": _maybe(chance, "item"),
        "call_id": _maybe(chance, chance.choice(["call_1", "call_2"])),
        "name": _maybe(chance, "f"),
        "arguments_delta": _maybe(chance, chance.choice(["{", "}"])),
        "arguments": _maybe(chance, "{}"),
        "usage": _maybe(chance, {"input_tokens": 1}),
        "body": _maybe(chance, _chunk(chance)),
    }
    if chance.random() < 0.6:
        event["openai_chunk"] = _maybe(chance, _chunk(chance))
    return {"type": f"response.{kind}", **event}


def conversations(count: int) -> Iterator[tuple[list[bytes], Any]]:
    """Events of one answer, and the body of its end or None; the same ones each time."""
    for seed in range(count):
        chance = random.Random(seed)
        events = [json.dumps(_event(chance)).encode() for _ in range(chance.randrange(1, 9))]
        body = _chunk(chance) if chance.random() < 0.7 else None
        yield events, body
