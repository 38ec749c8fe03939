"""How the checks' cost grows with what they check: a unit should cost the same in small and in large.

What belongs here: inspectors fed from memory with few and with many of a thing. What doesn't: what a
unit costs (checks.py), sockets (run.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.checks import inspected
from bench.traffic import Shape, answer, events, request

_SSE = "text/event-stream; charset=utf-8"
_JSON = "application/json"
_PIECE = 65536


@dataclass(frozen=True, slots=True)
class Growth:
    """Microseconds of CPU a unit with ``few`` and with ``many`` of them in one exchange."""

    what: str
    few: int
    many: int
    few_micros: float
    many_micros: float

    @property
    def factor(self) -> float:
        """1 where the cost is linear."""
        return self.many_micros / self.few_micros


def growths(repeats: int, scale: int = 1) -> list[Growth]:
    """``scale`` divides the sizes, for a trial run."""
    rows: list[tuple[str, int, int, Callable[[int], Callable[[], object]]]] = [
        ("events of a stream", 10_000, 100_000, _stream),
        ("bytes of a body", 2_000_000, 15_000_000, _body),
        ("bytes of a body beyond the limit", 2_000_000, 20_000_000, _body),
        ("tool calls of an answer", 100, 1_000, _tool_calls),
        ("tool calls of a stream", 100, 1_000, _streamed_tool_calls),
    ]
    found = []
    for what, few, many, make in rows:
        few, many = max(3, few // scale), max(30, many // scale)
        costs = [_cost(make(count), count, repeats) for count in (few, many)]
        found.append(Growth(what, few, many, *costs))
    return found


def _cost(work: Callable[[], object], units: int, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / units * 1e6


def _asked(shape: Shape | None = None) -> bytes:
    return request(shape).partition(b"\r\n\r\n")[2]


def _cut(data: bytes) -> list[bytes]:
    return [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]


def _stream(count: int) -> Callable[[], object]:
    pieces, asked = events(count), _asked(Shape())
    return lambda: inspected(pieces, asked, _SSE)


def _body(size: int) -> Callable[[], object]:
    pieces, asked = _cut(answer(size)), _asked()
    return lambda: inspected(pieces, asked, _JSON, full=size < 16_000_000)


def _call(number: int) -> dict[str, Any]:
    function = {"name": "look_up", "arguments": '{"place": "here"}'}
    return {"id": f"call_{number:06}", "type": "function", "function": function}


def _with_tools(shape: Shape | None = None) -> bytes:
    asked = json.loads(_asked(shape))
    parameters = {"type": "object", "properties": {"place": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "look_up", "parameters": parameters}}
    return json.dumps(asked | {"tools": [tool]}).encode()


def _tool_calls(count: int) -> Callable[[], object]:
    document = json.loads(answer())
    (choice,) = document["choices"]
    choice["message"] |= {"content": None, "tool_calls": [_call(n) for n in range(count)]}
    choice["finish_reason"] = "tool_calls"
    pieces, asked = _cut(json.dumps(document).encode()), _with_tools()
    return lambda: inspected(pieces, asked, _JSON)


def _streamed_tool_calls(count: int) -> Callable[[], object]:
    """Three chunks a call: its head, and its arguments in two pieces."""
    first, *_, last, done = events(3)
    frame, end = json.loads(first[6:]), json.loads(last[6:])
    pieces = [first]
    for number in range(count):
        whole = _call(number)
        arguments = whole["function"].pop("arguments")
        heads: Sequence[dict[str, Any]] = [
            whole | {"index": number, "function": whole["function"] | {"arguments": ""}},
            {"index": number, "function": {"arguments": arguments[:8]}},
            {"index": number, "function": {"arguments": arguments[8:]}},
        ]
        for call in heads:
            choice = frame["choices"][0] | {"delta": {"tool_calls": [call]}}
            chunk = json.dumps(frame | {"choices": [choice]}, separators=(",", ":"))
            pieces.append(b"data: %b\n\n" % chunk.encode())
    end["choices"][0]["finish_reason"] = "tool_calls"
    pieces += [b"data: %b\n\n" % json.dumps(end, separators=(",", ":")).encode(), done]
    asked = _with_tools(Shape())
    return lambda: inspected(pieces, asked, _SSE)


def table(found: Sequence[Growth]) -> list[str]:
    """A line a row: µs a unit in small and in large, and the factor between them."""
    return [
        f"  {row.what:<34}{row.few:>12,} {row.few_micros:>10.4f} µs"
        f"{row.many:>12,} {row.many_micros:>10.4f} µs   x {row.factor:.2f}"
        for row in found
    ]
