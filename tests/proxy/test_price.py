"""What a clean exchange costs, in things that can be counted: calls, objects that stay, what sinks get.

Times depend on the machine, counts don't: a change that does something for each chunk that could be
done once is found here, whatever runs beside the tests.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from teeline.config.model import UpstreamConfig, UpstreamURL
from teeline.proxy import pieces
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.clock import Now
from teeline.proxy.connection import ClientConnection, Clients
from teeline.proxy.forward import Forwarder
from teeline.proxy.memory import Inspectors
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout, Sink
from teeline.proxy.tee import Tee
from teeline.proxy.telemetry import metrics
from teeline.proxy.telemetry.attributes import Describer
from teeline.proxy.telemetry.pipeline import ExportReason, Sampling, Tally
from teeline.proxy.telemetry.sink import TelemetrySink
from teeline.proxy.telemetry.spans import Builder
from teeline.proxy.telemetry.wire import DirectSpanExporter
from teeline.proxy.upstream import Owner, Upstream, UpstreamConnection
from teeline.validators.events import Closed, Found, Opened, RequestHead, ResponseHead
from teeline.validators.model import Ended, Exchange
from teeline.validators.policy import Policy
from teeline.validators.rules import register
from tests.proxy import samples
from tests.proxy.audit.logs import ORIGIN, Clock, writer
from tests.proxy.raw import Recorder, run
from tests.validators import streams
from tests.validators.answers import completion, dumps

START = 1_760_000_000.0
FIELDS = (("Host", "h"), ("Content-Type", "application/json"), ("Authorization", "Bearer key"))
ANSWER = ResponseHead(
    200,
    (
        ("Content-Type", "text/event-stream; charset=utf-8"),
        ("x-request-id", "req_1"),
        ("openai-processing-ms", "1"),
        ("openai-version", "2020-10-01"),
        ("x-ratelimit-remaining-requests", "9999"),
    ),
)
JSON = ("Content-Type", "application/json")
TEXTS = [f" word{n}" for n in range(2000)]
CHAT = [*streams.framed(streams.chat(TEXTS)), streams.DONE]
RESPONSES = streams.framed(streams.responses(TEXTS))
MODEL = b"gpt-4o"
WARM = 40
"""Events until a stream goes its usual way: heads, the first texts, a template learnt."""


class StillClock:
    """Always at the start; what the tests pass on has times of its own."""

    def start(self) -> Now:
        return lambda: START


class Open:
    """An exchange whose stream has begun, and the sink that hears of it."""

    def __init__(self, target: str, asked: bytes, pieces: Sequence[bytes]) -> None:
        self.recorder = Recorder()
        observers = Observers(
            Inspectors(), Policy(register()), Fanout([self.recorder]), StillClock()
        )
        self.tee: Tee = observers.open("relay", "127.0.0.1", ())
        self.tee.request_head(RequestHead("POST", target, FIELDS), START)
        self.tee.request_body(asked, START)
        self.tee.request_end(None, START)
        self.tee.response_head(ANSWER, START)
        self.at = START
        self.pieces = list(pieces)
        self.pass_on(WARM)

    def pass_on(self, count: int) -> None:
        """So many further pieces, a tenth of a second apart."""
        body, at = self.tee.response_body, self.at
        for piece in self.pieces[:count]:
            at += 0.1
            body(piece, at)
        del self.pieces[:count]
        self.at = at


ASKED = b'{"model":"%s","stream":true,"messages":[{"role":"user","content":"Hi"}]}' % MODEL
STREAMS = [
    pytest.param(
        "/v1/chat/completions",
        ASKED,
        CHAT,
        id="chat",
    ),
    pytest.param(
        "/v1/responses",
        b'{"model":"%s","stream":true,"input":"Hi"}' % MODEL,
        RESPONSES,
        id="responses",
    ),
]


def calls(work: Callable[[], object]) -> int:
    """How many functions of Python's own kind are called."""
    count = 0

    def note(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_chunk_of_text_is_three_calls() -> None:
    """From the tee through the inspector and back, in a chat stream whose events come one by one."""
    exchange = Open("/v1/chat/completions", ASKED, CHAT)
    assert calls(lambda: exchange.pass_on(500)) / 500 <= 3.1


def test_a_numbered_text_is_four_calls() -> None:
    """The same of a Responses stream, where each text is compared with what is said of it later."""
    exchange = Open(
        "/v1/responses", b'{"model":"%s","stream":true,"input":"Hi"}' % MODEL, RESPONSES
    )
    assert calls(lambda: exchange.pass_on(500)) / 500 <= 4.4


def test_a_whole_json_exchange_is_a_hundred_calls_at_most() -> None:
    """From its first byte to its last, where the upstream has shown its way of writing answers."""
    asked = b'{"model":"%s","messages":[{"role":"user","content":"Hi"}]}' % MODEL
    said: dict[str, Any] = {"model": MODEL.decode(), "created": int(START)}
    answers = [dumps(completion(**said, id=f"chatcmpl-{n:08}")) for n in range(30)]
    observers = Observers(Inspectors(), Policy(register()), Fanout([Recorder()]), StillClock())
    exchanges: list[Exchange] = []

    def whole(answer: bytes) -> None:
        tee = observers.open("relay", "127.0.0.1", ())
        tee.request_head(RequestHead("POST", "/v1/chat/completions", FIELDS), START)
        tee.request_body(asked, START)
        tee.request_end(None, START)
        tee.response_head(ResponseHead(200, (JSON, *ANSWER.headers[1:])), START)
        tee.response_body(answer, START)
        tee.end(Ended.COMPLETE, tee.now())
        exchanges.append(tee.exchange)

    def all_of(answers: Sequence[bytes]) -> None:
        for answer in answers:
            whole(answer)

    all_of(answers[:10])
    assert calls(lambda: all_of(answers[10:])) / 20 <= 101  # and the test's own
    assert [found.violations for found in exchanges] == [[]] * 30


@pytest.mark.parametrize(("target", "asked", "pieces"), STREAMS)
def test_nothing_of_a_chunk_stays(target: str, asked: bytes, pieces: Sequence[bytes]) -> None:
    """A long stream holds no more objects than a short one."""
    exchange = Open(target, asked, pieces)
    exchange.pass_on(300)
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        exchange.pass_on(1000)
        # A few are the interpreter's; one a chunk would be a thousand.
        assert sys.getallocatedblocks() - before < 50
    finally:
        gc.enable()


@pytest.mark.parametrize(("target", "asked", "pieces"), STREAMS)
def test_sinks_hear_of_a_clean_exchange_twice(
    target: str, asked: bytes, pieces: Sequence[bytes]
) -> None:
    """When it opens and when it closes; so there is one span and one audit record, and no log record."""
    exchange = Open(target, asked, pieces)
    exchange.pass_on(len(exchange.pieces))
    exchange.tee.end(Ended.COMPLETE, exchange.at)
    heard = [type(event) for event in exchange.recorder.outputs]
    assert heard == [Opened, Closed]
    assert Found not in heard
    assert exchange.tee.exchange.violations == []


AT_ONCE = 64
"""Exchanges that the threads of sinks take at once."""


def _written(folder: Path) -> Callable[[list[Exchange]], object]:
    log = writer(folder, Clock(START))
    log.start()
    return log.append


def _built(_: Path) -> Callable[[list[Exchange]], object]:
    return Builder(
        DirectSpanExporter(endpoint="http://127.0.0.1:9/v1/traces"),
        Tally("spans", 10_000, ExportReason()),
        Describer(),
        Sampling(DEFAULT_ON),
        Resource.get_empty(),
        InstrumentationScope("test"),
        events=1,
    ).add


def _recorded(_: Path) -> Callable[[list[Exchange]], object]:
    recorder = metrics.Recorder(metrics.Meter(), {})
    return lambda closed: recorder.exchanges([(each, START) for each in closed])


@pytest.mark.parametrize(
    ("made", "most"),
    [
        pytest.param(_written, 7.5, id="audit"),
        pytest.param(_built, 16.5, id="spans"),
        pytest.param(_recorded, 4.5, id="metrics"),
    ],
)
def test_the_thread_of_a_sink_makes_a_few_calls_an_exchange(
    made: Callable[[Path], Callable[[list[Exchange]], object]], most: float, tmp_path: Path
) -> None:
    """Once it has met one that is alike; what it does once a batch is shared by all of them."""
    take = made(tmp_path)
    closed = [samples.exchange(stream=False) for _ in range(AT_ONCE)]
    take(closed)
    assert calls(lambda: take(closed)) / AT_ONCE <= most


def test_the_event_loop_hands_an_exchange_to_all_sinks_in_a_few_calls(tmp_path: Path) -> None:
    """Those that ``teeline serve`` has with an audit log and a collector; calls of threads don't count."""
    sinks: list[Sink] = [
        metrics.MetricsSink(),
        AuditSink(tmp_path, origin=ORIGIN),
        TelemetrySink(InMemorySpanExporter(), None, resource=Resource.get_empty()),
    ]
    fanout = Fanout(sinks)
    exchanges = [samples.exchange() for _ in range(100)]

    def tell_all() -> None:
        for exchange in exchanges:
            fanout.emit((Opened(exchange),))
            fanout.emit((Closed(exchange),))

    async def told() -> float:
        await fanout.start()
        try:
            return calls(tell_all) / len(exchanges)
        finally:
            await fanout.close()

    assert asyncio.run(told()) <= 13.5
    assert fanout.failures == {}


# -- what forwarding costs, on connections that are kept ---------------------------------------------

BODY = b'{"model":"m","messages":[]}'
ASKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 27\r\n\r\n" + BODY
ANSWERED = b"HTTP/1.1 200 OK\r\nx-request-id: req_%08d\r\nContent-Length: 2\r\n\r\n{}"
STREAMED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
CHUNK = b"a\r\ndata: {}\n\n\r\n"


class Unseen:
    """Observers, the tee of every exchange and the way there: they keep the content, and cost one call
    each time.
    """

    request, request_head, request_body, request_end = "asked", "head", "body", "end"
    answer, response_head, response_body, end = "answered", "answer head", "answer body", "over"

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.handover = self
        self.now = float

    def open(self, *of: Any) -> Unseen:
        return self

    def hand(self, step: str, what: object, at: float, size: int = 0) -> None:
        self.seen.append((step, what[1] if isinstance(what, tuple) else what))


class Line(asyncio.Transport):
    """A transport that keeps what is written; ``used`` is set with that."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.used = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written.append(data)
        self.used.set()

    def is_closing(self) -> bool:
        return False


class Pair:
    """A client's connection and the one behind it, after a first exchange on them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tee = Unseen()
        upstream = Upstream(UpstreamConfig(UpstreamURL.parse("http://up/v1")))
        forwarder = Forwarder([upstream], cast(Observers, self.tee))
        clients = Clients(
            forwarder.begin, on_closed=lambda: None, head_limit=8192, head_timeout=None
        )
        self.client: ClientConnection = clients()
        self.front, self.back = Line(), Line()
        self.client.connection_made(self.front)

        async def connect(upstream: Upstream, owner: Owner) -> UpstreamConnection:
            self.behind = UpstreamConnection(owner)
            self.behind.connection_made(self.back)
            return self.behind

        monkeypatch.setattr(Upstream, "connect", connect)

    async def begin(self) -> None:
        """Passes answers until their form is known."""
        self.ask()
        await self.back.used.wait()
        self.answer(ANSWERED % 0)
        for number in (1, 2):
            self.ask()
            self.answer(ANSWERED % number)
        for kept in (self.front.written, self.back.written, self.tee.seen):
            kept.clear()

    def ask(self) -> None:
        pieces.BUFFER[: len(ASKED)] = ASKED
        self.client.buffer_updated(len(ASKED))

    def answer(self, piece: bytes) -> None:
        pieces.BUFFER[: len(piece)] = piece
        self.behind.buffer_updated(len(piece))


def test_forwarding_a_json_exchange_is_twenty_eight_calls_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        pair = Pair(monkeypatch)
        await pair.begin()

        def exchanges() -> None:
            for number in range(50, 100):
                pair.ask()
                pair.answer(ANSWERED % number)

        # Beside three of the tee, and six of the test and its transports.
        assert calls(exchanges) / 50 <= 36.1
        assert pair.back.written == [ASKED.replace(b"Host: h", b"Host: up")] * 50
        assert pair.front.written == [ANSWERED % number for number in range(50, 100)]
        assert pair.tee.seen == [("asked", BODY), ("answered", b"{}")] * 50

    run(test())


def test_forwarding_a_chunk_is_three_calls_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        pair = Pair(monkeypatch)
        await pair.begin()
        pair.ask()
        pair.answer(STREAMED)
        pair.answer(CHUNK)

        def chunks() -> None:
            for _ in range(100):
                pair.answer(CHUNK)

        # Beside one of the tee, and three of the test and its transports.
        assert calls(chunks) / 100 <= 7.1
        assert pair.front.written == [STREAMED, *[CHUNK] * 101]
        assert pair.tee.seen[2:] == [("answer body", CHUNK[3:-2])] * 101

    run(test())
