"""Connections to upstreams, and what is said when there is none."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from teeline.config.model import Timeouts, UpstreamConfig, UpstreamURL
from teeline.proxy import answers
from teeline.proxy.upstream import Unowned, Upstream, UpstreamConnection, UpstreamError
from tests.ports import free_port
from tests.proxy.raw import Wire, raw_upstream, run


class Watching(Unowned):
    """An owner that keeps what it is told."""

    def __init__(self) -> None:
        self.lost: asyncio.Queue[UpstreamConnection] = asyncio.Queue()

    def upstream_lost(self, lost: UpstreamConnection) -> None:
        self.lost.put_nowait(lost)


async def _silent(wire: Wire) -> None:
    await wire.ended()


def upstream(url: str, **limits: float | None) -> Upstream:
    return Upstream(UpstreamConfig(UpstreamURL.parse(url), timeouts=Timeouts(**limits)))


async def failing(target: Upstream) -> answers.Answer:
    with pytest.raises(UpstreamError) as caught:
        await target.connect(Unowned())
    return caught.value.answer


def test_a_refused_connection_and_an_unknown_host_are_unreachable() -> None:
    async def test() -> None:
        assert await failing(upstream(f"http://127.0.0.1:{free_port()}")) is answers.UNREACHABLE
        assert await failing(upstream("http://host.invalid")) is answers.UNREACHABLE
        assert await failing(upstream(f"http://{'a' * 64}.invalid")) is answers.UNREACHABLE

    run(test())


def test_a_connection_that_takes_too_long_is_a_timeout() -> None:
    """A server that accepts and never answers the TLS handshake."""

    async def test() -> None:
        async with raw_upstream(_silent) as mute:
            target = upstream(mute.url.replace("http:", "https:"), connect=0.01)
            assert await failing(target) is answers.CONNECT_TIMEOUT

    run(test())


def test_a_server_without_tls_is_said_to_have_none() -> None:
    async def test() -> None:
        async def script(wire: Wire) -> None:
            await wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with raw_upstream(script) as plain:
            target = upstream(plain.url.replace("http:", "https:"))
            assert await failing(target) is answers.TLS_FAILED

    run(test())


def test_the_end_of_a_connection_is_told_once() -> None:
    async def test() -> None:
        owner = Watching()
        async with raw_upstream(_silent) as server:
            connection = await upstream(server.url).connect(owner)
            assert not connection.lost
            connection.abort()
            assert await owner.lost.get() is connection
            assert connection.lost
            assert owner.lost.empty()

    run(test())


def test_bytes_before_any_request_end_the_connection() -> None:
    async def test() -> None:
        owner = Watching()

        async def script(wire: Wire) -> None:
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await wire.ended()

        async with raw_upstream(script) as server:
            connection = await upstream(server.url).connect(owner)
            assert await owner.lost.get() is connection

    run(test())


def _answers_on(family: socket.AddressFamily, address: str) -> socket.socket:
    sock = socket.socket(family)
    sock.bind((address, 0))
    sock.listen()
    return sock


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_is_reached_at_whichever_of_its_addresses_answers(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One refuses, the other takes the connection; which comes first makes no difference."""

    async def test() -> None:
        with _answers_on(socket.AF_INET, "127.0.0.1") as listening:
            port = listening.getsockname()[1]
            found = [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in ("127.0.0.2", "127.0.0.1")
            ][::order]

            loop = asyncio.get_running_loop()
            resolve = loop.getaddrinfo

            async def resolved(host: str, *args: Any, **options: Any) -> Any:
                return found if host == "relay.example" else await resolve(host, *args, **options)

            monkeypatch.setattr(loop, "getaddrinfo", resolved)
            connection = await upstream(f"http://relay.example:{port}").connect(Unowned())
            assert connection.transport.get_extra_info("peername") == ("127.0.0.1", port)
            connection.abort()
            await asyncio.sleep(0)

    run(test())


def test_other_event_loops_reach_an_upstream_by_name() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def test() -> None:
        with _answers_on(socket.AF_INET, "127.0.0.1") as listening:
            port = listening.getsockname()[1]
            connection = await upstream(f"http://localhost:{port}").connect(Unowned())
            assert connection.transport.get_extra_info("peername")[1] == port
            connection.abort()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(test(), 10))
