"""Taking connections in: as many as there is room for, and the others later."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import resource
import socket

import pytest

from teeline.config.model import ClientsConfig, Config, ListenAddress, UpstreamConfig, UpstreamURL
from teeline.proxy.accept import (
    Accepted,
    Acceptor,
    Room,
    bind,
    descriptor_room,
    raise_descriptor_limit,
)
from tests.proxy.raw import answering, ask, client, code_of, run, serving

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def config(url: str, clients: ClientsConfig) -> Config:
    upstream = UpstreamConfig(UpstreamURL.parse(url), "relay")
    return Config((upstream,), ListenAddress("127.0.0.1", 0), clients=clients)


def test_connections_above_the_limit_wait_until_one_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are not refused, and none of the open ones notices."""

    async def test() -> None:
        async with (
            answering(OK) as upstream,
            serving(config(upstream.url, ClientsConfig(connections=2))) as (server, ports),
            contextlib.AsyncExitStack() as stack,
        ):
            wires = [await stack.enter_async_context(client(ports[0])) for _ in range(4)]
            for wire in wires:
                await wire.send(GET)
            for wire in wires[:2]:
                assert (await wire.read_message()).body == b"ok"
            await asyncio.sleep(0.05)
            assert len(server.connections()) == 2
            for closing, waiting in zip(wires[:2], wires[2:], strict=True):
                closing.close()
                assert (await waiting.read_message()).body == b"ok"

    run(test())
    assert caplog.text.count("2 connections are open; more wait") == 1


def test_exchanges_above_the_limit_get_a_503() -> None:
    async def test() -> None:
        async with (
            answering(OK) as upstream,
            serving(config(upstream.url, ClientsConfig(exchanges=1))) as (_, ports),
            client(ports[0]) as wire,
        ):
            await wire.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n")
            await asyncio.sleep(0.05)
            answer = await ask(ports[0], GET)
            assert (answer.status, code_of(answer)) == (503, "overloaded")
            await wire.send(b"{}")
            assert (await wire.read_message()).body == b"ok"
            assert (await ask(ports[0], GET)).body == b"ok"

    run(test())


def test_without_descriptors_accepting_pauses_says_so_and_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        exhausted = True
        accept = socket.socket.accept

        def failing(sock: socket.socket) -> object:
            if exhausted:
                raise OSError(errno.EMFILE, "Too many open files")
            return accept(sock)

        async with (
            answering(OK) as upstream,
            serving(config(upstream.url, ClientsConfig())) as (_, ports),
        ):
            with socket.create_connection(("127.0.0.1", ports[0])) as waiting:
                monkeypatch.setattr(socket.socket, "accept", failing)
                await asyncio.sleep(0.05)
                waiting.sendall(GET)
                await asyncio.sleep(0.3)
                exhausted = False
                waiting.setblocking(False)
                loop = asyncio.get_running_loop()
                assert (await loop.sock_recv(waiting, 100)).startswith(b"HTTP/1.1 200")

    run(test())
    assert caplog.text.count("no descriptors left") == 1


class Taken(Accepted):
    """Counts itself, and says when so many are there."""

    def __init__(self, whose: list[Taken], enough: asyncio.Semaphore) -> None:
        self.accepted = False
        self._whose = whose
        self._enough = enough

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.accepted = True
        self._whose.append(self)
        self._enough.release()
        transport.close()


def test_who_shares_a_socket_shares_a_burst() -> None:
    """Each takes one connection before it lets others have a turn."""

    async def test() -> None:
        (sock,) = await bind("127.0.0.1", 0)
        sock.listen()
        port = sock.getsockname()[1]
        burst = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        came = asyncio.Semaphore(0)
        shares: tuple[list[Taken], list[Taken]] = ([], [])
        acceptors = [
            Acceptor([sock.dup()], functools.partial(Taken, share, came), Room(100), at_once=1)
            for share in shares
        ]
        for acceptor in acceptors:
            acceptor.start()
        for _ in burst:
            await came.acquire()
        assert list(map(len, shares)) == [5, 5]
        for acceptor in acceptors:
            acceptor.close()
        for connection in burst:
            connection.close()
        sock.close()

    run(test())


def test_room_is_given_back_and_its_end_can_be_waited_for() -> None:
    async def test() -> None:
        room = Room(1)
        assert await room.emptied(0)
        assert room.take()
        assert not room.take()
        assert not await room.emptied(0)
        called: list[int] = []
        room.when_free(lambda: called.append(1))
        waiting = asyncio.create_task(room.emptied(30))
        await asyncio.sleep(0)
        room.give()
        assert await waiting
        assert called == [1]

    run(test())


def test_all_addresses_of_a_name_get_the_same_port() -> None:
    async def test() -> None:
        sockets = await bind("localhost", 0)
        ports = {sock.getsockname()[1] for sock in sockets}
        for sock in sockets:
            sock.close()
        assert len(ports) == 1

    run(test())


def test_the_room_is_what_descriptors_allow_with_two_for_each_client() -> None:
    raise_descriptor_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard
    assert 0 < descriptor_room() * 2 < soft
