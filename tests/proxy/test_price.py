"""What a clean exchange costs, in things that can be counted: calls, objects that stay, what sinks get.

Times depend on the machine, counts don't: a change that does something for each chunk that could be
done once is found here, whatever runs beside the tests.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from teeline.proxy.clock import Now
from teeline.proxy.memory import Inspectors
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout
from teeline.proxy.tee import Tee
from teeline.validators.events import Closed, Found, Opened, RequestHead, ResponseHead
from teeline.validators.model import Ended, Exchange
from teeline.validators.policy import Policy
from teeline.validators.rules import register
from tests.proxy.raw import Recorder
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


def calls(work: Callable[[], None]) -> int:
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
