"""Relay and proxy come up together, are real, and leave nothing behind."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from teeline.config.model import ListenAddress
from teeline.proxy.demo.findings import all_problems
from teeline.proxy.demo.scenarios import SCENARIOS
from teeline.proxy.demo.stage import Curtain, Stage, stage
from teeline.proxy.demo.traffic import Collector, Outcome, run
from teeline.proxy.server import ServeError
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.model import Exchange
from tests.proxy.demo.test_findings import violation

_EPHEMERAL = ListenAddress("127.0.0.1", 0)


def _played(folder: Path, live: io.StringIO) -> list[Outcome]:
    async def play() -> list[Outcome]:
        async with stage(_EPHEMERAL, folder, live) as up:
            return await run(up.base_url, SCENARIOS, up.relay, up.collector)

    return asyncio.run(play())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Outcome], Path, str]:
    """All scenarios, once, through the real proxy with its real sinks."""
    folder, live = tmp_path_factory.mktemp("audit") / "log", io.StringIO()
    return _played(folder, live), folder, live.getvalue()


def test_every_fault_is_found_and_every_byte_crosses_unchanged(
    played: tuple[list[Outcome], Path, str],
) -> None:
    """The whole promise, on real sockets: exactly the faults, and no byte otherwise."""
    outcomes, _, _ = played
    assert all_problems(outcomes) == []
    assert [outcome.exchange.model for outcome in outcomes] == [s.name for s in SCENARIOS]
    assert all(outcome.differences == () for outcome in outcomes)


def test_every_exchange_is_in_the_audit_log(played: tuple[list[Outcome], Path, str]) -> None:
    """One record an exchange, in order; no key and no text of a conversation in any of them."""
    _, folder, _ = played
    text = "".join(f.read_text(encoding="utf-8") for f in sorted(folder.rglob("*.jsonl")))
    records = [json.loads(line) for line in text.splitlines()]
    assert [r["model"] for r in records if "model" in r] == [s.name for s in SCENARIOS]
    for private in ("no-key-needed", "Weather in Paris", "It is 21"):
        assert private not in text


def test_the_demo_s_own_traffic_is_not_told_live(played: tuple[list[Outcome], Path, str]) -> None:
    """It is in the table; the live lines are for what comes after."""
    assert played[2] == ""


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    """Before anything is sent, and with the relay stopped again."""

    async def use(port: int) -> None:
        async with stage(ListenAddress("127.0.0.1", port), tmp_path, io.StringIO()):
            pytest.fail("nothing can be up here")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=r"^[^\n]*in use[^\n]*$"):
            asyncio.run(use(port))


def test_nothing_listens_when_the_block_has_ended(tmp_path: Path) -> None:
    """Both ports are free again, also where the block ended in an error."""
    ports: list[int] = []

    async def use() -> None:
        async with stage(_EPHEMERAL, tmp_path, io.StringIO()) as up:
            ports.append(urlsplit(up.base_url).port or 0)
            raise KeyError("the demo failed")

    with pytest.raises(KeyError):
        asyncio.run(use())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[0]))


class _Recorder(Collector):
    """A sink that notes the names of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    def opened(self, event: Opened) -> None:
        self.calls.append("opened")

    def found(self, event: Found) -> None:
        self.calls.append("found")

    def closed(self, event: Closed) -> None:
        self.calls.append("closed")

    async def drain(self, deadline: float) -> None:
        self.calls.append("drain")

    async def close(self) -> None:
        self.calls.append("close")


def test_a_curtain_hides_what_was_before_it_went_up_and_nothing_else() -> None:
    """Starting, draining and closing always reach the sink behind it."""
    behind = _Recorder()
    curtain = Curtain(behind)
    exchange = Exchange()

    async def use() -> None:
        await curtain.start()
        for _ in range(2):
            curtain.opened(Opened(exchange))
            curtain.found(Found(exchange, violation("chatstream.done-missing")))
            curtain.closed(Closed(exchange))
            curtain.raise_()
        await curtain.drain(1)
        await curtain.close()

    asyncio.run(use())
    assert behind.calls == ["start", "opened", "found", "closed", "drain", "close"]


def test_what_comes_after_the_curtain_went_up_is_told_live(tmp_path: Path) -> None:
    """A user's own request shows on the stream, with its rule."""
    live = io.StringIO()

    async def use(up: Stage) -> None:
        no_done = next(s for s in SCENARIOS if s.name == "no-done")
        await run(up.base_url, [no_done], up.relay, up.collector)
        up.live.raise_()
        await run(up.base_url, [no_done], up.relay, up.collector)

    async def play() -> None:
        async with stage(_EPHEMERAL, tmp_path, live) as up:
            await use(up)

    asyncio.run(play())
    lines = [line for line in live.getvalue().splitlines() if "chatstream.done-missing" in line]
    assert lines
    assert "no-done" in lines[0]
