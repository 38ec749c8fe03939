"""The cost of the checks alone: an inspector fed from memory, beside a JSON parser on the same bytes.

What belongs here: what one exchange costs the inspector. What doesn't: sockets, sinks, policy.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

from bench.traffic import CHUNKS, FIELDS, Shape, answer, events, numbered, request
from teeline.validators.events import Closed, RequestHead, ResponseHead, SchemaCheck, SchemaResult
from teeline.validators.history import History
from teeline.validators.model import Ended, Exchange
from teeline.validators.plain import PlainInspector

_AT = 1_760_000_000.0
_REQUEST_HEAD = RequestHead(
    "POST",
    "/v1/chat/completions",
    (
        ("Host", "bench"),
        ("Content-Type", "application/json"),
        ("Authorization", "Bearer bench"),
        ("Idempotency-Key", "bench"),  # all streams have one id, which is else a finding in each
    ),
)
_HISTORY = History()
"""One upstream, as a server has it: earlier answers are remembered."""


@dataclass(frozen=True, slots=True)
class Cost:
    """``micros`` of CPU for one ``unit`` of ``what``, the least of all repeats."""

    what: str
    unit: str
    micros: float


def inspected(
    pieces: Iterable[bytes], body: bytes, content_type: str, *, full: bool = True
) -> Exchange:
    """A whole exchange, schemas taken to hold; RuntimeError where it is not found clean.

    ``full`` False: it is meant to be beyond the limits.
    """
    exchange = Exchange()
    plain = PlainInspector(exchange, history=_HISTORY)
    plain.request_head(_REQUEST_HEAD, _AT)
    plain.request_body(body, _AT)
    plain.request_end(_AT)
    plain.response_head(ResponseHead(200, (("Content-Type", content_type), *FIELDS)), _AT)
    inspector = plain.acting  # who a server would feed from here on
    checks: list[SchemaCheck] = []
    for piece in pieces:
        if outputs := inspector.response_body(piece, _AT):
            checks += [output for output in outputs if isinstance(output, SchemaCheck)]
    closed = inspector.end(Ended.COMPLETE, _AT)
    checks += [output for output in closed if isinstance(output, SchemaCheck)]
    for check in checks:
        closed = inspector.schema_result(check.ticket, SchemaResult(), _AT)
    if not isinstance(closed[-1], Closed) or (exchange.inspection == "full") is not full:
        raise RuntimeError(f"the exchange was inspected: {exchange.inspection}")
    if exchange.violations:
        raise RuntimeError(f"not clean: {[v.rule.id for v in exchange.violations]}")
    return exchange


def costs(repeats: int, loops: int) -> list[Cost]:
    """Each figure is the best of ``repeats`` runs of ``loops`` exchanges."""
    stream, document = events(), answer()
    asked = request(Shape()).partition(b"\r\n\r\n")[2]
    asked_json = request().partition(b"\r\n\r\n")[2]
    data = [event[len(b"data: ") : -2] for event in stream[:-1]]
    joined = [b"".join(stream)]
    sse, json_type = "text/event-stream; charset=utf-8", "application/json"

    numbers = itertools.count()

    def whole() -> None:
        inspected((numbered(document, next(numbers)),), asked_json, json_type)

    def best(what: str, unit: str, units: int, work: Callable[[], object]) -> Cost:
        work()
        least = min(_timed(work, loops) for _ in range(repeats))
        return Cost(what, unit, least / loops / units * 1e6)

    return [
        best("stream, an event a read", "chunk", CHUNKS, lambda: inspected(stream, asked, sse)),
        best("stream, in one read", "chunk", CHUNKS, lambda: inspected(joined, asked, sse)),
        best("orjson.loads of its chunks", "chunk", CHUNKS, lambda: [*map(orjson.loads, data)]),
        best("JSON answer", "answer", 1, whole),
        best("orjson.loads of it", "answer", 1, lambda: orjson.loads(document)),
        best("orjson.loads of its request", "answer", 1, lambda: orjson.loads(asked_json)),
    ]


def _timed(work: Callable[[], object], loops: int) -> float:
    start = time.process_time()
    for _ in range(loops):
        work()
    return time.process_time() - start


def table(found: Iterable[Cost]) -> list[str]:
    """A line a figure."""
    return [f"  {cost.what:<30}{cost.micros:>10.2f} µs per {cost.unit}" for cost in found]
