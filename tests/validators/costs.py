"""``python -m tests.validators.costs [ROUNDS]``: what the checks cost beside a JSON parser, by hand.

Each figure is the median over rounds of CPU time, and of its ratio to ``orjson.loads`` of the same bytes in
the same round, so that what else the machine does falls on both. Nothing here passes or fails: what must
hold on any machine is counted in test_fast.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import orjson

from teeline.validators.checks.chatstream import ChatStream
from teeline.validators.checks.context import Context
from teeline.validators.checks.respstream import ResponsesStream
from teeline.validators.checks.stream import EventProtocol
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Ended, Exchange, Severity
from teeline.validators.operation import Operation
from teeline.validators.wire.json import decode
from tests.validators import streams
from tests.validators.exchanges import NOW

EVENTS = 1000
WORDS = ("the ", "quick ", "brown ", "fox ", "jumps ", "over ", "a ", "lazy ", "dog. ")
TEXTS = [WORDS[n % len(WORDS)] for n in range(EVENTS)]
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ASKING = (
    ("content-type", "application/json"),
    ("authorization", "Bearer x"),
    ("idempotency-key", "x"),  # all answers have one id
)
HEADERS = (
    ("x-request-id", "req_1"),
    ("openai-processing-ms", "5"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10"),
)


UPSTREAM = History()


@dataclass(frozen=True, slots=True)
class Figure:
    """``work`` does ``units`` of something, ``parse`` only parses the same JSON."""

    name: str
    units: int
    work: Callable[[], object]
    parse: Callable[[], object]


def whole_exchange(path: str, request: bytes, kind: str, reads: Sequence[bytes]) -> Exchange:
    """One exchange through an inspector; RuntimeError where it is not clean."""
    exchange = Exchange(id="cost")
    inspector = Inspector(exchange, history=UPSTREAM)
    inspector.request_head(RequestHead("POST", path, ASKING), NOW)
    inspector.request_body(request, NOW)
    inspector.request_end(NOW)
    inspector.response_head(ResponseHead(200, (("content-type", kind), *HEADERS)), NOW)
    for data in reads:
        inspector.response_body(data, NOW)
    inspector.end(Ended.COMPLETE, NOW)
    if any(v.severity > Severity.INFO for v in exchange.violations):
        raise RuntimeError(f"not clean: {[v.rule.id for v in exchange.violations]}")
    return exchange


def stream(name: str, path: str, blocks: Sequence[bytes], *, coalesced: bool = False) -> Figure:
    """A whole stream, its request and heads included, by its events."""
    asked = b'"input":"Hi"' if path == RESPONSES else b'"messages":[{"role":"user","content":"Hi"}]'
    request = b'{"model":"gpt-4o","stream":true,%b}' % asked
    reads = [b"".join(blocks)] if coalesced else list(blocks)
    documents = data_of(blocks)
    kind = "text/event-stream; charset=utf-8"

    def work() -> object:
        return whole_exchange(path, request, kind, reads)

    return Figure(name, len(documents), work, lambda: [*map(orjson.loads, documents)])


def data_of(blocks: Sequence[bytes]) -> list[bytes]:
    lines = [block.rstrip(b"\n").rpartition(b"data: ")[2] for block in blocks]
    return [line for line in lines if line != b"[DONE]"]


def full_checks(name: str, operation: Operation, blocks: Sequence[bytes]) -> Figure:
    """Decoding and the protocol's full check of each event, without framing."""
    documents = data_of(blocks)
    names = [block.partition(b"\n")[0].removeprefix(b"event: ").decode() for block in blocks]

    def work() -> object:
        ctx = Context(Exchange(), operation, DEFAULT_LIMITS)
        ctx.report.at = NOW
        check: EventProtocol = (
            ChatStream(ctx) if operation is Operation.CHAT else ResponsesStream(ctx)
        )
        for document, event in zip(documents, names, strict=False):
            check.event(decode(document).value, event)
        return ctx

    return Figure(name, len(documents), work, lambda: [*map(orjson.loads, documents)])


def document(name: str, path: str, request: bytes, answer: bytes) -> Figure:
    """A request and an answer of one JSON document each."""

    def work() -> object:
        return whole_exchange(path, request, "application/json", [answer])

    return Figure(name, 1, work, lambda: (orjson.loads(request), orjson.loads(answer)))


def figures() -> list[Figure]:
    chat = [*streams.framed(streams.chat(TEXTS)), streams.DONE]
    plain = [streams.chunk({"role": "assistant", "content": "", "refusal": None})]
    plain += [streams.chunk({"content": text}) for text in TEXTS]
    plain_chat = [*streams.framed([*plain, streams.chunk({}, finish="stop")]), streams.DONE]
    escaped = [*streams.framed(streams.chat(["é\n"] * EVENTS)), streams.DONE]
    probable = [streams.chunk({"content": t}, logprobs=streams.logprobs(t)) for t in TEXTS]
    events = streams.framed(streams.responses(TEXTS))
    return [
        stream("chat, an event a read", CHAT, plain_chat),
        stream("chat, in one read", CHAT, plain_chat, coalesced=True),
        stream("chat, obfuscation, an event a read", CHAT, chat),
        stream("chat, escapes, an event a read", CHAT, escaped),
        stream("chat of 100, an event a read", CHAT, [*plain_chat[:99], *plain_chat[-2:]]),
        stream("Responses, an event a read", RESPONSES, events),
        stream("Responses, in one read", RESPONSES, events, coalesced=True),
        full_checks("full check of a chat chunk", Operation.CHAT, plain_chat[:EVENTS]),
        full_checks(
            "full check with logprobs", Operation.CHAT, [plain_chat[0], *streams.framed(probable)]
        ),
        full_checks("full check of a Responses event", Operation.RESPONSES, events[: EVENTS - 10]),
        document("chat, JSON of 1 KB", CHAT, *_documents()),
    ]


def _documents() -> tuple[bytes, bytes]:
    text = ("".join(WORDS) * 40)[:850]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    message: dict[str, object] = {
        "role": "assistant",
        "content": text[:500],
        "refusal": None,
        "annotations": [],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    counts = {"prompt_tokens": 190, "completion_tokens": 150, "total_tokens": 340}
    details = {
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    answer = streams.chunk({}) | {"object": "chat.completion", "choices": [choice]}
    answer["usage"] = counts | details
    request = {"model": "gpt-4o", "messages": messages, "temperature": 0.5}
    return streams.COMPACT(request).encode(), streams.COMPACT(answer).encode()


def _timed(work: Callable[[], object], units: int) -> float:
    loops = max(1, 2000 // units)
    start = time.process_time()
    for _ in range(loops):
        work()
    return (time.process_time() - start) / loops / units * 1e6


def main(rounds: int) -> None:
    measured: dict[str, list[tuple[float, float]]] = {}
    found = figures()
    for _ in range(rounds):
        for figure in found:
            pair = (_timed(figure.work, figure.units), _timed(figure.parse, figure.units))
            measured.setdefault(figure.name, []).append(pair)
    for name, pairs in measured.items():
        cost, ratio = median(a for a, _ in pairs), median(a / b for a, b in pairs)
        sys.stdout.write(f"{name:<38}{cost:>8.2f} µs{ratio:>8.2f} x orjson.loads\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
