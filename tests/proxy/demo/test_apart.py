"""Relay and client of the demo, each alone, with whatever stands between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from teeline.config.model import ListenAddress
from teeline.proxy.demo import apart
from teeline.proxy.demo import relay as relays
from teeline.proxy.demo.relay import Relay
from teeline.proxy.demo.scenarios import SCENARIOS, Answer, Scenario

_PATIENCE = 20.0


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), _PATIENCE)

    asyncio.run(bounded())


class Lines:
    """What was said; a line can be waited for."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, line: str) -> None:
        self.said.put_nowait(line)


def test_the_relay_answers_where_it_is_told_to_listen_until_it_is_stopped() -> None:
    async def work() -> None:
        stopped, lines = asyncio.Event(), Lines()
        task = asyncio.create_task(apart.relay(ListenAddress("127.0.0.1", 0), stopped, lines))
        url = (await lines.said.get()).split()[-1]
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{url}/models") as answer:
                assert answer.status == 200
            stopped.set()
            await task
            with pytest.raises(aiohttp.ClientConnectionError):
                await client.get(f"{url}/models")

    run(work)


def test_an_address_that_is_taken_is_an_error() -> None:
    async def work() -> None:
        first = Relay()
        port = urlsplit(await first.start()).port
        try:
            with pytest.raises(OSError, match="in use"):
                await apart.relay(ListenAddress("127.0.0.1", port or 0), asyncio.Event(), print)
        finally:
            await first.stop()

    run(work)


def test_the_client_sends_every_scenario_in_turn_and_begins_again() -> None:
    """Faults are answers: they stop nothing, and nothing is said of them."""
    few = SCENARIOS[:4]

    async def work() -> None:
        stopped, lines, relay = asyncio.Event(), Lines(), Relay()
        asked: list[str] = []

        def chosen(answer_to: relays.AnswerTo) -> relays.AnswerTo:
            def answer(body: Mapping[str, Any]) -> Answer:
                asked.append(body["model"])
                if len(asked) > len(few):
                    stopped.set()
                return answer_to(body)

            return answer

        vars(relay)["_chosen"] = chosen(relay._chosen)
        await apart.traffic(await relay.start(), 0.0, stopped, lines, few)
        await relay.stop()
        assert asked == [*(scenario.name for scenario in few), few[0].name]
        assert lines.said.empty()

    run(work)


def test_that_nobody_answers_is_said_once() -> None:
    async def work() -> None:
        relay = Relay()
        url = await relay.start()
        await relay.stop()
        stopped, lines, tried = asyncio.Event(), Lines(), []

        class Tried(list[Scenario]):
            """Counts the requests that are begun, and ends with the fourth."""

            def __iter__(self) -> Iterator[Scenario]:
                for scenario in super().__iter__():
                    tried.append(scenario)
                    if len(tried) == len(self):
                        stopped.set()
                    yield scenario

        await apart.traffic(url, 0.0, stopped, lines, Tried(SCENARIOS[:4]))
        assert len(tried) == 4
        assert "trying on" in lines.said.get_nowait()
        assert lines.said.empty()

    run(work)
