"""The official SDK through several worker processes: as through none, and each request counted once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.audit.verify import verify
from teeline.proxy.telemetry import instruments
from tests.clients import sdk
from tests.clients.peers import Loop
from tests.clients.sdk import Outcome, ask, saying
from tests.proxy.raw import Wire, raw_upstream
from tests.proxy.workers import STREAM_HEAD, Watched, configured, supervised

ASKED: dict[str, Any] = {"model": "clean", "messages": saying("hello"), "stream": True}
AT_ONCE = 16


@pytest.fixture
def workers(loop: Loop, relay: str, tmp_path: Path) -> Iterator[tuple[Watched, str]]:
    """Two workers in front of the demo's relay, and their base URL."""
    with loop.within(supervised(configured(relay, tmp_path))) as (supervisor, port):
        yield supervisor, f"http://127.0.0.1:{port}/v1"


async def asked_at_once(base_url: str, count: int) -> list[Outcome]:
    """So many streams at a time, each on a connection of its own."""
    async with sdk.async_client(base_url) as client:
        return list(await asyncio.gather(*(_streamed(client) for _ in range(count))))


async def _streamed(client: sdk.openai.AsyncOpenAI) -> Outcome:
    outcome = Outcome()
    try:
        stream = await client.chat.completions.create(**ASKED)
        async for chunk in stream:
            outcome.got.append(chunk)
    except sdk.openai.OpenAIError as error:
        outcome.failed(error)
    return outcome


async def on(loop: Loop, work: Coroutine[Any, Any, None]) -> None:
    """Waits for what happens on the supervisor's event loop."""
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop.event_loop))


def counted(supervisor: Watched) -> int:
    values = supervisor.meter.values(instruments.EXCHANGES).values()
    return sum(value for value in values if isinstance(value, int))


def test_streams_at_once_are_the_same_through_two_workers_and_all_are_counted(
    loop: Loop, relay: str, workers: tuple[Watched, str], tmp_path: Path
) -> None:
    supervisor, base_url = workers
    direct = ask(relay, ASKED)
    sent = 0
    while not all(worker.requests for worker in supervisor.workers()):
        outcomes = asyncio.run(asked_at_once(base_url, AT_ONCE))
        assert outcomes == [direct] * AT_ONCE
        sent += AT_ONCE
        loop.run(supervisor.until_requests(sent))
    loop.run(supervisor.stop(30))
    assert counted(supervisor) == supervisor.requests == sent
    assert supervisor.meter.values(instruments.AUDIT_RECORDS) == {(): sent}
    result = verify([tmp_path])
    assert (result.intact, len(result.chains)) == (True, 2)


class Slow:
    """An upstream of chat streams that stop behind their first chunk until they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def script(self, wire: Wire) -> None:
        await wire.read_message()
        await wire.send(STREAM_HEAD + chunked(said("one")))
        await self.go.wait()
        await wire.send(chunked(said("two")) + chunked(said("", "stop")) + chunked(b"[DONE]"))
        await wire.send(b"0\r\n\r\n")


def said(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return json.dumps({**head, "choices": [choice]}).encode()


def chunked(data: bytes) -> bytes:
    """An event in a chunk of its own."""
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


def test_a_worker_that_is_killed_breaks_its_own_streams_and_no_other(
    loop: Loop, tmp_path: Path
) -> None:
    slow = Slow()

    async def test(supervisor: Watched, base_url: str) -> None:
        async with contextlib.AsyncExitStack() as clients:
            asked: list[asyncio.Task[Outcome]] = []
            while not all(worker.open for worker in supervisor.workers()):
                for _ in range(6):
                    client = await clients.enter_async_context(sdk.async_client(base_url))
                    asked.append(asyncio.create_task(_streamed(client)))
                await on(loop, supervisor.until_open(len(asked)))
            doomed, spared = supervisor.workers()
            os.kill(doomed.pid, signal.SIGKILL)
            await on(loop, supervisor.until_replaced(doomed.pid))
            loop.event_loop.call_soon_threadsafe(slow.go.set)
            outcomes = await asyncio.gather(*asked)
            broken = [outcome for outcome in outcomes if outcome.error]
            whole = [outcome for outcome in outcomes if not outcome.error]
            assert (len(broken), len(whole)) == (doomed.open, spared.open)
            assert all(len(outcome.got) == 3 for outcome in whole)
            assert {outcome.exception for outcome in broken} <= {"APIConnectionError", "APIError"}
            # The replacement takes part.
            while not supervisor.workers()[0].requests:
                assert all(not outcome.error for outcome in await asked_at_once(base_url, 8))
                await on(loop, supervisor.until_open(0))
        await on(loop, supervisor.stop(30))

    with (
        loop.within(raw_upstream(slow.script)) as upstream,
        loop.within(supervised(configured(upstream.url, tmp_path))) as (supervisor, port),
    ):
        asyncio.run(test(supervisor, f"http://127.0.0.1:{port}/v1"))
    result = verify([tmp_path])
    assert len(result.chains) == 3
    assert {finding.kind for finding in result.findings} <= {"torn"}
