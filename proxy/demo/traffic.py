"""The client side of the demo: one request a scenario, and everything that came back.

What belongs here: sending, receiving, and the sink that waits for what the proxy has to say
about it. What doesn't: judging the outcome (findings.py).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import orjson

from teeline.proxy.demo.relay import Relay
from teeline.proxy.demo.scenarios import Scenario
from teeline.proxy.demo.transcript import Message, Transcript, differences, encoded
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Exchange

MAX_ANSWER = 1024 * 1024
"""Bytes of one answer that are read; no scenario comes near it."""
ANSWER_TIMEOUT = 5.0
"""Seconds for one answer, and by default again for the proxy's word on it."""

_PLACEHOLDER = "Bearer no-key-needed"


class DemoError(Exception):
    """The demo can't go on; the text is one line that says where it stopped."""


class Collector:
    """A sink (proxy/sinks.py) that hands closed exchanges to those who wait for them.

    Exchanges that nobody announced, those of other clients, are not kept.
    """

    name = "demo"

    def __init__(self) -> None:
        self._expected: dict[str, asyncio.Future[Exchange]] = {}

    async def start(self) -> None:
        """Nothing to open."""

    def opened(self, event: Opened) -> None:
        """Of no interest: an exchange is judged when it is over."""

    def found(self, event: Found) -> None:
        """Of no interest: the exchange carries its violations when it closes."""

    def closed(self, event: Closed) -> None:
        waiting = self._expected.pop(event.exchange.trace_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(event.exchange)

    async def drain(self, deadline: float) -> None:
        """Nothing is held back."""

    async def close(self) -> None:
        self._expected.clear()

    def expect(self, trace_id: str) -> asyncio.Future[Exchange]:
        """The exchange of this trace, once it closes; to be called in a running event loop."""
        waiting: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        self._expected[trace_id] = waiting
        return waiting


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one scenario came to: the proxy's exchange, and how the two ends of the wire differ."""

    scenario: Scenario
    exchange: Exchange
    differences: tuple[str, ...]
    request_bytes: int
    answer_bytes: int


async def run(
    base_url: str,
    scenarios: Sequence[Scenario],
    relay: Relay,
    collector: Collector,
    patience: float = ANSWER_TIMEOUT,
) -> list[Outcome]:
    """Sends every scenario's request to ``base_url`` (``http://host:port/v1``), one after another.

    Each request begins a trace of its own, by which the relay's transcript and the proxy's exchange
    are found again among those of other clients. ``patience``: seconds that the proxy's word on a
    finished exchange may take. Raises DemoError.
    """
    async with session() as client:
        return [
            await _outcome(client, base_url, scenario, relay, collector, patience)
            for scenario in scenarios
        ]


def session() -> aiohttp.ClientSession:
    """A client that changes nothing: no decoding, no cookies, no proxy of the environment's."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=ANSWER_TIMEOUT),
        trust_env=False,
    )


async def _outcome(
    session: aiohttp.ClientSession,
    base_url: str,
    scenario: Scenario,
    relay: Relay,
    collector: Collector,
    patience: float,
) -> Outcome:
    trace_id = secrets.token_hex(16)
    relay.expect(trace_id)
    closing = collector.expect(trace_id)
    try:
        client = await ask(session, base_url, scenario, trace_id)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DemoError(f"{scenario.name}: no answer ({type(error).__name__})") from error
    try:
        exchange = await asyncio.wait_for(closing, patience)
    except TimeoutError as error:
        raise DemoError(f"{scenario.name}: the proxy reported no exchange") from error
    server = relay.take(trace_id)
    if server is None:
        raise DemoError(f"{scenario.name}: the request never reached the relay")
    sizes = len(client.request.body), len(client.answer.body)
    return Outcome(scenario, exchange, tuple(differences(client, server)), *sizes)


async def ask(
    session: aiohttp.ClientSession, base_url: str, scenario: Scenario, trace_id: str
) -> Transcript:
    """Sends a scenario's request and keeps what came back, undecoded.

    Raises aiohttp.ClientError where there is no answer at all, TimeoutError where it does not end.
    """
    body = orjson.dumps(scenario.request)
    fields = {
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "Authorization": _PLACEHOLDER,
        "Content-Type": "application/json",
        "User-Agent": "teeline-demo",
        # W3C Trace Context 3.2: version, trace, parent span, flags.
        "traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-00",
    }
    async with session.post(f"{base_url}/chat/completions", data=body, headers=fields) as answer:
        sent = answer.request_info
        request = Message(
            (sent.method, sent.url.raw_path_qs), encoded(sent.headers), bytearray(body)
        )
        start = (str(answer.status), answer.reason or "")
        received = Message(start, answer.raw_headers)
        await _read(answer, received)
    return Transcript(request, received)


async def _read(answer: aiohttp.ClientResponse, into: Message) -> None:
    try:
        async for piece in answer.content.iter_any():
            into.body += piece
            if len(into.body) > MAX_ANSWER:
                raise DemoError(f"an answer of more than {MAX_ANSWER} bytes came back")
    except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError):
        into.complete = False
