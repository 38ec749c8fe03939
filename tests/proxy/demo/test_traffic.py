"""The client side keeps what really came back, and says where the demo stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest

from teeline.proxy.demo.relay import Relay
from teeline.proxy.demo.scenarios import SCENARIOS, Scenario
from teeline.proxy.demo.traffic import Collector, DemoError, Outcome, run
from teeline.validators.events import Closed
from teeline.validators.model import Exchange

_CLEAN_STREAM = next(s for s in SCENARIOS if s.name == "clean-stream")


class _Prompt(Collector):
    """Stands in for a proxy that has its word ready: every exchange closes when it is announced."""

    def expect(self, trace_id: str) -> asyncio.Future[Exchange]:
        waiting = super().expect(trace_id)
        self.closed(Closed(Exchange(trace_id=trace_id)))
        return waiting


class _Wire:
    """A TCP forwarder in the proxy's place, which may change bytes of the answers.

    Where ``new`` is None, the connection ends before ``old``.
    """

    def __init__(self, port: int, old: bytes, new: bytes | None) -> None:
        self._port, self._old, self._new = port, old, new
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def stop(self) -> None:
        self._server.close()
        await asyncio.gather(*self._tasks)
        await self._server.wait_closed()

    async def _connection(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        relay, forth = await asyncio.open_connection("127.0.0.1", self._port)
        up = asyncio.create_task(self._pump(client, forth))
        self._tasks |= {up, asyncio.create_task(self._pump(relay, back, changing=True))}

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, changing: bool = False
    ) -> None:
        while data := await source.read(65536):
            kept, found, _ = data.partition(self._old)
            if changing and found and self._new is None:
                sink.write(kept)
                break
            sink.write(data.replace(self._old, self._new or b"") if changing else data)
        sink.close()
        await sink.wait_closed()


def _sent(
    scenarios: Sequence[Scenario], old: bytes = b"-", new: bytes | None = b"-"
) -> list[Outcome]:
    """The scenarios sent through a wire."""

    async def use() -> list[Outcome]:
        relay = Relay()
        wire = _Wire(urlsplit(await relay.start()).port or 0, old, new)
        base_url = await wire.start()
        try:
            return await run(base_url, scenarios, relay, _Prompt())
        finally:
            await wire.stop()
            await relay.stop()

    return asyncio.run(use())


def test_a_wire_that_changes_nothing_shows_no_difference() -> None:
    """Every scenario, the cut and the compressed one too, arrives as it was sent."""
    outcomes = _sent(SCENARIOS)
    assert [outcome.scenario for outcome in outcomes] == list(SCENARIOS)
    assert [outcome.differences for outcome in outcomes] == [()] * len(SCENARIOS)
    assert all(outcome.request_bytes and outcome.answer_bytes for outcome in outcomes)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"It is 21", b"It is 22", "first difference at byte"),
        (b"x-request-id", b"X-Request-Id", "other header fields"),
        (b"200 OK", b"200 Ok", "another first line"),
    ],
)
def test_a_wire_that_changes_a_single_byte_is_found_out(old: bytes, new: bytes, words: str) -> None:
    """The comparison is a real one: content, header fields and the first line are in it."""
    (outcome,) = _sent([_CLEAN_STREAM], old, new)
    assert any(words in difference for difference in outcome.differences)


def test_a_wire_that_ends_an_answer_early_is_found_out() -> None:
    """All bytes of the body are there; the end that the framing asks for is not."""
    (outcome,) = _sent([_CLEAN_STREAM], b"0\r\n\r\n", None)
    assert outcome.differences == ("answer: ended at its sender, was cut off here",)


def test_nobody_at_the_other_end_stops_the_demo_in_one_line() -> None:
    """The scenario is named; there is no traceback to read."""

    async def use() -> None:
        relay = Relay()
        base_url = await relay.start()
        await relay.stop()
        await run(base_url, [_CLEAN_STREAM], relay, Collector())

    with pytest.raises(DemoError, match=r"^clean-stream: no answer \(Client\w+\)$"):
        asyncio.run(use())


def test_a_proxy_that_reports_nothing_stops_the_demo_in_one_line() -> None:
    """An exchange without a verdict is a failure, not an empty row."""

    async def use() -> None:
        relay = Relay()
        try:
            await run(await relay.start(), [_CLEAN_STREAM], relay, Collector(), patience=0)
        finally:
            await relay.stop()

    with pytest.raises(DemoError, match=r"^clean-stream: the proxy reported no exchange$"):
        asyncio.run(use())


def test_a_request_that_went_somewhere_else_stops_the_demo_in_one_line() -> None:
    """An answer that another relay gave is not compared with nothing."""

    async def use() -> None:
        relay, other = Relay(), Relay()
        try:
            await run(await other.start(), [_CLEAN_STREAM], relay, _Prompt())
        finally:
            await other.stop()

    with pytest.raises(DemoError, match=r"^clean-stream: the request never reached the relay$"):
        asyncio.run(use())


def test_exchanges_of_other_clients_are_neither_waited_for_nor_kept() -> None:
    """Someone else's traffic during the demo belongs to no scenario."""

    async def use() -> tuple[bool, Exchange]:
        collector = Collector()
        waiting = collector.expect("a" * 32)
        collector.closed(Closed(Exchange(trace_id="b" * 32, model="clean-stream")))
        before = waiting.done()
        collector.closed(Closed(Exchange(trace_id="a" * 32, model="no-done")))
        return before, await waiting

    before, exchange = asyncio.run(use())
    assert not before
    assert exchange.model == "no-done"


def test_an_exchange_that_closes_late_or_twice_does_no_harm() -> None:
    """The demo may have given up on it, and a sink must not raise."""

    async def use() -> None:
        collector = Collector()
        waiting = collector.expect("a" * 32)
        waiting.cancel()
        for _ in range(2):
            collector.closed(Closed(Exchange(trace_id="a" * 32)))

    asyncio.run(use())
