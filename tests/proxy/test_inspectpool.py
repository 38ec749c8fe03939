"""Large documents are inspected in another process: the same findings, bounded waiting, nothing in ours.

No test goes by how long anything takes: limits of time are either far beyond what any machine needs, or
shorter than a process can answer.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from teeline.proxy.inspectpool import InspectPool
from teeline.validators import inspector as inspector_module
from teeline.validators.aside import REQUEST, request_facts, task
from teeline.validators.checks import document as document_module
from teeline.validators.events import Report, RequestHead, Task
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange, Violation
from teeline.validators.wire.json import Document, decode, decode_leniently
from tests.proxy.raw import Recorder, Wire, client, proxy, raw_upstream, run

T = TypeVar("T")

LONG = 120.0
MIB = 1024 * 1024
HEAD = RequestHead("POST", "/v1/chat/completions", ())


def reading(body: bytes) -> Task:
    return task(REQUEST, request_facts(Exchange(), HEAD), b"", [body])


def with_pool(use: Callable[[InspectPool], Awaitable[T]], **options: Any) -> T:
    async def test() -> T:
        limits = options.pop("limits", DEFAULT_LIMITS)
        async with InspectPool(limits, **({"timeout": LONG, "patience": LONG} | options)) as pool:
            return await use(pool)

    return asyncio.run(test())


def worker_ids() -> set[int]:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return {
        int(pid)
        for pid in children
        if b"inspectworker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }


def test_a_task_is_done_in_another_process_with_the_limits_that_were_set() -> None:
    deep = b'{"a": ' * 10 + b"1" + b"}" * 10
    reports = with_pool(
        lambda pool: asyncio.gather(*map(pool.inspect, map(reading, (b'{"model": "m"}', deep)))),
        limits=Limits(depth=5),
    )
    shallow, nested = (json.loads(report.data) for report in reports)
    assert shallow["outline"]["document"] == {"model": "m"}
    assert nested["inspection"] == "partial (depth-limit)"


def test_tasks_beyond_the_bytes_that_may_wait_are_turned_away_at_once() -> None:
    body = b'{"model": "' + b"m" * 1000 + b'"}'

    async def use(pool: InspectPool) -> list[Report]:
        first = await asyncio.gather(*(pool.inspect(reading(body)) for _ in range(5)))
        return [*first, await pool.inspect(reading(body))]

    reports = with_pool(use, max_waiting=3000)
    assert [report.failed for report in reports] == ["", "", "busy", "busy", "busy", ""]


def test_a_task_that_takes_too_long_is_given_up_and_the_next_is_done() -> None:
    async def use(pool: InspectPool) -> list[str]:
        late = await pool.inspect(reading(b"[" * 1000))
        return [late.failed]

    assert with_pool(use, timeout=0.0) == ["timeout"]


def test_a_process_that_dies_costs_its_task_alone() -> None:
    async def use(pool: InspectPool) -> list[str]:
        for pid in worker_ids():
            os.kill(pid, 9)
        return [(await pool.inspect(reading(b"{}"))).failed for _ in range(2)]

    assert with_pool(use) == ["crashed", ""]


def test_a_task_that_eats_memory_ends_within_its_bound() -> None:
    async def use(pool: InspectPool) -> list[str]:
        hungry = reading(b"[" + b"{}," * 4_000_000 + b"{}]")
        return [(await pool.inspect(t)).failed for t in (hungry, reading(b"{}"))]

    assert with_pool(use, memory=256 * MIB) == ["crashed", ""]


def test_no_key_of_ours_reaches_a_process_and_none_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")

    async def use(_: InspectPool) -> list[bytes]:
        return [Path(f"/proc/{pid}/environ").read_bytes() for pid in worker_ids()]

    environments = with_pool(use)
    assert environments and not any(b"sk-not-a-key" in text for text in environments)
    assert worker_ids() == set()


def test_a_closed_pool_inspects_nothing() -> None:
    async def test() -> Report:
        pool = InspectPool()
        await pool.close()
        return await pool.inspect(reading(b"{}"))

    assert asyncio.run(test()).failed == "unavailable"


# -- behind the proxy --------------------------------------------------------------------------------

QUESTION = json.dumps(
    {"model": "m", "messages": [{"role": "user", "content": "q" * (4 * MIB)}]}
).encode()
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "other",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "a" * (4 * MIB)},
                "finish_reason": "eos",
            }
        ],
    }
).encode()
CHUNK = (
    b'data: {"id":"s","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}\n\n'
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def message(start: bytes, body: bytes) -> bytes:
    kind = b"Content-Type: application/json\r\n"
    return start + kind + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def relay(wire: Wire) -> None:
    """A stream that goes on piece by piece as it is asked to, or one large answer."""
    head = await wire.read_head()
    if head.startswith(b"GET /v1/stream"):
        await wire.send(STREAM_HEAD)
        for _ in range(20):
            await wire.send(CHUNK)
            await asyncio.sleep(0.005)
        return
    await wire.read(len(QUESTION))
    await wire.send(message(b"HTTP/1.1 200 OK\r\n", ANSWER))


async def talk(pool: InspectPool | None) -> tuple[bytes, list[Exchange]]:
    """A large exchange beside a paced stream: what the stream's client got, and the records."""
    recorder = Recorder()
    async with raw_upstream(relay) as upstream, proxy(upstream.url, recorder, aside=pool) as p:

        async def stream() -> bytes:
            async with client(p.port) as wire:
                await wire.send(b"GET /v1/stream HTTP/1.1\r\nHost: h\r\n\r\n")
                return (await wire.ended()).partition(b"\r\n\r\n")[2]

        async def large() -> None:
            async with client(p.port) as wire:
                await wire.send(
                    message(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n", QUESTION)
                )
                assert (await wire.read_message()).body == ANSWER

        streamed, _ = await asyncio.gather(stream(), large())
        while len(recorder.exchanges) < 2:
            await asyncio.sleep(0.01)
    return streamed, recorder.exchanges


def told(exchange: Exchange) -> list[tuple[Any, ...]]:
    def of(v: Violation) -> tuple[Any, ...]:
        return v.rule.id, v.severity, v.place, v.evidence, v.count, v.circumstances

    return sorted(map(of, exchange.violations))


def large_of(exchanges: list[Exchange]) -> Exchange:
    return next(exchange for exchange in exchanges if exchange.method == "POST")


def test_a_large_exchange_beside_a_stream_is_never_decoded_in_our_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def spied(real: Callable[[bytes, int], Document]) -> Callable[[bytes, int], Document]:
        def spy(data: bytes, max_depth: int = 128) -> Document:
            sizes.append(len(data))
            return real(data, max_depth)

        return spy

    monkeypatch.setattr(inspector_module, "decode_leniently", spied(decode_leniently))
    monkeypatch.setattr(document_module, "decode", spied(decode))

    async def both() -> tuple[list[Exchange], int, list[Exchange]]:
        async with InspectPool(timeout=LONG, patience=LONG) as pool:
            streamed, there = await talk(pool)
        assert streamed == CHUNK * 20
        most = max(sizes, default=0)
        return there, most, (await talk(None))[1]

    there, most, here = run(both())
    assert most <= DEFAULT_LIMITS.in_place < max(sizes)
    elsewhere, in_place = large_of(there), large_of(here)
    assert told(elsewhere) == told(in_place)
    assert {"chat.finish-unknown", "request.large"} & {v.rule.id for v in in_place.violations}
    for exchange in (elsewhere, in_place):
        assert (exchange.inspection, exchange.model, exchange.finish) == ("full", "m", ["eos"])
        assert exchange.response_id == "chatcmpl-1"


def test_without_a_free_process_bytes_pass_and_the_record_says_what_is_missing() -> None:
    async def test() -> tuple[bytes, list[Exchange]]:
        async with InspectPool(max_waiting=1) as pool:
            return await talk(pool)

    streamed, exchanges = run(test())
    assert streamed == CHUNK * 20
    assert large_of(exchanges).inspection == "partial (inspection-busy)"
