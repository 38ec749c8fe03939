"""The bridge watches itself: each translation that goes wrong is named, and no answer waits for that.

Real sockets on both sides; what is broken in a test is one step of the translation. That bridges which do as
they should are found clean is a part of every test of this folder (``bridged``).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from teeline.proxy.inspection import AsideInspector
from teeline.proxy.inspectpool import InspectPool
from teeline.proxy.nnrp.bridge import chat, compare, handler, server
from teeline.proxy.nnrp.bridge.asked import Asked, asked_of
from teeline.proxy.nnrp.bridge.chat import DONE_MARK, ChatStream
from teeline.proxy.nnrp.bridge.told import Document, Event, document_of
from teeline.proxy.nnrp.clientoperation import Operation
from teeline.validators.events import Closed, Report, Task
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Verdict
from teeline.validators.nnrp.passed import BRIDGE
from teeline.validators.wire.nnrp import Message
from tests.proxy.nnrp.bridge.answers import COMPLETION, answering, hello, text
from tests.proxy.nnrp.bridge.bridged import Answer, Bridged, InPlace, bridged, bridging, comparing
from tests.proxy.nnrp.peers import Kept
from tests.proxy.nnrp.scripted import Peer, Script, Submit, nnrp_server
from tests.proxy.raw import run

Patch = pytest.MonkeyPatch


def chunk(content: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content}, "logprobs": None, "finish_reason": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000}
    return {**head, "model": "m", "choices": [choice]}


async def chunked(peer: Peer, submit: Submit) -> None:
    """Says Hello in events that carry chunks."""
    for sequence, delta in enumerate(("Hel", "lo"), 1):
        await peer.event(submit, sequence, text(delta, openai_chunk=chunk(delta)))
    await peer.result(submit, {"type": "response.completed", "body": COMPLETION})


async def failing(peer: Peer, submit: Submit) -> None:
    await peer.event(submit, 1, text("Hel"))
    error = {"type": "server_error", "code": "backend_error", "message": "no"}
    await peer.result(submit, {"type": "response.error", "error": error}, 500)


# -- what is broken ------------------------------------------------------------------------------------


def says_other_text(patch: Patch) -> None:
    made = chat._piece

    def piece(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return made(index, {n: v.upper() for n, v in delta.items() if n != "role"}, finish)

    patch.setattr(chat, "_piece", piece)


def replays_twice(patch: Patch) -> None:
    once = ChatStream._replay

    def twice(self: ChatStream, event: Event, rest: list[Any]) -> Iterator[bytes]:
        sent = list(once(self, event, rest))
        yield from [*sent, sent[-1]]

    patch.setattr(ChatStream, "_replay", twice)


def replays_something_else(patch: Patch) -> None:
    right = ChatStream._replay

    def other(self: ChatStream, event: Event, rest: list[Any]) -> Iterator[bytes]:
        telling = b'"logprobs":{"content":[],"refusal":null}'
        for data in right(self, event, rest):
            yield data.replace(b'"logprobs":null', telling).replace(b'"logprobs": null', telling)

    patch.setattr(ChatStream, "_replay", other)


def loses_errors(patch: Patch) -> None:
    patch.setattr(ChatStream, "error", lambda self, failure: DONE_MARK)


def asks_otherwise(change: Callable[[Asked], bytes]) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        def other(*arguments: Any) -> Asked:
            asked = asked_of(*arguments)
            return replace(asked, envelope=change(asked))

        patch.setattr(f"{server.__name__}.asked_of", other)

    return apply


def answers_otherwise(patch: Patch) -> None:
    def other(data: bytes | None, status: int = 200) -> Document:
        found = document_of(data, status)
        return found._replace(body=found.body.replace(b"Hello", b"Howdy"))

    patch.setattr(f"{handler.__name__}.document_of", other)


ANOTHER_MODEL = asks_otherwise(lambda asked: asked.envelope.replace(b'"m"', b'"other"'))
ANOTHER_OPERATION = asks_otherwise(
    lambda asked: asked.envelope.replace(b"chat.completions.create", b"embeddings.create")
)


@pytest.mark.parametrize(
    ("breaks", "answer", "stream", "rule"),
    [
        (says_other_text, hello, True, "nnrp.bridge-text-changed"),
        (replays_twice, chunked, True, "nnrp.bridge-chunk-repeated"),
        (replays_something_else, chunked, True, "nnrp.bridge-chunk-changed"),
        (loses_errors, failing, True, "nnrp.bridge-error-lost"),
        (answers_otherwise, hello, False, "nnrp.bridge-answer-changed"),
        (ANOTHER_MODEL, hello, False, "nnrp.bridge-body-changed"),
        (ANOTHER_OPERATION, hello, False, "nnrp.bridge-operation-wrong"),
    ],
)
def test_a_bridge_that_translates_wrongly_is_named(
    monkeypatch: Patch, breaks: Callable[[Patch], None], answer: Any, stream: bool, rule: str
) -> None:
    breaks(monkeypatch)
    kept = Kept()
    run(_asked(answering(answer), kept, stream=stream))
    assert kept.rules == [rule]
    (exchange,) = kept.closed_
    assert (exchange.operation, exchange.inspection) == (BRIDGE, "full")
    assert exchange.verdict is not Verdict.PASS
    assert exchange.client_verdict is Verdict.PASS


async def _asked(script: Script, kept: Any, **asked: Any) -> Answer:
    async with compared(script, kept) as up:
        return await up.chat(**asked)


@asynccontextmanager
async def compared(
    script: Script, kept: Any, pool: AsideInspector | None = None, **options: Any
) -> AsyncIterator[Bridged]:
    """A bridge that compares, before a scripted server; everything is compared at its end."""
    comparer = comparing(kept, pool, **options)
    async with (
        nnrp_server(script) as server,
        bridging(f"nnrp://127.0.0.1:{server.port}", comparer=comparer) as up,
    ):
        yield up
    assert comparer.held == 0


@pytest.mark.parametrize("cancels", [True, False])
def test_an_operation_that_goes_on_for_nobody_is_named(monkeypatch: Patch, cancels: bool) -> None:
    """The client leaves; a bridge that cancels is clean, one that doesn't is named for its own side."""
    if not cancels:
        monkeypatch.setattr(Operation, "cancel", lambda self, reason: None)
    kept = Told()

    async def test() -> None:
        asked_for = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.opened()
            submit = await peer.submit()
            await peer.event(submit, 1, text("Hel"))
            asked_for.set()
            if cancels:
                await peer.expect(Message.CANCEL)
            await peer.until_closed()

        async with compared(script, kept, limits=Limits(grace=0.05)) as up:
            request = asyncio.create_task(up.chat(stream=True))
            await asked_for.wait()
            request.cancel()
            await kept.told.wait()

    run(test())
    assert kept.rules == ([] if cancels else ["nnrp.bridge-disconnect-without-cancel"])
    (exchange,) = kept.closed_
    assert exchange.ended is Ended.CLIENT_CLOSED
    assert exchange.verdict is Verdict.PASS
    assert (exchange.client_verdict is Verdict.PASS) is cancels


class Told(Kept):
    """Knows when an exchange is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    def closed(self, event: Closed) -> None:
        super().closed(event)
        self.told.set()


# -- what is told --------------------------------------------------------------------------------------


def test_a_request_is_an_exchange_of_its_own_with_what_is_known_of_it() -> None:
    kept = Kept()

    async def test() -> None:
        async with compared(answering(chunked), kept) as up:
            trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
            fields = {"X-Request-Id": "mine", "traceparent": trace, "Authorization": "sk-secret"}
            await up.ask(
                "/v1/chat/completions", {"model": "m", "messages": [], "stream": True}, fields
            )

    run(test())
    (exchange,) = kept.closed_
    assert (exchange.method, exchange.path) == ("POST", "/v1/chat/completions")
    assert (exchange.model, exchange.stream, exchange.status) == ("m", True, 200)
    assert (exchange.request_id, exchange.upstream, exchange.client) == (
        "mine",
        "nnrp",
        "127.0.0.1",
    )
    assert (exchange.trace_id, exchange.parent_span_id) == ("a" * 32, "b" * 16)
    assert (exchange.ended, exchange.inspection) == (Ended.COMPLETE, "full")
    assert exchange.request_bytes > 0 and exchange.response_bytes > 0
    assert "sk-secret" not in repr(exchange)


def test_an_error_answer_is_compared_and_a_request_that_was_never_submitted_is_not() -> None:
    kept = Kept()

    async def test() -> None:
        async with compared(answering(failing), kept) as up:
            assert (await up.chat()).status == 500
            assert (await up.ask("/v1/chat/completions", b"{")).status == 400

    run(test())
    (exchange,) = kept.closed_
    assert (exchange.status, exchange.violations, exchange.inspection) == (500, [], "full")


def test_it_is_compared_in_a_process_of_its_own(monkeypatch: Patch) -> None:
    says_other_text(monkeypatch)
    kept = Kept()

    async def test() -> None:
        async with (
            InspectPool(timeout=120, patience=120) as pool,
            compared(answering(hello), kept, pool) as up,
        ):
            await up.chat(stream=True)
            await up.ask("/v1/models")

    run(test())
    assert kept.rules == ["nnrp.bridge-text-changed"]
    assert {exchange.inspection for exchange in kept.closed_} == {"full"}


# -- answers come first --------------------------------------------------------------------------------


def test_no_answer_waits_for_a_comparison() -> None:
    kept = Kept()

    class Stuck(InPlace):
        def __init__(self) -> None:
            super().__init__()
            self.go_on = asyncio.Event()

        async def inspect(self, task: Task) -> Report:
            await self.go_on.wait()
            return await super().inspect(task)

    async def test() -> None:
        stuck = Stuck()
        async with compared(answering(hello), kept, stuck) as up:
            answers = [await up.chat(stream=stream) for stream in (True, False)]
            assert [answer.status for answer in answers] == [200, 200]
            assert b"[DONE]" in answers[0].body
            assert kept.opened_ == []
            stuck.go_on.set()

    run(test())
    assert [exchange.inspection for exchange in kept.closed_] == ["full", "full"]


class Raises(InPlace):
    async def inspect(self, task: Task) -> Report:
        raise RuntimeError("sk-secret")


class Babbles(InPlace):
    async def inspect(self, task: Task) -> Report:
        return Report(b'{"violations": [{"rule": "no.such"}]}')


class Busy(InPlace):
    async def inspect(self, task: Task) -> Report:
        return Report(failed="busy")


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (Raises(), "none (validator-error)"),
        (Babbles(), "none (validator-error)"),
        (Busy(), "partial (inspection-busy)"),
    ],
)
def test_a_comparison_that_fails_breaks_no_answer_and_is_said(
    pool: InPlace, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept()

    async def test() -> None:
        async with compared(answering(hello), kept, pool) as up:
            assert (await up.chat()).json == COMPLETION
            assert (await up.chat(stream=True)).data[-1] == b"[DONE]"

    run(test())
    assert [exchange.inspection for exchange in kept.closed_] == [said, said]
    assert kept.rules == []
    assert "sk-secret" not in caplog.text


def test_a_sink_that_fails_breaks_no_answer() -> None:
    class Fails(Kept):
        def opened(self, event: Any) -> None:
            raise RuntimeError

    assert run(_asked(answering(hello), Fails())).json == COMPLETION


@pytest.mark.parametrize("step", ["new_exchange", "Copy"])
def test_a_copy_that_can_t_be_made_breaks_no_answer(monkeypatch: Patch, step: str) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(compare, step, fails)
    kept = Kept()
    assert run(_asked(answering(hello), kept)).json == COMPLETION
    assert kept.opened_ == []


def test_an_end_that_can_t_be_told_breaks_no_answer(monkeypatch: Patch) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(compare.Copy, "_end", fails)
    kept = Kept()
    assert run(_asked(answering(hello), kept)).json == COMPLETION
    assert kept.opened_ == []


# -- bounds --------------------------------------------------------------------------------------------


async def talkative(peer: Peer, submit: Submit) -> None:
    for sequence in range(1, 21):
        await peer.event(submit, sequence, text("x" * 100))
    await peer.result(submit, b"")


@pytest.mark.parametrize("bound", ["most_of_one", "most"])
def test_what_is_kept_is_bounded_and_what_was_not_kept_is_said(
    monkeypatch: Patch, bound: str
) -> None:
    says_other_text(monkeypatch)
    kept = Kept()
    bounds: dict[str, Any] = {bound: 7000}

    async def test() -> None:
        async with compared(answering(talkative), kept, **bounds) as up:
            assert json.loads((await up.chat(stream=True)).data[1])["choices"]

    run(test())
    (exchange,) = kept.closed_
    assert (exchange.violations, exchange.inspection) == ([], "partial (memory-limit)")
    assert exchange.response_bytes > 2000


def test_a_request_that_does_not_fit_is_told_without_a_comparison() -> None:
    kept = Kept()

    async def test() -> None:
        async with compared(answering(hello), kept, Raises(), most=3000) as up:
            assert (await up.chat()).json == COMPLETION

    run(test())
    (exchange,) = kept.closed_
    assert (exchange.status, exchange.inspection) == (200, "partial (memory-limit)")


def test_requests_together_are_bounded_and_room_comes_back() -> None:
    kept = Kept()

    async def test() -> None:
        held, go_on = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer, submit: Submit) -> None:
            if submit.envelope["body"].get("user") == "first":
                held.set()
                await go_on.wait()
            await hello(peer, submit)

        async with compared(answering(script), kept, most=8000) as up:
            first = asyncio.create_task(up.chat(user="first", metadata={"a": "x" * 800}))
            await held.wait()
            await up.chat(metadata={"a": "x" * 800})
            go_on.set()
            await first
        async with compared(answering(hello), kept, most=8000) as up:
            await up.chat(metadata={"a": "x" * 300})

    run(test())
    assert sorted(exchange.inspection for exchange in kept.closed_) == [
        "full",
        "full",
        "partial (memory-limit)",
    ]


def test_a_bridge_that_is_found_clean_was_compared() -> None:
    """What ``bridged`` says of every test can fail."""

    async def test() -> None:
        async with bridged(answering(hello)) as (up, _):
            await up.chat()

    with pytest.MonkeyPatch.context() as patch:
        answers_otherwise(patch)
        with pytest.raises(AssertionError, match=r"nnrp\.bridge-answer-changed"):
            run(test())
