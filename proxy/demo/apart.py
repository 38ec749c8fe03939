"""The demo's two ends as processes of their own: the relay with faults, and a client that uses it.

What belongs here: what runs until it is told to stop. What doesn't: the relay (relay.py), requests
(traffic.py), options (proxy/cli/demo.py). The proxy between them is a real ``teeline serve``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle

import aiohttp

from teeline.config.model import ListenAddress
from teeline.proxy.demo.relay import Relay
from teeline.proxy.demo.scenarios import SCENARIOS, Scenario
from teeline.proxy.demo.stage import PACE
from teeline.proxy.demo.traffic import DemoError, ask, session

Say = Callable[[str], None]


async def relay(address: ListenAddress, stopped: asyncio.Event, say: Say) -> None:
    """The relay alone, until ``stopped``. Raises OSError where it can't listen."""
    alone = Relay(SCENARIOS, PACE)
    say(f"a relay with faults: {await alone.start(address.host, address.port)}")
    try:
        await stopped.wait()
    finally:
        await alone.stop()


async def traffic(
    base_url: str,
    every: float,
    stopped: asyncio.Event,
    say: Say,
    scenarios: Sequence[Scenario] = SCENARIOS,
) -> None:
    """A scenario's request every so many seconds, all in turn, until ``stopped``.

    Faults are what the relay is for. That nobody answers is said once, until somebody does again.
    """
    silent = False
    async with session() as client:
        for scenario in cycle(scenarios):
            try:
                await ask(client, base_url, scenario, secrets.token_hex(16))
                silent = False
            except (aiohttp.ClientError, TimeoutError, DemoError) as error:
                # A broken answer is an answer; this is none, or one without an end.
                if not silent:
                    say(f"no answer from {base_url} ({type(error).__name__}); trying on")
                silent = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), every)
            if stopped.is_set():
                return
